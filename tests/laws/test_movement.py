"""Operations that move elements, at ranks 0 to 4 and with sizes 0 and 1: NumPy's elements and adjoint gradients."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex

SHAPES = [(), (3,), (1,), (0,), (2, 3), (1, 3), (3, 0), (2, 1, 3), (2, 0, 3), (2, 3, 1, 2), (1, 1, 1, 1), (2, 0, 1, 3)]
DTYPES = ["float32", "float64", "int32", "bool"]
Move = Callable[[Any, Any], Any]
"""(explorer or NumPy, value) → the moved value"""


def halves(x: Any) -> Any:
    return x[tuple([slice(None, None, 2)] * x.ndim)]


MOVES: dict[str, Move] = {
    "transposed": lambda m, x: m.transpose(x),
    "turned": lambda m, x: m.transpose(x, tuple([*range(1, x.ndim), 0][: x.ndim])),
    "one row": lambda m, x: x.reshape((-1,)) if x.size else x.reshape((0,)),
    "one row more": lambda m, x: x.reshape((1, *x.shape)),
    "expanded": lambda m, x: m.expand_dims(x, x.ndim),
    "squeezed": lambda m, x: m.squeeze(x),
    "every second": lambda m, x: halves(x),
    "backwards": lambda m, x: x[(Ellipsis, slice(None, None, -1))] if x.ndim else x,
    "flipped": lambda m, x: m.flip(x, tuple(range(x.ndim))) if x.ndim else x,
    "rolled": lambda m, x: m.roll(x, 1, 0) if x.ndim else x,
    "tiled": lambda m, x: m.tile(x, (2,) * max(1, x.ndim)),
    "repeated": lambda m, x: m.repeat(x, 2, 0) if x.ndim else x,
    "broadcast": lambda m, x: m.broadcast_to(x, (2, *x.shape)),
    "stacked": lambda m, x: m.stack([x, x], 0),
    "joined": lambda m, x: m.concatenate([x, x], -1) if x.ndim else x,
    "chosen": lambda m, x: m.take(x, np.array([0, -1, 0]), 0) if x.ndim and x.shape[0] else x,
}


@pytest.mark.spec("M-O3", "M-D8")
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", MOVES)
def test_moved_elements_equal_numpys_and_gradients_are_adjoint(name: str, shape: tuple[int, ...]) -> None:
    """Test any rank and dtype; adjoint means ⟨g, M x⟩ = ⟨Mᵀ g, x⟩."""
    move = MOVES[name]
    random = np.random.default_rng(zlib.crc32(f"{name} {shape}".encode()))
    for dtype in DTYPES:
        array = np.asarray(random.integers(0, 100, shape) if dtype != "bool" else random.integers(0, 2, shape), dtype)
        expected = move(np, array)
        x = ex.tensor(array)
        moved = move(ex, x)
        result = ex.evaluate(moved)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected, strict=True)
        assert moved.shape == expected.shape
        if dtype == "float64":
            seed = random.standard_normal(expected.shape)
            (gradient,) = ex.evaluate([ex.grad(moved, x, seed=ex.tensor(seed))])
            assert gradient.shape == shape
            np.testing.assert_allclose((seed * expected).sum(), (gradient * array).sum(), rtol=1e-9, atol=1e-9)
