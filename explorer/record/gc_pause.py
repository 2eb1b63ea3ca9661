"""Pause of garbage collection during work that creates many long-lived objects, such as the rows of a recording.

CPython starts collections after a number of allocations, but these rows stay in use, so visiting them is useless.
Reference counting still frees other objects.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector inside the block."""
    # The user may have disabled the collector.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
