"""Fuse: an elementwise operation joins the kernel of its operands, so the values between them are not written to
memory.

One traversal decides which nodes form a kernel. plan/schedule/blocked_kernel.py decides, based only on shapes, how the
kernel runs block by block. A value with two readers is always the result of its kernel, even if both readers are in the
same kernel later. Groups are therefore trees, and no kernel can depend on itself through another kernel. Cheap values
are not recomputed in each reader's kernel, because the panel could then not assign each node to one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.types.device import cpu
from explorer.plan.graph.constancy import Prepared
from explorer.plan.graph.decisions import operations_label
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph, ReaderLists
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo, shortened
from explorer.plan.schedule.blocked_kernel import made_in_result, tiling_for
from explorer.plan.schedule.tiling import MOST_BLOCKS, PIXEL_BY_PIXEL, Tiling
from explorer.record.dimension_names import shape_text

_LOOP = "Fused operations run as one loop over small blocks: for i in blocks: y[i] = np.tanh(np.sin(x[i]))"
_FUSED = f"{_LOOP}. A block stays in the cache, so intermediate results are never written to memory."
_APART = f"{_LOOP}. Operations that are not fused write whole arrays to memory, where the next operation reads them."
_WHOLE_ROWS = "A reduction, such as a sum or a softmax, combines the elements of a row (or of the axes that it reduces)"
_UNFUSED = 'ex.EvalPlan(without=["fuse"]) runs every operation separately.'
_SAVED = "so {temporaries:intermediate result is|intermediate results are} never written to memory ({saved_bytes})"
_IN_PARTS = (
    f"`{{operations}}` are fused into one loop over {{blocks:block}}, {_SAVED}. Whole rows, whose elements `{{last}}` "
    "combines, do not fit into the cache, so blocks are parts of rows."
)
_ONE_PRODUCT = "and one loop can compute only one matrix product, convolution or pooling"


@dataclass(frozen=True)
class Fuse(Pass):
    """Compute several operations in one loop over blocks, so that intermediate results are never written to memory."""

    fused = Reason(
        "chain",
        "`{operations}` are fused into one loop, because their results have the same shape, and all except the last "
        f"are read only inside the loop, {_SAVED}.",
        meaning=_FUSED,
        change="Request one of these results, or read it in a second operation: it is then written to memory. "
        f"{_UNFUSED}",
    )
    fused_with_product = Reason(
        "epilogue",
        "`{operations}` are fused, because the operations after `{product}` can process each block of its result "
        f"while the block is still in the cache, {_SAVED}.",
        meaning=f"{_FUSED} Here the first operation is a matrix product, a convolution or a pooling operation.",
        change="Request one of these results, or read it in a second operation: it is then written to memory. "
        f"{_UNFUSED}",
    )
    finished_in_cache = Reason(
        "epilogue",
        "`{operations}` are fused, because the operations after `{product}` can process each block of its result "
        "while the block is still in the cache, so `{product}` is not read from memory again.",
        meaning=f"{_FUSED} The first operation writes into the memory of the final result, so no other memory is "
        "needed.",
        change="Request one of these results, or read it in a second operation: it is then written to memory. "
        f"{_UNFUSED}",
    )
    reduced_whole = Reason(
        "reduction",
        "`{operations}` are fused into one loop over {blocks:block of whole rows|blocks of whole rows}, because a "
        f"row, whose elements `{{last}}` combines, fits into the cache, {_SAVED}.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}, so each block holds whole rows.",
        change=_UNFUSED,
    )
    reduced_halved = Reason(
        "reduction",
        f"{_IN_PARTS} The partial sums are added in NumPy's order, so the result has the same bits as without fusion.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. Rows that are too long for the cache are divided at the same positions as "
        "in NumPy's summation.",
        change=_UNFUSED,
    )
    reduced_exact = Reason(
        "reduction",
        f"{_IN_PARTS} The order in which the parts are combined does not matter, because `{{last}}` returns one of the "
        "elements, without rounding.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. For example, the largest of the parts' largest elements is the largest of "
        "all.",
        change=_UNFUSED,
    )
    reduced_integers = Reason(
        "reduction",
        f"{_IN_PARTS} The order in which the parts are combined does not matter, because {{given}} numbers are not "
        "rounded.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. Only sums and products of floating-point numbers are rounded, differently "
        "for each order.",
        change=_UNFUSED,
    )
    reduced_joined = Reason(
        "reduction",
        f"{_IN_PARTS} NumPy divides rows at other positions, so the last digits may differ from those without fusion.",
        meaning=f"{_FUSED} {_WHOLE_ROWS}. A floating-point sum is rounded differently for each order of its terms.",
        change=f"For the same last digits as without fusion: {_UNFUSED}",
        numerics="reordering",
    )
    computed_once = Reason(
        "computed_once",
        "`{reader}` is not fused with `{operand}`, because `{operand}` depends only on weights and is computed once, "
        "before the first run, but `{reader}` is computed in every run.",
        meaning=f"Results that are the same in all runs are computed before the first run and kept. {_APART}",
        change='ex.EvalPlan(without=["constants"]) computes both in every run, and may then fuse them.',
    )
    asked_for = Reason(
        "asked_for",
        "`{operand}` is not fused with `{reader}`, which reads it, because `{operand}` is a result that the program "
        "requests: it is written to memory anyway, and `{reader}` reads it from there.",
        meaning=_APART,
        change="Do not register or return this value if only results computed from it are needed.",
    )
    other_consumers = Reason(
        "other_consumers",
        "`{operand}` is not fused with `{reader}`, which reads it, because {consumers} operations read it "
        "({readers}): it is computed once and written to memory, where each of them reads it.",
        meaning=f"{_APART} A value that several operations read is computed once, not once for each of them.",
        change="Remove the other readers, if they are not needed.",
    )
    shape = Reason(
        "shape",
        "`{reader}` is not fused with `{operand}`, because their results have different shapes, {after} and {before}, "
        "so their blocks do not match.",
        meaning=f"{_APART} The blocks of operations in one loop must have the same shape.",
        change="Broadcast before the operation instead of after it, as in ex.cos(ex.broadcast_to(x, shape)). Both "
        "results then have the same shape, but one has more elements than before.",
    )
    second_product = Reason(
        "second_product",
        "`{operand}` is not fused with `{reader}`, which reads it, because `{reader}` is already fused with "
        f"`{{first}}`, {_ONE_PRODUCT}.",
        meaning=f"{_APART} Products, convolutions and poolings are computed in blocks of different sizes and orders.",
    )
    from_second_product = Reason(
        "second_product",
        "`{operand}` is not fused with `{reader}`, which reads it, because `{operand}` is already fused with "
        f"`{{second}}` and `{{reader}}` with `{{first}}`, {_ONE_PRODUCT}.",
        meaning=f"{_APART} Products, convolutions and poolings are computed in blocks of different sizes and orders.",
    )
    view_between = Reason(
        "view",
        "`{reader}` is not fused with `{below}`, because `{reader}` reads the result of `{below}` in another order or "
        "shape, through the view `{operand}`, so their blocks do not match.",
        meaning=f"{_APART} A view is the same memory with another shape, order or step, so nothing is copied.",
        change="Apply the view before the first operation or after the second one, if the program allows it, as in "
        "ex.tanh(x.T) instead of ex.tanh(x).T.",
    )
    product = Reason(
        "product",
        "`{reader}` is not fused with `{operand}`, because `{operand}` is computed in the loop of `{product}`, whose "
        "blocks are smaller than rows, but `{reader}` needs whole rows.",
        meaning=f"{_APART} {_WHOLE_ROWS}.",
    )
    long_rows = Reason(
        "long_rows",
        "`{operation}` is not fused with `{operand}`, because `{operation}` needs whole rows, and one row of "
        "`{operand}` ({row_bytes}) does not fit into the cache.",
        meaning=f"{_APART} {_WHOLE_ROWS}. If a row does not fit into the cache, it goes through memory anyway, so "
        "fusing saves nothing.",
        change="Use shorter rows, or a narrower dtype such as float32.",
    )
    too_large = Reason(
        "too_large",
        "`{reader}` is not fused with `{operand}`, because the result of `{operand}` takes up {read_bytes}, and a "
        "fused loop runs over at most {limit:block}, each small enough for the cache.",
        meaning=f"{_APART} {_WHOLE_ROWS}.",
        change="Use fewer elements, or a narrower dtype such as float32.",
    )
    view_operand = Reason(
        "producer",
        "`{reader}` is not fused with `{producer}`, because `{producer}` is a view: it changes only the shape or "
        "the order of the elements, so there is no computation to fuse.",
        meaning=f"{_APART} A view is the same memory with another shape, order or step, so nothing is copied.",
        change="To fuse an operation with the one that computes x, apply the view last: ex.transpose(ex.tanh(x)) "
        "instead of ex.tanh(ex.transpose(x)).",
    )
    output_of_call = Reason(
        "producer",
        "`{reader}` is not fused with the operations in `{call}`, whose result it reads, because the call to `{call}` "
        "runs as one step, which writes its result to memory.",
        meaning=f"{_APART} A call that is not replaced by the operations of its body is planned separately.",
        change="Raise the limit up to which calls are replaced by their operations: "
        "ex.EvalPlan(inline=ex.passes.Inline(limit=…)).",
    )
    producer = Reason(
        "producer",
        "`{reader}` is not fused with `{producer}`, because `{producer}` is not elementwise: `{producer}` writes its "
        "whole result to memory before `{reader}` begins.",
        meaning=f"{_APART} An elementwise operation, such as np.add, computes each element from the elements at the "
        "same position, so a block of its result needs only a block of its operands.",
    )
    nothing_to_join = Reason(
        "nothing_to_join",
        "`{operation}` is not fused, because no operation comes before or after `{operation}`: `{operation}` reads "
        "only values that exist before the run, and its result is requested.",
        meaning=_APART,
    )
    reader = Reason(
        "reader",
        "`{operation}` is not fused with `{reader}`, which reads its result, because `{reader}` needs the whole "
        "result in memory when it begins, so the two cannot run block by block.",
        meaning=f"{_APART} Only elementwise operations and reductions can process their operands block by block. A "
        "reshape or a slice only refers to the memory of its operand.",
    )
    element_type = Reason(
        "element_type",
        "`{operation}` is not fused, because its elements ({type}) have a custom dtype, and only operations on "
        "NumPy's dtypes are fused.",
        meaning=_APART,
        change='Convert the operands to a NumPy dtype first: x.astype("float64").',
    )
    device = Reason(
        "device",
        "`{operation}` is not fused, because it runs on the device `{device}`, where only elementwise operations are "
        "fused.",
        meaning=f"{_APART} Products and reductions are divided into blocks that fit into the CPU's caches.",
        change='Compute on the CPU: x.to_device("cpu").',
    )

    name = "fuse"
    decides = "kernels"
    limits = (
        "a kernel fuses elementwise operations, with at most one product, convolution or pooling before them, or one "
        "reduction behind them"
    )
    epilogue = RuleInfo(
        "Epilogue", "An elementwise operation on a product runs while a block of the product is still in the cache."
    )
    chain = RuleInfo(
        "ElementwiseChain", "Elementwise operations of one shape run block by block, without temporaries between them."
    )
    prologue = RuleInfo(
        "Prologue", "Elementwise operations run block by block with the reduction that reads them, in the cache."
    )

    def run(self, graph: PlanGraph) -> None:
        """Extend groups from operands to readers.

        A node joins the group of an operand that has the same shape and no other reader. Nodes are visited in
        topological order, so the groups of a node's operands are known when it is visited. Every group is a tree with
        one result.
        """
        roots = {root.uid for root in graph.roots}
        available = graph.available_before_run()
        users, inputs, prepared = graph.users, graph.inputs, graph.notes(Prepared)
        groups: dict[int, FusionGroup] = {}
        """uid of a group's last member → the group; a reader of this member may join it"""
        larger: dict[int, FusionGroup] = {}
        """id of a group → the group, for groups of two or more nodes, in order of creation"""
        first = len(graph.decisions)
        all_plain = all(type_.plain for type_ in {node.type for node in graph.live})
        for node in graph.live:
            operation = node.operation
            if operation.view:
                continue
            uid = node.uid
            is_plain = all_plain or all(neighbour.type.plain for neighbour in (node, *inputs[uid]))
            if not is_plain and not (operation.elementwise and _is_on_device(node, graph)):
                self._decline_type(node, graph)
                continue
            if not operation.elementwise:
                if operation.is_tileable:
                    # A product starts a group, but never joins one. The product's own kernel computes tiles, and the
                    # operations after it use the same tiles.
                    groups[uid] = FusionGroup([node], product=node)
                elif operation.reduced_axes is not None:
                    self._join_reduction(node, groups, larger, roots, graph)
                continue
            operands = inputs[uid]
            base: FusionGroup | None = None
            for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                operand_uid = operand.uid
                other = groups.get(operand_uid)
                if other is None:
                    # A leaf cannot be fused, so no decision is needed.
                    if operand_uid not in available and (operand.operands or not operand.operation.view):
                        self._decline_producer(node, operand, graph)
                    continue
                # A kernel runs either once or in every run. If a constant were in the same kernel as its reader, it
                # would be computed in every run.
                if prepared and operand_uid in prepared and uid not in prepared:
                    facts = {"operand": operand, "reader": operation.label}
                    declined = graph.decline(self.chain, self.computed_once, facts, node)
                    declined.unfused_edges.append((operand, node))
                    continue
                # Fast path for the usual case: there is no other reader, the types are equal, and the node has not
                # joined a group yet.
                joins_directly = (
                    users[operand_uid] == 1 and base is None and operand.type is node.type and operand_uid not in roots
                )
                if joins_directly or self._joins(node, operand, base, other, roots, graph):
                    # Merge the groups of two operands. Neither group can depend on the other, because the result of
                    # each has only this reader.
                    base = other if base is None else merged(base, other, larger)
            # No operand has a group to join, so the node starts a group, which its reader may join.
            if base is None:
                groups[uid] = FusionGroup([node])
                continue
            groups[uid] = base
            base.members.append(node)
            if len(base.members) == 2:
                larger[id(base)] = base
        # These groups meet the conditions of a kernel, unless another pass has fused some of the nodes.
        fuse = graph.fuse if graph.fused else graph.join
        for group in larger.values():
            if group.tiling is not None:
                fuse(*record_reduction(self.prologue, group, group.tiling, graph))
            else:
                fuse(*record_elementwise(self.chain if group.product is None else self.epilogue, group, graph))
        self._decline_unfused([group.members[0] for group in groups.values() if len(group.members) == 1], graph)
        for decision in graph.decisions[first:] if prepared else ():
            # Operations that are computed once, before the first run, take no time in the runs.
            if not decision.applied and prepared.issuperset([node.uid for node in decision.subjects]):
                decision.estimated_cost_us = 0.0

    def _joins(
        self,
        node: Expr,
        operand: Expr,
        base: FusionGroup | None,
        group: FusionGroup,
        roots: set[int],
        graph: PlanGraph,
    ) -> bool:
        """Return whether an elementwise node joins ``group``, the group of ``operand``.

        If not, a declined decision is recorded. ``base`` is the group that the node has already joined because of
        earlier operands, or None.
        """
        facts: Facts = {"operand": operand, "reader": node.operation.label}
        remaining: Callable[[], Facts] | None = None
        # The first condition that applies is the reason. For example, a requested result is written to memory in any
        # case.
        if operand.uid in roots:
            reason = self.asked_for
        elif _has_other_readers(operand, node, graph):
            reason, remaining = self.other_consumers, partial(_facts_of_readers, operand, graph.reader_lists)
        elif operand.shape != node.shape:
            reason = self.shape
            facts = {"before": shape_text(operand.shape), "after": shape_text(node.shape)}
            facts |= {"operand": operand.operation.label, "reader": node.operation.label}
        elif base is not None and base.product is not None and group.product is not None:
            reason = self.second_product if operand is group.product else self.from_second_product
            facts |= {"first": base.product, "second": group.product}
        else:
            return True
        rule = self.chain if group.product is None else self.epilogue
        declined = graph.decline(rule, reason, facts, node, operand, remaining=remaining)
        declined.unfused_edges.append((operand, node))
        return False

    def _join_reduction(
        self,
        node: Expr,
        groups: dict[int, FusionGroup],
        larger: dict[int, FusionGroup],
        roots: set[int],
        graph: PlanGraph,
    ) -> None:
        """Make a reduction the last node of the groups of its operands, if its blocks fit into the cache.

        No node joins the group of a reduction, because in general its result is complete only after the last block.
        """
        inputs = graph.inputs
        base: FusionGroup | None = None
        tiling: Tiling | None = None
        for operand in dict.fromkeys(inputs[node.uid]):
            group = groups.get(operand.uid)
            if group is None:
                viewed = operand
                # If only views are between the reduction and operations that it could join, record a declined decision.
                while viewed.operation.view and viewed.operands:
                    viewed = inputs[viewed.uid][0]
                if viewed.operation.elementwise and viewed.uid in groups:
                    facts = {"operand": operand, "below": viewed, "reader": node.operation.label}
                    declined = graph.decline(self.prologue, self.view_between, facts, node, viewed)
                    declined.unfused_edges.append((viewed, node))
                continue
            members = group.members if base is None else [*base.members, *group.members]
            joint = self._tiling_with(node, operand, group, members, roots, graph)
            if joint is not None:
                base, tiling = group if base is None else merged(base, group, larger), joint
        if base is not None:
            base.members.append(node)
            base.tiling = tiling
            larger.setdefault(id(base), base)

    def _tiling_with(
        self, node: Expr, operand: Expr, group: FusionGroup, members: list[Expr], roots: set[int], graph: PlanGraph
    ) -> Tiling | None:
        """Return the tiling of a reduction fused with ``members``, or None if there is none.

        If the fusion is declined, records the reason.
        """
        operation = node.operation
        facts: Facts = {"operand": operand, "reader": operation.label}
        prepared = graph.notes(Prepared)
        if operand.uid in prepared and node.uid not in prepared:
            reason = self.computed_once
        elif operand.uid in roots:
            reason = self.asked_for
        elif _has_other_readers(operand, node, graph):
            reason, facts = self.other_consumers, {**facts, **_facts_of_readers(operand, graph.reader_lists)}
        elif group.product is not None:
            reason, facts = self.product, {**facts, "product": group.product}
        else:
            tiling = tiling_for([*members, node], lambda member: graph.inputs[member.uid])
            if tiling is not None:
                return tiling
            # If partial results cannot be combined, each row must fit into a block. If they can, only the number of
            # parts is limited.
            if operation.combine_ufunc is None:
                row = math.prod([operand.shape[axis] for axis in operation.reduced_axes or ()]) * operand.dtype.itemsize
                reason = self.long_rows
                facts = {"operand": operand, "row_bytes": row, "operation": operation.label}
            else:
                reason, facts = self.too_large, {**facts, "read_bytes": operand.type.nbytes, "limit": MOST_BLOCKS}
        graph.decline(self.prologue, reason, facts, node, operand).unfused_edges.append((operand, node))
        return None

    def _decline_producer(self, node: Expr, operand: Expr, graph: PlanGraph) -> None:
        """Record a declined decision for an operand whose operation is never fused with its readers."""
        reason = self.view_operand if operand.operation.view else self.producer
        operation = operand.operation
        if operand.type.device is not cpu and (operation.is_tileable or operation.reduced_axes is not None):
            return  # there is another decision about this operand
        facts = {"producer": operation.label, "reader": node.operation.label}
        if isinstance(operand.operation, Item):
            reason, facts["call"] = self.output_of_call, graph.inputs[operand.uid][0].operation.label
        graph.decline(self.chain, reason, facts, node).unfused_edges.append((operand, node))

    def _decline_unfused(self, nodes: list[Expr], graph: PlanGraph) -> None:
        """Record declined decisions for elementwise operations that joined no kernel and have no decision yet."""
        elementwise = [node for node in nodes if node.operation.elementwise]
        if not elementwise:
            return
        rules = {self.epilogue.name, self.chain.name, self.prologue.name}
        decisions = [each for each in graph.decisions if each.info.name in rules]
        explained = {node.uid for decision in decisions for node in decision.subjects}
        for node in elementwise:
            if node.uid in explained:
                continue
            facts: Facts = {"operation": node.operation.label}
            readers = graph.readers(node)
            if readers:
                facts["reader"] = readers[0].operation.label
                graph.decline(self.chain, self.reader, facts, node).unfused_edges.append((node, readers[0]))
            else:
                graph.decline(self.chain, self.nothing_to_join, facts, node, estimated_cost_us=0.0)

    def _decline_type(self, node: Expr, graph: PlanGraph) -> None:
        operation = node.operation
        if not (operation.elementwise or operation.is_tileable or operation.reduced_axes is not None):
            return
        types = [neighbour.type for neighbour in (node, *graph.inputs[node.uid])]
        type_ = next(type_ for type_ in types if not type_.plain)
        if type_.device is cpu:
            graph.decline(self.chain, self.element_type, {"operation": operation.label, "type": repr(type_)}, node)
        else:
            facts: Facts = {"operation": operation.label, "device": type_.device.name}
            graph.decline(self.chain, self.device, facts, node)


def _has_other_readers(operand: Expr, node: Expr, graph: PlanGraph) -> bool:
    """Return whether nodes other than ``node`` read ``operand``; ``node`` itself may read it more than once."""
    others = graph.users[operand.uid]
    if others > 1:
        for read in graph.inputs[node.uid]:
            if read is operand:
                others -= 1
        return others > 0
    return False


def _facts_of_readers(value: Expr, lists: ReaderLists) -> Facts:
    """Return facts about the readers of ``value``: how many there are, and the names of the first ones."""
    readers = lists.of(value)
    return {"consumers": len(readers), "readers": shortened([node.operation.label for node in readers])}


def _is_on_device(node: Expr, graph: PlanGraph) -> bool:
    """Return whether a node and its operands have NumPy dtypes and are on the same device, other than cpu."""
    device = node.type.device
    types = [node.type, *[operand.type for operand in graph.inputs[node.uid]]]
    return device is not cpu and all(type_.numeric and type_.device is device for type_ in types)


_ORDERLESS = "bui"
"""kinds of dtypes whose sums and products are the same in any order"""


class FusionGroup:
    """Nodes of one kernel, in topological order, while the group is being extended."""

    __slots__ = ("members", "product", "tiling")

    def __init__(self, members: list[Expr], product: Expr | None = None) -> None:
        self.members = members
        self.product = product
        """the member that is computed tile by tile: a matrix product, a convolution or a pooling"""
        self.tiling: Tiling | None = None
        """tiling of the final reduction, if there is one"""


def merged(a: FusionGroup, b: FusionGroup, larger: dict[int, FusionGroup]) -> FusionGroup:
    """Merge the shorter of two independent groups into the longer one; return the longer one.

    If many short groups are merged into a long chain, the time is therefore proportional to the lengths of the short
    groups.
    """
    longer, shorter = (a, b) if len(a.members) >= len(b.members) else (b, a)
    longer.members.extend(shorter.members)
    if longer.product is None:
        longer.product = shorter.product
    larger.pop(id(shorter), None)
    larger.setdefault(id(longer), longer)
    return longer


def record_elementwise(rule: RuleInfo, group: FusionGroup, graph: PlanGraph) -> tuple[int, list[Expr]]:
    """Record the decision that elementwise operations, and the product before them if there is one, are one kernel.

    Returns the decision and the nodes of the kernel.
    """
    members = group.members
    unwritten = members[:-1]
    reason = Fuse.fused
    product = group.product
    if product is not None:
        # The product runs first, even if other nodes joined the group before it.
        if members[0] is not product:
            members = [product, *[node for node in members if node is not product]]
        is_made_whole = not made_in_result(product, members[-1], graph.inputs[members[-1].uid])
        unwritten = members[is_made_whole:-1]
        reason = Fuse.fused_with_product if unwritten else Fuse.finished_in_cache
    remaining = partial(_facts_of_chain, members, unwritten, product)
    return graph.decide(rule, reason, {}, members, remaining=remaining), members


def _facts_of_chain(members: list[Expr], unwritten: list[Expr], product: Expr | None) -> Facts:
    facts: Facts = {
        "operations": operations_label(members).replace(" · ", " → "),
        "count": len(members),
        "shape": shape_text(members[-1].shape),
        "temporaries": len(unwritten),
        "saved_bytes": sum([node.type.nbytes for node in unwritten]),
    }
    if product is not None:
        facts["product"] = product.operation.label
    return facts


def record_reduction(rule: RuleInfo, group: FusionGroup, tiling: Tiling, graph: PlanGraph) -> tuple[int, list[Expr]]:
    """Record the decision that a reduction and its inputs are one kernel, and whether the result has the same bits.

    Returns the decision and the nodes of the kernel.
    """
    members, last, in_parts = group.members, group.members[-1], tiling.in_parts
    keeps_bits = tiling.blocks == 1 or _keeps_bits(members, tiling)
    reason = Fuse.reduced_whole
    if in_parts:
        if last.operation.idempotent:
            reason = Fuse.reduced_exact
        elif last.dtype.kind in _ORDERLESS:
            reason = Fuse.reduced_integers
        else:
            reason = Fuse.reduced_halved if keeps_bits else Fuse.reduced_joined
    facts = {
        "operations": operations_label(members).replace(" · ", " → "),
        "last": last.operation.label,
        "given": str(last.dtype),
        "count": len(members),
        "shape": shape_text(tiling.shape),
        "temporaries": len(members) - 1,
        "saved_bytes": sum([node.type.nbytes for node in members[:-1]]),
        "blocks": tiling.blocks,
        "parts": in_parts,
        "same_bits": keeps_bits,
    }
    return graph.decide(rule, reason, facts, members), members


def _keeps_bits(members: list[Expr], tiling: Tiling) -> bool:
    """Return whether a fused reduction gives the same bits as a separate reduction, in every memory format.

    A float sum in parts does, if rows are halved at the same positions as in NumPy's pairwise summation. This requires
    np.add without a change of dtype. The memory format is chosen later, so the tilings for both formats must keep the
    bits.
    """
    operand, last = members[-2], members[-1]
    if last.dtype.kind in _ORDERLESS or last.operation.idempotent:
        return True
    is_pairwise = (
        last.operation.combine_ufunc is np.add
        and operand.dtype == last.dtype
        and last.dtype in (np.float32, np.float64)
    )
    tilings = [tiling]
    if len(tiling.shape) == 4:
        tilings.append(tiling.laid(PIXEL_BY_PIXEL, last.operation.combine_ufunc is not None))
    return all(not reordered.in_parts or (reordered.halvings > 0 and is_pairwise) for reordered in tilings)
