"""Group: calls of one function, and single operations, that cannot depend on each other become one over rows."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from explorer.core.expr import Expr, next_uid, record, surrounded
from explorer.core.function import Body, Call, Item, Parameter, make_body
from explorer.core.graph import reachable
from explorer.core.operation import Operation
from explorer.core.types import AnyType, TupleType
from explorer.plan.batching import NotBatchableError, batch_body
from explorer.plan.cost import REFERENCE, Prices, kernel_cost
from explorer.plan.graph import Graph
from explorer.plan.rows import Rows
from explorer.plan.story import Cluster
from explorer.plan.ungrouped import tell_ungrouped

_LEAF = 0, 0
_KEPT = {
    "stacking_costs_more": "stacked they would take {together_us}, separately {separate_us}",
    "not_batchable": "the operation has no batched form for such operands",
}


@functools.lru_cache(256)
def _alone(operation: Operation, types: tuple[AnyType, ...]) -> Body:
    """The body of a function that does nothing but one operation."""
    with surrounded(None, None):
        parameters = tuple([Parameter(kind, f"x{place}")() for place, kind in enumerate(types)])
        return make_body(operation.name, parameters, (), (record(operation, parameters),))


@dataclass(slots=True)
class _Bucket:
    """Similar calls, or operations, that cannot depend on each other."""

    members: list[Expr]
    body: Body
    called: bool


@dataclass(frozen=True)
class Group:
    """Batch the calls of one function, and equal operations on equal types, where the prices say that it pays.

    Members stand at one depth of calls, operations also at one level: none can depend on another.
    """

    prices: Prices = field(default=REFERENCE)
    fewest: int = 5
    """operations that are looked at: of fewer, stacking costs as much as it saves"""
    name = "group"

    def run(self, graph: Graph) -> None:
        """In the order in which groups can depend on each other: by depth of calls, calls first, then by level."""
        first = len(graph.choices)
        buckets, items = self._buckets(graph)
        rows = Rows(graph)
        kept: dict[tuple[str, str], tuple[list[Expr], list[float]]] = {}
        for bucket in buckets:
            if len(bucket.members) > 1 and (bucket.called or len(bucket.members) >= self.fewest):
                self._consider(bucket, graph, items, rows, kept)
        rows.settle()
        for (name, code), (members, prices) in kept.items():
            facts = {"name": name, "count": len(members)}
            reason = "{name} ×{count} kept separate: " + _KEPT[code]
            if prices:
                facts |= {"together_us": round(prices[0], 2), "separate_us": round(prices[1], 2)}
            for node in members:
                graph.refuse(self, code, reason, facts, node)
        tell_ungrouped(self, [bucket.members for bucket in buckets if bucket.called], first, self.prices, graph)

    def _buckets(self, graph: Graph) -> tuple[list[_Bucket], dict[int, list[Expr]]]:
        depth: dict[int, tuple[int, int]] = {}
        """uid → how many calls, and how many operations, are one after the other up to a node"""
        calls: dict[tuple[int, int], list[Expr]] = {}
        operations: dict[tuple[int, int], list[Expr]] = {}
        items: dict[int, list[Expr]] = {}
        inputs = graph.inputs
        for node in graph.live:
            operands = inputs[node.uid]
            if not operands:
                depth[node.uid] = _LEAF
                continue
            deepest, level = _LEAF
            for operand in operands:
                other = depth[operand.uid]
                if other[0] > deepest:
                    deepest = other[0]
                if other[1] > level:
                    level = other[1]
            operation = node.operation
            level += 1
            if isinstance(operation, Call):
                deepest += 1
                calls.setdefault((deepest, id(operation)), []).append(node)
            elif isinstance(operation, Item):
                items.setdefault(operands[0].uid, []).append(node)
            elif not operation.view and not operation.takes_tuples:
                operations.setdefault((deepest, level), []).append(node)
            depth[node.uid] = deepest, level
        found: list[tuple[tuple[int, ...], _Bucket]] = []
        for (deep, _), members in calls.items():
            call = members[0].operation
            assert isinstance(call, Call)
            found.append(((deep, 0, 0), _Bucket(members, call.body, True)))
        for (deep, level), nodes in operations.items():
            if len(nodes) < self.fewest:
                continue
            alike: dict[tuple[Operation | AnyType, ...], list[Expr]] = {}
            for node in nodes:
                alike.setdefault((node.operation, *[each.type for each in inputs[node.uid]]), []).append(node)
            for members in alike.values():
                if len(members) >= self.fewest:
                    types = tuple([operand.type for operand in inputs[members[0].uid]])
                    found.append(((deep, 1, level), _Bucket(members, _alone(members[0].operation, types), False)))
        return [bucket for _, bucket in sorted(found, key=lambda pair: pair[0])], items

    def _consider(
        self,
        bucket: _Bucket,
        graph: Graph,
        items: dict[int, list[Expr]],
        rows: Rows,
        kept: dict[tuple[str, str], tuple[list[Expr], list[float]]],
    ) -> None:
        members, of = bucket.members, bucket.body
        # calls on the same values must stack them in the same order, whatever order they were recorded in
        inputs = graph.inputs
        members.sort(key=lambda node: [rows.place(operand) for operand in inputs[node.uid]])
        columns = list(zip(*[inputs[node.uid] for node in members], strict=True))
        batched = tuple([any(operand is not column[0] for operand in column) for column in columns])
        count = len(members)
        facts = {"name": of.name, "count": count}
        if not any(batched):
            return
        if not all(node.type.plain for node in of.nodes):
            if bucket.called:
                for node in members:
                    graph.refuse(
                        self, "device", "{name} works on another device, where nothing is stacked", facts, node
                    )
            return
        try:
            body = batch_body(of, count, batched)
        except NotBatchableError as error:
            if not bucket.called:
                kept.setdefault((of.name, "not_batchable"), ([], []))[0].extend(members)
                return
            reason = "{name} has no batched form: " + error.given.replace("{", "(").replace("}", ")")
            for node in members:
                graph.refuse(self, "not_batchable", reason, facts, node)
            return
        alone = count * self._price(of)
        used = sum(len(items.get(node.uid, ())) or 1 for node in members)
        together = self._price(body) + used * self.prices.view
        for column, yes in zip(columns, batched, strict=True):
            if yes and rows.whole(column) is None:
                stacked = column[0].type.nbytes * count
                together += self.prices.call + 0.12 * count + stacked / self.prices.bandwidth
        if together < alone:
            facts = {**facts, "separate_us": round(alone, 2), "together_us": round(together, 2)}
            self._batch(members, columns, batched, body, facts, graph, items, rows)
        elif bucket.called:
            facts = {**facts, "separate_us": round(alone, 2), "together_us": round(together, 2)}
            for node in members:
                graph.refuse(
                    self,
                    "stacking_costs_more",
                    "{count:call} of {name} kept separate:"
                    " stacked they would take {together_us}, separately {separate_us}",
                    facts,
                    node,
                )
        else:
            held = kept.setdefault((of.name, "stacking_costs_more"), ([], [0.0, 0.0]))
            held[0].extend(members)
            held[1][0] += together
            held[1][1] += alone

    def _batch(
        self,
        members: list[Expr],
        columns: list[tuple[Expr, ...]],
        batched: tuple[bool, ...],
        body: Body,
        facts: dict[str, object],
        graph: Graph,
        items: dict[int, list[Expr]],
        rows: Rows,
    ) -> None:
        first = members[0]
        with surrounded(first.scope, first.code, first.instruction):
            before = next_uid()
            operands = [
                rows.stacked(column) if yes else rows.single(column[0])
                for column, yes in zip(columns, batched, strict=True)
            ]
            made = next_uid()
            if isinstance(first.operation, Call):
                result = record(Call(body), tuple(operands))
            else:
                result = first.operation.batch(len(members), batched, *operands)
            parts = result.type.parts if isinstance(result.type, TupleType) else ()
            wholes = [record(Item(index), (result,)) for index in range(len(parts))] or [result]
        decision = graph.decide(
            self,
            "batched",
            ("{count:call} of {name}" if isinstance(first.operation, Call) else "{name} ×{count}")
            + " made one over stacked rows: {together_us} instead of {separate_us}",
            facts,
            members,
            (result,),
        )
        graph.clusters.append(Cluster(decision, "batch", body.name, list(members)))
        stacks = [operand for operand in operands if operand.uid > before]
        between = [node for node in reachable([result], stop=lambda node: node.uid < made) if node.uid > made]
        graph.introduce(decision, [*stacks, *between, *(wholes if parts else ())], first)
        for index, node in enumerate(members):
            if parts:
                for item in items.get(node.uid, ()):
                    rows.enter(item, wholes[item.operation.index], index, decision)  # type: ignore[attr-defined]
                graph.removed.append((decision, node))
            else:
                rows.enter(node, result, index, decision)

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
