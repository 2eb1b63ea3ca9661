"""Numerical contract on random programs: a fraction of each campaign in `numbers/`."""

from __future__ import annotations

import os

import pytest

from tests.soak.numbers.campaign import run

CASES = {"programs": 600, "rules": 600, "updates": 300, "logs": 60}
SHARE = float(os.environ.get("EXPLORER_SOAK_NUMBERS", "1"))
SEED = int(os.environ.get("EXPLORER_SOAK_NUMBERS_SEED", "0"))


@pytest.mark.soak
@pytest.mark.spec("U-4", "P-1", "P-2")
@pytest.mark.parametrize("name", CASES)
def test_values_differ_only_as_the_contract_allows(name: str) -> None:
    """A plan's values differ from the bare plan's only as its rules declare, and are never worse."""
    result = run(name, round(CASES[name] * SHARE), SEED)
    assert result.cases
    assert not result.found, "\n".join(f"{name}-{SEED}-{number}: {found}" for number, found in result.found)
