"""Where the user wrote an expression: kept as code object and instruction while recording, read as text late."""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from types import CodeType
from typing import Any, NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NUMPY = (
    os.path.dirname(os.path.abspath(sys.modules["numpy"].__file__ or "")) + os.sep
    if "numpy" in sys.modules
    else _PACKAGE
)
INTERNAL = (_PACKAGE, _NUMPY)
"""Code below these folders is not the user's."""


class Place(NamedTuple):
    """A line of a user's cell or script, or of a model's file; ``line`` counts from 1."""

    where: str
    line: int
    text: str


def _cell_name(filename: str) -> str:
    """``In[3]`` for a notebook's cell, else the file's base name."""
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        named = shell.compile.format_code_name(filename)
        if named and named[0] == "Cell":
            return str(named[1]).replace("In [", "In[")
    return "<script>" if filename.startswith("<") else os.path.basename(filename)


@functools.lru_cache(maxsize=4096)
def place_of(code: CodeType, instruction: int) -> Place:
    """The line that an instruction belongs to."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return Place(_cell_name(code.co_filename), line, linecache.getline(code.co_filename, line).strip())
    return Place(_cell_name(code.co_filename), code.co_firstlineno, "")


@functools.lru_cache(maxsize=4096)
def assigned_name(place: Place) -> str:
    """The variable that a line assigns to (``W = ex.tensor(…)`` → W), empty when it is not one plain name."""
    try:
        body = ast.parse(place.text).body
    except SyntaxError:
        return ""
    if len(body) == 1 and isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        target = body[0].targets[0]
        return target.id if isinstance(target, ast.Name) else ""
    return ""
