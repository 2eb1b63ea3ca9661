"""Algorithms: chooses between equivalent algorithms for a kernel, based only on shapes.

There are two algorithms for convolutions with 3×3 filters: direct convolution (windows times filters), and Winograd's
minimal filtering F(2×2, 3×3) (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015). If the choice
depended on measured times, the last digits would differ between machines. It therefore depends on fixed thresholds for
the numbers of tiles and channels.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.recording_context import recording_at
from explorer.ops.nn.conv import Conv2d
from explorer.ops.nn.conv_winograd import WinogradConv2d
from explorer.plan.graph.constancy import Prepared, is_constant
from explorer.plan.graph.cost_model import flops_of, kernel_cost
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo
from explorer.record.dimension_names import shape_text

_TILES = 32
"""minimum number of tiles for Winograd; with fewer tiles, reading the transformed filters, which are 16/9 as large as
the filters, takes longer than the saved multiplications"""
_CHANNELS = 32
"""minimum number of channels for Winograd; with fewer channels, the additions of the transforms take too long compared
with the products"""

_SAVED = 20 / 36
"""fraction of the multiplications that is saved: 16 instead of 36 for a tile of 2×2 pixels"""

_METHOD = (
    "Winograd's method computes 2×2 pixels of the result at a time, with 16 multiplications for each pair of channels "
    "instead of 36, but with more additions."
)


@dataclass(frozen=True)
class Algorithms(Pass):
    """Compute 3×3 convolutions with fewer multiplications (Winograd) if that is faster; the last bits may differ.

    A NaN or ∞ among the pixels affects every result of its tile. With the direct algorithm, it affects only the results
    whose windows contain it.
    """

    name, numerics = "algorithms", "reassociating"
    rule = RuleInfo("Winograd", "A 3×3 convolution is computed in tiles of 2×2 pixels, with 16 products instead of 36.")
    tiles = Reason(
        "tiles",
        "{count:convolution with 3×3 filters is|convolutions with 3×3 filters are} computed by Winograd's method, "
        "because it needs fewer multiplications: this saves {saved_flops} of {direct_flops} in total.",
        meaning=f"{_METHOD}",
        change='ex.EvalPlan(without=["algorithms"]) computes convolutions directly.',
    )
    windows = Reason(
        "windows",
        "`conv2d` is computed directly, because the stride is {stride}. Winograd's method, which would be faster, "
        "requires stride 1.",
        meaning=f"{_METHOD} The stride is the number of pixels by which filters move.",
        change="Use strides=1, if the model allows it.",
    )
    dilated = Reason(
        "windows",
        "`conv2d` is computed directly, because the dilation is {dilation}. Winograd's method, which would be faster, "
        "requires dilation 1.",
        meaning=f"{_METHOD} The dilation is the distance between the pixels that neighbouring elements of a filter "
        "read.",
        change="Use dilation=1, if the model allows it.",
    )
    grouped = Reason(
        "windows",
        "`conv2d` is computed directly, because the channels are divided into {groups} groups. Winograd's method, "
        "which would be faster, requires filters that read all channels.",
        meaning=_METHOD,
        change="Use groups=1, if the model allows it.",
    )
    few_channels = Reason(
        "few_channels",
        "`conv2d` is computed directly, because the {values} have only {count:channel}. Winograd's method is faster "
        "only with {least} channels or more.",
        meaning=f"{_METHOD} With few channels, the additions take longer than the saved multiplications.",
        change="Use 32 channels or more.",
    )
    few_tiles = Reason(
        "few_tiles",
        "`conv2d` is computed directly, because the result has only {count:tile} of 2×2 pixels. Winograd's method is "
        "faster only with {least} tiles or more.",
        meaning=f"{_METHOD} All tiles use the same transformed filters. With few tiles, reading these filters takes "
        "longer than the saved multiplications.",
        change="Use larger images, or more images at a time.",
    )
    changes_rounding = Reason(
        "changes_rounding",
        "`conv2d` is computed directly, because in Winograd's method, one large number reduces the precision of a "
        'whole tile of 16 pixels. numerics="fast" permits this method and saves an estimated {saved_us}.',
        meaning=f"{_METHOD} The 16 pixels that a tile reads are added and subtracted before they are multiplied. The "
        "plan of a net uses Winograd's method by default, as inference engines do.",
        change='Use ex.EvalPlan(numerics="fast") if a lower precision does not matter.',
    )
    filters_vary = Reason(
        "filters_vary",
        "`conv2d` is computed directly, because its filters may change between runs: Winograd's method is faster only "
        "if the filters are transformed once for all runs.",
        meaning=f"{_METHOD} Filters are transformed only once if they are weights of a program that receives its "
        "inputs at each run.",
        change="Let the program hold the filters as weights, and pass only the images at each run (ex.function, or a "
        "net).",
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether there are convolutions."""
        return graph.has(Conv2d)

    def run(self, graph: PlanGraph) -> None:
        """Replace the convolutions for which Winograd is faster; convolutions of the same shape share one decision."""
        alike_convolutions: defaultdict[tuple[object, ...], list[Expr]] = defaultdict(list)
        for node in graph.live:
            operation = node.operation
            # Compare the class itself, because WinogradConv2d and user-defined convolutions are subclasses with their
            # own kernels.
            if type(operation) is Conv2d and self._fits(node, operation, graph):
                images, filters = graph.inputs[node.uid]
                alike_convolutions[operation, images.type, filters.type].append(node)
        for nodes in alike_convolutions.values():
            self._replace(nodes, graph)

    def _fits(self, node: Expr, operation: Conv2d, graph: PlanGraph) -> bool:
        """Return whether Winograd is faster for a convolution; record why not if it is possible but slower."""
        images, filters = graph.inputs[node.uid]
        if filters.shape[2:] != (3, 3) or node.dtype.kind != "f" or not node.type.plain:
            return False
        winograd = WinogradConv2d(*operation.options)
        facts: Facts
        rule = winograd.unfit(images.shape, filters.shape)
        n, _, rows, columns = node.shape
        # Round up, because for odd sizes tiles extend beyond the edge and cost as much as whole tiles.
        tiles = n * -(-rows // 2) * -(-columns // 2)
        saved = kernel_cost(node, (images, filters)) * _SAVED
        if rule:
            reason, facts = self.grouped, {"rule": rule, "groups": operation.groups}
            if operation.strides != (1, 1):
                reason, facts = self.windows, {"rule": rule, "stride": shape_text(operation.strides)}
            elif operation.dilation != (1, 1):
                reason, facts = self.dilated, {"rule": rule, "dilation": shape_text(operation.dilation)}
            graph.decline(self.rule, reason, facts, node, estimated_cost_us=saved)
        elif min(filters.shape[:2]) < _CHANNELS:
            results, images_read = filters.shape[:2]
            facts = {
                "count": min(results, images_read),
                "least": _CHANNELS,
                "values": "images" if images_read <= results else "results",
            }
            # The direct algorithm is faster here, so declining costs nothing.
            graph.decline(self.rule, self.few_channels, facts, node, estimated_cost_us=0.0)
        elif tiles < _TILES:
            facts = {"count": tiles, "least": _TILES}
            graph.decline(self.rule, self.few_tiles, facts, node, estimated_cost_us=0.0)
        elif not (graph.has_parameters and is_constant(filters, graph)):
            graph.decline(self.rule, self.filters_vary, {}, node, estimated_cost_us=saved)
        elif graph.numerics == "safe" and not graph.inference:
            facts = {"saved_us": round(saved, 2)}
            graph.decline(self.rule, self.changes_rounding, facts, node, estimated_cost_us=saved)
        else:
            return True
        return False

    def _replace(self, nodes: list[Expr], graph: PlanGraph) -> None:
        """Replace the operation of convolutions that have the same shapes and options."""
        first = nodes[0]
        images, filters = graph.inputs[first.uid]
        assert isinstance(first.operation, Conv2d)
        operation = WinogradConv2d(*first.operation.options)
        before = len(nodes) * flops_of(first, (images, filters))
        replacements = []
        for node in nodes:
            with recording_at(node.scope, node.code, node.instruction):
                replacements.append(record(operation, graph.inputs[node.uid]))
        after = len(nodes) * flops_of(replacements[0], (images, filters))
        decision = graph.decide(
            self.rule,
            self.tiles,
            {"count": len(nodes), "saved_flops": before - after, "direct_flops": before},
            nodes,
            tuple(replacements),
        )
        for node, new in zip(nodes, replacements, strict=True):
            graph.add_nodes(decision, [new], node)
            graph.substitute(decision, node, new)
            # The pass `Constants` has already run, so mark new nodes like the nodes that they replace.
            if node.uid in graph.notes(Prepared):
                graph.notes(Prepared).add(new.uid)
