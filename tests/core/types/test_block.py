"""Memory blocks: tensors, views and results share one, and the last owner frees it through its device."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.run.plan_cache import cache
from tests.support.refusals import refused


class Counted(ex.Device):
    """NumPy memory with counted allocations."""

    events: list[str] = []  # noqa: RUF012  # one device

    def new(self, nbytes: int) -> Any:
        self.events.append(f"new {nbytes}")
        return bytearray(nbytes)

    def delete(self, memory: Any) -> None:
        self.events.append(f"delete {len(memory)}")


counted = Counted("counted")


@pytest.mark.spec("C-2")
def test_the_last_owner_frees_a_block_through_the_device() -> None:
    """A tensor, a plan, a result of a view, and NumPy's view of that each keep the block alive."""
    gc.collect()
    counted.events.clear()
    tensor = ex.tensor(np.arange(12.0).reshape(3, 4), device=counted)
    assert counted.events == ["new 96"]
    plan = ex.EvalPlan()
    handle = plan.register(tensor[1:].reshape((8,)))
    plan.eval()
    result = handle.data()
    assert np.shares_memory(result, tensor.storage.array)
    part = result[2:4]
    counted.events.clear()
    del tensor, result, plan, handle
    cache.clear()
    gc.collect()
    assert counted.events == []
    np.testing.assert_array_equal(part, [6, 7])
    del part
    gc.collect()
    assert counted.events == ["delete 96"]


@pytest.mark.spec("C-2", headline=True)
def test_a_tensor_is_a_shape_and_a_dtype_over_one_block() -> None:
    """Store a tensor as a shape and dtype over one contiguous block; expressions provide its mathematics."""
    tensor = ex.tensor(np.zeros((2, 3, 4), np.float32), device=counted)
    assert tensor.shape == (2, 3, 4)
    assert {type(size) for size in tensor.shape} == {int}
    assert (tensor.strides, tensor.type.nbytes) == ((12, 4, 1), 96)
    assert tensor.storage.array.flags.c_contiguous
    assert type(tensor + 1) is ex.Expr


@pytest.mark.spec("C-2")
def test_arrays_of_a_block_must_fit_into_it() -> None:
    block = ex.Block(ex.cpu, 24)
    whole, row = block.array((2, 3), np.float32), block.array((3,), np.float32, 12)
    whole[:] = [[1, 2, 3], [4, 5, 6]]
    np.testing.assert_array_equal(row, [4, 5, 6])
    assert whole.ctypes.data % 64 == 0
    for offset in (-1, 16):
        with refused(ex.OperandError, "within its block"):
            block.array((3,), np.float32, offset)
    assert ex.Block(counted, 0).array((0, 3), np.float64).shape == (0, 3)


@pytest.mark.spec("C-2")
def test_a_block_ends_the_lifetime_of_its_values_before_it_is_freed() -> None:
    counted.events.clear()
    block = ex.Block(counted, 8, lambda memory: counted.events.append(f"destruct {len(memory)}"))
    view = block.array((2,), np.int32)[1:]
    del block
    assert counted.events == ["new 8"]
    del view
    assert counted.events == ["new 8", "destruct 8", "delete 8"]


def test_a_device_without_memory_frees_nothing() -> None:
    class Full(ex.Device):
        """No memory is left."""

        def new(self, nbytes: int) -> Any:
            raise MemoryError(f"{nbytes} bytes")

        def delete(self, memory: Any) -> None:
            raise AssertionError("nothing was allocated")

    with pytest.raises(MemoryError, match="24 bytes"):
        ex.tensor(np.zeros(3), device=Full("full"))
