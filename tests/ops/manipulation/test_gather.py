"""Integer array indexing of expressions as in NumPy; gradients are added at the indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Shape
from explorer.ops.manipulation.gather import TakeGradient
from tests.support.accelerator import accelerator
from tests.support.refusals import refused

VALUES = np.random.default_rng(0).normal(size=(4, 5, 3))
R, J, S = np.array([-1, 0, 2]), np.array([[1], [0]]), slice(None)
INDICES: tuple[Any, ...] = (
    *(R, [1, 2], [], np.array(1), (R, S, 1), (S, R), (S, R, R), (R, R), (R, J), (R, S, J), (0, S, R), (0, R)),
    *((S, 0, R), (S, R, 0), (None, R), (R, None, R), (..., R), (R, ..., 0), (np.array(1), R), (R, slice(1, 3))),
    *((J, S, slice(None, None, -1)), (np.int64(1), R), (J, J, J), (S, None, R, S), (None, 0, None, R)),
    *(np.array([0, 2], np.uint8), (R, R, 0), (R, 0, R), (slice(0, 0), R)),
)


@pytest.mark.spec("M-O1", "M-D8")
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_integer_arrays_index_as_in_numpy(index: Any) -> None:
    """Test x[numbers] with slices, integers, None and Ellipsis; elements selected twice have both gradients."""
    x = ex.tensor(VALUES)
    expected = VALUES[index]
    y = x[index]
    assert y.shape == expected.shape
    np.testing.assert_array_equal(ex.evaluate(y), expected)
    gradient = np.zeros_like(VALUES)
    np.add.at(gradient, index, 2 * expected)
    np.testing.assert_allclose(ex.evaluate(ex.grad((y * y).sum(), x)), gradient, rtol=1e-14)


@pytest.mark.spec("M-O1")
def test_an_integer_expression_can_be_an_index() -> None:
    x, numbers = ex.tensor(VALUES), ex.tensor(R) * 1
    np.testing.assert_array_equal(ex.evaluate(x[numbers]), VALUES[R])
    np.testing.assert_array_equal(ex.evaluate(x[1:, numbers, ::-1]), VALUES[1:, R, ::-1])
    with refused(ex.OperandError, "index"):
        x[numbers, 0]


@pytest.mark.spec("M-O2")
@pytest.mark.parametrize(
    ("index", "rule"),
    [
        (VALUES > 0, "must contain integers"),
        ([True, False, True, True], "must contain integers"),
        ([0.5], "must contain integers"),
        ([4], "must be in -4 … 3"),
        ((S, [-6]), "must be in -5 … 4"),
        ((R, R[:2]), "broadcast together"),
        ((R, R, R, R), "at most 3 indices"),
        ((..., ..., R), "one Ellipsis"),
    ],
    ids=repr,
)
def test_invalid_indices_raise_an_error_when_they_are_written(index: Any, rule: str) -> None:
    with pytest.raises(ex.OperandError, match=rule):
        ex.tensor(VALUES)[index]


@pytest.mark.parametrize("wrong", [4, 5, -5])
def test_an_index_out_of_range_raises_an_error_at_run_time(wrong: int) -> None:
    x = ex.tensor(VALUES)
    with pytest.raises(ex.RunError, match=rf"row {wrong} of a table with rows 0 … 3"):
        ex.evaluate(ex.take(x, ex.tensor([0, wrong, 3]), axis=0))
    result = ex.evaluate(ex.take(x, ex.tensor([-4, 3, -1]), axis=0))
    np.testing.assert_array_equal(result, VALUES[[0, 3, 3]])


@pytest.mark.parametrize("numbers", [[3, 0, -1], [3, 0, 3]])
def test_gradients_are_added_for_rows_selected_twice(numbers: list[int]) -> None:
    """Test the gradient of a gather of different and of equal rows."""
    g = np.arange(6.0).reshape(3, 2)
    expected = np.zeros((5, 2))
    for number, part in zip(numbers, g, strict=True):
        expected[number] += part
    scattered = TakeGradient(0, (5, 2))(g, np.array(numbers))
    np.testing.assert_array_equal(ex.evaluate(scattered), expected)


@pytest.mark.parametrize("device", [ex.cpu, accelerator], ids=lambda device: device.name)
@pytest.mark.parametrize(("shape", "indices", "axis"), [((0, 3), (0, 2), 1), ((2, 0), (2, 0), 0), ((2, 3), (2, 0), 1)])
def test_gradients_along_an_empty_axis_are_zeros(shape: Shape, indices: Shape, axis: int, device: ex.Device) -> None:
    x, places = ex.tensor(np.ones(shape), device=device), ex.tensor(np.zeros(indices, np.int64), device=device)
    gradient = ex.evaluate(ex.grad(ex.take_along_axis(x, places, axis).sum(), x))
    assert gradient.shape == shape
    assert not gradient.any()
