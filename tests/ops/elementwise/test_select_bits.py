"""Selections that operate on bits of elements equal NumPy's to the last bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from explorer.ops.elementwise.arithmetic import Select

SHAPES = [(), (5,), (4, 5), (4, 1)]


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Return numbers with zeros of both signs and, if the dtype has them, NaN and infinities."""
    drawn = np.random.default_rng(seed).normal(size=shape) * 10
    values = np.array(drawn, dtype=dtype)
    special = [0.0, -0.0, np.nan, np.inf] if values.dtype.kind == "f" else [0, 1, 2, 3]
    flat = values.reshape(-1)
    flat[seed % 2 :: 2] = np.resize(special, flat[seed % 2 :: 2].size)
    return flat.reshape(shape)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i2", "i4", "i8", "u1", "?", "c8"])
def test_selections_equal_numpys_bit_for_bit(dtype: str) -> None:
    for shape_a, shape_b, shape_c in itertools.product(SHAPES, repeat=3):
        for seed in range(4):
            a, b = numbers(shape_a, dtype, seed), numbers(shape_b, dtype, seed + 1)
            condition = np.random.default_rng(seed).random(shape_c) < 0.5
            out = np.empty(np.broadcast_shapes(a.shape, b.shape, condition.shape), a.dtype)
            Select().kernel(out, np.asarray(condition), a, b)
            assert out.tobytes() == np.where(condition, a, b).tobytes()


@pytest.mark.parametrize("zero_first", [True, False])
def test_selecting_zero_is_a_mask(zero_first: bool) -> None:
    values = numbers((4, 5), "f4", 1)
    condition = np.random.default_rng(0).random((4, 5)) < 0.5
    zero = np.zeros((), "f4")
    pair = (zero, values) if zero_first else (values, zero)
    out = np.empty((4, 5), "f4")
    Select().kernel(out, condition, *pair)
    assert out.tobytes() == np.where(condition, *pair).tobytes()
