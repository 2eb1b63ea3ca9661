"""Table of several compilers' recordings of one model, as text and as HTML: counts, and the kernels of operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.record import Recording
from explorer.record.compare.comparison import counts_of
from explorer.record.compare.matching import SameOperation, match
from explorer.record.escape import visible
from explorer.view.base.markup import Markup, element
from explorer.view.model.labels import source_text
from explorer.view.model.stage_texts import count_value

_COUNTS = {
    "kernels": "kernels",
    "bytes": "bytes written",
    "peak_bytes": "peak memory",
    "estimated_us": "estimated time",
    "measured_us": "measured time",
}
_UNKNOWN = "–"
_STYLE = "text-align:right;padding:2px 10px;font-variant-numeric:tabular-nums"
_LEFT = "text-align:left;padding:2px 10px"


@dataclass(frozen=True, repr=False)
class CompilersTable:
    """Counts of several recordings of one model, and in which kernels each operation of the first one runs."""

    recordings: tuple[Recording, ...]
    same_operation: SameOperation
    """function that returns one name for the names that compilers have for an operation"""

    @property
    def head(self) -> list[str]:
        """Names of the columns."""
        return ["", *[each.compiler or "explorer" for each in self.recordings]]

    def rows(self) -> list[list[str]]:
        """Return the counts that any recording has, and the number of refusals."""
        counts = [counts_of(recording) for recording in self.recordings]
        rows = []
        for name, title in _COUNTS.items():
            values = [each[name] for each in counts]
            if any(value is not None for value in values):
                rows.append([title, *[_UNKNOWN if value is None else count_value(name, value) for value in values]])
        declined = [sum(each.verdict == "declined" for each in recording.decisions) for recording in self.recordings]
        return [*rows, ["refusals", *[f"{count:,}" for count in declined]]]

    def kernels(self) -> list[list[str]]:
        """Return, for each recorded operation of the first recording, the numbers of its kernels in each recording."""
        first = self.recordings[0]
        names = [self.same_operation if other.compiler != first.compiler else None for other in self.recordings]
        columns = [_kernels(first, other, same) for other, same in zip(self.recordings, names, strict=True)]
        nodes = first.nodes
        return [
            [_named(first, node), *[_numbers(column.get(node, ())) for column in columns]]
            for node in range(len(nodes))
            if nodes.born[node] < 0 and nodes.body[node] == 0 and nodes.kind[node] in ("operation", "call")
        ]

    def __str__(self) -> str:
        parts = [[self.head, *self.rows()], [["kernels of", *self.head[1:]], *self.kernels()]]
        widths = [max(len(row[column]) for part in parts for row in part) for column in range(len(self.head))]
        lines = [[_line(row, widths) for row in part] for part in parts]
        return "\n".join(visible(line) for line in [*lines[0], "", *lines[1]]) + "\n"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        blank = [["kernels of", *[""] * (len(self.head) - 1)]]
        rows = [_row(row) for row in (*self.rows(), *blank, *self.kernels())]
        head = element("tr", *[element("th", name, style=_STYLE) for name in self.head])
        return element("table", element("thead", head), element("tbody", *rows), style="border-collapse:collapse")


def _kernels(first: Recording, other: Recording, same_operation: SameOperation | None) -> dict[int, tuple[int, ...]]:
    """Return recorded node of ``first`` → indices of the kernels of ``other`` that compute it."""
    matching = match(first, other, same_operation)
    partners = {node: {partner} for node, partner in matching.pairs.items()}
    for region, others in matching.regions:
        partners.update((node, {*others}) for node in region)
    origins = [{*origin.nodes} for origin in other.provenance.kernels]
    return {
        node: tuple(index for index, nodes in enumerate(origins) if not nodes.isdisjoint(found))
        for node, found in partners.items()
    }


def _named(recording: Recording, node: int) -> str:
    where = source_text(recording, node)
    return recording.label(node) + (f", {where}" if where else "")


def _numbers(kernels: Sequence[int]) -> str:
    return ", ".join(f"{kernel + 1:,}" for kernel in kernels) or _UNKNOWN


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    rest = [f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)]
    return "  ".join([f"{row[0]:<{widths[0]}}", *rest]).rstrip()


def _row(row: Sequence[str]) -> Markup:
    cells = [element("td", cell, style=_STYLE) for cell in row[1:]]
    return element("tr", element("th", row[0], style=_LEFT), *cells)
