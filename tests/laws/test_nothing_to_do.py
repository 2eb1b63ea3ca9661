"""A call with no effect is replaced by its operand with a decision, for all functions and such arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.plan.rewrite.rules.identities import NoOp
from tests.plan.rewrite.rules.asking import applied, simplified

X = ex.tensor(np.array([[-7.5, 8.0, -0.0], [math.inf, math.nan, 2.5]]))
"""an operand that rounding, a sign change or sorting would change"""
WHOLE = ex.tensor(np.array([[-3, 8, 0], [5, -9, 2]]))
TRUTH = ex.tensor(np.array([[True, False, True], [False, False, True]]))
IMAGES = ex.tensor(np.array([[[[-7.5, -0.0], [math.inf, 2.5], [math.nan, 1.0]]]]))
VECTOR = ex.tensor(np.array([3.0, -1.0, 2.0]))

NEUTRAL: dict[str, list[tuple[ex.Expr, Callable[[ex.Expr], ex.Expr]]]] = {
    "broadcast_to": [(X, lambda x: ex.broadcast_to(x, (2, 3))), (ex.tensor(2.0), lambda x: ex.broadcast_to(x, ()))],
    "cast": [(X, lambda x: ex.cast(x, float)), (X, lambda x: x.astype(np.float64)), (WHOLE, lambda x: x.astype(int))],
    "getitem": [
        (X, lambda x: x[:]),
        (X, lambda x: x[...]),
        (X, lambda x: x[()]),
        (X, lambda x: x[0:2, -3:]),
        (X, lambda x: x[::1, ...]),
    ],
    "pad": [
        (X, lambda x: ex.pad(x, 0)),
        (X, lambda x: ex.pad(x, (0, 0), constant_values=4)),
        *[(X, lambda x, mode=mode: ex.pad(x, ((0, 0), (0, 0)), mode)) for mode in ("reflect", "edge", "wrap")],
    ],
    "concatenate": [(X, lambda x: ex.concatenate([x])), (X, lambda x: np.concatenate([x], axis=-1))],
    "clip": [
        (X, lambda x: ex.clip(x, -math.inf, math.inf)),
        (X, lambda x: x.clip(None, math.inf)),
        (X, lambda x: ex.clip(x, -math.inf)),
    ],
    "transpose": [(X, lambda x: ex.transpose(x, (0, 1))), (VECTOR, ex.transpose), (VECTOR, lambda x: x.T)],
    "inverse_transpose": [(X, lambda x: ex.inverse_transpose(x, (0, 1)))],
    "moveaxis": [(X, lambda x: ex.moveaxis(x, 1, 1)), (X, lambda x: ex.moveaxis(x, (), ()))],
    "reshape": [(X, lambda x: x.reshape(2, 3)), (X, lambda x: ex.reshape(x, (2, -1)))],
    "squeeze": [(X, ex.squeeze), (X, lambda x: ex.squeeze(x, ()))],
    "expand_dims": [(X, lambda x: ex.expand_dims(x, ()))],
    "flatten": [(VECTOR, ex.flatten), (X, lambda x: ex.flatten(x, 1, 1))],
    "tile": [(X, lambda x: ex.tile(x, 1)), (X, lambda x: ex.tile(x, (1, 1))), (X, lambda x: ex.tile(x, ()))],
    "repeat": [(X, lambda x: ex.repeat(x, 1, 0)), (VECTOR, lambda x: ex.repeat(x, 1))],
    "roll": [
        (X, lambda x: ex.roll(x, 0, 0)),
        (X, lambda x: ex.roll(x, (2, -3), (0, 1))),
        (X, lambda x: ex.roll(x, (), ())),
        (VECTOR, lambda x: ex.roll(x, 0)),
    ],
    "flip": [(X, lambda x: ex.flip(x, ()))],
    **{
        name: [(X, lambda x, name=name: registry.functions[name](x, axis=()))]
        for name in ("sum", "mean", "max", "min", "prod")
    },
    **{name: [(TRUTH, lambda x, name=name: registry.functions[name](x, axis=()))] for name in ("all", "any")},
    "to_device": [(X, lambda x: x.to_device(ex.cpu))],
    "positive": [(X, lambda x: +x), (X, lambda x: np.positive(x))],
    "add": [(X, lambda x: x + -0.0), (WHOLE, lambda x: x + 0), (WHOLE, lambda x: 0 + x)],
    "subtract": [(X, lambda x: x - 0.0)],
    "multiply": [(X, lambda x: x * 1), (X, lambda x: 1.0 * x), (WHOLE, lambda x: x * 1)],
    "divide": [(X, lambda x: x / 1)],
    "power": [(X, lambda x: x**1)],
    "adaptive_avg_pool2d": [(IMAGES, lambda x: ex.adaptive_avg_pool2d(x, (3, 2)))],
    "add_n": [(X, lambda x: ex.add_n(x))],
    "einsum": [(X, lambda x: ex.einsum("ij->ij", x))],
}
"""function → (operand, call that has no effect)"""
CODES = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "power"), "neutral"),
    "add_n": "single_term",
}
"""function → the code of its decision, if not nothing_to_do"""
CASES = [
    pytest.param(name, operand, call, id=f"{name}-{number}")
    for name, calls in NEUTRAL.items()
    for number, (operand, call) in enumerate(calls)
]


@pytest.mark.spec("M-O5")
@pytest.mark.parametrize(("name", "operand", "call"), CASES)
def test_a_call_with_no_effect_is_replaced_by_its_operand(name: str, operand: ex.Expr, call: Any) -> None:
    """The call is recorded; the plan replaces it with one decision and computes nothing."""
    written = call(operand)
    assert written is not operand
    graph = simplified(written)
    assert graph.roots[0] is operand
    assert applied(graph) == [CODES.get(name, "nothing_to_do")]
    plan = ex.EvalPlan()
    handle = plan.register(written)
    plan.eval()
    np.testing.assert_array_equal(handle.data(), ex.evaluate(operand))
    assert handle.data().dtype == operand.dtype


@pytest.mark.spec("M-O5")
def test_every_root_of_the_rule_has_a_call_in_the_table() -> None:
    """Each operation that the rule matches occurs in a call of the table with no effect."""
    reached = {type(call(operand).operation) for calls in NEUTRAL.values() for operand, call in calls}
    assert set(NoOp.roots) <= reached


MOVED_NOTHING = (
    lambda x: ex.conv3d(x, ex.tensor(np.ones((1, 1, 1, 1, 1)))),
    lambda x: ex.topk(x, 3)[0],
    lambda x: ex.local_response_norm(x, 1),
)


@pytest.mark.parametrize("shape", [(1, 1, 3, 3, 3)])
def test_a_composition_records_no_step_without_effect(shape: tuple[int, ...]) -> None:
    """The graph contains only what the call requires."""
    for call in MOVED_NOTHING:
        graph = simplified(call(ex.tensor(np.ones(shape))))
        assert "nothing_to_do" not in applied(graph), call
