"""Memory format: convolutions write channels-last images, and poolings keep their image's layout."""

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
    """Return whether the result is channels-last, by the name of each kernel's first operation."""
    kernels = plan([expression * 2.0 - 1.0]).schedule.kernels
    return {kernel.nodes[0].operation.name: kernel.channels_last for kernel in kernels}


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("pool", POOLINGS.values(), ids=POOLINGS)
def test_a_pooling_keeps_the_layout_of_its_image(pool: Any) -> None:
    """Changing the layout would take four times as long."""
    x = ex.tensor(IMAGES)
    name = pool(x, 2).operation.name
    assert formats(ex.reshape(pool(x, 2), (2, 36)))[name] is False
    assert formats(ex.reshape(pool(ex.conv2d(x, FILTERS), 2), (2, 36)))[name] is True


@pytest.mark.spec("P-8")
def test_the_gradient_of_a_pooling_keeps_the_layout_of_the_pooled_image() -> None:
    x, weights = ex.tensor(IMAGES), ex.tensor(FILTERS)
    (slope,) = ex.grad((ex.max_pool2d(ex.conv2d(x, weights), 2) ** 2).sum(), [weights])
    assert formats(slope)["max_pool2d_gradient"] is True
    (slope,) = ex.grad((ex.max_pool2d(x, 2) ** 2).sum(), [x])
    assert not any(formats(slope).values())
