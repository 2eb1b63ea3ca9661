"""Batch: calls of one function, and single operations, that cannot depend on each other become one over rows.

A loop over samples records the same operations once a sample. The pass finds them (buckets.py), writes the body of the
function over a leading axis of members (vectorize.py), stacks the operands, and gives every reader its row
(batch_members.py). `ex.function` marks what is worth batching as a whole; single operations are batched only where
there are several, since a stack of operands costs as much as a few small kernels.

The rules behind it, and how they were found, are in assets/decisions/0003-what-a-thousand-calls-taught.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from explorer.core.ir.expr import Expr, next_uid, record
from explorer.core.ir.function import Body, Call, Item, Parameter
from explorer.core.ir.kernel_registry import runs_on
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.traversal import reachable
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import TupleType
from explorer.ops.manipulation.concat import Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.batching.batch_members import BatchMembers
from explorer.plan.batching.batching_reasons import BatchReasons
from explorer.plan.batching.buckets import Bucket, buckets_of
from explorer.plan.batching.unbatched import record_unbatched
from explorer.plan.batching.vectorize import NotBatchableError, batch_body
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel, body_cost
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason
from explorer.record.dimension_names import shape_text

_SHOWN = 4
"""maximum number of operands whose shapes a decision lists"""
_ROW = 0.12
"""µs to take one row into a stack, on top of moving its bytes"""


@dataclass(frozen=True)
class Batch(BatchReasons, Pass):
    """Run many calls of one function, or many equal operations, as one over many rows, where that is faster.

    Members stand at one depth of calls, operations also at one level: none can depend on another.
    """

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)
    fewest: int = 5
    """equal operations over equal types that are looked at: of fewer, stacking costs as much as it saves"""
    name, numerics = "batch", "reordering"

    def run(self, graph: PlanGraph) -> None:
        """Consider the buckets in the order in which they can depend on each other, and explain what stays separate."""
        first = len(graph.decisions)
        buckets, items = buckets_of(graph, self.fewest)
        grouping = _Batching(self, graph, items)
        for bucket in buckets:
            if len(bucket.members) > 1 and (bucket.called or len(bucket.members) >= self.fewest):
                grouping.consider(bucket)
        grouping.close()
        record_unbatched(
            self.info, [bucket.members for bucket in buckets if bucket.called], first, self.cost_model, graph
        )


class _Batching:
    """The pass at work on one graph: what is batched so far, and what is kept separate."""

    def __init__(self, rule: Batch, graph: PlanGraph, items: dict[int, list[Expr]]) -> None:
        self.rule, self.prices, self.graph, self.items = rule, rule.cost_model, graph, items
        self.rows = BatchMembers(graph)
        self._kept: dict[tuple[str, Reason], tuple[list[Expr], list[float]]] = {}
        """name and reason → operations that are kept separate, what they take stacked, and what separately"""

    def consider(self, bucket: Bucket) -> None:
        """Batch the members of a bucket where the prices say that it pays; else decline with the reason.

        The price of a batch is that of the vectorized body, of stacking the operands that no earlier batch has stacked,
        and of a view for each result that is read by itself.
        """
        members, rows, inputs = bucket.members, self.rows, self.graph.inputs
        # Calls on the same values must stack them in the same order, whatever order they were recorded in: the backward
        # pass records its calls in reverse, and dedup merges only stacks that are equal.
        members.sort(key=lambda node: [rows.sort_key(operand) for operand in inputs[node.uid]])
        columns = list(zip(*[inputs[node.uid] for node in members], strict=True))
        batched = tuple([any(operand is not column[0] for operand in column) for column in columns])
        count = len(members)
        # Equal calls on the same values: dedup merges them.
        if not any(batched):
            return
        if not all(node.type.numeric for node in bucket.body.nodes):
            self._keep(bucket, self.rule.element_calls, None)
            return
        try:
            vectorized = batch_body(bucket.body, count, batched)
        except NotBatchableError as error:
            self._keep(
                bucket,
                self.rule.not_batchable_calls,
                self.rule.not_batchable_operations,
                more={"inner": error.given, "why": error.rule},
            )
            return
        missing = _without_kernel(vectorized)
        if missing is not None:
            self._keep(bucket, self.rule.device_calls, None, more=missing)
            return
        separate = count * body_cost(bucket.body, self.prices)
        # Each result is read as a row, which is a view.
        results = sum(len(self.items.get(node.uid, ())) or 1 for node in members)
        together = body_cost(vectorized, self.prices) + results * self.prices.view
        for column, is_batched in zip(columns, batched, strict=True):
            if is_batched and rows.as_whole(column) is None:
                stacked = column[0].type.nbytes * count
                together += self.prices.call + _ROW * count + stacked / self.prices.bandwidth
        # Strictly: at equal prices the program stays as it was written, which is easier to follow.
        if together < separate:
            prices = {"separate_us": round(separate, 2), "together_us": round(together, 2)}
            self._batch(members, columns, batched, vectorized, {"name": bucket.body.name, "count": count, **prices})
        else:
            self._keep(bucket, self.rule.dear_calls, self.rule.dear_operations, (together, separate))

    def close(self) -> None:
        """Put rows in the place of members that are read outside of batches; decline what was kept separate."""
        self.rows.finish()
        for (name, reason), (members, prices) in self._kept.items():
            self._refuse(members, name, reason, prices)

    def _keep(
        self,
        bucket: Bucket,
        of_calls: Reason,
        of_operations: Reason | None,
        prices: tuple[float, ...] = (),
        more: Facts | None = None,
    ) -> None:
        """Keep a bucket separate: calls are declined at once, operations of one name together with the sum of prices.

        ``prices`` are µs together and separate. Operations without a reason are left to the pass that fuses.
        """
        if bucket.called:
            self._refuse(bucket.members, bucket.body.name, of_calls, prices, more)
        elif of_operations is not None:
            members, before = self._kept.setdefault((bucket.body.name, of_operations), ([], [0.0] * len(prices)))
            members.extend(bucket.members)
            before[:] = [total + price for total, price in zip(before, prices, strict=True)]

    def _refuse(
        self,
        members: list[Expr],
        name: str,
        reason: Reason,
        prices: Sequence[float],
        more: Facts | None = None,
    ) -> None:
        """Decline to batch nodes of one function or operation; ``more`` are further facts of the reason."""
        facts: Facts = {"name": name, "count": len(members), **(more or {})}
        if prices:
            together, alone = prices
            facts |= {"separate_us": round(alone, 2), "together_us": round(together, 2)}
        for node in members:
            self.graph.decline(self.rule, reason, facts, node)

    def _batch(
        self,
        members: list[Expr],
        columns: list[tuple[Expr, ...]],
        batched: tuple[bool, ...],
        body: Body,
        facts: Facts,
    ) -> None:
        """Record the batch of some nodes and make them its members; ``body`` is the vectorized one.

        All nodes that are recorded on the way (stacks, the batch, its outputs) belong to one decision: their uids tell
        them from older ones.
        """
        graph, rows = self.graph, self.rows
        first = members[0]
        with recording_at(first.scope, first.code, first.instruction):
            last_old = next_uid()
            operands = [
                rows.stack(column) if is_batched else rows.shared(column[0])
                for column, is_batched in zip(columns, batched, strict=True)
            ]
            last_operand = next_uid()
            if isinstance(first.operation, Call):
                result = record(Call(body), tuple(operands))
            else:
                result = first.operation.batch(len(members), batched, *operands)
            parts = result.type.parts if isinstance(result.type, TupleType) else ()
            # A body with one output gives it as it is, with several a tuple: from here on both are lists of values.
            wholes = [record(Item(index), (result,)) for index in range(len(parts))] or [result]
        facts |= {
            "shapes_before": _shapes([column[0] for column in columns], first),
            "shapes_after": _shapes(operands, result),
        }
        # The decision comes after the recording, because it names the result.
        decision = graph.decide(
            self.rule,
            self.rule.batched_calls if isinstance(first.operation, Call) else self.rule.batched_operations,
            facts,
            members,
            (result,),
        )
        graph.groups.append(NodeGroup(decision, "batch", body.name, list(members)))
        stacks = [operand for operand in operands if operand.uid > last_old]
        # A batch rule may record several operations on its way from the operands to the result.
        between = [
            node for node in reachable([result], stop=lambda node: node.uid < last_operand) if node.uid > last_operand
        ]
        graph.add_nodes(decision, [*stacks, *between, *(wholes if parts else ())], first)
        for index, node in enumerate(members):
            if parts:
                for item in self.items.get(node.uid, ()):
                    assert isinstance(item.operation, Item)
                    rows.add(item, wholes[item.operation.index], index, decision)
                # Its outputs are members now; nothing stands for the call itself.
                graph.removed.append((decision, node))
            else:
                rows.add(node, result, index, decision)


def _shapes(operands: Sequence[Expr], result: Expr) -> str:
    """Return the shapes of operands and results: ``(64, 64×10) → 10``."""
    types = result.type.parts if isinstance(result.type, TupleType) else (result.type,)
    shown = [shape_text(operand.shape) for operand in operands[:_SHOWN]] + ["…"] * (len(operands) > _SHOWN)
    return f"({', '.join(shown)}) → {', '.join([shape_text(type_.shape) for type_ in types])}"


def _without_kernel(body: Body) -> Facts | None:
    """Return the facts of an operation that a batch needs on a device without its kernel; None where all have one.

    A batch stacks its operands, computes the vectorized body, and hands out rows.
    """
    devices = dict.fromkeys([node.type.device for node in body.nodes])
    needed = [(node.operation, node.type.device) for node in body.nodes]
    needed += [(operation, device) for device in devices for operation in (Stack(), Index0(0))]
    for operation, device in needed:
        if device is not cpu and not isinstance(operation, (Parameter, Call, Item)) and not runs_on(operation, device):
            return {"operation": operation.name, "device": device.name}
    return None
