"""Numerical contract: compare the values of a plan with those of the bare plan, and both with exact values."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
from mpmath import mpf

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import TensorType
from explorer.plan.options import Options
from explorer.plan.planner import plan
from explorer.train.compiled import Compiled
from tests.soak.numbers.lanes import LANES, Array, Value, is_floating, limits, noise, widen, xp
from tests.soak.numbers.programs import OPTIONAL, Program
from tests.support.exact import exact


class Run:
    """Values of expressions under a plan's options, and the rules and passes that were applied."""

    def __init__(self, case: Program, inference: int = 0, **options: Any) -> None:
        if inference:
            arrays = case.arrays[:inference]
            inputs = [Parameter(TensorType(array.shape, array.dtype), f"x{n}")() for n, array in enumerate(arrays)]
            roots, known = case.build(ex, inputs), Options(inference=True, **options)
            self.values: list[Array] = Compiled(roots, inputs, options=known).on_host(*arrays)
            decisions = plan(roots, known).graph.decisions
        else:
            evaluated = ex.EvalPlan(record="off", **options)
            handles = [evaluated.register(root) for root in case.build(ex)]
            evaluated.eval()
            self.values = [np.asarray(handle.data()) for handle in handles]
            decisions = evaluated.planned.graph.decisions  # a cached program has none
        self.has_product = any(product in line for line in case.lines for product in ("@", "einsum", "conv"))
        applied = [each for each in decisions if each.applied]
        self.applied = tuple(dict.fromkeys([each.info.name for each in applied]))
        self.keeps_bits = all(_numerics(each) == "exact" for each in applied)
        """whether everything applied is declared exact"""
        modules = [getattr(each.info.owner, "__module__", "") for each in applied]
        self.is_stabilised = any(module.endswith((".stability", ".inverse_pairs")) for module in modules)
        """whether a rule that avoids overflow was applied"""


def _numerics(decision: Any) -> str:
    """Return the numerical class of a decision, from its reason or from its rule or pass."""
    return decision.reason.numerics or getattr(decision.info.owner, "numerics", "exact")


def judge(case: Program) -> tuple[str, tuple[str, ...]]:
    """Return the fault of a program's values, or "", and what was applied to the program.

    A difference is a finding only if neither more noisy lanes nor mpmath's values explain it.
    """
    roots = case.build(ex)
    plain = Run(case, without=OPTIONAL)
    run = Run(case, **dict(case.options))
    found = ""
    for lanes in (LANES, 10 * LANES):
        noise.begin(lanes, lanes, everywhere=dict(case.options).get("inference", 0) > 0)
        with np.errstate(all="ignore"):
            try:
                right = case.build(xp)
            except ValueError:  # NumPy has no maximum of an empty array
                return "", run.applied
            if found:
                right = [_in_mpmath(value, root) for value, root in zip(right, roots, strict=True)]
            found = difference(run, plain, right) or (not noise.is_strained and wrong_bare(plain, right)) or ""
        if not found:
            break
    return found, run.applied


def _in_mpmath(value: Value, root: ex.Expr) -> Value:
    """Replace the exact lane with mpmath's values where possible, because long double also overflows."""
    if not is_floating(value.dtype):
        return value
    try:
        (found,) = exact([root], 800)
        given = _infinite(root) if np.isnan(value.exact).any() else []
        if given and not any(np.isnan(x.array).any() for x in given):
            # For ∞ / ∞ and ∞ − ∞, a limit is accepted as well as NaN.
            limit = exact([root], 800, {x.uid: _large(x.array) for x in given})[0]
            found = np.where(np.vectorize(mpmath.isnan)(found), limit, found) if found.size else found
    except (NotImplementedError, ArithmeticError, ValueError, TypeError, AttributeError, IndexError):
        return value
    numbers = np.frompyfunc(
        lambda x: np.longdouble(mpmath.nstr(x, 25)) if isinstance(x, mpf) else np.longdouble("nan"), 1, 1
    )(found)
    better = np.asarray(numbers).astype(np.longdouble)
    # Where long double is not finite, the noise is unknown, so that any finite number is accepted.
    largest = np.longdouble("1e4000")
    lanes = [np.where(np.isfinite(lane - value.exact), lane - value.exact, largest) + better for lane in value.noisy]
    return Value(value.native, better, lanes)


def _infinite(root: ex.Expr) -> list[Tensor]:
    """Return the given arrays below an expression that contain infinities."""
    tensors = [node for node in reachable([root]) if isinstance(node, Tensor)]
    return [node for node in tensors if is_floating(node.dtype) and not np.isfinite(widen(node.array)).all()]


def _large(array: Array) -> Array:
    """Return an array of mpmath numbers with ±1e300 instead of ±∞."""
    clipped = np.clip(array.astype(np.float64), -1e300, 1e300)
    return np.frompyfunc(lambda x: mpf(float(x)), 1, 1)(clipped)  # type: ignore[no-any-return]


def difference(run: Run, plain: Run, right: list[Value]) -> str:
    """Return the first violation of the contract in the values of a run, or ""."""
    for index, (value, without, lanes) in enumerate(zip(run.values, plain.values, right, strict=True)):
        if (value.shape, value.dtype) != (without.shape, without.dtype):
            return f"root {index}: {value.dtype}{value.shape} for {without.dtype}{without.shape}"
        # NumPy's products, and all complex arithmetic, round differently for other memory layouts, such as views.
        if run.keeps_bits and value.dtype.kind != "c" and not run.has_product:
            if not same_bits(value, without):
                return f"root {index}: bits: {_first(~_bits(value, without), value, without, lanes)}"
            continue
        if run.is_stabilised and not is_floating(value.dtype):  # an index or a boolean from more exact numbers
            continue
        wrong = _beyond(value, without, lanes)
        if run.is_stabilised:  # if long double is not finite, or cancels to 0, any value is accepted
            wrong &= ~np.isfinite(value) | np.isfinite(without) | (not noise.overflowed)
            wrong &= (without != 0) | (abs(widen(value)) > (1 if noise.overflowed else float(limits(value.dtype).eps)))
        if wrong.any():
            return f"root {index}: {_first(wrong, value, without, lanes)}"
    return ""


def wrong_bare(plain: Run, right: list[Value]) -> str:
    """Return where an operation is off by more than 64 ulps plus 64 times the possible rounding, or ""."""
    for index, (value, lanes) in enumerate(zip(plain.values, right, strict=True)):
        if (value.shape, value.dtype) != (lanes.shape, lanes.dtype):
            return f"root {index}: {value.dtype}{value.shape}, and NumPy's is {lanes.dtype}{lanes.shape}"
        if is_floating(value.dtype) and value.dtype.kind != "c":
            spread, exact = _spread(lanes), lanes.exact
            room = 64 * _unit(value.dtype, exact) + 64 * spread + float(limits(value.dtype).tiny)
            wrong = _is_steady(lanes) & np.isfinite(exact)
            for near in (exact, widen(lanes.native)):
                far = np.isfinite(value) & (abs(widen(value) - near) > room)
                wrong &= ~_same_kind(value, near.astype(value.dtype)) | far
            if wrong.any():
                return f"root {index}: the operations: {_first(wrong, value, value, lanes)}"
    return ""


def _bits(a: Array, b: Array) -> Any:
    """Return elementwise whether bits are equal; any two NaNs are."""
    if a.dtype.kind == "c":
        return _bits(a.real, b.real) & _bits(a.imag, b.imag)
    if not is_floating(a.dtype):
        return np.asarray(a == b)
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays have the same bits."""
    return bool(np.all(_bits(a, b)))


def _beyond(value: Array, without: Array, lanes: Value) -> Any:
    """Return a mask of elements that exceed the bare plan's error by more than the bound."""
    if not is_floating(value.dtype):
        steady = np.all([np.asarray(n == lanes.exact) for n in [lanes.native, *lanes.noisy]], axis=0)
        return (value != without) & steady
    same = _bits(value, without)
    steady = _is_steady(lanes)
    # Where the exact number is not finite, use the bare one.
    exact = np.where(np.isfinite(lanes.exact) | ~np.isfinite(without), lanes.exact, widen(without))
    rounded = exact.astype(value.dtype)
    with np.errstate(all="ignore"):
        error, bare_error = abs(widen(value) - exact), abs(widen(without) - exact)
        # The bare plan's overflow grants no tolerance: the value must be right there.
        bare_error = np.where(np.isfinite(bare_error), bare_error, 0)
        room = 4 * bare_error + 4 * _unit(value.dtype, exact) + 4 * _spread(lanes)
        near = (error <= room) & np.isfinite(value)
        right = _bits(value, rounded)
    wrong = ~(same | near | right) & steady & (np.isfinite(value) | np.isfinite(without))
    # The real and imaginary parts of a complex number may overflow separately.
    return wrong & np.isfinite(without) if value.dtype.kind == "c" else wrong


def _same_kind(a: Array, b: Array) -> Any:
    return (np.isfinite(a) == np.isfinite(b)) & (np.isnan(a) == np.isnan(b))


def _is_steady(lanes: Value) -> Any:
    """Return a mask of elements whose kind (finite, infinite, NaN) does not depend on rounding."""
    return np.all([_same_kind(lane, lanes.exact) for lane in lanes.noisy], axis=0)


def _spread(lanes: Value) -> Any:
    with np.errstate(all="ignore"):
        off = [np.nan_to_num(abs(lane - lanes.exact), nan=0, posinf=0) for lane in lanes.noisy]
    return np.max(off, axis=0)


def _unit(dtype: Any, exact: Any) -> Any:
    """Return the unit in the last place of a dtype at these numbers."""
    info = limits(dtype)
    size = np.nan_to_num(abs(exact), nan=0, posinf=0)
    size = np.minimum(size, np.longdouble(float(info.max)))
    return np.maximum(size, float(info.tiny)) * np.longdouble(float(info.eps))


def _first(wrong: Any, value: Array, without: Array, lanes: Value) -> str:
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    one, two, three = (np.atleast_1d(x)[at] for x in (value, without, lanes.exact))
    return f"at {list(at)} {one!r}, bare {two!r}, exact {three!r} ({int(np.sum(wrong))} of {value.size} elements)"
