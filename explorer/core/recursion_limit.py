"""Room on Python's stack for functions inside functions, each of which is recorded while the one around it is.

On the main thread every level may use as many frames as Python allows a whole program (``sys.getrecursionlimit()``):
the limit is raised step by step while functions are nested, and put back afterwards. A recursion without end is found
as soon as before. The size of another thread's stack is not known: there Python's limit stands.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from explorer.core.errors import DeclarationError

DEEPEST = 2_500
"""levels for which a stack of 8 MB has room"""
_EVERY, _DEEP, _STACK = 16, 20, 8 << 20
"""levels between two looks at the stack; levels from which a lack of stack is put down to them; bytes of a stack that
has room for all"""


class _Nesting(threading.local):
    depth = 0
    found = 0
    """the limit before it was raised; 0 while it is not"""


_nesting = _Nesting()


def _descend() -> int:
    """Go one level deeper; returns how deep that is."""
    depth = _nesting.depth = _nesting.depth + 1
    if depth % _EVERY == 0 and depth <= DEEPEST and _has_room():
        limit = sys.getrecursionlimit()
        _nesting.found = _nesting.found or limit
        needed = _frames() * 3 // 2 + _nesting.found  # Python counts calls by its own C functions, too
        if needed > limit:
            sys.setrecursionlimit(needed)
    return depth


def _ascend() -> None:
    """Go one level up."""
    _nesting.depth -= 1
    if _nesting.found and _nesting.depth == 0:
        with suppress(RecursionError):  # the outermost level itself lies deep
            sys.setrecursionlimit(_nesting.found)
        _nesting.found = 0


@contextmanager
def one_deeper(what: str) -> Iterator[None]:
    """Do work for a function that does the same for the functions inside it.

    Raises DeclarationError where they are nested deeper than there is room for.
    """
    depth = _descend()
    try:
        if depth > DEEPEST:
            raise too_deep(what, DEEPEST)
        yield
    except RecursionError:
        if depth < _DEEP:  # a recursion of another kind
            raise
        raise too_deep(what, depth) from None
    finally:
        _ascend()


def too_deep(what: str, depth: int) -> DeclarationError:
    """The error for functions inside one another that the stack has no room for."""
    return DeclarationError(
        f"{what} inside functions that are nested {depth:,} deep",
        rule=f"functions must be nested at most {DEEPEST:,} deep on the main thread, with its stack of 8 MB, and less "
        f"deep on others, where Python nests {sys.getrecursionlimit():,} calls",
        fix="call one function after the other, in a loop; on a thread, make its stack larger before it starts, "
        "threading.stack_size(2**26), and raise sys.setrecursionlimit",
    )


def _frames() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]  # None at the bottom
    return count


def _has_room() -> bool:
    """Whether this is the main thread, whose stack can be asked for, and that is as large as systems make it."""
    if threading.current_thread() is not threading.main_thread():
        return False
    try:
        import resource
    except ImportError:  # a system without limits to ask for
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft == resource.RLIM_INFINITY or soft >= _STACK
