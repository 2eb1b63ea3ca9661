"""Elements read, assigned and added at indices along an axis: NumPy's values for any memory layout and index dtype."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.ops.manipulation.gather import TakeAlong, TakeAlongGradient
from explorer.ops.manipulation.put import PutAlong

SHAPE = (3, 100, 4)


def indices(axis: int, dtype: str, count: int = 5) -> np.ndarray[Any, Any]:
    """Return distinct indices along an axis, including negative ones for signed dtypes."""
    shape = [*SHAPE]
    shape[axis] = min(count, SHAPE[axis])
    others = SHAPE[:axis] + SHAPE[axis + 1 :]
    order = np.random.default_rng(axis).permuted(np.tile(np.arange(SHAPE[axis]), (*others, 1)), axis=-1)
    rows = np.moveaxis(order, -1, axis).take(range(shape[axis]), axis)
    if np.dtype(dtype).kind == "i":
        rows = np.where(rows % 3 == 1, rows - SHAPE[axis], rows)
    return rows.astype(dtype)


def memories(shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray[Any, Any]]:
    """Yield memory for results: row-major, column-major, and every second element."""
    gaps = np.full((*shape[:-1], 2 * shape[-1]), 7, dtype)[..., ::2]
    return [np.full(shape, 7, dtype), np.full(shape, 7, dtype, order="F"), gaps]


def computed(operation: Operation, out: np.ndarray[Any, Any], *operands: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    result: np.ndarray[Any, Any] = operation.kernel(out, *operands)
    return result


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8", "uint64"])
def test_elements_at_indices_equal_numpys(axis: int, dtype: str) -> None:
    random, rows = np.random.default_rng(1), indices(axis, dtype)
    places = np.where(rows.astype(np.int64) < 0, rows.astype(np.int64) + SHAPE[axis], rows.astype(np.int64))
    x, values = random.standard_normal(SHAPE, np.float32), random.standard_normal(rows.shape, np.float32)
    written = x.copy()
    np.put_along_axis(written, places, values, axis)
    added = np.zeros(SHAPE, np.float32)
    np.put_along_axis(added, places, values, axis)
    for source in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
        for out in memories(rows.shape):
            np.testing.assert_array_equal(
                computed(TakeAlong(axis), out, source, rows), np.take_along_axis(x, places, axis)
            )
        for out in memories(SHAPE):
            np.testing.assert_array_equal(computed(PutAlong(axis), out, source, rows, values), written)
    for out in memories(SHAPE):
        np.testing.assert_array_equal(computed(TakeAlongGradient(axis, SHAPE[axis]), out, values, rows), added)


def test_elements_at_equal_indices_are_added() -> None:
    rows = np.array([[2, 2, -1, 0]])
    expected = [[8.0, 0, 7]]
    for out in memories((1, 3)):
        total = computed(TakeAlongGradient(1, 3), out, np.array([[1, 2, 4, 8]], np.float32), rows)
        np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize("index", [100, -101, 2**62, -(2**63)])
def test_an_index_out_of_range_raises_an_error(index: int) -> None:
    x, rows = ex.tensor(np.zeros(SHAPE)), np.zeros((3, 1, 4), np.int64)
    rows[1, 0, 2] = index
    for y in (ex.take_along_axis(x, rows, 1), ex.put_along_axis(x, rows, np.ones(rows.shape), 1)):
        with pytest.raises(ex.ExplorerError, match=str(index)):
            ex.evaluate(y)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_workspace_equals_the_allocations_of_the_kernel(dtype: str) -> None:
    rows = np.zeros((80, 60, 50), dtype)
    x, values = np.ones((80, 90, 50), np.float32), np.ones(rows.shape, np.float32)
    cases: list[tuple[Operation, tuple[np.ndarray[Any, Any], ...], tuple[int, ...]]] = [
        (TakeAlong(1), (x, rows), rows.shape),
        (TakeAlongGradient(1, 90), (values, rows), x.shape),
        (PutAlong(1), (x, rows, values), x.shape),
    ]
    for operation, operands, shape in cases:
        out = np.empty(shape, np.float32)
        tracemalloc.start()
        try:
            operation.kernel(out, *operands)
            measured = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        declared = operation.workspace(*[ex.TensorType(array.shape, array.dtype) for array in operands])
        assert 0.9 < declared / measured < 1.1, (operation.name, declared, measured)
