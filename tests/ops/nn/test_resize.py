"""Resampling in tiles: any axes, results larger than a tile, and fused operations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.tiles import TILE_BYTES
from explorer.ops.nn.resize import Resample
from explorer.plan import plan


@pytest.mark.parametrize("method", ["linear", "cubic", "floor"])
@pytest.mark.parametrize(
    ("shape", "axis", "length"), [((3, 40, 900), 1, 170), ((2, 3, 500, 70), 3, 141), ((600, 700), 0, 250)]
)
def test_tiles_equal_parts_of_the_whole_result(method: str, shape: tuple[int, ...], axis: int, length: int) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    operation = Resample(axis, length, method, "half_pixel", shape[axis] / length)
    result = operation.compute(x)
    assert len(operation.tiles(result, None, x)) > 1
    covered = np.zeros(result.shape, int)
    for tile in operation.tiles(result, None, x):
        covered[tile.region] += 1
        assert math.prod(covered[tile.region].shape) * 4 <= TILE_BYTES
    assert (covered == 1).all()
    places, weights = operation.taps(shape[axis])
    column = (-1, *[1] * (len(shape) - axis - 1))
    expected = sum(x.take(place, axis) * weight.reshape(column) for place, weight in zip(places, weights, strict=True))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_fused_operations_run_on_each_tile() -> None:
    x = ex.tensor(np.random.default_rng(0).standard_normal((1, 8, 64, 64)).astype(np.float32))
    resized = ex.resize(x, 256, axes=3)
    planned = plan([ex.relu(resized + 1)])
    assert [[node.operation.name for node in kernel.nodes] for kernel in planned.schedule.kernels] == [
        ["resample", "add", "relu"]
    ]
    np.testing.assert_allclose(ex.evaluate(ex.relu(resized + 1)), np.maximum(ex.evaluate(resized) + 1, 0))
