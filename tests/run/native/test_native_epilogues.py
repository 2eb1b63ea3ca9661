"""Operations after products that are compiled have NumPy's bits on every tile."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.run.native.native_epilogue import tile_rows

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> ex.Expr:
    return ex.tensor(RNG.normal(size=shape).astype(np.float32))


X, W = numbers(2, 24, 30, 28), numbers(40, 24, 3, 3)
BIAS, LONG = numbers(40, 1, 1), numbers(3, 200, 300)
PRODUCTS: dict[str, Callable[[], ex.Expr]] = {
    "matrix": lambda: ex.relu(numbers_of("a", 300, 200) @ numbers_of("b", 200, 500) + numbers_of("c", 500)) * 2,
    "rows": lambda: (numbers_of("a", 300, 200) @ numbers_of("b", 200, 500)) * numbers_of("d", 300, 1) - 1,
    "batch": lambda: LONG @ numbers_of("e", 3, 300, 50) * 0.5 + numbers_of("f", 3, 1, 1),
    "images": lambda: ex.relu(ex.conv2d(X, numbers_of("i", 3, 24, 1, 1)) + numbers_of("g", 3, 1, 1)),
    "stored by pixel": lambda: -ex.transpose(ex.relu(ex.conv2d(X, W, padding=2, dilation=2) + BIAS) * 2, (0, 2, 3, 1)),
    "residual": lambda: ex.relu(ex.conv2d(ex.relu(X), numbers_of("i", 3, 24, 1, 1)) + ex.relu(X)[:, :3]),
    "groups": lambda: -ex.transpose(ex.relu(ex.conv2d(X, numbers_of("j", 48, 12, 3, 3), groups=2) + 1), (0, 2, 3, 1)),
    "comparison": lambda: (numbers_of("a", 300, 200) @ numbers_of("b", 200, 500)) > 0,
}
_numbers: dict[tuple[Any, ...], ex.Expr] = {}


def numbers_of(*key: Any) -> ex.Expr:
    """Return the same numbers for the same key, which ends with their shape."""
    if key not in _numbers:
        _numbers[key] = numbers(*key[1:])
    return _numbers[key]


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("name", PRODUCTS)
def test_operations_after_a_product_have_the_bits_of_numpy(name: str, compiler: None) -> None:
    build = PRODUCTS[name]
    plan = ex.EvalPlan(kernels="native")
    handle = plan.register(build())
    plan.eval()
    assert plan.recording.stages[-1].counts["compiled"] >= 1
    assert "epilogue" in [row.code for row in plan.recording.decisions if row.rule == "CompiledLoop"]
    np.testing.assert_array_equal(handle.data(), ex.evaluate(build()))


@pytest.mark.spec("K-1")
def test_rows_of_a_tile_are_its_elements() -> None:
    """For every tile, the rows and the part of each row are exactly the tile's elements."""
    shape = (2, 1, 3, 4)
    for order in itertools.permutations(range(4)):
        strides = {axis: int(np.prod([shape[each] for each in order[place + 1 :]])) for place, axis in enumerate(order)}
        length = next(shape[axis] for axis in reversed(order) if shape[axis] > 1)
        for index in itertools.product(*[_slices(size) for size in shape]):
            rows, (first, last) = tile_rows(index, shape, order)
            found: Array = np.concatenate(
                [np.arange(first, last) + row * length for start, stop in rows for row in range(start, stop)]
            )
            elements = itertools.product(*[range(size)[part] for part, size in zip(index, shape, strict=True)])
            expected = [sum(strides[axis] * place for axis, place in enumerate(element)) for element in elements]
            assert sorted(found.tolist()) == sorted(expected)


def test_rows_of_a_tile_are_adjacent() -> None:
    with pytest.raises(ValueError, match="requires tiles of adjacent elements"):
        tile_rows((slice(0, 9, 2), slice(0, 4)), (9, 4), (0, 1))


def _slices(size: int) -> list[slice]:
    return [slice(0, size), slice(0, 1), slice(size - 1, size), slice(size // 2, size)]
