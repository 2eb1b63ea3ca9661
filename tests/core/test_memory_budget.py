"""The memory budget: limits that can be set, and sizes that are counted against them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.memory_budget import (
    NESTING,
    Budget,
    claim_constant,
    claim_memory,
    claim_steps,
    counted,
    listed,
    size_of,
)
from tests.support.refusals import refused


def test_limits_can_be_set_and_are_shown() -> None:
    budget = Budget()
    assert budget.memory > 1 << 28  # the limits of this machine
    budget.memory, budget.operators = 5 << 30, 7
    assert (budget.memory, budget.operators) == (5 << 30, 7)
    assert "memory 5 GB" in repr(budget)
    assert "operators 7" in repr(budget)
    budget.memory = None
    assert budget.memory > 1 << 28
    for wrong in (0, -1, True, 1.5, "8GB"):
        with pytest.raises(ex.OperandError, match=r"budget.memory = .*\n.*integer of 1 or more"):
            budget.memory = wrong


def test_sizes_in_one_build_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small sizes are rejected like one large one; outside a build nothing is counted."""
    monkeypatch.setattr(ex.budget, "constants", 100)
    monkeypatch.setattr(ex.budget, "steps", 10)
    claim_constant("a range", 10**6)
    claim_steps("a loop", 10**6)
    with counted():
        claim_constant("a range", 12)
        with pytest.raises(ex.BudgetError, match=r"a range claims a constant of 16 B, after others of 96 B"):
            claim_constant("a range", 2)
        claim_steps("a loop", 10)
        with pytest.raises(ex.BudgetError, match="a loop claims 1 steps, after others of 10"):
            claim_steps("a loop", 1)
        with counted():
            claim_constant("a range", 12)


def test_a_run_above_the_limit_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised before any allocation, with the largest value, its line, and how to set the limit."""
    monkeypatch.setattr(ex.budget, "memory", 1 << 20)
    x = ex.tensor(np.ones((256, 256), np.float32))
    with pytest.raises(
        MemoryError, match=r"whose largest value is <.*256×256.*test_memory_budget.py line \d+ "
    ) as caught:
        ex.evaluate((x @ x + 1.0) @ (x.T @ x) @ x)
    assert isinstance(caught.value, ex.BudgetError)
    ex.budget.memory = 1 << 24
    assert ex.evaluate((x @ x).sum()) == 256**3
    with pytest.raises(ex.BudgetError, match="a file claims 1 GB of memory"):
        claim_memory("a file", 1 << 30)


def test_lists_count_their_nested_elements() -> None:
    """Nested lists are counted without visiting shared parts again."""
    value: tuple[Any, ...] = (1, 2)
    for _ in range(NESTING - 1):
        value = listed((value, value))
    with pytest.raises(ex.OperandError, match=f"nested {NESTING + 1} deep"):
        listed((value,))
    wide: tuple[Any, ...] = tuple(range(1000))
    wide = listed((listed((wide,) * 100),) * 9)
    with refused(ex.OperandError):
        listed((wide, wide))


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("8GB", 8 << 30), ("8 GiB", 8 << 30), ("500m", 500 << 20), ("2tb", 2 << 40), ("64 b", 64)],
)
def test_size_strings_are_parsed(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1.5GB", "-1", "0", "8XB", "9" * 30, "ﬁ"])
def test_invalid_sizes_raise_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        size_of(text)
