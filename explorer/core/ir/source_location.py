"""Source locations of expressions: code object and instruction while recording, turned into text on demand.

The user's line is the innermost frame outside of this package and of NumPy, whose functions call back into it. Text is
made when an error, a recording or a picture asks, which for most nodes never happens.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from types import CodeType
from typing import Any, NamedTuple

# this file is explorer/core/ir/…: three folders up is the package, and the separator keeps explorer_x out
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_NUMPY = (
    os.path.dirname(os.path.abspath(sys.modules["numpy"].__file__ or "")) + os.sep
    if "numpy" in sys.modules
    else _PACKAGE
)
INTERNAL = (_PACKAGE, _NUMPY)
"""folders of code that is not the user's"""


class Place(NamedTuple):
    """Line of a user's cell or script, or of a model's file; ``line`` counts from 1."""

    where: str
    line: int
    text: str


class CodePlace(Place):
    """Line of a running program that was noted while it ran; ``filename`` is that of its code, whose text is known."""

    filename: str

    @classmethod
    def of(cls, filename: str, line: int, text: str) -> CodePlace:
        """Return the place of a line of the code of this file name, which may be a notebook's cell."""
        place = cls(cell_name(filename), line, text)
        place.filename = filename
        return place


def cell_name(filename: str) -> str:
    """Return ``In[3]`` for a notebook's cell, else the file's base name."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        # IPython's own name of a cell; filenames of cells are hashes of their source
        named = shell.compile.format_code_name(filename)
        if named and named[0] == "Cell":
            return str(named[1]).replace("In [", "In[")
    return "<script>" if filename.startswith("<") else os.path.basename(filename)


def place_of(code: CodeType, instruction: int) -> Place:
    """Return the source line that an instruction belongs to; a cell that ran again has its newest number."""
    return Place(cell_name(code.co_filename), *_line(code, instruction, code.co_filename))


@functools.lru_cache(maxsize=4096)
def _line(code: CodeType, instruction: int, filename: str) -> tuple[int, str]:
    """Return number and text of an instruction's line; ``filename`` tells apart code objects, equal without it."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line, linecache.getline(filename, line).strip()
    return code.co_firstlineno, ""


def users_line() -> Place:
    """Return the running line of the user: the innermost one outside this package and NumPy."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(INTERNAL) and frame.f_back is not None:
        frame = frame.f_back
    return place_of(frame.f_code, frame.f_lasti)
