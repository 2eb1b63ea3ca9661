"""Group: calls of one function that do not depend on each other become one call over stacked operands."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from explorer.core.device import cpu
from explorer.core.expr import Expr, derive, record, surrounded
from explorer.core.function import Body, Call, Item
from explorer.core.graph import reachable
from explorer.core.types import TupleType
from explorer.ops.joining import Stack
from explorer.ops.parts import Member
from explorer.plan.batching import NotBatchableError, batch_body
from explorer.plan.cost import REFERENCE, Prices, kernel_cost
from explorer.plan.graph import Cluster, Graph


@functools.lru_cache(16)
def _rows(count: int) -> list[Member]:
    """What reads each of so many members."""
    return [Member(index) for index in range(count)]


@dataclass(frozen=True)
class Group:
    """Batch the calls of one function that stand at one depth of calls, where the prices say that it pays."""

    prices: Prices = field(default=REFERENCE)
    name = "group"

    def run(self, graph: Graph) -> None:
        """Calls with one body and one depth cannot depend on each other: a path between two raises the depth."""
        depth: dict[int, int] = {}
        buckets: dict[tuple[int, int], list[Expr]] = {}
        items: dict[int, list[Expr]] = {}
        for node in graph.live:
            deepest = 0
            for operand in graph.inputs[node.uid]:
                other = depth[operand.uid]
                if other > deepest:
                    deepest = other
            operation = node.operation
            if isinstance(operation, Call):
                deepest += 1
                buckets.setdefault((id(operation), deepest), []).append(node)
            elif isinstance(operation, Item):
                items.setdefault(graph.inputs[node.uid][0].uid, []).append(node)
            depth[node.uid] = deepest
        for members in buckets.values():
            if len(members) > 1:
                self._consider(members, graph, items)

    def _consider(self, members: list[Expr], graph: Graph, items: dict[int, list[Expr]]) -> None:
        call = members[0].operation
        assert isinstance(call, Call)
        # calls on the same values must stack them in the same order, whatever order they were recorded in
        members.sort(key=lambda member: [operand.uid for operand in graph.operands(member)])
        columns = list(zip(*[graph.operands(member) for member in members], strict=True))
        batched = tuple([any(operand is not column[0] for operand in column) for column in columns])
        count = len(members)
        facts = {"name": call.body.name, "count": count}
        if not any(batched):
            return
        if any(node.type.device is not cpu for node in call.body.nodes):
            for member in members:
                graph.refuse(self, "device", "{name} works on another device, where nothing is stacked", facts, member)
            return
        try:
            body = batch_body(call.body, count, batched)
        except NotBatchableError as error:
            reason = "{name} has no batched form: " + error.given.replace("{", "(").replace("}", ")")
            for member in members:
                graph.refuse(self, "not_batchable", reason, facts, member)
            return
        alone = count * self._price(call.body)
        used = sum(len(items.get(member.uid, ())) or 1 for member in members)
        stacked = sum([column[0].type.nbytes for column, yes in zip(columns, batched, strict=True) if yes]) * count
        together = (
            self._price(body)
            + sum(batched) * (self.prices.call + 0.12 * count)
            + stacked / self.prices.bandwidth
            + used * self.prices.view
        )
        facts = {**facts, "separate_us": round(alone, 2), "together_us": round(together, 2)}
        if together >= alone:
            for member in members:
                graph.refuse(
                    self,
                    "stacking_costs_more",
                    "{count:call} of {name} kept separate:"
                    " stacked they would take {together_us}, separately {separate_us}",
                    facts,
                    member,
                )
            return
        self._batch(members, columns, batched, body, facts, graph, items)

    def _batch(
        self,
        members: list[Expr],
        columns: list[tuple[Expr, ...]],
        batched: tuple[bool, ...],
        body: Body,
        facts: dict[str, object],
        graph: Graph,
        items: dict[int, list[Expr]],
    ) -> None:
        first = members[0]
        with surrounded(first.scope, first.code, first.instruction):
            operands = [Stack()(*column) if yes else column[0] for column, yes in zip(columns, batched, strict=True)]
            result = record(Call(body), tuple(operands))
            several = isinstance(result.type, TupleType)
            wholes = [record(Item(i), (result,)) for i in range(len(body.outputs))] if several else [result]
        decision = graph.decide(
            self,
            "batched",
            "{count:call} of {name} made one over stacked rows: {together_us} instead of {separate_us}",
            facts,
            members,
            (result,),
        )
        graph.clusters.append(Cluster(decision, "batch", body.name, list(members)))
        stacks = [operand for operand, yes in zip(operands, batched, strict=True) if yes]
        graph.introduce(decision, [*stacks, result, *(wholes if several else ())], first)
        rows: list[tuple[Expr, Expr]] = []
        for member, row in zip(members, _rows(len(members)), strict=True):
            if not several:
                rows.append((member, derive(row, (result,), member, member.scope)))
                continue
            for item in items.get(member.uid, ()):
                whole = wholes[item.operation.index]  # type: ignore[attr-defined]  # it is an Item
                rows.append((item, derive(row, (whole,), item, item.scope)))
            graph.removed.append((decision, member))
        graph.exchange(decision, rows)

    def _price(self, body: Body) -> float:
        key = ("price", self.prices)
        held: float | None = body.derived.get(key)
        if held is None:
            nodes = reachable(body.outputs, stop=lambda node: not node.operands)
            held = sum([self._node_price(node) for node in nodes])
            body.derived[key] = held
        return held

    def _node_price(self, node: Expr) -> float:
        operation = node.operation
        if isinstance(operation, Call):
            return self._price(operation.body)
        return 0.0 if isinstance(operation, Item) else kernel_cost(node, node.operands, self.prices)
