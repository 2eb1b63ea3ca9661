"""What a plan may change: values of a plan against those of the bare one, and both against exact ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from mpmath import mpf

import explorer as ex
from explorer.plan.pipeline import PassName
from explorer.plan.rewrite.rule import Rule
from tests.soak.numbers.lanes import LANES, Array, Value, is_floating, limits, noise, widen, xp
from tests.support.exact import exact

OPTIONAL = get_args(PassName)
MAY_ROUND = ("Batch", "JoinProducts", "Algorithms")
"""passes that may add terms in another order"""


class Run:
    """Values of some expressions under a plan's options, and the rules and passes that were applied."""

    def __init__(self, roots: list[ex.Expr], **options: Any) -> None:
        plan = ex.EvalPlan(record="off", **options)
        handles = [plan.register(root) for root in roots]
        with np.errstate(all="ignore"):
            plan.eval()
        self.values: list[Array] = [np.asarray(handle.data()) for handle in handles]
        decisions = plan.planned.graph.decisions if plan._planned is not None else ()
        self.applied = tuple(dict.fromkeys([each.info.name for each in decisions if each.applied]))
        self.rules = [rule for rule in Rule.rules if rule.name in self.applied]

    @property
    def keeps_bits(self) -> bool:
        """Whether everything that was applied is declared to keep every bit."""
        exact = all(getattr(rule, "numerics", "") == "exact" for rule in self.rules)
        return exact and not {*self.applied} & {*MAY_ROUND}


def judge(build: Callable[[Any], list[Any]], **options: Any) -> tuple[str, tuple[str, ...]]:
    """What is wrong with the values of a program, "" where nothing is; and what was applied to it.

    A finding counts only where ten times as many noisy lanes do not explain it.
    """
    roots = build(ex)
    plain = bare(roots)
    run = Run(roots, **options)
    for lanes in (LANES, 10 * LANES):
        noise.begin(lanes, lanes)
        with np.errstate(all="ignore"):
            right = build(xp)
            if noise.overflowed:
                right = [_beyond_long_double(value, root) for value, root in zip(right, roots, strict=True)]
            found = difference(run, plain, right) or wrong_bare(plain, right)
        if not found:
            break
    return found, run.applied


def _beyond_long_double(value: Value, root: ex.Expr) -> Value:
    """The lanes of a value with mpmath's exact numbers; NaN in the noisy ones, so that nothing is found, without."""
    if not is_floating(value.dtype):
        return value
    unknown = Value(value.native, value.exact, [value.exact * np.nan, -value.exact, value.exact])
    try:
        (found,) = exact([root], 60)
    except (NotImplementedError, ArithmeticError, ValueError, TypeError, AttributeError, IndexError):
        return unknown
    numbers = np.frompyfunc(lambda x: np.longdouble(str(x)) if isinstance(x, mpf) else np.longdouble("nan"), 1, 1)(found)
    better = np.asarray(numbers).astype(np.longdouble)
    lanes = [np.where(np.isfinite(value.exact), lane - value.exact, better * 1e-6) + better for lane in value.noisy]
    return Value(value.native, better, lanes)


def bare(roots: list[ex.Expr]) -> Run:
    """The values with every optional pass left out."""
    return Run(roots, without=OPTIONAL)


def difference(run: Run, plain: Run, right: list[Value]) -> str:
    """What the contract forbids in the values of a run, "" where nothing is; the first finding is named."""
    for index, (value, without, lanes) in enumerate(zip(run.values, plain.values, right, strict=True)):
        if (value.shape, value.dtype) != (without.shape, without.dtype):
            return f"root {index}: {value.dtype}{value.shape} for {without.dtype}{without.shape}"
        if run.keeps_bits and value.dtype.kind != "c":  # NumPy's complex products round by the layout of memory
            if not same_bits(value, without):
                return f"root {index}: bits: {_first(~_bits(value, without), value, without, lanes)}"
            continue
        wrong = _beyond(value, without, lanes)
        if wrong.any():
            return f"root {index}: {_first(wrong, value, without, lanes)}"
    return ""


def wrong_bare(plain: Run, right: list[Value]) -> str:
    """Where operations themselves are far from their definition: 64 units, and 64 times what rounding may do."""
    for index, (value, lanes) in enumerate(zip(plain.values, right, strict=True)):
        if (value.shape, value.dtype) != (lanes.shape, lanes.dtype):
            return f"root {index}: {value.dtype}{value.shape}, and NumPy's is {lanes.dtype}{lanes.shape}"
        if is_floating(value.dtype):
            spread, exact = _spread(lanes), lanes.exact
            room = 64 * _unit(value.dtype, exact) + 64 * spread + float(limits(value.dtype).tiny)
            wrong = _is_steady(lanes) & np.isfinite(exact)
            for near in (exact, widen(lanes.native)):
                wrong &= ~_same_kind(value, near.astype(value.dtype)) | (abs(widen(value) - near) > room)
            if wrong.any():
                return f"root {index}: the operations: {_first(wrong, value, value, lanes)}"
    return ""


def _bits(a: Array, b: Array) -> Any:
    """Elementwise: the same bits, where any NaN is as good as another."""
    if a.dtype.kind == "c":
        return _bits(a.real, b.real) & _bits(a.imag, b.imag)
    if not is_floating(a.dtype):
        return np.asarray(a == b)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have the same bits."""
    return bool(np.all(_bits(a, b)))


def _beyond(value: Array, without: Array, lanes: Value) -> Any:
    """Elements that are worse than bare beyond the bound."""
    if not is_floating(value.dtype):
        steady = np.all([np.asarray(n == lanes.exact) for n in [lanes.native, *lanes.noisy]], axis=0)
        return (value != without) & steady
    same = _bits(value, without)
    exact, steady = lanes.exact, _is_steady(lanes)
    rounded = exact.astype(value.dtype)
    with np.errstate(all="ignore"):
        error, bare_error = abs(widen(value) - exact), abs(widen(without) - exact)
        # What bare loses beyond its own range is no licence: there the value must be right.
        bare_error = np.where(np.isfinite(bare_error), bare_error, 0)
        room = 4 * bare_error + 4 * _unit(value.dtype, exact) + 4 * _spread(lanes)
        near = (error <= room) & np.isfinite(value)
        right = _bits(value, rounded)
    signs = (value == 0) & (without == 0) & (exact == 0) & ~_bits(value, without)
    bad = ~(near | right) & steady
    return ~same & (bad | (signs & steady))


def _same_kind(a: Array, b: Array) -> Any:
    return (np.isfinite(a) == np.isfinite(b)) & (np.isnan(a) == np.isnan(b))


def _is_steady(lanes: Value) -> Any:
    """Elements whose kind (finite, infinite, NaN) and rough size no rounding changes."""
    return np.all([_same_kind(lane, lanes.exact) for lane in lanes.noisy], axis=0)


def _spread(lanes: Value) -> Any:
    with np.errstate(all="ignore"):
        off = [np.nan_to_num(abs(lane - lanes.exact), nan=0, posinf=0) for lane in lanes.noisy]
    return np.max(off, axis=0)


def _unit(dtype: Any, exact: Any) -> Any:
    """Unit in the last place of a dtype at these numbers."""
    info = limits(dtype)
    size = np.nan_to_num(abs(exact), nan=0, posinf=0)
    size = np.minimum(size, np.longdouble(float(info.max)))
    return np.maximum(size, float(info.tiny)) * np.longdouble(float(info.eps))


def _first(wrong: Any, value: Array, without: Array, lanes: Value) -> str:
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    one, two, three = (np.atleast_1d(x)[at] for x in (value, without, lanes.exact))
    return f"at {list(at)} {one!r}, bare {two!r}, exact {three!r} ({int(np.sum(wrong))} of {value.size} elements)"
