"""Comparison of the operands of a net with a reference, which finds the first operator whose result differs.

``net.compare(reference, x)`` returns a ``ValueComparison``. ``operand_matching`` decides which operands are compared.
Each value is compared while the net's own plan runs, so the compared values are the values of ``net.run``, and no value
is stored. Between precisions, ``own_error`` makes a second net, in which each operator reads the reference's values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Unpack

import numpy as np

from explorer.core.argument_checks import options_of
from explorer.core.errors import OperandError
from explorer.core.ir.explore_options import ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import dtype_name, is_text, numbers_of
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.net.building.builder import Build
from explorer.net.definition import edits
from explorer.net.definition.definition import NetDefinition
from explorer.net.operand_matching import (
    CONVERSIONS,
    Operands,
    ReferenceValues,
    bits,
    matched,
    origins_of,
    precision,
    real_type,
)
from explorer.net.own_error import OwnNet, own_net
from explorer.record import Summary
from explorer.record.escape import visible
from explorer.record.reasons import counted_text
from explorer.record.renamed import renamed_attributes
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueObserver, summarize

TOLERANCES = {32: 1e-4, 16: 1e-2, 8: 0.1}
"""number of bits of the narrower precision → maximum relative error; integers that are not quantized must be equal"""
ULPS = 4
"""Without an explicit tolerance, floats whose reference lies in [-1, 1] agree if no element differs by more than this
many ulp of 1 in the narrower dtype (4.8e-7 for float32): a sigmoid is computed with such an error for all operands."""
_LISTED = 8
_MOST = 0.5
"""share of an operator's error from which its operands are to blame"""
_DECIBELS = 300.0
"""a lower SQNR is not coloured: it is the SQNR of a reference that is zero"""


class Noise(NamedTuple):
    """Difference between a value and its reference."""

    sqnr: float = math.inf
    """signal-to-noise ratio in dB, 10·log10(Σ reference² / Σ error²); inf if equal, -inf if undefined"""
    cosine: float = 1.0
    """cosine of the angle between both values"""
    max_error: float = 0.0
    """maximum absolute difference of two elements; inf if undefined, like the mean"""
    mean_error: float = 0.0
    """mean absolute difference of two elements"""


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
    counterpart: str = ""
    """name of the operand in the reference"""
    sqnr: float = math.inf
    """the fields of :class:`Noise`, with the errors of earlier operators"""
    cosine: float = 1.0
    max_error: float = 0.0
    mean_error: float = 0.0
    is_converted: bool = False
    """whether the two values have different precisions: another dtype, or the result of a quantization or cast"""
    own: Noise | None = None
    """the error of the operator itself, computed from the reference's operands; None if it was not computed"""
    unquantized: Noise | None = None
    """``own`` of the operator if its operands were not quantized"""
    quantizes: tuple[str, ...] = ()
    """names of the operators whose results it reads after their quantization or cast"""
    origins: tuple[tuple[str, str], ...] = ()
    """names and types of the reference's operators that it computes; () if the reference is not a net"""

    @property
    def description(self) -> str:
        """Description of the operand and its operator."""
        return f"{self.name!r} of operator {self.operator!r} ({self.type})"

    @property
    def rank(self) -> float:
        """SQNR of the operator itself or, if that was not computed, with the errors of earlier operators."""
        return self.sqnr if self.own is None else self.own.sqnr

    @property
    def operand_share(self) -> float | None:
        """Fraction of the power of the own error that comes from the quantization of the operands; None if unknown."""
        if self.own is None or self.unquantized is None or not math.isfinite(self.own.sqnr):
            return None
        return max(0.0, 1 - 10 ** ((self.own.sqnr - self.unquantized.sqnr) / 10))

    if not TYPE_CHECKING:  # type: ignore[misc]  # a method of the tuple
        __getattr__ = renamed_attributes(place="description")


class ValueComparison:
    """Comparison of a net with a reference: ``rows`` are the compared operands, ``first`` the first that differs.

    Rows are in topological order. ``print`` shows the first difference with the statistics of both values, and
    ``explore()`` a net whose operators are coloured by relative error. Errors accumulate: each value is computed from
    the net's operands. Between precisions (float32, float16, int8), each operator is also computed from the reference's
    operands, which gives its own error. ``ranked`` orders the rows by own SQNR, and ``keep_in_float(k)`` names the
    operators with the lowest.

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
        casts: Sequence[str] = (),
        is_original: bool = False,
        tolerance: str = "",
    ) -> None:
        self.name, self.reference, self.rows = name, reference, tuple(rows)
        self.casts = tuple(casts)
        """descriptions of the inputs that were cast to the dtype of the net or of the reference"""
        self.tolerance = tolerance
        """the default tolerance and the two precisions, if the net and the reference have different ones, else \"\""""
        self.absent = tuple(absent)
        """operands of both sides that the net's plan does not compute, because rewrites have removed them"""
        self.unmatched = unmatched
        """number of operands whose names are not in the reference"""
        self._show, self._is_original = show, is_original
        """the function that returns a view of the net, and whether the reference was converted from the net"""

    @property
    def first(self) -> ComparedOperand | None:
        """The first operand, in topological order, whose value differs; None if all agree."""
        return next((row for row in self.rows if row.problem), None)

    @property
    def equal(self) -> bool:
        """Whether all compared values agree."""
        return self.first is None

    @property
    def ranked(self) -> tuple[ComparedOperand, ...]:
        """One row for each operand of the reference, by increasing SQNR of the operator's own error.

        Of several operands that stand for one of the reference, such as a result and its dequantized form, this is the
        last: the value that the next operators read.
        """
        last = {row.counterpart: row for row in self.rows}
        return tuple(sorted(last.values(), key=lambda row: (row.rank, row.sqnr)))

    @property
    def is_converted(self) -> bool:
        """Whether the net, or some operand, has another precision than the reference."""
        return bool(self.tolerance) or any(row.is_converted for row in self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each row, with plain strings and numbers, for a table of another library."""
        return [
            {
                "operator": row.operator,
                "type": row.type,
                "operand": row.name,
                "reference_operand": row.counterpart or row.name,
                "dtype": row.value.dtype,
                "reference_dtype": row.reference.dtype,
                "sqnr": row.sqnr,
                "cosine": row.cosine,
                "max_error": row.max_error,
                "mean_error": row.mean_error,
                "relative_error": row.error,
                "problem": row.problem,
                **{f"own_{field}": getattr(row.own, field, None) for field in Noise._fields},
                "operand_share": row.operand_share,
                "reference_operators": " + ".join([name for name, _ in row.origins]),
            }
            for row in self.rows
        ]

    def keep_in_float(self, count: int = _LISTED) -> list[str]:
        """Return the names of the ``count`` operators with the lowest own SQNR, for a quantizer to skip.

        If most of an operator's error comes from the quantization of its operands, the operators that compute these
        are also named, because a quantizer that skips only the reader still quantizes them. The list is what
        onnxruntime's ``quantize_static`` takes as ``nodes_to_exclude``, and its float16 converter as
        ``node_block_list``. Operators whose operands agree exactly are not named. Raise OperandError unless ``count``
        is positive.
        """
        if count < 1:
            raise OperandError(f"{count} operators", rule="the number must be at least 1", fix="keep_in_float(5)")
        rows = {row.operator: row for row in reversed(self.ranked)}
        wrong = [row for row in self.ranked if row.rank < math.inf and row.type not in CONVERSIONS]
        names = dict[str, None]()
        for operator in [*dict.fromkeys(row.operator for row in wrong)][:count]:
            row = rows[operator]
            before = row.quantizes if (row.operand_share or 0) > _MOST else ()
            for each in (row, *[rows[name] for name in before if name in rows]):
                # The quantizer knows the operators of the float file, of which the operator may compute several.
                known = (
                    [] if self._is_original else [name for name, type in each.origins if type == real_type(each.type)]
                )
                names.update(dict.fromkeys(known or [each.operator]))
        return [*names]

    @options_of(ViewOptions)
    def explore(self, **options: Unpack[ViewOptions]) -> Any:
        """Return a view of the net that colours operators by relative error and selects the first that differs.

        Operators whose values agree have no colour. Between precisions, the colour is the noise: the power of the error
        in % of the power of the reference, of the operator itself or with the errors of earlier operators. A closed box
        has the colour of the largest error in it.
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
            boxes="max",
        )
        if self.is_converted:
            part = f"power of the error, in % of the power in {self.reference}; 1 % is an SQNR of 20 dB"
            for name, text in (("noise", f"{part}; with the errors of earlier operators"), ("own noise", part)):
                known = [(row, row.rank if name == "own noise" else row.sqnr) for row in reversed(self.ranked)]
                noise = {row.operator: 10 ** (2 - sqnr / 10) for row, sqnr in known if sqnr > -_DECIBELS}
                view.overlay(noise, name=name, unit="%", text=text, boxes="max")
        if self.first is not None:
            view.focus((self.ranked[0] if self.is_converted else self.first).operator)
        return view

    def __str__(self) -> str:
        title = f"{self.name} against {self.reference}: {counted_text(len(self.rows), 'operand')} compared"
        first = self.first
        if first is None:
            worst = max(self.ranked if self.is_converted else self.rows, key=lambda row: row.error)
            lines = [
                f"{title}, all agree",
                f"largest relative error {worst.error:.1e} ({worst.max_error:.1e} absolute), at {worst.description}",
            ]
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
        lines += [self.tolerance] * bool(self.tolerance)
        lines += [f"cast: {text}" for text in self.casts]
        if self.is_converted:
            lines += _ranking(self.ranked[:_LISTED], self.reference)
            if not self._is_original:
                lines += [f"  {text}" for row in self.ranked if (text := _became(row))][:_LISTED]
        if self.absent:
            named = ", ".join(self.absent[:_LISTED])
            lines.append(f"not computed, since the plan was rewritten without them: {named}"
                         f"{', …' * (len(self.absent) > _LISTED)}")  # fmt: skip
        if self.unmatched:
            left = counted_text(self.unmatched, "other operand")
            lines.append(f"not compared: {left}, because no values with their names are in {self.reference}")
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
    return _aligned(cells)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join([text.ljust(width) for text, width in zip(row, widths, strict=True)]).rstrip() for row in rows
    ]


def _ranking(rows: Sequence[ComparedOperand], reference: str) -> list[str]:
    """Return a table of operators with the statistics of their errors, as lines of text."""
    cells = [("operator", "type", "own SQNR", "of operands", "SQNR", "cosine", "max error", "mean error")]
    for row in rows:
        share = "–" if row.operand_share is None else f"{row.operand_share:.0%}"
        own = ("–" if row.own is None else f"{row.own.sqnr:.1f} dB", share)
        total = (f"{row.sqnr:.1f} dB", f"{row.cosine:.4f}", f"{row.max_error:.3g}", f"{row.mean_error:.3g}")
        cells.append((row.operator, row.type, *own, *total))
    lines = [
        f"lowest own SQNR, on the operands of {reference}; of operands: the share of their quantization in this error;",
        "the other columns include errors of earlier operators:",
    ]
    lines += _aligned(cells)
    return lines


def _became(row: ComparedOperand) -> str:
    """Return "conv + relu became conv" for an operator that computes others, or has another name; else ""."""
    names = [name for name, _ in row.origins]
    if not names or names == [row.operator] or row.type in CONVERSIONS:
        return ""
    return f"{' + '.join(names)} became {row.operator}"


def _noise(value: Array, reference: Array) -> Noise:
    """Return the difference between a value and its reference."""
    undefined = Noise(-math.inf, 0.0, math.inf, math.inf)
    if value.shape != reference.shape or not value.size:
        return Noise() if value.shape == reference.shape else undefined
    ours, other = numbers_of(value), numbers_of(reference)
    if {ours.dtype.kind, other.dtype.kind} - {*"biufc"}:
        return undefined
    wide = np.complex128 if "c" in (ours.dtype.kind, other.dtype.kind) else np.float64
    ours, other = ours.astype(wide).ravel(), other.astype(wide).ravel()
    if np.array_equal(ours, other, equal_nan=True):
        return Noise()
    if not (np.isfinite(ours).all() and np.isfinite(other).all()):
        return undefined
    errors = np.abs(ours - other)
    # Divided by the largest element, so that no square overflows or vanishes.
    scale = float(max(np.abs(ours).max(), np.abs(other).max()))
    mine, signal, noise = (float(np.square(np.abs(side) / scale).sum()) for side in (ours, other, errors))
    cosine = float(np.vdot(ours / scale, other / scale).real) / math.sqrt(mine * signal) if mine and signal else 0.0
    sqnr = 10 * math.log10(signal / noise) if signal and noise else math.inf if signal else -math.inf
    return Noise(sqnr, cosine, float(errors.max()), float(errors.mean()))


def _difference(value: Array, reference: Array, limit: float | None, least: float) -> tuple[float, str]:
    """Return the relative error of two values, and a description of their difference.

    If no ``limit`` is given, it follows from the dtypes, and is at least ``least``.
    """
    if value.shape != reference.shape:
        return math.inf, f"its shape is {value.shape}, the reference's {reference.shape}"
    ours, other = numbers_of(value), numbers_of(reference)
    if ours.dtype.kind != other.dtype.kind and {ours.dtype.kind, other.dtype.kind} - {*"iu"}:
        return math.inf, f"its dtype is {dtype_name(value.dtype)}, the reference's {dtype_name(reference.dtype)}"
    if is_text(ours.dtype):
        count = int((ours != other).sum())
        return (math.inf, f"{count:,} of {ours.size:,} strings differ") if count else (0.0, "")
    allowance = 0.0
    if limit is None:
        limit, allowance = max(_tolerance(value, reference), least), _allowance(value, reference)
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
    if scale <= 1 and largest <= allowance:
        return error, ""
    return error, f"relative error {error:.3g}, where {limit:.3g} is allowed" if error > limit else ""


def _tolerance(value: Array, reference: Array) -> float:
    floats = [numbers_of(side).dtype.kind in "fc" for side in (value, reference)]
    if not all(floats):
        return 0.0
    return _tolerance_of(8 * min(value.dtype.itemsize, reference.dtype.itemsize))


def _tolerance_of(size: int) -> float:
    """Return the default tolerance of numbers of ``size`` bits."""
    return next((limit for bits, limit in TOLERANCES.items() if size >= bits), TOLERANCES[8])


def _comparable(
    name: str, value: Array, operands: Operands, other_name: str, other: Array, theirs: Operands | None
) -> tuple[Array, Array]:
    """Return the real numbers that two values represent, or the integers if these have the same scale."""
    if theirs is None:
        return (value if value.dtype == other.dtype else operands.real(name, value)), other
    ours = operands.quantizations.get(name)
    if value.dtype == other.dtype and (ours is None or ours.equals(theirs.quantizations.get(other_name))):
        return value, other
    return operands.real(name, value), theirs.real(other_name, other)


def _allowance(value: Array, reference: Array) -> float:
    """Return the absolute error of a value in [-1, 1] that is no difference."""
    dtypes = [numbers_of(side).dtype for side in (value, reference)]
    if {dtype.kind for dtype in dtypes} != {"f"}:
        return 0.0
    return ULPS * max(float(np.finfo(dtype).eps) for dtype in dtypes)


def compare_values(
    definition: NetDefinition,
    reference: ReferenceValues,
    tolerance: float | None,
    watch: Callable[[Sequence[str], Take], None],
    types: Callable[[], Mapping[str, AnyType]],
    watch_own: Callable[[OwnNet, Mapping[str, Array], Sequence[str], Take], None],
    show: Callable[..., Any],
    casts: Sequence[str] = (),
) -> ValueComparison:
    """Return the comparison of the operands that the net and the reference have in common.

    ``watch`` runs the net and passes each value to a function, and ``watch_own`` the net of own errors, with values for
    its further inputs. ``types`` returns the types of the net's operands. ``casts`` describes the inputs that were
    cast. Raise OperandError if no operand has the name of a value.
    """
    # In topological order, so that the first differing row is where the difference begins. Strings have no distance,
    # and are omitted.
    operands, values = Operands(definition), reference.values
    counterparts = matched(operands, {name for name, value in values.items() if value.dtype.kind not in "OSUT"})
    if not counterparts:
        names = ", ".join(map(repr, [*values][:_LISTED])) or "nothing"
        raise OperandError(
            f"{reference.name}: {names}",
            rule=f"a reference must have values of operands of net {definition.name!r}, by their names",
            fix=f"the first operands are {', '.join([*definition.ssa.blobs][:_LISTED])}",
        )
    rows = dict[str, ComparedOperand]()
    apart = set[str]()
    precisions = [] if reference.operands is None else [precision(each) for each in (operands, reference.operands)]
    is_other_precision = len(set(precisions)) > 1
    least = _tolerance_of(min(map(bits, precisions))) if is_other_precision else 0.0

    def take(name: str, value: Array) -> None:
        counterpart = counterparts[name]
        own_name = reference.origins.get(counterpart, counterpart)
        dtypes = value.dtype, values[counterpart].dtype
        value, other = _comparable(name, value, operands, own_name, values[counterpart], reference.operands)
        # An integer without a known scale, or an integer that is cast, is not the float that it stands for.
        if name != counterpart and {value.dtype.kind, other.dtype.kind} & {*"biu"}:
            apart.add(name)
            return
        operator = operands.operator(name)
        error, problem = _difference(value, other, tolerance, least)
        is_converted = dtypes[0] != dtypes[1] or operands.root(name) != name or counterpart in reference.converted
        ours, theirs = (
            replace(summarize(side), dtype=dtype_name(dtype))
            for side, dtype in zip((value, other), dtypes, strict=True)
        )
        rows[name] = ComparedOperand(
            name,
            operator.name,
            operator.type,
            ours,
            theirs,
            error,
            problem,
            own_name,
            *_noise(value, other),
            is_converted,
        )

    watch(list(counterparts), take)
    if is_other_precision or any(row.is_converted for row in rows.values()):
        # Also operands that the plan has removed in all forms: of each the last form, which the next operators read.
        compared = {counterparts[name] for name in rows}
        last = {counterpart: name for name, counterpart in counterparts.items() if counterpart not in compared}
        rest = [*last.values()]
        if rest:
            watch_own(OwnNet(edits.changed(operands.definition, outputs=rest), {}, {}), {}, rest, take)
        reals = dict(values)
        if reference.operands is not None:
            reals |= {
                each: reference.operands.real(reference.origins.get(each, each), values[each])
                for each in counterparts.values()
            }
        sources = _sources(operands, counterparts, reals, types())

        def own_noise(is_quantized: bool) -> dict[str, Noise]:
            own = own_net(operands, sources, [*rows], is_quantized=is_quantized)
            found = dict[str, Noise]()

            def take_own(name: str, value: Array) -> None:
                found[name] = _noise(operands.real(name, value), reals[counterparts[name]])

            watch_own(
                own, {own.inputs[root]: value for root, value in sources.items()}, own.definition.outputs, take_own
            )
            return found

        own, exact = own_noise(True), own_noise(False)
        # Of several forms of an operand, only the last is judged, since a quantization may include a Relu.
        judged = {*{row.counterpart: name for name, row in rows.items()}.values()}
        rows = {
            name: row._replace(
                problem=row.problem if name in judged else "",
                own=own.get(name),
                unquantized=None if operands.reads_integers(name) else exact.get(name),
                quantizes=operands.converted_from(operands.operator(name)),
            )
            for name, row in rows.items()
        }
    if reference.operands is not None:
        theirs = reference.operands
        origins = origins_of(theirs, [row.counterpart for row in rows.values()])
        rows = {
            name: row._replace(
                origins=tuple([(each.name, each.type) for each in origins.get(theirs.root(row.counterpart), ())])
            )
            for name, row in rows.items()
        }
    computed = {counterparts[name] for name in rows}
    return ValueComparison(
        definition.name,
        reference.name,
        [rows[name] for name in counterparts if name in rows],
        [*dict.fromkeys(name for name in counterparts.values() if name not in computed)],
        sum([not operands.is_intermediate(name) for name in operands.order]) - len(counterparts) + len(apart),
        show,
        casts,
        is_other_precision and bits(precisions[1]) < bits(precisions[0]),
        f"tolerance: a relative error of {least:g}, for {precisions[0]} against {precisions[1]}"
        if is_other_precision and tolerance is None
        else "",
    )


def _sources(
    operands: Operands, counterparts: Mapping[str, str], values: Mapping[str, Array], types: Mapping[str, AnyType]
) -> dict[str, Array]:
    """Return the reference's values by root of the net's operands, in the dtypes of these."""
    sources = dict[str, Array]()
    for name, counterpart in counterparts.items():
        root, value = operands.root(name), values[counterpart]
        type = types.get(root)
        if root in sources or not isinstance(type, TensorType) or type.shape != value.shape:
            continue
        known = operands.quantizations.get(root) if type.dtype.kind in "iu" else None
        if {type.dtype.kind, value.dtype.kind} == {"f"}:
            sources[root] = value.astype(type.dtype, copy=False)
        elif known is not None and value.dtype.kind == "f":
            sources[root] = known.quantized(value, type.dtype)
    return sources


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
