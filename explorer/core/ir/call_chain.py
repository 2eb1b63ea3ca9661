"""Calls of the user's functions that led to a recorded line: two calls of one function record at the same lines.

A node in a function keeps its code object together with the calls around it, as one object for all nodes recorded so;
files and lines are computed only when somebody asks. Lines of cells and scripts outside of functions keep nothing.
"""

from __future__ import annotations

from types import CodeType, FrameType

from explorer.core.ir.source_location import INTERNAL, Place, place_of

IN_FUNCTION = 1
"""flag of a code object (CO_OPTIMIZED) that is a function's, and no cell's, script's or class's"""
_DEPTH = 3
"""calls that are kept, the innermost first"""
_KNOWN = 4096
"""chains that are kept for further nodes"""


class CalledCode:
    """Code object of a function, with the calls that led to it: code objects and instructions, the innermost first."""

    __slots__ = ("calls", "code")

    def __init__(self, code: CodeType, calls: tuple[tuple[CodeType, int], ...]) -> None:
        self.code, self.calls = code, calls

    def __repr__(self) -> str:
        return f"<code of {self.code.co_name}>"

    def callers(self) -> tuple[Place, ...]:
        """Return the lines of the calls, the innermost first."""
        return tuple([place_of(code, instruction) for code, instruction in self.calls])


def function_code(code: CodeType | CalledCode) -> CodeType:
    """Return a code object without the calls that led to it."""
    return code.code if isinstance(code, CalledCode) else code


_chains: dict[tuple[int, ...], CalledCode] = {}
_newest: list[CalledCode] = []
"""the chain of the node before: mostly that of the next one, too"""


def with_callers(code: CodeType, frame: FrameType | None) -> CodeType | CalledCode:
    """Return a function's code object with the calls of the frame that called it and of those around.

    The calls end where Explorer itself calls; without any it is the code object alone.
    """
    for chain in _newest:
        if chain.code is code:
            at = frame
            for outer, instruction in chain.calls:
                if at is None or at.f_lasti != instruction or at.f_code is not outer:
                    break
                at = at.f_back
            else:
                return chain
    return _chain(code, frame)


def _chain(code: CodeType, frame: FrameType | None) -> CodeType | CalledCode:
    calls: list[tuple[CodeType, int]] = []
    while frame is not None and len(calls) < _DEPTH:
        outer = frame.f_code
        if outer.co_filename.startswith(INTERNAL):
            break
        calls.append((outer, frame.f_lasti))
        if not outer.co_flags & IN_FUNCTION:
            break
        frame = frame.f_back
    if not calls:
        return code
    # by identity: a code object's own hash reads all of it
    known = (id(code), *[number for outer, instruction in calls for number in (id(outer), instruction)])
    if len(_chains) >= _KNOWN:
        # All of them, not the oldest: nodes keep their own chains alive, and the table only shares further ones.
        _chains.clear()
    # two threads that record the same calls at once go on with the first
    chain = _chains.setdefault(known, CalledCode(code, tuple(calls)))
    _newest[:] = [chain]
    return chain


def differing(chains: list[tuple[Place, ...]]) -> list[Place | None]:
    """Return the caller in each chain that tells it apart: all at one depth, that of the most different callers."""
    depth = max(range(_DEPTH), key=lambda level: len({chain[level : level + 1] for chain in chains}))
    return [chain[depth] if depth < len(chain) else None for chain in chains]
