"""Tensors by channel, row and column: each function documents its order and what it may modify."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

VALUES = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.spec("I-8")
def test_sizes_are_channels_rows_and_columns() -> None:
    for shape, shapes, raw in (
        ((2, 3, 4), (2, 3, 4), (3, 4, 2)),
        ((3, 4), (1, 3, 4), (3, 4)),
        ((4,), (1, 1, 4), (4,)),
        ((), (1, 1, 1), ()),
    ):
        x = ex.Tensor(shape)
        assert (x.channels, x.rows, x.cols) == x.shapes == shapes
        assert x.raw_shapes == raw
        assert x.size == np.prod(shape)
        assert not x.empty
    assert ex.Tensor(0, 3).empty
    with refused(ex.OperandError, "2×2×2×2", "at most three axes", "x.shape"):
        assert ex.Tensor(2, 2, 2, 2).rows


@pytest.mark.spec("I-8", headline=True)
def test_elements_are_read_in_the_given_order() -> None:
    """Read a tensor's elements in row order, or on request in column order, without a copy."""
    x = ex.tensor(VALUES)
    assert x.at(1, 2, 3) == 23
    np.testing.assert_array_equal(x.slice(1), VALUES[1])
    np.testing.assert_array_equal(x.data, VALUES)
    np.testing.assert_array_equal(x.values(), VALUES.reshape(-1))
    columns = np.concatenate([matrix.reshape(-1, order="F") for matrix in VALUES])
    np.testing.assert_array_equal(x.values(row_major=False), columns)
    assert [x.index(5), x.index(5, row_major=False)] == [5, columns[5]]
    np.testing.assert_array_equal(x.raw_ptr(20), VALUES.reshape(-1)[20:])
    np.testing.assert_array_equal(x.matrix_raw_ptr(1), VALUES[1].reshape(-1))
    for shared in (x.data, x.slice(0), x.raw_ptr(), x.matrix_raw_ptr(0), x.values()):
        assert np.shares_memory(shared, x.array)
        assert not shared.flags.writeable
    np.testing.assert_array_equal(ex.evaluate(x.flatten()), x.values())
    for read, said in (
        (lambda: x.at(2, 0, 0), "channel 2 of 2"),
        (lambda: x.at(0, 3, 0), "row 3 of 3"),
        (lambda: x.at(0, 0, -1), "col -1 of 4"),
        (lambda: x.slice(2), "channel 2 of 2"),
        (lambda: x.index(24), "element 24 of 24"),
        (lambda: x.raw_ptr(-1), "element -1 of 24"),
    ):
        with refused(ex.OperandError, said):
            read()


@pytest.mark.spec("I-8")
def test_elements_are_assigned_in_the_given_order() -> None:
    x = ex.Tensor(2, 3, 4)
    np.testing.assert_array_equal(x.fill(VALUES.reshape(-1).tolist()).array, VALUES)
    x.fill(ex.tensor(VALUES).values(row_major=False), row_major=False)
    np.testing.assert_array_equal(x.array, VALUES)
    assert x.set_index(7, -1).at(0, 1, 3) == -1
    assert x.set_index(7, -2, row_major=False).at(0, 1, 2) == -2
    assert x.set_index(7, -2, row_major=False).index(7, row_major=False) == -2
    assert ex.Tensor(3, 4).set_index(4, 5, row_major=False).at(0, 1, 1) == 5
    assert (x.ones().array == 1).all()
    assert (x.fill(3).array == 3).all()
    np.testing.assert_array_equal(x.set_data(VALUES + 1).array, VALUES + 1)
    np.testing.assert_array_equal(x.transform(lambda array: array * 2).array, 2 * VALUES + 2)
    first, second = ex.Tensor(50, 40).rand(1), ex.Tensor(50, 40).rand(1)
    np.testing.assert_array_equal(first.array, second.array)
    assert abs(first.array.mean()) < 0.1 < first.array.std()
    assert x.dtype == np.float32
    with refused(ex.OperandError, "23 elements for a tensor of 24"):
        x.fill([0.0] * 23)
    with refused(ex.OperandError, "data of shape (24,)", "fill(values)"):
        x.set_data(VALUES.reshape(-1))


@pytest.mark.spec("I-8")
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.fill(1),
        lambda x: x.ones(),
        lambda x: x.rand(),
        lambda x: x.set_data(VALUES),
        lambda x: x.set_index(0, 1),
        lambda x: x.transform(np.tanh),
    ],
)
def test_a_tensor_used_by_an_expression_is_not_modified(change: Callable[[Any], Any]) -> None:
    x = ex.Tensor(2, 3, 4)
    change(x)
    before = np.array(x.array)
    copy = x.clone()
    assert ex.evaluate(x.sum()).shape == ()
    with refused(ex.StateError, "shared"):
        change(x)
    np.testing.assert_array_equal(x.array, before)
    change(copy)


@pytest.mark.spec("I-8")
def test_padding_and_clones_are_new_tensors() -> None:
    x = ex.tensor(VALUES, name="x")
    padded = x.padding((1, 2, 0, 3), 9)
    np.testing.assert_array_equal(padded.array, np.pad(VALUES, ((0, 0), (1, 2), (0, 3)), constant_values=9))
    copy = x.clone()
    assert copy.name == "x"
    assert not np.shares_memory(copy.array, x.array)
    for wrong in ((1, 2, 3), (1, 1, 1, -1)):
        with refused(ex.OperandError, "four numbers"):
            x.padding(wrong)  # type: ignore[arg-type]


@pytest.mark.spec("I-8")
def test_tensors_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    x = ex.tensor(np.arange(4).reshape(2, 1, 2))
    x.show()
    x.show_shapes()
    assert capsys.readouterr().out == "channel 0:\n[[0 1]]\nchannel 1:\n[[2 3]]\n2 channels, 1 rows, 2 columns\n"
