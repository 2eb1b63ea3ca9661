"""Declared workspaces equal the memory that kernels allocate besides their results."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.nn.conv import Conv2d, Conv2dFilterGradient, Conv2dImageGradient
from explorer.ops.nn.pooling import MaxPool2d, MaxPool2dGradient

PADDED = ((1, 1), (2, 1))
CASES: list[tuple[Operation, tuple[tuple[int, ...], ...]]] = [
    (Conv2d(), ((4, 8, 40, 40), (8, 8, 3, 3))),
    (Conv2d(padding=PADDED), ((2, 32, 40, 40), (8, 32, 3, 3))),
    (Conv2d((2, 1), PADDED, (1, 2), 2), ((4, 8, 40, 40), (8, 4, 3, 3))),
    (Conv2dImageGradient(padding=((1, 1), (1, 1)), shape=(4, 8, 40, 40)), ((4, 8, 40, 40), (8, 8, 3, 3))),
    (Conv2dImageGradient(shape=(4, 8, 40, 40)), ((4, 8, 38, 38), (8, 8, 3, 3))),
    (Conv2dImageGradient((2, 2), ((1, 1), (1, 1)), shape=(4, 8, 80, 80)), ((4, 16, 40, 40), (16, 8, 3, 3))),
    (Conv2dFilterGradient(padding=((1, 1), (1, 1)), shape=(8, 8, 3, 3)), ((4, 8, 40, 40), (4, 8, 40, 40))),
    (Conv2dFilterGradient(shape=(256, 64, 1, 1)), ((64, 256, 2, 2), (64, 64, 2, 2))),
    (MaxPool2d((5, 5), (1, 1), ((2, 2), (2, 2))), ((2, 32, 80, 80),)),
    (MaxPool2dGradient((3, 3), (2, 2), ((1, 1), (1, 1))), ((4, 8, 40, 40), (4, 8, 40, 40), (4, 8, 80, 80))),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("operation", "shapes"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_workspace_equals_the_allocations_of_the_kernel(
    operation: Operation, shapes: tuple[tuple[int, ...], ...], dtype: str
) -> None:
    arrays = [np.ones(shape, dtype) for shape in shapes]
    _check(operation, arrays)


@pytest.mark.parametrize("shape", [(32, 512), (4, 8, 512)])
def test_the_workspace_of_few_rows_times_transposed_weights_is_the_transposed_product(shape: tuple[int, ...]) -> None:
    _check(Matmul(), [np.ones(shape, "float32"), np.ones((512, 512), "float32").T])


def _check(operation: Operation, arrays: list[np.ndarray]) -> None:
    """Compare the bytes that a kernel allocates on a separate thread with its operation's declaration."""
    types = [ex.TensorType(array.shape, array.dtype) for array in arrays]
    type_ = operation.type_of(tuple(types))
    assert isinstance(type_, ex.TensorType)
    out = np.empty(type_.shape, type_.dtype)
    operation.kernel(out, *arrays)
    gc.collect()
    fresh = threading.Thread(target=operation.kernel, args=(out, *arrays))  # has no scratch memory yet
    tracemalloc.start()
    try:
        fresh.start()
        fresh.join()
        measured = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    declared = operation.workspace(*types)
    assert 0.9 < declared / measured < 1.1, (declared, measured)
