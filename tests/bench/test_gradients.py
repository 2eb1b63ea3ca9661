"""First and second gradients of random programs against torch: a share of a campaign of ``tests/soak/numbers``."""

from __future__ import annotations

import pytest

from tests.soak.numbers.campaign import run


@pytest.mark.bench
@pytest.mark.spec("U-9")
def test_gradients_are_torchs() -> None:
    """First and second gradients are those of torch, also at kinks and ties, where torch has them."""
    result = run("gradients", 200, seed=0)
    assert not result.found, result.found
