"""Recursion limit for nested functions: an inner function is recorded while the outer one is being recorded.

On the main thread, every level may use as many frames as Python allows by default (``sys.getrecursionlimit()``). The
limit is raised step by step while functions are nested, so endless recursion is detected as early as before. In other
threads, whose stack size is unknown, Python's limit remains in force.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from explorer.core.errors import DeclarationError

MAX_DEPTH = 2_500
"""maximum number of nested functions, for which a stack of 8 MB suffices"""
_CHECK_INTERVAL, _MIN_DEPTH, _MIN_STACK_BYTES = 16, 20, 8 << 20
"""levels between two checks of the stack; minimum depth of nested functions that can explain a RecursionError; minimum
stack size in bytes"""


class _Nesting(threading.local):
    depth = 0
    original_limit = 0
    """recursion limit before it was raised; 0 while it is not raised"""


_nesting = _Nesting()


def _descend() -> int:
    """Enter one more nested function and return the depth."""
    depth = _nesting.depth = _nesting.depth + 1
    if depth % _CHECK_INTERVAL == 0 and depth <= MAX_DEPTH and _has_room():
        limit = sys.getrecursionlimit()
        # Only at the first level, because the limit is already raised at deeper ones.
        _nesting.original_limit = _nesting.original_limit or limit
        required = _frames() * 3 // 2 + _nesting.original_limit  # Python also counts calls by its own C functions
        if required > limit:
            sys.setrecursionlimit(required)
    return depth


def _ascend() -> None:
    _nesting.depth -= 1
    if _nesting.original_limit and _nesting.depth == 0:
        with suppress(RecursionError):  # the outermost function may itself be called at a large depth
            sys.setrecursionlimit(_nesting.original_limit)
        _nesting.original_limit = 0


@contextmanager
def one_deeper(what: str) -> Iterator[None]:
    """Enter one more nested function in the block; raise DeclarationError if the stack is too small for it."""
    depth = _descend()
    try:
        if depth > MAX_DEPTH:
            raise too_deep(what, MAX_DEPTH)
        yield
    except RecursionError:
        if depth < _MIN_DEPTH:  # not caused by nested functions
            raise
        raise too_deep(what, depth) from None
    finally:
        _ascend()


def too_deep(what: str, depth: int) -> DeclarationError:
    """Return the error for functions that are nested too deeply for the stack."""
    return DeclarationError(
        f"{what} inside functions that are nested {depth:,} deep",
        rule=f"functions must be nested at most {MAX_DEPTH:,} deep on the main thread, with its stack of 8 MB, and "
        f"less deep on others, where Python nests {sys.getrecursionlimit():,} calls",
        fix="call one function after the other, in a loop; on a thread, make its stack larger before it starts, "
        "threading.stack_size(2**26), and raise sys.setrecursionlimit",
    )


def _frames() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]  # None at the bottom
    return count


def _has_room() -> bool:
    """Return whether this is the main thread and its stack has at least the usual size."""
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        import resource
    except ImportError:  # the system has no resource limits
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft == resource.RLIM_INFINITY or soft >= _MIN_STACK_BYTES
