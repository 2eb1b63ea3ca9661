"""An unfused elementwise operation with a large result runs in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan import plan
from explorer.plan.schedule.blocked_kernel import BLOCK_BYTES
from explorer.run.execution.program import Program
from explorer.run.kernels.elementwise_chain import ElementwiseChain

ROWS = BLOCK_BYTES // 4 // 500 + 1


def runner(expression: ex.Expr) -> Any:
    """Return the runner of the only kernel of a program."""
    ((kernel, _),) = Program(plan([expression])).runners
    return kernel


def test_a_large_operation_with_temporaries_runs_in_blocks() -> None:
    x = np.random.default_rng(0).standard_normal((ROWS, 500)).astype(np.float32)
    small, large = ex.tensor(x[:-1]), ex.tensor(x)
    assert not isinstance(runner(ex.gelu(small)), ElementwiseChain)
    assert isinstance(runner(ex.gelu(large)), ElementwiseChain)
    assert not isinstance(runner(-large), ElementwiseChain)
    assert isinstance(runner(-ex.tensor(np.tile(x, (4, 1)))), ElementwiseChain)
    assert not isinstance(runner(large.sum(axis=0)), ElementwiseChain)


@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_equal_the_whole_operation(transposed: bool) -> None:
    """Operands may be broadcast, or have another layout than the result."""
    random = np.random.default_rng(1)
    x = random.standard_normal((ROWS, 500)).astype(np.float32)
    if transposed:
        x = np.asfortranarray(x)
    row, column = random.standard_normal(500).astype(np.float32), random.standard_normal((ROWS, 1)).astype(np.float32)
    np.testing.assert_array_equal(ex.evaluate(ex.softplus(ex.tensor(x))), softplus(x))
    for other in (row, column):
        wide, far = np.tile(x, (4, 1)), np.tile(other, (4, 1)) if other.ndim == 2 else other
        np.testing.assert_array_equal(ex.evaluate(ex.arctan2(ex.tensor(wide), ex.tensor(far))), np.arctan2(wide, far))


def softplus(x: Any) -> Any:
    """Return log(1 + eˣ) of all elements at once."""
    return ex.operation("softplus")().compute(x)
