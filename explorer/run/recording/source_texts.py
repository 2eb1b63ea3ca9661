"""Texts of the cells and files that recorded nodes: whole cells, and of files the functions around recorded lines.

A view shows the user's lines beside the graph, also on a page that is opened on another machine, where no such file is.
`linecache` has the text of cells, too; one whose text is gone, as of ``exec``, has none.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator, Mapping

from explorer.core.ir.assigned_names import parsed
from explorer.core.ir.source_location import cell_name
from explorer.record import SourceText

BUDGET = 24_000
"""maximum characters of all texts of a recording; of longer ones, the recorded lines alone are kept"""
_AROUND = 2
"""lines kept before and after a recorded line outside of functions"""


def source_texts(recorded: Mapping[str, set[int]]) -> list[SourceText]:
    """Return the texts around recorded lines, given by the file name of their code; a text that is gone is left out.

    Only the base name of a file is kept.
    """
    texts, left = [], BUDGET
    for filename, numbers in recorded.items():
        lines = linecache.getlines(filename)
        wanted = set(range(1, len(lines) + 1))
        where = cell_name(filename)
        if not where.startswith(("In[", "<")):
            functions = _functions("".join(lines))
            wanted &= {number for recorded_line in numbers for number in _around(functions, recorded_line)}
        size = sum(len(lines[number - 1]) for number in wanted)
        # Left out whole: half of a function would mislead. A later, smaller one may still fit.
        if not wanted or size > left:
            continue
        left -= size
        kept = tuple(sorted(wanted))
        texts.append(SourceText(where, kept, tuple(lines[number - 1].rstrip("\r\n") for number in kept)))
    return texts


def _around(functions: list[tuple[int, int]], number: int) -> Iterator[int]:
    """Yield the lines of the innermost function around a line, without one a few lines before and after it."""
    around = [(last - first, first, last) for first, last in functions if first <= number <= last]
    _, first, last = min(around, default=(0, number - _AROUND, number + _AROUND))
    yield from range(first, last + 1)


@functools.lru_cache(maxsize=32)
def _functions(text: str) -> list[tuple[int, int]]:
    """Return the first and last line of each function in a file, decorators included."""
    tree = parsed(text)
    return [
        (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
