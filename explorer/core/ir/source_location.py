"""Source locations of expressions: code object and instruction while recording, converted to text on demand.

The user's line is in the innermost frame outside this package and NumPy (NumPy's functions may call this package). A
node recorded in a function stores the function's code object and the calls that led to it, because otherwise the nodes
of two calls would have the same lines. All nodes with the same calls share this object. Nodes outside functions store
only their code object. Text is created only for errors, recordings and diagrams.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple

from explorer.record.shell import shell_part

# three folders above this file; the separator excludes explorer_x
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_NUMPY = (
    os.path.dirname(os.path.abspath(sys.modules["numpy"].__file__ or "")) + os.sep
    if "numpy" in sys.modules
    else _PACKAGE
)
INTERNAL = (_PACKAGE, _NUMPY)
"""folders whose code does not belong to the user"""
IN_FUNCTION = 1
"""flag (CO_OPTIMIZED) of functions' code objects, which cells, scripts and classes do not have"""
_DEPTH = 3
"""maximum number of calls that are stored for a node, innermost first"""
_MAX_CHAINS = 4096
"""maximum number of cached chains of calls"""


class SourceLocation(NamedTuple):
    """Line of a user's cell or script, or of a model file; ``line`` counts from 1."""

    where: str
    line: int
    text: str


class CodeLocation(SourceLocation):
    """Line of code, recorded while the program ran; ``filename`` is the file name of its code object."""

    filename: str

    @classmethod
    def of(cls, filename: str, line: int, text: str) -> CodeLocation:
        """Return the location of a line in code with this file name, which may be a notebook cell."""
        location = cls(cell_name(filename), line, text)
        location.filename = filename
        return location


def cell_name(filename: str) -> str:
    """Return ``In[3]`` for the file name of a notebook cell, else the file's base name."""
    name_cell = shell_part("compile", "format_code_name")
    if name_cell is not None:
        # use IPython's cell name, because a cell's file name is a hash of its source
        cell_parts = name_cell(filename)
        if cell_parts and cell_parts[0] == "Cell":
            return str(cell_parts[1]).replace("In [", "In[")
    return "<script>" if filename.startswith("<") else os.path.basename(filename)


def location_of(code: CodeType, instruction: int) -> SourceLocation:
    """Return the source line of an instruction; a cell that was run again has its latest number."""
    return SourceLocation(cell_name(code.co_filename), *_line(code, instruction, code.co_filename))


@functools.lru_cache(maxsize=4096)
def _line(code: CodeType, instruction: int, filename: str) -> tuple[int, str]:
    """Return an instruction's line number and text; ``filename`` distinguishes equal code objects in the cache."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line, linecache.getline(filename, line).strip()
    return code.co_firstlineno, ""


def users_line() -> SourceLocation:
    """Return the user's current line: the innermost line outside this package and NumPy."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(INTERNAL) and frame.f_back is not None:
        frame = frame.f_back
    return location_of(frame.f_code, frame.f_lasti)


class CalledCode:
    """A function's code object with the calls that led to it: (code object, instruction) pairs, innermost first."""

    __slots__ = ("calls", "code")

    def __init__(self, code: CodeType, calls: tuple[tuple[CodeType, int], ...]) -> None:
        self.code, self.calls = code, calls

    def __repr__(self) -> str:
        return f"<code of {self.code.co_name}>"

    def callers(self) -> tuple[SourceLocation, ...]:
        """Return the lines of the calls, innermost first."""
        return tuple([location_of(code, instruction) for code, instruction in self.calls])


def function_code(code: CodeType | CalledCode) -> CodeType:
    """Return a code object without the calls that led to it."""
    return code.code if isinstance(code, CalledCode) else code


_chains: dict[tuple[int, ...], CalledCode] = {}
_newest: list[CalledCode] = []
"""chain of the previous node, which the next node usually shares"""


def with_callers(code: CodeType, frame: FrameType | None) -> CodeType | CalledCode:
    """Return a function's code object with the calls that led to it, up to the first call from explorer.

    If there are no such calls, only the code object is returned.
    """
    for chain in _newest:
        if chain.code is code:
            current = frame
            for outer, instruction in chain.calls:
                if current is None or current.f_lasti != instruction or current.f_code is not outer:
                    break
                current = current.f_back
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
    # by identity, because hashing a code object reads all of it
    key = (id(code), *[part for outer, instruction in calls for part in (id(outer), instruction)])
    if len(_chains) >= _MAX_CHAINS:
        # Clear the whole table, because nodes keep their chains alive and the table only lets new nodes share them.
        _chains.clear()
    # if two threads record the same calls, both use the first chain
    chain = _chains.setdefault(key, CalledCode(code, tuple(calls)))
    _newest[:] = [chain]
    return chain


def differing(chains: list[tuple[SourceLocation, ...]]) -> list[SourceLocation | None]:
    """Return one caller per chain, all at the depth at which the callers differ most."""
    depth = max(range(_DEPTH), key=lambda level: len({chain[level : level + 1] for chain in chains}))
    return [chain[depth] if depth < len(chain) else None for chain in chains]
