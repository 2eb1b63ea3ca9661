"""Decisions of the simplify pass alone, for tests of one rule."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex
from explorer.plan.graph.decisions import PlanDecision
from explorer.plan.graph.numerics import Level
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.passes import Simplify
from tests.support.interpreter import reference


def simplified(*roots: ex.Expr, numerics: Level = "safe") -> PlanGraph:
    """Return the graph after simplify."""
    graph = PlanGraph(roots, numerics)
    Simplify().run(graph)
    return graph


def applied(graph: PlanGraph) -> list[str]:
    """Return the codes of the applied decisions, in order."""
    return [decision.code for decision in graph.decisions if decision.applied]


def declined(graph: PlanGraph) -> list[tuple[str, str]]:
    """Return (rule, code) of each declined decision."""
    return [(decision.rule, decision.code) for decision in graph.decisions if not decision.applied]


def decision(graph: PlanGraph, code: str) -> PlanDecision:
    """Return the single decision with a code."""
    (results,) = [decision for decision in graph.decisions if decision.code == code]
    return results


def close(root: ex.Expr, rtol: float = 1e-12) -> bool:
    """Return whether replacements of the roots have their types, and their values up to rounding."""
    new = simplified(root).roots[0]
    (results,), (expected,) = reference([new]), reference([root])
    assert new.type is root.type
    assert results.dtype == expected.dtype
    return np.allclose(results, expected, rtol=rtol, atol=rtol, equal_nan=True)


def values(shape: tuple[int, ...], dtype: str = "float64", low: float = 0.2, high: float = 2.0) -> ex.Expr:
    """Return a tensor of random values."""
    array: Any = np.random.default_rng(7).uniform(low, high, shape)
    return ex.tensor(array.astype(dtype))
