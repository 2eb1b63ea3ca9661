"""Every decision is true: what its code and facts claim holds of the graph, the schedule and the values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.plan import Plan
from explorer.plan.passes import Inline
from tests.golden.programs import PROGRAMS
from tests.laws.claims import CLAIMS, ELSEWHERE, At, Claim, checker
from tests.support.programs import prepared, programs

PASSES = Path(ex.__file__).parent / "plan"


def check(planned: Plan) -> None:
    """Check each decision of a plan by its code, and the bytes written by what was fused."""
    graph = planned.graph
    for number, decision in enumerate(graph.decisions):
        stage = graph.stages[decision.stage].name
        claims = checker(stage, decision)
        if claims is None:
            assert (stage, decision.code) in ELSEWHERE, f"no check for the code {decision.code!r} of {stage}"
            continue
        try:
            claims(Claim(planned, number))
        except AssertionError as error:
            raise AssertionError(
                f"{stage} · {decision.code}: {decision.reason.sentence} {decision.facts}\n{error}"
            ) from error
    last = At(planned, len(graph.decisions))
    assert last.live.keys() == {node.uid for node in graph.live}


@pytest.mark.spec("P-15", "P-17", headline=True)
@given(
    roots=programs(),
    limit=st.sampled_from((0, 8, 500_000)),
    lanes=st.sampled_from((1, 4)),
    without=st.sets(st.sampled_from(("simplify", "dedup", "batch", "fuse"))),
)
def test_every_decision_about_a_random_program_is_true(roots: Any, limit: int, lanes: int, without: Any) -> None:
    """Random programs and options: each decision's claim holds of the graph, the schedule and the values."""
    check(prepared(*roots, inline=Inline(limit), lanes=lanes, without=tuple(without)).planned)


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_decision_about_a_golden_program_is_true(name: str) -> None:
    build, options = PROGRAMS[name]
    check(prepared(*build(), **options).planned)


x = ex.tensor(np.linspace(-1, 1, 30).reshape(5, 6), name="x")
y = ex.tensor(np.linspace(1, 2, 30).reshape(5, 6), name="y")
w = ex.tensor(np.eye(6), name="w")
asked = Parameter(ex.TensorType((5, 6), np.dtype(np.float64)), "asked")()


@ex.function
def product(a: Any) -> Any:
    return a @ w


@ex.function
def pair(a: Any, b: Any) -> Any:
    return ex.tanh(a) + b, ex.exp(a * b)


def gradients() -> list[Any]:
    """Gradients of calls whose values are asked for too."""
    h, losses = x, []
    for _ in range(3):
        h, other = pair(h @ w, h)
        losses += [h.sum(), other.sum()]
    return [h, *losses, ex.grad(ex.add_n(*losses), (w, x))[0], ex.grad(losses[0], x)]


def residual() -> list[Any]:
    """Blocks in which a product's epilogue reads two other values, of which each is as large as its block."""
    h = x
    for _ in range(3):
        h = h + ex.relu(((h - h.mean(axis=1, keepdims=True)) / (ex.square(h).mean(axis=1, keepdims=True) + 1)) @ w)
    return [h]


OCCASIONS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "commuted": (lambda: [(x + y) * 2.0, ex.tanh(y + x)], {}),
    "order_of_zeros": (lambda: [ex.maximum(x, y) - ex.maximum(y, x)], {}),
    "augmented": (gradients, {"inline": Inline(0)}),
    "stacking_costs_more": (lambda: [product(x), product(y)], {}),
    "prepared_once": (lambda: [ex.tanh(w * 2.0).sum() + asked], {}),
    "computed_once": (lambda: [asked * (ex.tanh(x) * 2.0)], {}),
    "asked_for": (lambda: [ex.tanh(x), ex.exp(ex.tanh(x))], {}),
    "second_product": (lambda: [(x @ w) * ex.tanh(y @ w)], {}),
    "product": (lambda: [ex.relu(x @ w).sum()], {}),
    "view": (lambda: [ex.transpose(ex.tanh(x)).sum(axis=0)], {}),
    "long_rows": (lambda: [ex.softmax(ex.tanh(ex.broadcast_to(x[:, :1], (5, 1 << 20))))], {}),
    "too_large": (lambda: [ex.tanh(ex.broadcast_to(x[:, :1], (5, 1 << 40))).sum()], {}),
    "constants": (lambda: [x * 3.5 + 3.5, ex.exp(y * 3.5)], {}),
    "shape": (lambda: [ex.tanh(x) * ex.cos(ex.square(x)[:1])], {}),
    "reduction": (lambda: [ex.square(x - y).mean()], {}),
    "block_memory": (residual, {}),
}
"""code → a program of which it is a decision, where random programs may not have one"""


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("code", OCCASIONS)
def test_each_claim_is_true_where_it_is_made(code: str) -> None:
    build, options = OCCASIONS[code]
    planned = prepared(*build(), **options).planned
    assert code in [decision.code for decision in planned.graph.decisions]
    check(planned)


@pytest.mark.spec("P-6", "P-15", "P-17")
@given(roots=programs())
def test_bytes_saved_are_those_of_temporaries_that_exist_only_without_fusion(roots: Any) -> None:
    """The results that a plan without fusion writes, and one with it does not, are the bytes that fusions save."""
    fused, apart = prepared(*roots), prepared(*roots, without=["fuse"])
    saved = sum(d.facts["saved_bytes"] for d in fused.recording.decisions if "temporaries" in d.facts)
    whole = [
        kernel.nodes[0].type.nbytes
        for kernel in fused.planned.schedule.kernels
        if kernel.blocks is not None and kernel.blocks.anchor is not None and not kernel.blocks.shares
    ]
    written = [sum(kernel.cost.bytes for kernel in plan.planned.schedule.kernels) for plan in (apart, fused)]
    assert written[0] - written[1] == saved + sum(whole)


def codes() -> Iterator[tuple[str, str]]:
    """(file, code) of every reason that the passes declare."""
    for path in sorted(PASSES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "Reason"
                and isinstance(node.args[0], ast.Constant)
            ):
                yield path.relative_to(PASSES).as_posix(), node.args[0].value


@pytest.mark.spec("P-15")
def test_every_code_of_a_pass_has_a_check() -> None:
    """A pass that gains a code brings the check of its claim, or the place where it is checked."""
    known = {code for _, code in (*CLAIMS, *ELSEWHERE)}
    found = set(codes())
    assert len(found) > 30
    of_rules = ("rewrite/", "passes/simplify.py")
    unbatched = {"depth", "not_batchable", "other_body", "same_operands"}  # told of calls, in tests/plan/batching
    unchecked = {(file, code) for file, code in found if not file.startswith(of_rules) and code not in known}
    assert {code for _, code in unchecked} == unbatched
    assert all(reason for reason in ELSEWHERE.values())
