"""Garbage collection paused during work that creates many long-lived objects, such as the rows of a recording.

CPython collects whenever enough objects are new, and walks all that are young; of rows that stay it frees none.
Reference counts free everything else meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: it would visit every new object again and again, and free nothing."""
    # A user may have switched it off.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
