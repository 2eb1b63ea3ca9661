"""Declared characteristics hold: planning relies on them, so that a wrong one would give wrong numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import Array, TensorType
from tests.laws.cases import Case, every_case, floating, operations, parameters

CASES = [case for case in every_case() if case.example.operands]
TOGETHER = ("add", "subtract", "add_n", "stack", "concatenate", "gather_stack")
"""linear in all operands together, where products are linear in one while the others are held"""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 1e-300, -1e-300, 700.0, -700.0, 1e4, -1e4, np.inf, -np.inf]


def declared(characteristic: str) -> list[Any]:
    return parameters(case for case in CASES if getattr(case.operation, characteristic))


def compute(case: Case, *operands: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(case.operation.compute(*operands))


@pytest.mark.parametrize("case", declared("linear"))
def test_linear_operations_are_linear_in_each_operand(case: Case) -> None:
    """f(αx + βy) = αf(x) + βf(y) in each floating operand while the others are held."""
    held, other = case.arrays("float64", seed=1), case.arrays("float64", seed=2)
    for place in floating(case.example):
        mixed = [*held]
        mixed[place] = 2.0 * held[place] - 3.0 * other[place]
        swapped = [*held]
        swapped[place] = other[place]
        if case.operation.name in TOGETHER:
            for index in range(len(held)):
                mixed[index], swapped[index] = 2.0 * held[index] - 3.0 * other[index], other[index]
        expected = 2.0 * compute(case, *held) - 3.0 * compute(case, *swapped)
        np.testing.assert_allclose(compute(case, *mixed), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "case", parameters(case for case in CASES if type(case.operation).kept_axes is not Operation.kept_axes)
)
def test_scaling_an_operand_along_a_kept_axis_scales_the_result(case: Case) -> None:
    """f(…, s·x, …) = s·f(…, x, …) for factors s along an axis of x that the operation says it keeps."""
    held = case.arrays("float64", seed=1)
    expected = compute(case, *held)
    kinds = [TensorType(array.shape, array.dtype) for array in held]
    assert case.operation.linear
    for place, array in enumerate(held):
        for own, kept in case.operation.kept_axes(place, *kinds):
            assert array.shape[own] == expected.shape[kept]
            factors = np.random.default_rng(own).uniform(0.5, 2.0, array.shape[own])
            scaled = [*held]
            scaled[place] = array * np.expand_dims(factors, tuple(i for i in range(array.ndim) if i != own))
            others = tuple(i for i in range(expected.ndim) if i != kept)
            np.testing.assert_allclose(compute(case, *scaled), expected * np.expand_dims(factors, others), rtol=1e-12)


@pytest.mark.parametrize("case", declared("commutative"))
def test_commutative_operations_take_operands_in_any_order(case: Case) -> None:
    arrays = case.arrays()
    expected = compute(case, *arrays)
    for order in itertools.permutations(arrays):
        np.testing.assert_allclose(compute(case, *order), expected, rtol=1e-15)


@pytest.mark.parametrize("case", declared("associative"))
def test_associative_operations_group_in_any_way(case: Case) -> None:
    """(a ∘ b) ∘ c = a ∘ (b ∘ c), up to rounding."""
    first, second, third = (case.arrays(seed=seed)[0] for seed in (1, 2, 3))
    left = compute(case, compute(case, first, second), third)
    np.testing.assert_allclose(left, compute(case, first, compute(case, second, third)), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", declared("idempotent"))
def test_idempotent_operations_change_nothing_the_second_time(case: Case) -> None:
    """f(f(x)) = f(x); f(x, x) = x for an operation on two operands."""
    arrays = case.arrays()
    if len(arrays) == 1:
        once = compute(case, *arrays)
        if once.shape == arrays[0].shape:
            np.testing.assert_array_equal(compute(case, once), once)
        else:
            with_axes = np.expand_dims(once, tuple(range(arrays[0].ndim - once.ndim)))
            repeated = np.broadcast_to(with_axes.flat[0], arrays[0].shape)
            assert (compute(case, repeated) == with_axes.flat[0]).all()
    else:
        once = compute(case, arrays[0], arrays[0])
        np.testing.assert_array_equal(once, arrays[0].astype(once.dtype))


@pytest.mark.parametrize("case", declared("involution"))
def test_involutions_undo_themselves(case: Case) -> None:
    """f(f(x)) = x, up to rounding."""
    (x,) = case.arrays()
    twice = compute(case, compute(case, x))
    np.testing.assert_allclose(twice, x.astype(twice.dtype), rtol=1e-15)


@pytest.mark.parametrize("case", declared("is_even"))
def test_even_operations_do_not_see_the_sign(case: Case) -> None:
    """f(−x) = f(x), to the last bit, for the special numbers and the largest ones too."""
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            x = np.array([*SPECIAL, np.finfo(dtype).max, np.nan, *np.linspace(-50, 50, 401)], dtype)
        np.testing.assert_array_equal(compute(case, -x), compute(case, x))
        np.testing.assert_array_equal(compute(case, np.abs(x)), compute(case, x))


@pytest.mark.parametrize("case", declared("monotone"))
def test_monotone_operations_never_decrease(case: Case) -> None:
    """x ≤ y gives f(x) ≤ f(y): in the first operand, over the operation's own domain."""
    arrays = case.arrays()
    low, high = (float(bound) for bound in (case.example.operands[0].low, case.example.operands[0].high))
    points = np.sort(np.random.default_rng(3).uniform(low, high, 200))
    if not case.operation.elementwise:
        pytest.fail("only elementwise operations declare monotone, or this law says what it means for others")
    rest = [np.full((200,), array.flat[0]) for array in arrays[1:]]
    values = compute(case, points, *rest)
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("case", declared("defined_everywhere"))
def test_total_operations_make_nan_of_nan_alone(case: Case) -> None:
    """Every number, ±∞ and the largest ones included, has a value that is a number; NaN stays NaN."""
    for dtype in (np.float64, np.float32):
        with np.errstate(all="ignore"):
            extreme = np.array([*SPECIAL, np.finfo(dtype).max, np.finfo(dtype).min, *np.linspace(-50, 50, 401)], dtype)
        assert not np.isnan(compute(case, extreme)).any()
        assert np.isnan(compute(case, np.array([np.nan], dtype))).all()


BOUNDS = {"nonnegative": (0.0, np.inf), "positive": (0.0, np.inf), "unit": (0.0, 1.0)}


def ranged() -> list[type[Operation]]:
    return [operation_class for operation_class in operations() if operation_class.range != "real"]


@pytest.mark.parametrize("case", parameters(case for case in CASES if case.operation.range != "real"))
def test_results_lie_in_the_declared_range(case: Case) -> None:
    """Every element of the result lies in the declared range, extreme operands included; NaN may appear."""
    low, high = BOUNDS[case.operation.range]
    for seed in range(5):
        values = compute(case, *case.arrays(seed=seed))
        assert ((values >= low) & (values <= high)).all()
    shape = case.arrays()[0].shape
    if len(case.example.operands) == 1:
        for dtype in (np.float64, np.float32):
            with np.errstate(all="ignore"):
                extreme = np.resize(np.array(SPECIAL, dtype), (int(np.prod(shape)) or 1,) if shape else ())
            values = compute(case, np.resize(extreme, shape))
            known = values[~np.isnan(values)]
            assert ((known >= low) & (known <= high)).all()


@pytest.mark.parametrize("case", declared("elementwise"))
def test_elementwise_operations_look_at_one_place(case: Case) -> None:
    """Changing one element of every operand changes the result at that place only."""
    arrays = [
        np.array(np.broadcast_to(array, np.broadcast_shapes(*[a.shape for a in case.arrays()])))
        for array in case.arrays()
    ]
    other = case.arrays(seed=7)
    expected = compute(case, *arrays)
    if expected.size < 2:
        return
    place = (0,) * expected.ndim
    for array, fresh in zip(arrays, other, strict=True):
        array[place] = fresh.flat[0]
    changed = compute(case, *arrays)
    mask = np.ones(expected.shape, bool)
    mask[place] = False
    np.testing.assert_array_equal(changed[mask], expected[mask])
