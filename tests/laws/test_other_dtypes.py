"""Rules hold for other operand dtypes than those of their programs: complex numbers, integers and booleans.

Reasons' programs (tests/laws/occasions.py) are recorded with such operands. A plan with the rule gives the dtype and
values of a plan without optional passes. Programs that cannot have such operands are skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.plan.graph.reasons import Reason
from explorer.plan.options import PASSES
from explorer.plan.rewrite.rule import Rule
from tests.laws import occasions
from tests.laws.occasions import OCCASIONS

DTYPES = ("complex128", "int64", "bool")
OPERANDS = {"x": (5, 6), "y": (5, 6), "w": (6, 6), "row": (6,)}
"""operands shared by the programs, with their shapes"""
OPTIONAL = tuple([name for name in PASSES if name not in ("inline", "order", "buffers")])
REASONS = [
    pytest.param(reason, id=reason.anchor)
    for reason, program in OCCASIONS.items()
    if isinstance(reason.owner, type)
    and issubclass(reason.owner, Rule)
    and (program[1] if isinstance(program, tuple) else {}).get("numerics") != "fast"
]


def numbers(shape: tuple[int, ...], dtype: str, random: np.random.Generator) -> Any:
    if dtype == "complex128":
        return random.normal(size=shape) + 1j * random.normal(size=shape)
    return random.integers(-5, 6, shape).astype(dtype)


def values(roots: list[ex.Expr], **options: Any) -> list[Any]:
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [np.asarray(handle.data()) for handle in handles]


@pytest.mark.spec("U-4")
@pytest.mark.parametrize("reason", REASONS)
def test_a_rule_holds_for_operands_of_other_dtypes(reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    program = OCCASIONS[reason]
    build = program[0] if isinstance(program, tuple) else program
    for dtype in DTYPES:
        random = np.random.default_rng(0)
        for name, shape in OPERANDS.items():
            monkeypatch.setattr(occasions, name, ex.tensor(numbers(shape, dtype, random), name=name))
        try:
            recorded = build()
            roots = recorded if isinstance(recorded, list) else [recorded]
            expected = values(roots, without=OPTIONAL)
        except (ex.ExplorerError, TypeError, AttributeError):
            continue  # an operation of the program rejects such operands, or the program builds its own plan
        for bare, planned in zip(expected, values(roots), strict=True):
            assert (planned.shape, planned.dtype) == (bare.shape, bare.dtype)
            # a stable form is finite where the original form overflows
            finite = np.isfinite(bare)
            tolerance = 4e-3 if bare.dtype == np.float16 else 1e-9
            np.testing.assert_allclose(planned[finite], bare[finite], rtol=tolerance, atol=tolerance)
