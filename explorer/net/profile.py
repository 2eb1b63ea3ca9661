"""Profiles of nets, with the time, flops and bytes of each operator and of each operator type.

A kernel that computes several operators is one row, because their times cannot be separated. Times are medians over
several warm runs. Flops and bytes are computed from shapes. Kernels that run only once, before the first run, are not
in the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope
from explorer.net.building.builder import NetBuilder
from explorer.record.escape import visible
from explorer.record.reasons import counted_text
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing

_SLOWEST = 5
"""number of kernels named as the slowest"""


class ProfileRow(NamedTuple):
    """Names, types, time in µs, flops and bytes of one kernel's operators, or of all operators of a type."""

    operators: tuple[str, ...]
    types: tuple[str, ...]
    micros: float
    flops: int
    bytes: int
    """bytes of the operands read and of the result"""


class Profile:
    """Times of a net's operators: ``rows`` in run order, and sums per type from ``by_type()``; ``print`` shows both.

    >>> net = ex.Net("positive")
    >>> net.input("x", (2,))
    'x'
    >>> net.output(net.Relu("x", "y"))
    >>> [(row.operators, row.types, row.flops) for row in net.profile([1.0, -1.0]).rows]
    [(('relu',), ('Relu',), 2)]
    """

    def __init__(
        self,
        name: str,
        rows: Sequence[ProfileRow],
        runs: int,
        runtime: str = "",
        once: Sequence[ProfileRow] = (),
        outside: str = "",
    ) -> None:
        self.name, self.rows, self.runs = name, tuple(rows), runs
        self.once = tuple(once)
        """kernels that run only once, before the first run, with their estimated times; ``rows`` has the others"""
        self.outside = outside
        """line about the time of a run outside its kernels; "" if it is unknown"""
        self.runtime = runtime
        """name and version of the runtime that was measured; "" for Explorer"""

    @property
    def micros(self) -> float:
        """Time of all operators, in µs."""
        return sum(row.micros for row in self.rows)

    def by_type(self) -> list[ProfileRow]:
        """Return a row for each operator type, or for each combination of types in one kernel, slowest first."""
        groups: dict[frozenset[tuple[str, int]], list[ProfileRow]] = {}
        for row in self.rows:
            groups.setdefault(frozenset(Counter(row.types).items()), []).append(row)
        summed = [
            ProfileRow(
                tuple(name for row in rows for name in row.operators),
                rows[0].types,
                sum(row.micros for row in rows),
                sum(row.flops for row in rows),
                sum(row.bytes for row in rows),
            )
            for rows in groups.values()
        ]
        return sorted(summed, key=lambda row: -row.micros)

    def text(self, by: str = "") -> str:
        """Return the table by "operator", after the names of the slowest, or by "type"; by default, both."""
        runs = counted_text(self.runs, "warm run")
        measured = f"medians of {runs}" if self.runs > 1 else runs
        lines = [f"{self.name}: {self.micros:,.1f} µs, {measured}{f' of {self.runtime}' if self.runtime else ''}"]
        if by != "type":
            slowest = sorted(self.rows, key=lambda row: -row.micros)[:_SLOWEST]
            parts = [f"{' + '.join(row.operators)} {_percent(row, self.micros)} %" for row in slowest]
            lines += [f"slowest: {', '.join(parts)}"] * (len(self.rows) > _SLOWEST)
            lines += ["", *_table("operator", [(" + ".join(row.operators), row) for row in self.rows], self.micros)]
        if by != "operator":
            by_type = [(f"{_types_text(row)} ×{_count(row)}", row) for row in self.by_type()]
            lines += ["", *_table("type", by_type, self.micros)]
        if self.once:
            names = dict.fromkeys(name for row in self.once for name in row.operators)
            listed = [*names][:_SLOWEST] + [f"{len(names) - _SLOWEST:,} more"] * (len(names) > _SLOWEST)
            kernels, micros = counted_text(len(self.once), "kernel"), sum(row.micros for row in self.once)
            lines += ["", f"once, before the first run: {kernels} of {', '.join(listed)}, {micros:,.1f} µs estimated"]
        lines += ["", self.outside] if self.outside else []
        return "\n".join(map(visible, lines))

    def records(self, by: str = "operator") -> list[dict[str, Any]]:
        """Return a dict of plain strings and numbers for each kernel or, with ``by="type"``, for each type."""
        rows = self.by_type() if by == "type" else self.rows
        total = self.micros
        return [
            {
                **({"count": _count(row)} if by == "type" else {"operators": " + ".join(row.operators)}),
                "types": _types_text(row),
                "micros": row.micros,
                "share": row.micros / total if total else 0.0,
                "flops": row.flops,
                "bytes": row.bytes,
            }
            for row in rows
        ]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<profile of net {self.name!r}: {counted_text(len(self.rows), 'kernel')}>"


def profile(program: Program, builder: NetBuilder, timings: Sequence[Timing]) -> Profile:
    """Return the profile of several runs of a net's program."""
    # Keyed by the identity of the box, since inner graphs may contain boxes with equal names.
    operators = {id(builder.scope(operator)): operator for operator in builder.definition.operators}

    def operator_of(node: Expr) -> tuple[str, str]:
        scope: Scope | None = node.scope
        while scope is not None and id(scope) not in operators:
            scope = scope.parent
        operator = operators[id(scope)] if scope is not None else None
        return (operator.name, operator.type) if operator is not None else (node.operation.label, node.operation.label)

    rows: list[ProfileRow] = []
    once: list[ProfileRow] = []
    for index, kernel in enumerate(program.planned.schedule.kernels):
        owners = dict.fromkeys(operator_of(node) for node in kernel.nodes)
        moved = sum(read.type.nbytes for read in kernel.reads) + kernel.cost.bytes
        # The median ignores single slow runs, such as the first run of a new shape.
        measured = median([(timing.ended[index] - timing.began[index]) / 1000 for timing in timings])
        (once if kernel.constant else rows).append(
            ProfileRow(
                tuple(name for name, _ in owners),
                tuple(type for _, type in owners),
                kernel.cost.estimate if kernel.constant else measured,
                kernel.cost.flops,
                moved,
            )
        )
    return Profile(builder.definition.name, rows, len(timings), once=once)


def _types_text(row: ProfileRow) -> str:
    """Return the types of a kernel's operators, "Conv + Relu"; a type with several operators gets their number."""
    return " + ".join([f"{count} {type}" if count > 1 else type for type, count in Counter(row.types).items()])


def _count(row: ProfileRow) -> int:
    """Return the number of kernels in a row of ``by_type``."""
    return len(row.operators) // len(row.types)


def _percent(row: ProfileRow, total: float) -> str:
    return f"{100 * row.micros / total if total else 0:.1f}"


def _table(title: str, rows: Sequence[tuple[str, ProfileRow]], total: float) -> list[str]:
    """Return a table, as lines of text, with times, percentages, flops, bytes and rates."""
    head = (title, "µs", "%", "Mflop", "Gflop/s", "MB", "GB/s")
    cells = [
        (
            name,
            f"{row.micros:,.1f}",
            _percent(row, total),
            f"{row.flops / 1e6:,.3f}",
            f"{row.flops / row.micros / 1e3 if row.micros else 0:,.2f}",
            f"{row.bytes / 1e6:,.3f}",
            f"{row.bytes / row.micros / 1e3 if row.micros else 0:,.2f}",
        )
        for name, row in rows
    ]
    widths = [max(len(line[at]) for line in (head, *cells)) for at in range(len(head))]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *[text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]]
        )
        for line in (head, *cells)
    ]
