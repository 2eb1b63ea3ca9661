"""Memory format: convolutions write images pixel by pixel, poolings as their images lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan import plan

IMAGES = np.random.default_rng(0).normal(size=(2, 4, 6, 6)).astype(np.float32)
FILTERS = np.ones((4, 4, 1, 1), np.float32)
POOLINGS = {"largest": ex.max_pool2d, "means": ex.avg_pool2d}


def formats(expression: ex.Expr) -> dict[str, bool]:
    """Return by the name of a kernel's first operation whether its result lies pixel by pixel."""
    kernels = plan([expression * 2.0 - 1.0]).schedule.kernels
    return {kernel.nodes[0].operation.name: kernel.channels_last for kernel in kernels}


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("pool", POOLINGS.values(), ids=POOLINGS)
def test_a_pooling_follows_its_image(pool: Any) -> None:
    """From channel by channel to pixel by pixel it would take four times as long."""
    x = ex.tensor(IMAGES)
    name = pool(x, 2).operation.name
    assert formats(ex.reshape(pool(x, 2), (2, 36)))[name] is False
    assert formats(ex.reshape(pool(ex.conv2d(x, FILTERS), 2), (2, 36)))[name] is True


@pytest.mark.spec("P-8")
def test_the_gradient_of_a_pooling_follows_the_image_that_was_pooled() -> None:
    x, weights = ex.tensor(IMAGES), ex.tensor(FILTERS)
    (slope,) = ex.grad((ex.max_pool2d(ex.conv2d(x, weights), 2) ** 2).sum(), [weights])
    assert formats(slope)["max_pool2d_gradient"] is True
    (slope,) = ex.grad((ex.max_pool2d(x, 2) ** 2).sum(), [x])
    assert not any(formats(slope).values())
