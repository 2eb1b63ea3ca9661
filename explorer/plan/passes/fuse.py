"""Fuse: elementwise operations join the kernel of what they read, so that no temporary is written between them.

One walk decides which nodes share a kernel; plan/schedule/blocked_kernel.py decides, by shapes alone, how the kernel
runs block by block. A value that two operations read ends its kernel, even where both are in one kernel later. So
groups are trees, and no kernel can come to wait for itself by way of another one. Computing a cheap value again in the
kernel of each reader would save its way through memory, but a plan would then hold operations that the program does
not, and the panel could not show one node in one kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.types.device import cpu
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, RuleInfo, shortened
from explorer.plan.passes.fuse_groups import FusionGroup, merged, record_elementwise, record_reduction
from explorer.plan.passes.fuse_reasons import FuseReasons
from explorer.plan.schedule.blocked_kernel import tiling_for
from explorer.plan.schedule.tiling import MOST_BLOCKS, Tiling
from explorer.record.dimension_names import shape_text


@dataclass(frozen=True)
class Fuse(FuseReasons, Pass):
    """Compute several operations in one loop over blocks, so that results between them are never written."""

    name = "fuse"
    epilogue = RuleInfo(
        "Epilogue", "An elementwise operation on a product runs while a block of the product is still in the cache."
    )
    chain = RuleInfo(
        "ElementwiseChain", "Elementwise operations of one shape run block by block, without temporaries between them."
    )
    prologue = RuleInfo(
        "Prologue", "Elementwise operations run block by block into the reduction that reads them, in the cache."
    )

    def run(self, graph: PlanGraph) -> None:
        """Grow groups from the operands up; an operand joins when nobody else reads it and the shape stays.

        Nodes are visited operands first, so that a node finds the finished groups of its operands, and every group
        stays a tree that ends in one result.
        """
        roots = {root.uid for root in graph.roots}
        available = graph.available_before_run()
        users, inputs, prepared = graph.users, graph.inputs, graph.prepared
        groups: dict[int, FusionGroup] = {}
        """uid of a group's last member → the group, which the next operation may join"""
        larger: dict[int, FusionGroup] = {}
        """groups of two or more by identity, in the order in which they began"""
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
                    # A product begins a group, and never joins one: its tiles are cut by its own kernel, and what
                    # follows is cut alike.
                    groups[uid] = FusionGroup([node], product=node)
                elif operation.reduced_axes is not None:
                    self._join_reduction(node, groups, larger, roots, graph)
                continue
            operands = inputs[uid]
            base: FusionGroup | None = None
            for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                source = operand.uid
                other = groups.get(source)
                if other is None:
                    # A leaf is no operation that could have been fused: not worth a decision.
                    if source not in available and (operand.operands or not operand.operation.view):
                        self._decline_producer(node, operand, graph)
                    continue
                # A kernel runs either once or in every run. In one kernel with its reader, a constant would be computed
                # each time.
                if source in prepared and uid not in prepared:
                    facts = {"operand": operand, "reader": operation.label}
                    graph.decline(self.chain, self.computed_once, facts, node, unfused_operand=operand)
                    continue
                # The usual case without a call: no other reader, one type, and no earlier operand has a group.
                alone = users[source] == 1 and operand.type is node.type and source not in roots and base is None
                if alone or self._joins(node, operand, base, other, roots, graph):
                    # Two operands with groups of their own become one: neither can depend on the other, since each has
                    # this reader alone.
                    base = other if base is None else merged(base, other, larger)
            # No operand has a group to join, so the node begins one, which its reader may join.
            if base is None:
                groups[uid] = FusionGroup([node])
                continue
            groups[uid] = base
            base.members.append(node)
            if len(base.members) == 2:
                larger[id(base)] = base
        for group in larger.values():
            if group.tiling is not None:
                record_reduction(self.prologue, group, group.tiling, graph)
            else:
                record_elementwise(self.chain if group.product is None else self.epilogue, group, graph)
        self._decline_lonely([group.members[0] for group in groups.values() if len(group.members) == 1], graph)

    def _joins(
        self,
        node: Expr,
        operand: Expr,
        base: FusionGroup | None,
        other: FusionGroup,
        roots: set[int],
        graph: PlanGraph,
    ) -> bool:
        """Whether an elementwise node joins the group ``other`` of an operand; if not, decline with the reason.

        ``base`` is the group of earlier operands, which the node has joined already.
        """
        facts: Facts = {"operand": operand, "reader": node.operation.label}
        # The first fact that holds is the reason: a result that is asked for is written to memory whatever else holds.
        if operand.uid in roots:
            reason = self.asked_for
        elif _has_other_readers(operand, node, graph):
            reason, facts = self.other_consumers, {**facts, **_readers_of(operand, graph)}
        elif operand.shape != node.shape:
            reason = self.shape
            facts = {"before": shape_text(operand.shape), "after": shape_text(node.shape)}
            facts |= {"operand": operand.operation.label, "reader": node.operation.label}
        elif base is not None and base.product is not None and other.product is not None:
            reason = self.second_product if operand is other.product else self.from_second_product
            facts |= {"first": base.product, "second": other.product}
        else:
            return True
        rule = self.chain if other.product is None else self.epilogue
        graph.decline(rule, reason, facts, node, unfused_operand=operand, also_subject=True)
        return False

    def _join_reduction(
        self,
        node: Expr,
        groups: dict[int, FusionGroup],
        larger: dict[int, FusionGroup],
        roots: set[int],
        graph: PlanGraph,
    ) -> None:
        """Let a reduction end the groups of its operands, if its blocks fit into the cache.

        Its result enters no group: in general it is complete only when the last block has run.
        """
        inputs = graph.inputs
        base: FusionGroup | None = None
        tiling: Tiling | None = None
        for operand in dict.fromkeys(inputs[node.uid]):
            group = groups.get(operand.uid)
            if group is None:
                below = operand
                # Decline where a view alone keeps the reduction from operations that it could have joined.
                # Views are looked through: the reader could have joined the operation that computed the viewed value.
                while below.operation.view and below.operands:
                    below = inputs[below.uid][0]
                if below.operation.elementwise and below.uid in groups:
                    facts = {"operand": operand, "below": below, "reader": node.operation.label}
                    graph.decline(
                        self.prologue, self.view_between, facts, node, unfused_operand=below, also_subject=True
                    )
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
        """Return the tiling of a reduction in whose kernel the ``members`` run; decline, and return None, without."""
        operation = node.operation
        facts: Facts = {"operand": operand, "reader": operation.label}
        if operand.uid in graph.prepared and node.uid not in graph.prepared:
            reason = self.computed_once
        elif operand.uid in roots:
            reason = self.asked_for
        elif _has_other_readers(operand, node, graph):
            reason, facts = self.other_consumers, {**facts, **_readers_of(operand, graph)}
        elif group.product is not None:
            reason, facts = self.product, {**facts, "product": group.product}
        else:
            tiling = tiling_for([*members, node], lambda member: graph.inputs[member.uid])
            if tiling is not None:
                return tiling
            # Without a way to combine parts, each row must fit into a block; with one, only their number is limited.
            if operation.combine_ufunc is None:
                row = math.prod([operand.shape[axis] for axis in operation.reduced_axes or ()]) * operand.dtype.itemsize
                reason = self.long_rows
                facts = {"operand": operand, "row_bytes": row, "operation": operation.label}
            else:
                reason, facts = self.too_large, {**facts, "read_bytes": operand.type.nbytes, "limit": MOST_BLOCKS}
        graph.decline(self.prologue, reason, facts, node, unfused_operand=operand, also_subject=True)
        return None

    def _decline_producer(self, node: Expr, operand: Expr, graph: PlanGraph) -> None:
        """Decline to fuse a node with an operand whose operation is never fused with its readers."""
        reason = self.view_operand if operand.operation.view else self.producer
        operation = operand.operation
        if operand.type.device is not cpu and (operation.is_tileable or operation.reduced_axes is not None):
            return  # which has its own decision
        facts = {"producer": operation.label, "reader": node.operation.label}
        if isinstance(operand.operation, Item):
            reason, facts["call"] = self.output_of_call, graph.inputs[operand.uid][0].operation.label
        graph.decline(self.chain, reason, facts, node, unfused_operand=operand)

    def _decline_lonely(self, nodes: list[Expr], graph: PlanGraph) -> None:
        """Decline elementwise operations that joined no kernel, and that no decision was about so far."""
        rules = {self.epilogue.name, self.chain.name, self.prologue.name}
        explained = {node.uid for decision in graph.decisions for node in decision.subjects if decision.rule in rules}
        lonely = [node for node in nodes if node.operation.elementwise and node.uid not in explained]
        for node in lonely:
            facts: Facts = {"operation": node.operation.label}
            readers = graph.readers(node)
            if readers:
                facts["reader"] = readers[0].operation.label
                graph.decline(self.chain, self.reader, facts, node, unfused_reader=readers[0])
            else:
                graph.decline(self.chain, self.nothing_to_join, facts, node, estimated_cost_us=0.0)

    def _decline_type(self, node: Expr, graph: PlanGraph) -> None:
        """Decline a node whose type, or an operand's, is of elements that no fused kernel knows.

        On other devices than cpu, products and reductions are fused with nothing.
        """
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
    """Whether an operand is read by more operations than the node, which may read it more than once."""
    places = graph.users[operand.uid]
    return places > 1 and places > sum([other is operand for other in graph.inputs[node.uid]])


def _readers_of(operand: Expr, graph: PlanGraph) -> Facts:
    """Return the facts of a value that several operations read: how many there are, and the first of them by name."""
    readers = [node.operation.label for node in graph.readers(operand)]
    return {"consumers": len(readers), "readers": shortened(readers)}


def _is_on_device(node: Expr, graph: PlanGraph) -> bool:
    """Whether a node and its operands are NumPy's numbers on one device other than cpu."""
    device = node.type.device
    types = [node.type, *[operand.type for operand in graph.inputs[node.uid]]]
    return device is not cpu and all(type_.numeric and type_.device is device for type_ in types)
