"""Algorithms: which of several ways to compute the same a kernel takes. The choice rests on shapes alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, record, recording_at
from explorer.ops.nn.conv import Conv2d
from explorer.ops.nn.conv_winograd import WinogradConv2d
from explorer.plan.graph.constancy import is_constant
from explorer.plan.graph.cost_model import kernel_cost
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph, flops_of

_TILES = 32
"""so many tiles share the transformed filters, or reading these costs more than the products saved"""
_CHANNELS = 32
"""with fewer, the products are too small beside the sums before and after them"""

_SAVED = 20 / 36
"""of the products"""


class Winograd:
    """A convolution with 3×3 filters is computed in tiles of 2×2 pixels: 16 products instead of 36."""


_RULE = Winograd()


@dataclass(frozen=True)
class Algorithms(Pass):
    """Compute convolutions with 3×3 filters by minimal filtering, where that takes less; the last bits differ.

    A NaN or ∞ among the pixels reaches every result of its tile, where the direct way spares those whose window lies
    beside it.
    """

    name = "algorithms"

    def has_work(self, graph: PlanGraph) -> bool:
        """Whether there are convolutions."""
        return any(isinstance(node.operation, Conv2d) for node in graph.live)

    def run(self, graph: PlanGraph) -> None:
        """One walk over the convolutions; those of one shape share a decision."""
        chosen: defaultdict[tuple[object, ...], list[Expr]] = defaultdict(list)
        for node in graph.live:
            operation = node.operation
            if type(operation) is Conv2d and self._fits(node, operation, graph):
                images, filters = graph.inputs[node.uid]
                chosen[operation, images.type, filters.type].append(node)
        for nodes in chosen.values():
            self._replace(nodes, graph)

    def _fits(self, node: Expr, operation: Conv2d, graph: PlanGraph) -> bool:
        images, filters = graph.inputs[node.uid]
        if filters.shape[2:] != (3, 3) or node.dtype.kind != "f" or not node.type.plain:
            return False
        better = WinogradConv2d(*operation.options)
        rule = better.unfit(images.shape, filters.shape)
        n, _, rows, across = node.shape
        tiles = n * -(-rows // 2) * -(-across // 2)
        saved = kernel_cost(node, (images, filters)) * _SAVED
        if rule:
            reason = "minimal filtering of tiles asks that {rule}"
            graph.decline(_RULE, "windows", reason, {"rule": rule}, node, estimated_cost_us=saved)
        elif min(filters.shape[:2]) < _CHANNELS:
            graph.decline(
                _RULE,
                "few_channels",
                "{count:channel}: fewer than {least} do not repay the sums before and after the products",
                {"count": min(filters.shape[:2]), "least": _CHANNELS},
                node,
                estimated_cost_us=0.0,
            )
        elif tiles < _TILES:
            graph.decline(
                _RULE,
                "few_tiles",
                "{count:tile} would share the transformed filters: below {least}, reading these costs more",
                {"count": tiles, "least": _TILES},
                node,
                estimated_cost_us=0.0,
            )
        elif not (graph.has_parameters and is_constant(filters, graph)):
            reason = "the filters would be transformed anew for each run"
            graph.decline(_RULE, "filters_vary", reason, {}, node, estimated_cost_us=saved)
        else:
            return True
        return False

    def _replace(self, nodes: list[Expr], graph: PlanGraph) -> None:
        first = nodes[0]
        images, filters = graph.inputs[first.uid]
        assert isinstance(first.operation, Conv2d)
        operation = WinogradConv2d(*first.operation.options)
        before = flops_of(first, (images, filters))
        made = []
        for node in nodes:
            with recording_at(node.scope, node.code, node.instruction):
                made.append(record(operation, graph.inputs[node.uid]))
        after = flops_of(made[0], (images, filters))
        decision = graph.decide(
            _RULE,
            "tiles",
            "{count:convolution} of 3×3 filters in tiles of 2×2 pixels: {saved_flops} of {direct_flops} each are saved",
            {"count": len(nodes), "saved_flops": before - after, "direct_flops": before},
            nodes,
            tuple(made),
        )
        for node, new in zip(nodes, made, strict=True):
            graph.add_nodes(decision, [new], node)
            graph.substitute(decision, node, new)
            if node.uid in graph.prepared:
                graph.prepared.add(new.uid)
