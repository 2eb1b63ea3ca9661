"""Convolutions of images that lie in memory in any way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import explorer as ex

WHOLE, SECOND, BACK = slice(None), slice(None, None, 2), slice(None, None, -1)


@pytest.mark.parametrize("size", [1, 2])
def test_images_may_be_any_view(size: int) -> None:
    """Sliced, reversed and transposed images are convolved as they are."""
    generator = np.random.default_rng(0)
    images, filters = generator.normal(size=(4, 6, 6, 6)), generator.normal(size=(5, 3, size, size))
    for parts in itertools.product((SECOND, WHOLE), (SECOND,), (SECOND, WHOLE, BACK), (SECOND, WHOLE, BACK)):
        for order, rows, columns in itertools.product(((0, 1, 2, 3), (0, 1, 3, 2)), (2, 3), (2, 3)):
            view = images[parts].transpose(order)[:, :, :rows, :columns]
            expression = ex.conv2d(ex.tensor(images)[parts].transpose(order)[:, :, :rows, :columns], filters)
            windows = np.lib.stride_tricks.sliding_window_view(view, (size, size), (2, 3))
            expected = np.einsum("nchwij,ocij->nohw", windows, filters)
            np.testing.assert_allclose(ex.evaluate(expression), expected, rtol=1e-12, atol=1e-12)
