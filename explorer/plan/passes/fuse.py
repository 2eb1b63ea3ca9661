"""Fuse: elementwise operations join the kernel of what they read, so that no temporary is written between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.types.device import cpu
from explorer.plan.graph.cost_model import split_cost
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, RuleInfo
from explorer.plan.passes.fuse_reasons import FuseReasons
from explorer.plan.schedule.blocked_kernel import made_in_result, tiling_for
from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL, Tiling


class _Group:
    """Nodes of one kernel, operands first; ``product`` is the one that is made in pieces, if there is one.

    ``tiling`` tells how the reduction at its end, if there is one, is cut.
    """

    __slots__ = ("members", "product", "tiling")

    def __init__(self, members: list[Expr], product: Expr | None = None) -> None:
        self.members, self.product = members, product
        self.tiling: Tiling | None = None


_ORDERLESS = "bui"
"""kinds of dtypes whose sums and products are the same in any order"""


@dataclass(frozen=True)
class Fuse(FuseReasons, Pass):
    """Compute elementwise operations in one kernel with each other, with a product or with a reduction."""

    name = "fuse"
    epilogue = RuleInfo(
        "Epilogue", "An elementwise operation on a product runs while a piece of the product is still in the cache."
    )
    chain = RuleInfo(
        "ElementwiseChain", "Elementwise operations of one shape run piece by piece, without temporaries between them."
    )
    prologue = RuleInfo(
        "Prologue", "Elementwise operations run piece by piece into the reduction that reads them, in the cache."
    )

    def run(self, graph: PlanGraph) -> None:
        """Grow groups from the operands up; an operand joins when nobody else reads it and the shape stays."""
        roots = {root.uid for root in graph.roots}
        there = graph.available_before_run()
        users, inputs, prepared = graph.users, graph.inputs, graph.prepared
        groups: dict[int, _Group] = {}
        """uid of a group's last member → the group, which the next operation may join"""
        several: dict[int, _Group] = {}
        """groups of two or more by identity, in the order in which they began"""
        plain = all(type_.plain for type_ in {node.type for node in graph.live})
        for node in graph.live:
            operation = node.operation
            if operation.view:
                continue
            uid = node.uid
            if not plain and not all(each.type.plain for each in (node, *inputs[uid])):
                if operation.elementwise:
                    self._keep_whole(node, graph)
                continue
            if not operation.elementwise:
                if operation.is_tileable:
                    groups[uid] = _Group([node], product=node)
                elif operation.reduced_axes is not None:
                    self._reduce(node, groups, several, roots, graph)
                continue
            operands = inputs[uid]
            base: _Group | None = None
            for operand in operands if len(operands) < 2 else dict.fromkeys(operands):
                source = operand.uid
                other = groups.get(source)
                if other is None:
                    if source not in there and (operand.operands or not operand.operation.view):
                        self._explain_producer(node, operand, graph)
                    continue
                if source in prepared and uid not in prepared:
                    facts = {"operand": operand, "reader": operation.label}
                    graph.decline(self.chain, self.computed_once, facts, node, unfused_operand=operand)
                    continue
                alone = users[source] == 1 and operand.type is node.type and source not in roots and base is None
                if alone or self._joins(node, operand, base, other, roots, graph):
                    base = other if base is None else _merged(base, other, several)
            if base is None:
                groups[uid] = _Group([node])
                continue
            groups[uid] = base
            base.members.append(node)
            if len(base.members) == 2:
                several[id(base)] = base
        for group in several.values():
            self._record_group(group, graph)
        self._record_unfused([group.members[0] for group in groups.values() if len(group.members) == 1], graph)

    def _joins(
        self, node: Expr, operand: Expr, base: _Group | None, other: _Group, roots: set[int], graph: PlanGraph
    ) -> bool:
        consumers = graph.users[operand.uid]
        facts: Facts = {"operand": operand}
        if operand.uid in roots:
            reason = self.asked_for
        elif consumers > 1 and consumers > sum([o is operand for o in graph.inputs[node.uid]]):
            reason, facts = self.other_consumers, {"operand": operand, "consumers": consumers}
        elif operand.shape != node.shape:
            reason = self.shape
            facts = {"before": _shape(operand), "after": _shape(node)}
            facts |= {"operand": operand.operation.label, "reader": node.operation.label}
        elif base is not None and base.product is not None and other.product is not None:
            reason = self.second_product if operand is other.product else self.from_second_product
            facts = {"operand": operand, "first": base.product, "second": other.product}
        else:
            return True
        rule = self.chain if other.product is None else self.epilogue
        graph.decline(rule, reason, facts, node, unfused_operand=operand, also_subject=True)
        return False

    def _reduce(
        self, node: Expr, groups: dict[int, _Group], several: dict[int, _Group], roots: set[int], graph: PlanGraph
    ) -> None:
        """A reduction takes in what only it reads: its kernel is cut so that rows stay whole, or their parts join."""
        inputs = graph.inputs
        base: _Group | None = None
        cut: Tiling | None = None
        for operand in dict.fromkeys(inputs[node.uid]):
            group = groups.get(operand.uid)
            if group is None:
                below = operand
                while below.operation.view and below.operands:
                    below = inputs[below.uid][0]
                if below.operation.elementwise and below.uid in groups:
                    facts = {"operand": operand, "below": below, "reader": node.operation.label}
                    graph.decline(
                        self.prologue, self.view_between, facts, node, unfused_operand=below, also_subject=True
                    )
                continue
            members = group.members if base is None else [*base.members, *group.members]
            found = self._cut_with(node, operand, group, members, roots, graph)
            if found is not None:
                base, cut = group if base is None else _merged(base, group, several), found
        if base is not None:
            base.members.append(node)
            base.tiling = cut
            several.setdefault(id(base), base)

    def _cut_with(
        self, node: Expr, operand: Expr, group: _Group, members: list[Expr], roots: set[int], graph: PlanGraph
    ) -> Tiling | None:
        """How a reduction is cut in whose kernel the ``members`` run; None, with the reason told, where they do not."""
        operation = node.operation
        facts: Facts = {"operand": operand}
        consumers = graph.users[operand.uid]
        if operand.uid in graph.prepared and node.uid not in graph.prepared:
            reason, facts = self.computed_once, {"operand": operand, "reader": operation.label}
        elif operand.uid in roots:
            reason = self.asked_for
        elif consumers > 1 and consumers > sum([o is operand for o in graph.inputs[node.uid]]):
            reason, facts = self.other_consumers, {"operand": operand, "consumers": consumers}
        elif group.product is not None:
            reason, facts = self.product, {"operand": operand, "product": group.product, "reader": operation.label}
        else:
            cut = tiling_for([*members, node], lambda member: graph.inputs[member.uid])
            if cut is not None:
                return cut
            if operation.combine_ufunc is None:
                row = math.prod([operand.shape[axis] for axis in operation.reduced_axes or ()]) * operand.dtype.itemsize
                reason = self.long_rows
                facts = {"operand": operand, "row_bytes": row, "operation": operation.label}
            else:
                reason, facts = self.too_large, {"operand": operand, "read_bytes": operand.type.nbytes}
        graph.decline(self.prologue, reason, facts, node, unfused_operand=operand, also_subject=True)
        return None

    def _explain_producer(self, node: Expr, operand: Expr, graph: PlanGraph) -> None:
        reason = self.view_operand if operand.operation.view else self.producer
        facts = {"producer": operand.operation.label, "reader": node.operation.label}
        if isinstance(operand.operation, Item):
            reason, facts["call"] = self.output_of_call, graph.inputs[operand.uid][0].operation.label
        graph.decline(self.chain, reason, facts, node, unfused_operand=operand)

    def _record_group(self, group: _Group, graph: PlanGraph) -> None:
        members = group.members
        if group.tiling is not None:
            self._record_reduction(group, group.tiling, graph)
            return
        unwritten = members[:-1]
        if group.product is not None:
            members = sorted(members, key=lambda node: node.operation.elementwise)  # stable: the product comes first
            is_made_whole = not made_in_result(members[0], members[1:], lambda member: graph.inputs[member.uid])
            unwritten = members[is_made_whole:-1]
        label = _label(members)
        decision = graph.decide(
            self.chain if group.product is None else self.epilogue,
            self.fused if group.product is None else self.fused_with_product if unwritten else self.finished_in_cache,
            {
                "operations": label.replace(" · ", " → "),
                "count": len(members),
                "shape": _shape(members[-1]),
                "temporaries": len(unwritten),
                "saved_bytes": sum([node.type.nbytes for node in unwritten]),
            },
            members,
        )
        graph.groups.append(NodeGroup(decision, "kernel", label, members))

    def _record_reduction(self, group: _Group, tiling: Tiling, graph: PlanGraph) -> None:
        members, last, parts = group.members, group.members[-1], tiling.in_parts
        same = tiling.blocks == 1 or _keeps_bits(members, tiling)
        reason = self.reduced_whole
        if parts:
            exact = last.dtype.kind in _ORDERLESS or last.operation.idempotent
            reason = self.reduced_exact if exact else self.reduced_halved if same else self.reduced_joined
        label = _label(members)
        facts = {
            "operations": label.replace(" · ", " → "),
            "count": len(members),
            "shape": "×".join(map(str, tiling.shape)) or "scalar",
            "temporaries": len(members) - 1,
            "saved_bytes": sum([node.type.nbytes for node in members[:-1]]),
            "blocks": tiling.blocks,
            "parts": parts,
            "same_bits": same,
        }
        decision = graph.decide(self.prologue, reason, facts, members)
        graph.groups.append(NodeGroup(decision, "kernel", label, members))

    def _record_unfused(self, nodes: list[Expr], graph: PlanGraph) -> None:
        """Refuse elementwise operations that joined no kernel, and of which nothing was said when they were met."""
        rules = {self.epilogue.name, self.chain.name, self.prologue.name}
        told = {node.uid for decision in graph.decisions for node in decision.subjects if decision.rule in rules}
        alone = [node for node in nodes if node.operation.elementwise and node.uid not in told]
        if not alone:
            return
        waiting = {node.uid for node in alone}
        readers: dict[int, Expr] = {}
        for node in graph.live:
            for operand in graph.inputs[node.uid]:
                if operand.uid in waiting:
                    readers.setdefault(operand.uid, node)
        for node in alone:
            reader = readers.get(node.uid)
            if reader is None:
                graph.decline(self.chain, self.nothing_to_join, {}, node, estimated_cost_us=0.0)
            else:
                facts = {"reader": reader.operation.label, "operation": node.operation.label}
                graph.decline(self.chain, self.reader, facts, node, estimated_cost_us=split_cost(node, reader))

    def _keep_whole(self, node: Expr, graph: PlanGraph) -> None:
        """Refuse where a node's type, or an operand's, is not plain."""
        kinds = [other.type for other in (node, *graph.inputs[node.uid])]
        type_ = next(type_ for type_ in kinds if not type_.plain)
        if type_.device is cpu:
            graph.decline(self.chain, self.element_type, {"type": repr(type_)}, node)
        else:
            graph.decline(self.chain, self.device, {"device": type_.device.name}, node)


def _keeps_bits(members: list[Expr], tiling: Tiling) -> bool:
    """Whether a reduction gives the bits that it gives alone, however images lie in memory."""
    read, last = members[-2], members[-1]
    if last.dtype.kind in _ORDERLESS or last.operation.idempotent:
        return True
    pairwise = (
        last.operation.combine_ufunc is np.add and read.dtype == last.dtype and last.dtype in (np.float32, np.float64)
    )
    cuts = [tiling]
    if len(tiling.shape) == 4:
        cuts.append(tiling.laid(PIXEL_BY_PIXEL, last.operation.combine_ufunc is not None))
    return all(not cut.in_parts or (cut.halvings > 0 and pairwise) for cut in cuts)


def _merged(a: _Group, b: _Group, several: dict[int, _Group]) -> _Group:
    """One group of two that do not depend on each other: the longer takes the shorter in."""
    longer, shorter = (a, b) if len(a.members) >= len(b.members) else (b, a)
    longer.members.extend(shorter.members)
    if longer.product is None:
        longer.product = shorter.product
    several.pop(id(shorter), None)
    several.setdefault(id(longer), longer)
    return longer


def _label(members: list[Expr]) -> str:
    return " · ".join([node.operation.label for node in members[:4]]) + (" · …" if len(members) > 4 else "")


def _shape(node: Expr) -> str:
    return "×".join(map(str, node.shape)) or "scalar"
