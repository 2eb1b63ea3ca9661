"""Laws about declared characteristics of operations; a wrong characteristic makes plans compute wrong results.

SPECIAL contains values at which laws often fail: signed zeros, infinities, and numbers whose exponential overflows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from explorer.core.ir.expr import Operation
from explorer.core.types.tensor_type import Array, TensorType
from explorer.record.reasons import counted_text
from explorer.testing.laws.cases import Case, floating
from explorer.testing.laws.law import Law, LawError, agree, elements_text, needs, number

JOINTLY_LINEAR = ("add", "subtract", "add_n", "stack", "concatenate", "gather_stack")
"""operations that are linear in all operands together; other linear operations are linear in each operand separately"""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 1e-300, -1e-300, 700.0, -700.0, 1e4, -1e4, np.inf, -np.inf]
BOUNDS = {"nonnegative": (0.0, np.inf), "positive": (0.0, np.inf), "unit": (0.0, 1.0)}
"""range → minimum and maximum"""
_MONOTONE = 200
"""number of points at which a monotone operation is compared"""


def compute(case: Case, *operands: Array) -> Array:
    """Return the value of a case's operation, without floating-point warnings."""
    with np.errstate(all="ignore"):
        return np.asarray(case.operation.compute(*operands))


def linear(case: Case) -> int:
    """Check f(αx + βy) = αf(x) + βf(y) in each floating operand, with the others constant."""
    constant, other, compared = case.arrays("float64", seed=1), case.arrays("float64", seed=2), 0
    for position in floating(case.example):
        mixed = [*constant]
        mixed[position] = 2.0 * constant[position] - 3.0 * other[position]
        swapped = [*constant]
        swapped[position] = other[position]
        if case.operation.name in JOINTLY_LINEAR:
            for index in range(len(constant)):
                mixed[index], swapped[index] = 2.0 * constant[index] - 3.0 * other[index], other[index]
        right = 2.0 * compute(case, *constant) - 3.0 * compute(case, *swapped)
        name = case.operand_names[position]

        def at(index: tuple[int, ...], position: int = position, swapped: list[Array] = swapped) -> str:
            return " and ".join(
                filter(None, [elements_text(case, constant, index), elements_text(case, swapped, index)])
            )

        names = (f"f(2{name} − 3{name}′) = ", f"2f({name}) − 3f({name}′) = ")
        compared += agree(compute(case, *mixed), right, names=names, at=at, rtol=1e-9, atol=1e-9)
    return compared


def has_kept_axes(case: Case) -> bool:
    """Return whether the operation declares which axes of its operands it keeps."""
    return type(case.operation).kept_axes is not Operation.kept_axes


def kept_axes(case: Case) -> int:
    """Check f(…, s·x, …) = s·f(…, x, …) for factors s that vary only along the declared kept axes of x."""
    constant, compared = case.arrays("float64", seed=1), 0
    unscaled = compute(case, *constant)
    types = [TensorType(array.shape, array.dtype) for array in constant]
    needs(case.operation.linear, "kept_axes() of an operation that is not declared linear")
    for position, array in enumerate(constant):
        for own, kept in case.operation.kept_axes(position, *types):
            name = f"axis {own} of {case.operand_names[position]}"
            needs(
                array.shape[own] == unscaled.shape[kept],
                f"{name} has {counted_text(array.shape[own], 'element')}, "
                f"axis {kept} of the result {unscaled.shape[kept]}",
            )
            factors = np.random.default_rng(own).uniform(0.5, 2.0, array.shape[own])
            scaled = [*constant]
            scaled[position] = array * np.expand_dims(factors, tuple(i for i in range(array.ndim) if i != own))
            others = tuple(i for i in range(unscaled.ndim) if i != kept)
            names = (f"with {name} scaled", f"with axis {kept} of the result scaled")
            right = unscaled * np.expand_dims(factors, others)
            compared += agree(compute(case, *scaled), right, names=names, at="", rtol=1e-12)
    return compared


def commutative(case: Case) -> int:
    """Check that the order of operands does not change the value."""
    arrays, compared = case.arrays(), 0
    unscaled = compute(case, *arrays)
    for order in itertools.permutations(range(len(arrays))):
        swapped = ", ".join([case.operand_names[position] for position in order])
        names = (f"f({swapped}) =", f"f({', '.join(case.operand_names)}) =")
        value = compute(case, *[arrays[position] for position in order])
        compared += agree(value, unscaled, names=names, at=partial(elements_text, case, arrays), rtol=1e-15)
    return compared


def associative(case: Case) -> int:
    """Check (a ∘ b) ∘ c = a ∘ (b ∘ c), up to rounding."""
    first, second, third = (case.arrays(seed=seed)[0] for seed in (1, 2, 3))
    left, right = (
        compute(case, compute(case, first, second), third),
        compute(case, first, compute(case, second, third)),
    )

    def at(index: tuple[int, ...]) -> str:
        letters = zip("abc", (first, second, third), strict=True)
        if any(array.shape != left.shape for array in (first, second, third)):
            return ""
        return ", ".join([f"{letter} = {number(array[index])}" for letter, array in letters])

    return agree(left, right, names=("f(f(a, b), c) =", "f(a, f(b, c)) ="), at=at, rtol=1e-12, atol=1e-14)


def idempotent(case: Case) -> int:
    """Check f(f(x)) = f(x), and f(x, x) = x for an operation on two operands."""
    arrays = case.arrays()
    if len(arrays) > 1:
        once = compute(case, arrays[0], arrays[0])
        names, right = ("f(x, x) =", "x ="), arrays[0].astype(once.dtype)
        return agree(once, right, names=names, at=partial(_element, "x", arrays[0]))
    once = compute(case, *arrays)
    names = ("f(f(x)) =", "f(x) =")
    if once.shape == arrays[0].shape:
        again = compute(case, once)
        return agree(again, once, names=names, at=partial(_element, "x", arrays[0]))
    with_axes = np.expand_dims(once, tuple(range(arrays[0].ndim - once.ndim)))
    value = with_axes.flat[0]
    of_equal = compute(case, np.broadcast_to(value, arrays[0].shape))
    names = (f"of elements that are all {number(value)}", "must be")
    return agree(of_equal, np.broadcast_to(value, of_equal.shape), names=names, at="")


def involution(case: Case) -> int:
    """Check f(f(x)) = x, up to rounding."""
    (x,) = case.arrays()
    twice = compute(case, compute(case, x))
    at = partial(_element, "x", x)
    return agree(twice, x.astype(twice.dtype), names=("f(f(x)) =", "x ="), at=at, rtol=1e-15)


def even(case: Case) -> int:
    """Check f(−x) = f(x) exactly, also at special values and the largest numbers if the operation is elementwise."""
    compared = 0
    for dtype in ("float64", "float32"):
        if case.operation.elementwise:
            with np.errstate(all="ignore"):
                x = np.array([*SPECIAL, np.finfo(dtype).max, np.nan, *np.linspace(-50, 50, 401)], dtype)
        else:
            x = case.arrays(dtype)[0]
        # simple numbers first, because a law reports the first difference
        for part in (np.s_[:6], np.s_[6:]) if case.operation.elementwise else (np.s_[...],):
            own, names = x[part], ("f(−x) =", "f(x) =")
            value = compute(case, own)
            compared += agree(compute(case, -own), value, names=names, at=partial(_element, "x", own))
            compared += agree(
                compute(case, np.abs(own)), value, names=("f(|x|) =", "f(x) ="), at=partial(_element, "x", own)
            )
    return compared


def monotone(case: Case) -> int:
    """Check that x ≤ y implies f(x) ≤ f(y) for first operands in the range of the example."""
    arrays, described = case.arrays(), case.example.operands[0]
    needs(case.operation.elementwise, "declared monotone, which only elementwise operations may be")
    points = np.sort(np.random.default_rng(3).uniform(float(described.low), float(described.high), _MONOTONE))
    rest = [np.full(points.shape, array.flat[0]) for array in arrays[1:]]
    values = compute(case, points, *rest)
    increments = values[1:] - values[:-1]
    if (increments >= 0).all():
        return int(points.size)
    worst = int(np.argmin(increments))
    values_text = [f"f({number(points[i])}) = {number(values[i])}" for i in (worst, worst + 1)]
    raise LawError(f"{values_text[0]}, but {values_text[1]} is less")


def defined_everywhere(case: Case) -> int:
    """Check that the value is NaN only for NaN, also for ±∞ and the largest numbers."""
    compared = 0
    for dtype in ("float64", "float32"):
        with np.errstate(all="ignore"):
            x = np.array([*SPECIAL, np.finfo(dtype).max, np.finfo(dtype).min, *np.linspace(-50, 50, 401)], dtype)
        missing = np.isnan(compute(case, x))
        needs(not missing.any(), f"f({number(x[int(np.argmax(missing))])}) = nan")
        of_nan = compute(case, np.array([np.nan], dtype))
        needs(bool(np.isnan(of_nan).all()), f"f(nan) = {number(of_nan.flat[0])}")
        compared += x.size + 1
    return compared


def in_range(case: Case) -> int:
    """Check that all elements of the result are in the declared range or NaN, also for extreme operands."""
    compared = 0
    drawn = [case.arrays(seed=seed) for seed in range(5)]
    if len(case.example.operands) == 1:
        shape = drawn[0][0].shape
        for dtype in ("float64", "float32"):
            with np.errstate(all="ignore"):
                drawn.append([np.resize(np.array(SPECIAL, dtype), shape)])
    low, high = BOUNDS[case.operation.range]
    for arrays in drawn:
        values = compute(case, *arrays)
        outside = ~(((values >= low) & (values <= high)) | np.isnan(values))
        if outside.any():
            index = tuple(int(position) for position in np.argwhere(outside)[0])
            where = elements_text(case, arrays, index)
            bounds = f"between {low:g} and {high:g}" if np.isfinite(high) else f"≥ {low:g}"
            raise LawError(f"{f'at {where}: ' if where else ''}{number(values[index])}, which is not {bounds}")
        compared += values.size
    return compared


def elementwise(case: Case) -> int:
    """Check that changing one element of every operand changes the result only at that position."""
    shape = np.broadcast_shapes(*[array.shape for array in case.arrays()])
    arrays = [np.array(np.broadcast_to(array, shape)) for array in case.arrays()]
    other = case.arrays(seed=7)
    before = compute(case, *arrays)
    if before.size < 2:
        return 0
    position = (0,) * before.ndim
    for array, new_array in zip(arrays, other, strict=True):
        array[position] = new_array.flat[0]
    after = compute(case, *arrays)
    rest = np.ones(before.shape, bool)
    rest[position] = False
    names = ("after the first element of the operands changed", "before")
    return agree(after[rest], before[rest], names=names, at="another element")


def _element(name: str, array: Array, index: tuple[int, ...]) -> str:
    return f"{name} = {number(array[index])}" if len(index) == array.ndim else ""


def declares(characteristic: str) -> Callable[[Case], bool]:
    """Return a function that returns whether a case's operation has operands and declares a characteristic."""
    return lambda case: bool(case.example.operands) and bool(getattr(case.operation, characteristic))


CHARACTERISTICS = (
    Law("elementwise", declares("elementwise"), elementwise),
    Law("even", declares("is_even"), even),
    Law("monotone", declares("monotone"), monotone),
    Law("linear", declares("linear"), linear),
    Law("kept axes", has_kept_axes, kept_axes),
    Law("commutative", declares("commutative"), commutative),
    Law("associative", declares("associative"), associative),
    Law("idempotent", declares("idempotent"), idempotent),
    Law("involution", declares("involution"), involution),
    Law("defined everywhere", declares("defined_everywhere"), defined_everywhere),
    Law("range", lambda case: bool(case.example.operands) and case.operation.range != "real", in_range),
)
"""laws about the characteristics that operations declare"""
