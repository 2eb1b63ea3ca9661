"""Batched equals loop: the batching rule of every operation, for every combination of batched operands."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.testing.laws.cases import Case
from explorer.testing.laws.method_laws import batched_equals_loop
from tests.laws.cases import every_case, parameters

CASES = [case for case in every_case() if not case.operation.unbatchable and case.example.operands]


@pytest.mark.parametrize("size", [3, 1])
@pytest.mark.parametrize("case", parameters(CASES))
def test_batched_equals_loop(case: Case, size: int) -> None:
    """An operation on operands with a leading batch axis equals a loop over the batch elements."""
    assert batched_equals_loop(case, size) or not case.operation.compute(*case.arrays()).size


@pytest.mark.parametrize("case", parameters(CASES))
def test_batching_twice_equals_a_loop_in_a_loop(case: Case) -> None:
    """The batched form consists of operations that can themselves be batched."""
    count = len(case.example.operands)
    batched = (True,) * count

    @ex.function
    def one(*operands: ex.Expr) -> ex.Expr:
        return case.operation(*operands)

    @ex.function
    def row(*operands: ex.Expr) -> ex.Expr:
        return case.operation.batch(2, batched, *operands)

    from explorer.plan.batching.vectorize import batch_call

    drawn = [[case.arrays(seed=10 * i + j) for j in range(2)] for i in range(3)]
    operands = [np.stack([np.stack([cell[place] for cell in line]) for line in drawn]) for place in range(count)]
    call = row(*[ex.tensor(operand[0]) for operand in operands]).operation
    result = ex.evaluate(batch_call(call, 3, batched, tuple(map(ex.tensor, operands))))
    expected = np.stack([np.stack([case.operation.compute(*cell) for cell in line]) for line in drawn])
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)
