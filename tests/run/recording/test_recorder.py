"""A recording contains what the plan did, and is equal after writing and reading it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.traversal import reachable
from explorer.ops.manipulation.concat import GatherStack
from explorer.plan import Options, plan
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes import Batch, Inline
from explorer.record import loads, to_json
from explorer.run.recording import recorder
from explorer.run.recording.recorder import build_recorded, expressions
from tests.support.large import flat
from tests.support.programs import both, programs


def check_written_recording(roots: Any, options: Options | None = None) -> None:
    """Check that a recording is equal after writing and reading, and return the final replacement of each node."""
    planned = plan(roots, options)
    recording = recorder.build(planned, "", {})
    assert loads(json.dumps(to_json(recording))) == recording
    nodes = expressions(planned)
    ids = {node.uid: number for number, node in enumerate(nodes)}
    final = recording.resolver(recording.end)
    assert {old: ids[planned.graph.resolve(nodes[old]).uid] for old in final} == final


def test_functions_that_are_opened_in_turn() -> None:
    """One is opened inside another and next to it, and an inner output is an output of the outer one."""

    @ex.function
    def outer(x: Any) -> Any:
        left, right = both(x, x * 2)
        return left, right, ex.tanh(right)

    x = ex.tensor(np.ones((3, 4)))
    left, right = both(x, x)
    other, another, third = outer(left)
    check_written_recording([other + right, another, third, both(another, right)[0]])


@given(roots=programs(), limit=st.sampled_from((0, 20, 500_000)), differentiated=st.booleans())
def test_random_programs(roots: Any, limit: int, differentiated: bool) -> None:
    if differentiated:
        leaves = [node for node in reachable(roots) if isinstance(node, ex.Tensor)] or roots
        roots = [*roots, *ex.grad(ex.add_n(*[root.sum() for root in roots]), leaves)]
    check_written_recording(roots, Options(batch=Batch(fewest=2), inline=Inline(limit)))


def test_long_attributes_are_abbreviated_with_a_digest() -> None:
    """Of hundreds of rows, the first ones, their number and a digest are written; up to 16 are written in full."""
    x = ex.tensor(np.ones((1000, 2), np.float32))
    few, many, others = (tuple((0, row, row + 1) for row in rows) for rows in (range(16), range(500), range(1, 501)))
    recording = recorder.build(plan([GatherStack(runs)(x) for runs in (few, many, others)]), "", {})
    in_full, *cut = [result["runs"] for result in recording.nodes.attributes.values()]
    assert in_full == str(few)
    assert cut[0].startswith("((0, 0, 1), (0, 1, 2), ")
    assert ", (0, 7, 8), … 500 in all, #" in cut[0]
    assert cut[0].rpartition("#")[2] != cut[1].rpartition("#")[2]
    assert max(map(len, cut)) < 150


def test_a_graph_is_recorded_before_any_pass() -> None:
    """Its rows come first in the plan's recording, so that nodes keep their numbers when the plan is ready."""
    plan = ex.EvalPlan()
    for value in flat(60):
        plan.register(value)
    planned = plan.prepare().planned
    first = build_recorded(PlanGraph(planned.graph.recorded_roots))
    whole, count = plan.recording, len(first.nodes)
    assert count == len(planned.graph.recorded)
    for name in ("label", "kind", "operands", "scope", "source", "flops", "bytes"):
        assert getattr(first.nodes, name) == getattr(whole.nodes, name)[:count]
    assert set(first.nodes.gone) == {-1}
    assert (first.decisions, first.schedule, first.bodies) == ([], None, whole.bodies)
