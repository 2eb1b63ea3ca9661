"""Every decision is true: its reason and its facts hold for the graph, the schedule and the values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.plan import Plan
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.reasons import CATALOGUE, Reason
from explorer.plan.passes import Algorithms, Inline
from explorer.plan.passes.batch import Batch
from explorer.plan.passes.buffers import Buffers
from explorer.plan.passes.recall import ReusableValues
from explorer.plan.rewrite.constant_folding import Folding
from tests.golden.programs import PROGRAMS
from tests.laws.claims import (
    batching,
    codegen,
    constants,
    control,
    fusion,
    identities,
    mapped,
    parts,
    passes,
    properties,
    schedule,
    stability,
    updates,
    weights,
)
from tests.laws.claims.decisions import CHECKS, At, Claim, verify
from tests.laws.occasions import OCCASIONS, Planned, occasion, pair, row, x, y, zero
from tests.support.programs import prepared, programs

OWN = [
    reason
    for (owner, _), reason in CATALOGUE.items()
    if owner.startswith("explorer.") and not owner.startswith("explorer.course.")
]
MODULES = (
    batching, codegen, constants, control, fusion, identities, mapped, parts, passes, properties, schedule, stability,
    updates, weights,
)  # fmt: skip
"""importing them registers the checks"""


def check(planned: Plan, held: ReusableValues | None = None) -> None:
    """Check each decision of a plan by its reason, and the final live nodes."""
    graph = planned.graph
    for number, decision in enumerate(graph.decisions):
        try:
            verify(Claim(planned, number, held))
        except AssertionError as error:
            stage = graph.stages[decision.stage].name
            raise AssertionError(
                f"{stage} · {decision.code}: {decision.reason.sentence} {decision.facts}\n{error}"
            ) from error
    last = At(planned, len(graph.decisions))
    assert last.live.keys() == {node.uid for node in graph.live}


@pytest.mark.spec("P-15", "P-17")
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
def test_a_reshape_of_a_transposed_call_result_is_a_copy() -> None:
    """A call returns its results in row-major order; the nodes below them belong to another plan."""
    flat = ex.reshape(ex.transpose(pair(x, y)[0]), (-1,))
    planned = prepared(flat.sum(), inline=Inline(0)).planned
    assert Buffers.copied in [decision.reason for decision in planned.graph.decisions]
    check(planned)


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_decision_about_a_golden_program_is_true(name: str) -> None:
    build, options = PROGRAMS[name]
    check(prepared(*build(), **options).planned)


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("reason", OCCASIONS, ids=lambda reason: reason.anchor)
def test_each_reason_is_true_in_its_occasion(reason: Reason) -> None:
    planned, held = occasion(reason)
    check(planned, held)
    assert reason in [decision.reason for decision in planned.graph.decisions]


@pytest.mark.spec("P-15", "P-17")
def test_facts_of_an_applied_decision_about_several_nodes_are_totals() -> None:
    """In a plan of two copies of a program, a decision about twice as many nodes saves twice as much."""
    doubled = set()
    for reason, program in OCCASIONS.items():
        names = reason.facts & {"saved_flops", "saved_bytes", "saved_us", "direct_flops", "separate_us"}
        build, options = program if isinstance(program, tuple) else (program, {})
        if not names or isinstance(build(), Planned):
            continue
        once, twice = [
            [decision for decision in prepared(*roots, **options).planned.graph.decisions if decision.reason is reason]
            for roots in ([*_roots(build)], [*_roots(build), *_roots(build)])
        ]
        if not once[0].applied or len(once) > 1 or len(twice[0].subjects) != 2 * len(once[0].subjects):
            continue
        doubled.add(reason)
        for name in names:
            assert twice[0].facts[name] == pytest.approx(2 * once[0].facts[name], rel=0.01), (reason.anchor, name)
    assert doubled >= {Algorithms.tiles, Folding.folded, Batch.batched_calls, Batch.batched_operations}


def _roots(build: Callable[[], Any]) -> list[Any]:
    net = build()
    return net if isinstance(net, list) else [net]


def counted_once() -> list[Any]:
    """Return a program with a constant that a folded node and a view read; the sweep removes the view later."""
    inner = ex.tanh(zero)
    part = ex.concatenate([ex.tanh(inner), x])[1:6]
    joined = ex.concatenate([inner[:1], part])
    return [joined[1:6] * row, ex.sin(x) + inner]


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("build", [lambda: [ex.tanh(zero * 1.0)], counted_once], ids=["replaced", "read_by_a_view"])
def test_folded_operations_are_counted_once(build: Callable[[], list[Any]]) -> None:
    """Operations that an earlier decision replaced or reported are not counted again."""
    check(prepared(*build()).planned)


@functools.cache
def is_applied(reason: Reason) -> bool:
    """Return whether a reason is one for an applied decision."""
    decisions = occasion(reason).plan.graph.decisions
    (applied,) = {decision.applied for decision in decisions if decision.reason is reason}
    return applied


def altered_decisions(decision: PlanDecision, nodes: list[ex.Expr]) -> Iterator[tuple[str, PlanDecision]]:
    """Yield copies of a decision with one fact changed or removed, or two facts of one kind exchanged."""
    for name, value in decision.facts.items():
        for changed in _changed(value, nodes):
            yield f"{name}: {changed!r}", replace(decision, given={**decision.facts, name: changed})
        yield f"no {name}", replace(decision, given={key: held for key, held in decision.facts.items() if key != name})
        for other, held in decision.facts.items():
            if other < name and type(held) is type(value) and repr(held) != repr(value):
                swapped = {**decision.facts, name: held, other: value}
                yield f"{name} for {other}", replace(decision, given=swapped)


def _changed(value: Any, nodes: list[ex.Expr]) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        yield f"{value}s"
    elif isinstance(value, ex.Expr):
        yield next(node for node in nodes if node is not value)
    elif isinstance(value, list):
        yield [*value, value[-1] if value else 0]
        for index, item in enumerate(value):
            for changed in _changed(item, nodes):
                yield [*value[:index], changed, *value[index + 1 :]]
    else:
        raise AssertionError(f"a fact of the kind {type(value).__name__}, of which no lie is known")


def undetected(planned: Plan, held: ReusableValues | None, reason: Reason) -> Iterator[str]:
    """Return the altered decisions of a reason that its check accepts."""
    graph = planned.graph
    nodes = [*graph.recorded, *[node for _, node in graph.added]]
    for number, decision in enumerate(graph.decisions):
        if decision.reason is not reason:
            continue
        for text, lie in altered_decisions(decision, nodes):
            claim = Claim(planned, number, held)
            claim.choice = lie
            try:
                verify(claim)
            except AssertionError:
                continue
            yield f"{decision.code} of {decision.rule}: {text}"


@pytest.mark.spec("P-15", "P-17")
@pytest.mark.parametrize("reason", OCCASIONS, ids=lambda reason: reason.anchor)
def test_a_check_fails_for_any_altered_fact(reason: Reason) -> None:
    """Change each number by one, each name and each node, and exchange pairs of facts."""
    assert not [*undetected(*occasion(reason), reason)]


@pytest.mark.spec("P-15")
@pytest.mark.parametrize("reason", OCCASIONS, ids=lambda reason: reason.anchor)
def test_a_check_fails_for_another_reason_of_the_same_rule(reason: Reason) -> None:
    """Replace the reason of a decision with another reason of its rule or pass."""
    planned, held = occasion(reason)
    number = next(n for n, decision in enumerate(planned.graph.decisions) if decision.reason is reason)
    decision = planned.graph.decisions[number]
    mistaken = []
    for other in OWN:
        if other.owner is reason.owner and other is not reason and is_applied(other) is decision.applied:
            claim = Claim(planned, number, held)
            claim.choice = replace(decision, reason=other)
            try:
                verify(claim)
            except Exception:  # the check of another reason may not find the nodes that it expects
                continue
            mistaken.append(other.anchor)
    assert not mistaken


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


@pytest.mark.spec("P-15")
def test_every_reason_has_a_check_and_an_occasion() -> None:
    """A new reason needs a check in claims/ and a program in occasions.py."""
    assert len(OWN) > 100
    assert not [reason.anchor for reason in OWN if reason not in CHECKS]
    assert not [reason.anchor for reason in OWN if reason not in OCCASIONS]
