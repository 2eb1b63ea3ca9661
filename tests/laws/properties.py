"""The properties of an operation that can be asked of one case, a user's operation included."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.types.tensor_type import Array, TensorType
from tests.laws.cases import Case, floating
from tests.laws.differences import STEP, differences, weights_of


def run(case: Case, arrays: list[Any], out: Any) -> Any:
    with np.errstate(all="ignore"):
        return case.operation.kernel(out, *arrays)


def equal(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Every choice of batched operands but the empty one."""
    return [chosen for chosen in itertools.product((False, True), repeat=count) if any(chosen)]


def gradient_equals_differences(case: Case) -> None:
    """The gradient of every operation for every floating operand equals central differences."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    operands = [ex.tensor(array) for array in arrays]
    places = floating(case.example)
    found = ex.evaluate(ex.grad(case.operation(*operands), [operands[place] for place in places], seed=weights))
    for place, gradient in zip(places, found, strict=True):
        assert gradient.shape == arrays[place].shape
        assert gradient.dtype == arrays[place].dtype
        expected = differences(case, arrays, place, weights)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7, err_msg=f"operand {place}")


def second_gradient_equals_differences(case: Case) -> None:
    """Gradients are expressions, so they have gradients: those equal differences of the first ones."""
    arrays, weights = case.arrays("float64"), weights_of(case)
    places = floating(case.example)
    direction = [np.random.default_rng(2).uniform(-1, 1, arrays[place].shape) for place in places]

    def first(given: list[Array]) -> tuple[list[ex.Expr], ex.Expr]:
        operands = [ex.tensor(array) for array in given]
        gradients = ex.grad(case.operation(*operands), [operands[place] for place in places], seed=weights)
        total = ex.add_n(*[(gradient * along).sum() for gradient, along in zip(gradients, direction, strict=True)])
        return [operands[place] for place in places], total

    inputs, total = first(arrays)
    second = ex.evaluate(ex.grad(total, inputs))
    for position, place in enumerate(places):
        step = np.random.default_rng(3).uniform(-1, 1, arrays[place].shape)
        moved = []
        for sign in (-1, 1):
            shifted = [array.copy() for array in arrays]
            shifted[place] = shifted[place] + sign * STEP * step
            moved.append(float(ex.evaluate(first(shifted)[1])))
        expected = (moved[1] - moved[0]) / (2 * STEP)
        found = float(np.sum(second[position] * step))
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6, err_msg=f"operand {place}")


def batched_equals_loop(case: Case, size: int) -> None:
    """An operation over operands with a leading axis of members gives what a loop over the members gives."""
    for batched in patterns(len(case.example.operands)):
        members = [case.arrays(seed=seed) for seed in range(size)]
        operands: list[Any] = [
            np.stack([member[place] for member in members]) if yes else members[0][place]
            for place, yes in enumerate(batched)
        ]
        rows = [
            [operands[place][index] if yes else operands[place] for place, yes in enumerate(batched)]
            for index in range(size)
        ]
        expected = np.stack([case.operation.compute(*row) for row in rows])
        found = case.operation.batch(size, batched, *map(ex.tensor, operands))
        assert found.type == ex.TensorType(expected.shape, expected.dtype), batched
        np.testing.assert_allclose(ex.evaluate(found), expected, rtol=1e-12, atol=1e-13, err_msg=str(batched))


def inferred_type_is_the_kernels(case: Case, dtype: str) -> None:
    """The type that is known when an expression is written is the type of the value that its kernel computes."""
    arrays = case.arrays(dtype)
    type_ = case.operation.type_of(tuple(TensorType(array.shape, array.dtype) for array in arrays))
    assert isinstance(type_, TensorType)
    value = case.operation.compute(*arrays)
    assert (value.shape, value.dtype) == (type_.shape, type_.dtype)


def garbage_does_not_matter(case: Case, dtype: str) -> None:
    """A result written over garbage equals one in fresh memory."""
    arrays = case.arrays(dtype)
    fresh = case.operation.compute(*arrays)
    garbage = np.ndarray(fresh.shape, fresh.dtype, buffer=bytearray(b"\xa5" * fresh.nbytes))
    assert run(case, arrays, garbage) is garbage
    equal(garbage, fresh)
