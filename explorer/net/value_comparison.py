"""Comparison of the operands of a net with a reference, which finds the first operator whose result differs.

``net.compare(reference, x)`` returns a ``ValueComparison``. Operands are matched by their names in the file. Each value
is compared while the net's own plan runs, so the compared values are the values of ``net.run``, and no value is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import numpy as np

from explorer.core.argument_checks import options_of
from explorer.core.errors import OperandError
from explorer.core.ir.explore_options import ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import dtype_name, is_text, numbers_of
from explorer.core.types.tensor_type import Array
from explorer.net.building.builder import Build
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.record import Summary
from explorer.record.escape import visible
from explorer.record.reasons import counted_text
from explorer.record.renamed import renamed_attributes
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueObserver, summarize

TOLERANCE, HALF_TOLERANCE = 1e-4, 1e-2
"""maximum relative errors for float32 and float64, and for narrower floats; other dtypes must be equal"""
_LISTED = 8


class ComparedOperand(NamedTuple):
    """Statistics of an operand's value, and of the value in the reference."""

    name: str
    operator: str
    """name of the operator that computes it"""
    type: str
    value: Summary
    reference: Summary
    error: float
    """maximum difference of two elements, divided by the maximum magnitude in the reference; inf if undefined"""
    problem: str
    """description of the difference; "" if the values agree"""

    @property
    def description(self) -> str:
        """Description of the operand and its operator."""
        return f"{self.name!r} of operator {self.operator!r} ({self.type})"

    if not TYPE_CHECKING:  # type: ignore[misc]  # a method of the tuple
        __getattr__ = renamed_attributes(place="description")


class ValueComparison:
    """Comparison of a net with a reference: ``rows`` are the compared operands, ``first`` the first that differs.

    Rows are in topological order. ``print`` shows the first difference with the statistics of both values, and
    ``explore()`` a net whose operators are coloured by relative error.

    >>> net = ex.Net("positive")
    >>> net.output(net.Relu(net.input("x", (2,)), "y"))
    >>> comparison = net.compare({"x": np.array([-1, 2], "float32"), "y": np.array([0, 2.5], "float32")})
    >>> comparison.first.operator, round(comparison.first.error, 3), comparison.equal
    ('relu', 0.2, False)
    """

    def __init__(
        self,
        name: str,
        reference: str,
        rows: Sequence[ComparedOperand],
        absent: Sequence[str],
        unmatched: int,
        show: Callable[..., Any],
    ) -> None:
        self.name, self.reference, self.rows = name, reference, tuple(rows)
        self.absent = tuple(absent)
        """operands of both sides that the net's plan does not compute, because rewrites have removed them"""
        self.unmatched = unmatched
        """number of operands whose names are not in the reference"""
        self._show = show

    @property
    def first(self) -> ComparedOperand | None:
        """The first operand, in topological order, whose value differs; None if all agree."""
        return next((row for row in self.rows if row.problem), None)

    @property
    def equal(self) -> bool:
        """Whether all compared values agree."""
        return self.first is None

    @options_of(ViewOptions)
    def explore(self, **options: Unpack[ViewOptions]) -> Any:
        """Return a view of the net that colours operators by relative error and selects the first that differs.

        Operators whose values agree have no colour.
        """
        view = self._show(**options)
        differing = [row for row in self.rows if row.problem]
        errors = [row.error for row in differing if math.isfinite(row.error)]
        highest = max(errors, default=0.0) or 1.0
        values = dict.fromkeys([row.operator for row in self.rows], 0.0)
        for row in differing:
            error = row.error if math.isfinite(row.error) else highest
            values[row.operator] = max(values[row.operator], error)
        view.overlay(
            values,
            name="relative error",
            text=f"largest difference of two elements from {self.reference}, divided by the largest magnitude there",
        )
        if self.first is not None:
            view.focus(self.first.operator)
        return view

    def __str__(self) -> str:
        title = f"{self.name} against {self.reference}: {counted_text(len(self.rows), 'operand')} compared"
        first = self.first
        if first is None:
            worst = max(self.rows, key=lambda row: row.error)
            lines = [f"{title}, all agree", f"largest relative error {worst.error:.1e}, at {worst.description}"]
        else:
            index, differing = self.rows.index(first), [row for row in self.rows if row.problem]
            lines = [
                f"{title}, {len(differing)} differ",
                f"the first that differs is {first.description}: {first.problem}",
            ]
            lines += _table(first)
            lines.append(f"{counted_text(index, 'operand')} before it agree")
            others = [row for row in differing if row is not first]
            if others:
                named = ", ".join(f"{row.name} ({row.error:.1e})" for row in others[:_LISTED])
                lines.append(f"after it differ: {named}{', …' * (len(others) > _LISTED)}")
        if self.absent:
            named = ", ".join(self.absent[:_LISTED])
            lines.append(f"not computed, since the plan was rewritten without them: {named}"
                         f"{', …' * (len(self.absent) > _LISTED)}")  # fmt: skip
        if self.unmatched:
            left = counted_text(self.unmatched, "other operand")
            lines.append(f"not compared: {left}, because {self.reference} has no values with their names")
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return str(self)


def _table(row: ComparedOperand) -> list[str]:
    """Return the statistics of both values as lines of text."""
    cells: list[tuple[str, ...]] = [("", "net", "reference")]
    for field in ("dtype", "shape", "min", "max", "mean", "std", "nan", "inf"):
        pair = [getattr(side, field) for side in (row.value, row.reference)]
        if field not in ("nan", "inf") or any(pair):
            cells.append((field, *[f"{value:.4g}" if isinstance(value, float) else str(value) for value in pair]))
    if all(side.elements for side in (row.value, row.reference)):
        cells.append(("elements", *[" ".join(side.elements.split()) for side in (row.value, row.reference)]))
    widths = [max(len(line[at]) for line in cells) for at in range(3)]
    return [
        "  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells
    ]


def _row(
    name: str, operator: OperatorDefinition, value: Array, reference: Array, limit: float | None
) -> ComparedOperand:
    error, problem = _difference(value, reference, limit)
    return ComparedOperand(name, operator.name, operator.type, summarize(value), summarize(reference), error, problem)


def _difference(value: Array, reference: Array, limit: float | None) -> tuple[float, str]:
    """Return the relative error of two values, and a description of their difference."""
    if value.shape != reference.shape:
        return math.inf, f"its shape is {value.shape}, the reference's {reference.shape}"
    ours, other = numbers_of(value), numbers_of(reference)
    if ours.dtype.kind != other.dtype.kind and {ours.dtype.kind, other.dtype.kind} - {*"iu"}:
        return math.inf, f"its dtype is {dtype_name(value.dtype)}, the reference's {dtype_name(reference.dtype)}"
    if is_text(ours.dtype):
        count = int((ours != other).sum())
        return (math.inf, f"{count:,} of {ours.size:,} strings differ") if count else (0.0, "")
    if limit is None:
        limit = _tolerance(value, reference)
    if np.array_equal(ours, other, equal_nan=ours.dtype.kind in "fc"):
        return 0.0, ""
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    # Widened first, since the difference of two float16 or int8 values may not fit into their dtype.
    ours, other = ours.astype(wide), other.astype(wide)
    finite = np.isfinite(other)
    # NaN and ∞ must be at the same positions; the error is that of the finite elements.
    nonfinite = ~finite | ~np.isfinite(ours)
    if not np.array_equal(ours[nonfinite], other[nonfinite], equal_nan=True):
        return math.inf, "NaN or infinite elements are at different positions"
    # Relative to the largest element of the operand: if that is 1e6, a difference of 1e-3 is not an error.
    scale = float(np.abs(other[finite]).max(initial=0.0))
    largest = float(np.abs(ours[finite] - other[finite]).max(initial=0.0))
    error = largest / scale if scale else largest
    return error, f"relative error {error:.3g}, where {limit:.3g} is allowed" if error > limit else ""


def _tolerance(value: Array, reference: Array) -> float:
    floats = [numbers_of(side).dtype.kind in "fc" for side in (value, reference)]
    if not all(floats):
        return 0.0
    return TOLERANCE if min(value.dtype.itemsize, reference.dtype.itemsize) >= 4 else HALF_TOLERANCE


def compare_values(
    definition: NetDefinition,
    reference: str,
    values: Mapping[str, Array],
    tolerance: float | None,
    watch: Callable[[Sequence[str], Take], None],
    show: Callable[..., Any],
) -> ValueComparison:
    """Return the comparison of the operands that the net and the reference have in common.

    ``values`` are the reference's arrays by operand name. ``watch`` runs the net and passes each value to a function.

    Raise OperandError if no operand has the name of a value.
    """
    # In topological order, so that the first differing row is where the difference begins. Strings have no distance,
    # and are omitted.
    owners = {
        blob: operator
        for operator in definition.ssa.topological_order
        for blob in operator.outputs
        if blob in values and np.asarray(values[blob]).dtype.kind not in "OSUT"
    }
    if not owners:
        names = ", ".join(map(repr, [*values][:_LISTED])) or "nothing"
        raise OperandError(
            f"{reference}: {names}",
            rule=f"a reference must have values of operands of net {definition.name!r}, by their names",
            fix=f"the first operands are {', '.join([*definition.ssa.blobs][:_LISTED])}",
        )
    rows: dict[str, ComparedOperand] = {}

    def take(name: str, value: Array) -> None:
        rows[name] = _row(name, owners[name], value, values[name], tolerance)

    watch(list(owners), take)
    return ValueComparison(
        definition.name,
        reference,
        [rows[name] for name in owners if name in rows],
        [name for name in owners if name not in rows],
        sum(len(operator.outputs) for operator in definition.ssa.topological_order) - len(owners),
        show,
    )


Take: TypeAlias = Callable[[str, Array], None]
"""function of the name and the value of an operand; the value is valid only during the call"""


class OperandValues(ValueObserver):
    """Observer of a run that calls a function once for each of some operands, with its name and value.

    Operands that rewrites have removed from the plan are omitted.
    """

    def __init__(
        self, program: Program, build: Build, names: Iterable[str], take: Callable[[str, Array], None]
    ) -> None:
        self._take = take
        self._names: dict[int, list[str]] = {}
        """uid of a node → names of the operands with the value of this node"""
        graph = program.planned.graph
        for name in names:
            node = build.values.get(name)
            if isinstance(node, Expr):
                # The plan may have replaced an operand's node; both nodes have the operand's value.
                for uid in {node.uid, graph.resolve(node).uid}:
                    self._names.setdefault(uid, []).append(name)
        super().__init__(program)

    def value(self, uid: int, value: Array) -> None:
        """Call the function for each operand that has the value of this node."""
        for name in self._names.get(uid, ()):
            self._take(name, value)
