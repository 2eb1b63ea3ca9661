"""Reader counts: rules that would duplicate work check them, also for nodes created in the same sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import explorer as ex
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import RuleInfo
from explorer.plan.passes import Simplify
from tests.support.programs import programs

x = ex.tensor(np.linspace(0.1, 0.9, 6).reshape(2, 3))


@pytest.mark.spec("P-1")
@given(roots=programs())
def test_a_sweep_never_undercounts_readers(roots: Any) -> None:
    """After a sweep, before the graph is walked again, no node has more readers than counted."""
    graph = PlanGraph(roots)
    Simplify()._sweep(graph, set())
    said = {uid: count for uid, count in graph.users.items() if uid in {*graph.inputs, *graph.introduced}}
    graph.refresh()
    for node in graph.live:
        assert said.get(node.uid, 0) >= graph.consumers(node), node


@pytest.mark.spec("P-1")
def test_readers_move_with_a_substitution_and_are_removed_with_their_node() -> None:
    """A replacement inherits the readers; operands read only by the replaced node lose theirs, recursively."""
    inner = ex.sin(x)
    middle = ex.cos(inner)
    outer = ex.tanh(middle)
    graph = PlanGraph([outer + outer, ex.exp(x)])
    assert [graph.consumers(node) for node in (x, inner, middle, outer)] == [2, 1, 1, 2]
    new = ex.sqrt(x)
    rule = RuleInfo("Asked", "Stand for a rule.")
    number = graph.decide(rule, ex.Reason("asked", "for the test"), {}, [outer], (new,))
    graph.add_nodes(number, [new], outer)
    graph.substitute(number, outer, new)
    counted = [graph.consumers(node) for node in (x, inner, middle, outer, new)]
    assert counted == [2, 0, 0, 0, 2]
    graph.refresh()
    assert [graph.consumers(node) for node in (x, inner, middle, outer, new)] == counted


@pytest.mark.spec("P-1")
@given(roots=programs())
def test_another_sweep_over_all_nodes_changes_nothing(roots: Any) -> None:
    """Trying every rule at every node gives no more than trying the nodes whose reader count changed."""
    texts = []
    for everywhere in (False, True):
        graph = PlanGraph(roots)
        if everywhere:
            _sweep_everywhere(graph)
        else:
            Simplify().run(graph)
        texts.append(
            [(decision.rule, decision.code, decision.applied, len(decision.subjects)) for decision in graph.decisions]
        )
    assert texts[0] == texts[1]


def _sweep_everywhere(graph: PlanGraph) -> None:
    for _ in range(Simplify.sweeps):
        before = len(graph.substitutions)
        Simplify()._sweep(graph, set())
        if len(graph.substitutions) == before:
            return
        graph.refresh()
