"""Batched equals loop: the batching rule of every operation, for every choice of batched operands."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.laws.cases import Case, every_case, parameters

CASES = [case for case in every_case() if not case.operation.unbatchable and case.example.operands]


def patterns(count: int) -> list[tuple[bool, ...]]:
    """Every choice of batched operands but the empty one."""
    return [chosen for chosen in itertools.product((False, True), repeat=count) if any(chosen)]


@pytest.mark.parametrize("size", [3, 1])
@pytest.mark.parametrize("case", parameters(CASES))
def test_batched_equals_loop(case: Case, size: int) -> None:
    """An operation over operands with a leading axis of members gives what a loop over the members gives."""
    for batched in patterns(len(case.example.operands)):
        members = [case.arrays(seed=seed) for seed in range(size)]
        operands: list[Any] = [
            np.stack([member[place] for member in members]) if yes else members[0][place]
            for place, yes in enumerate(batched)
        ]
        rows = [
            [operands[place][index] if yes else operands[place] for place, yes in enumerate(batched)]
            for index in range(size)
        ]
        expected = np.stack([case.operation.compute(*row) for row in rows])
        found = case.operation.batch(size, batched, *map(ex.tensor, operands))
        assert found.type == ex.TensorType(expected.shape, expected.dtype), batched
        np.testing.assert_allclose(ex.evaluate(found), expected, rtol=1e-12, atol=1e-13, err_msg=str(batched))


@pytest.mark.parametrize("case", parameters(CASES))
def test_batching_twice_equals_a_loop_in_a_loop(case: Case) -> None:
    """Members of members: the batched form is itself made of operations that can be batched."""
    count = len(case.example.operands)
    batched = (True,) * count

    @ex.function
    def one(*operands: ex.Expr) -> ex.Expr:
        return case.operation(*operands)

    @ex.function
    def row(*operands: ex.Expr) -> ex.Expr:
        return case.operation.batch(2, batched, *operands)

    from explorer.plan.batching import batch_call

    drawn = [[case.arrays(seed=10 * i + j) for j in range(2)] for i in range(3)]
    operands = [np.stack([np.stack([cell[place] for cell in line]) for line in drawn]) for place in range(count)]
    call = row(*[ex.tensor(operand[0]) for operand in operands]).operation
    found = ex.evaluate(batch_call(call, 3, batched, tuple(map(ex.tensor, operands))))
    expected = np.stack([np.stack([case.operation.compute(*cell) for cell in line]) for line in drawn])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
