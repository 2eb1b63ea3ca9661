"""Listings: lines of the cells and files in which a program was recorded, in order, each with its rows of sources.

Views show the program next to the graph and mark the line of a node. A recording contains the line of each node, but
source texts only up to a size limit, so listings may be incomplete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from explorer.record.recording import Recording
from explorer.record.rows import line_unit

_CELL = re.compile(r"In\[([0-9]{1,9})\]")


@dataclass(frozen=True, slots=True)
class Line:
    """Line of a listing; ``sources`` are the source rows that belong to this line."""

    number: int
    text: str
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a cell or file; ``unit`` is "line", or "node" for files without text."""

    where: str
    unit: str
    lines: tuple[Line, ...]


def listings(recording: Recording) -> list[Listing]:
    """Return the listings of a recording: cells in run order, followed by files in order of their first source.

    If the text of a cell or file is not available, as for model files, only the line of each source is listed. If no
    text is available at all, the result is empty.
    """
    first: dict[str, int] = {}
    rows_at: dict[tuple[str, int], list[int]] = {}
    for row, text in enumerate(recording.source_texts):
        for row_number in text.numbers:
            rows_at.setdefault((text.where, row_number), []).append(row)
    lines_of = [dict(zip(text.numbers, text.lines, strict=True)) for text in recording.source_texts]
    sources_of: list[dict[int, list[int]]] = [{} for _ in lines_of]
    single_lines: dict[str, dict[int, list[int]]] = {}
    for row_number, source in enumerate(recording.sources):
        first.setdefault(source.where, row_number)
        # Files with equal names are distinguished by their lines.
        rows = rows_at.get((source.where, source.line), ())
        # Two files may be named model.py, and a cell may have run twice with different text, so compare the line
        # itself.
        matching_row = next((row for row in rows if lines_of[row][source.line].strip() == source.text), None)
        if matching_row is not None:
            sources_of[matching_row].setdefault(source.line, []).append(row_number)
        elif source.text:
            single_lines.setdefault(source.where, {}).setdefault(source.line, []).append(row_number)
    unordered = [
        Listing(
            text.where,
            line_unit(text.where),
            tuple(
                Line(row_number, line.expandtabs(4).rstrip(), tuple(sources_of[row].get(row_number, ())))
                for row_number, line in lines_of[row].items()
            ),
        )
        for row, text in enumerate(recording.source_texts)
    ]
    unordered += [
        Listing(
            where,
            line_unit(where),
            tuple(Line(line, recording.sources[rows[0]].text, tuple(rows)) for line, rows in sorted(lines.items())),
        )
        for where, lines in single_lines.items()
    ]
    return sorted(unordered, key=lambda listing: _order(listing.where, first.get(listing.where, len(first))))


def _order(where: str, first: int) -> tuple[bool, int]:
    """Return a sort key: cells in run order, followed by files in the order of their first source."""
    cell = _CELL.fullmatch(where)
    return (cell is None, int(cell[1]) if cell else first)


def without_source(recording: Recording) -> Recording:
    """Return a copy of a recording without source texts, but with the positions of lines."""
    sources = [replace(source, text="") for source in recording.sources]
    return replace(recording, sources=sources, source_texts=[])
