"""Garbage collection paused during work that creates many long-lived objects, such as the rows of a recording.

CPython starts a collection after a number of allocations, and visits all young objects; rows that stay alive cannot be
freed. Reference counting still frees everything else.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector, which would repeatedly visit all new objects without freeing any."""
    # The user may have disabled it.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
