"""Comparison of captured objects with their state at capture time; meanwhile, == of expressions tests identity.

A traced function may capture lists of hundreds of expressions, which are compared at each call. Python compares lists
in C, where it skips identical items and calls ``__eq__`` for all others. During this comparison, ``__eq__`` must return
a boolean instead of recording an operation. ``Expr.__eq__`` detects it by the calling code, so that traced calls cost
nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Read: TypeAlias = Callable[[], Any]
Watched: TypeAlias = tuple[tuple[Read, Any], ...]
"""(reader, object) pairs; the reader returns the object as long as nothing has changed"""


def unchanged(watched: Watched) -> bool:
    """Return whether every reader still returns the same object."""
    for read, captured in watched:  # noqa: SIM110  # at each call of a function: a generator is slower
        if read() is not captured:
            return False
    return True


COMPARING = unchanged.__code__
"""code object of the function in which == of two expressions tests identity"""
