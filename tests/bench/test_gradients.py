"""First and second gradients of random programs against torch: a fraction of a campaign in ``tests/soak/numbers``."""

from __future__ import annotations

import pytest

from tests.soak.numbers.campaign import run


@pytest.mark.bench
@pytest.mark.spec("U-9")
def test_gradients_equal_torch() -> None:
    """First and second gradients equal torch's, including kinks and ties where torch defines them."""
    result = run("gradients", 200, seed=0)
    assert not result.found, result.found
