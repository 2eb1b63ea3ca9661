"""Gated recurrent unit (Cho et al. 2014), one step of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.layers.framework.composite import Composite
from explorer.layers.framework.policy_classes import GRUPolicy
from explorer.layers.framework.topology import Clause, InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.layers.library.binary_layers import Add, Interpolate, Multiply
from explorer.layers.library.elementwise_layers import Sigmoid, Tanh
from explorer.layers.library.linear import Linear, Weight

_GATES = ("update", "reset")


class GRUStep(Composite):
    """Step of a gated recurrent unit: h = z·ĥ + (1 − z)·h₋₁.

    z, r = σ(x @ W + h₋₁ @ U) and ĥ = tanh(x @ W + (r·h₋₁) @ U); see GRUPolicy. ``input`` is x, ``previous`` is h₋₁.
    Note that torch's z is 1 − z.

    Sublayers: update_input, update_state, update_sum, update; reset_input, reset_state, reset_sum, reset;
    candidate_input, candidate_state, candidate_sum, candidate; gated, blend.
    """

    in_features: int
    out_features: int
    inputs: ClassVar[tuple[str, ...]] = ("input", "previous")
    outputs: ClassVar[tuple[str, ...]] = ("output",)

    def declare(self) -> Topology:
        """Return two gates, the candidate, and the interpolation between it and the state."""
        chosen = self.select(GRUPolicy)
        product = Linear if chosen.bias_involved else Weight
        after = chosen.reset == "after"
        clauses: list[Clause] = []
        for gate in (*_GATES, "candidate"):
            clauses += [
                Sublayer(f"{gate}_input", product),
                Sublayer(f"{gate}_state", product),
                Sublayer(f"{gate}_sum", Add),
                Sublayer(gate, Tanh if gate == "candidate" else Sigmoid),
                InConnect("input", f"{gate}_input", "input"),
                InternalConnect(f"{gate}_input", "output", f"{gate}_sum", "left"),
                InternalConnect(f"{gate}_sum", "output", gate, "input"),
            ]
        for gate in _GATES:
            clauses += [
                InConnect("previous", f"{gate}_state", "input"),
                InternalConnect(f"{gate}_state", "output", f"{gate}_sum", "right"),
            ]
        clauses += [
            Sublayer("gated", Multiply),
            InternalConnect("reset", "output", "gated", "left"),
            Sublayer("blend", Interpolate),
            InternalConnect("candidate", "output", "blend", "first"),
            InConnect("previous", "blend", "second"),
            InternalConnect("update", "output", "blend", "weight"),
            OutConnect("blend", "output", "output"),
        ]
        if after:
            clauses += [
                InConnect("previous", "candidate_state", "input"),
                InternalConnect("candidate_state", "output", "gated", "right"),
                InternalConnect("gated", "output", "candidate_sum", "right"),
            ]
        else:
            clauses += [
                InConnect("previous", "gated", "right"),
                InternalConnect("gated", "output", "candidate_state", "input"),
                InternalConnect("candidate_state", "output", "candidate_sum", "right"),
            ]
        return Topology(*clauses)

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the numbers of features of the sublayers."""
        return {
            f"{gate}_{side}": {"in_features": features, "out_features": self.out_features}
            for gate in (*_GATES, "candidate")
            for side, features in (("input", self.in_features), ("state", self.out_features))
        }
