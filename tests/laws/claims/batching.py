"""Checks of decisions by the batching pass: which nodes form a batch, and what it costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import explorer as ex
from explorer.core.ir.expr import runs_on
from explorer.core.ir.function import Body, Call, Item
from explorer.core.ir.traversal import reachable
from explorer.core.types.custom_dtypes import element_of
from explorer.core.types.tensor_type import TupleType
from explorer.ops.manipulation.concat import Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.batching.vectorize import batch_body
from explorer.plan.graph.cost_model import kernel_cost
from explorer.plan.graph.reasons import Facts
from explorer.plan.passes.batch import Batch, single_operation_body
from tests.laws.claims.decisions import At, Claim, of_decision

Expr = ex.Expr


def price_of_body(body: Body) -> float:
    return sum(price_of(node, node.operands) for node in reachable(body.outputs, stop=lambda node: not node.operands))


def price_of(node: Expr, operands: Sequence[Expr]) -> float:
    if isinstance(node.operation, Call):
        return price_of_body(node.operation.body)
    return 0.0 if isinstance(node.operation, Item) else kernel_cost(node, tuple(operands))


def body_of(at: At, node: Expr) -> Body:
    """Return the body that computes one member of a batch."""
    if isinstance(node.operation, Call):
        return node.operation.body
    return single_operation_body(node.operation, tuple(operand.type for operand in at.operands(node)))


def depths(at: At) -> dict[int, tuple[int, int]]:
    """Return a dict from node uid to (calls, operations), the lengths of the longest chains that end at the node."""
    results: dict[int, tuple[int, int]] = {}
    pending = [*at.roots]
    while pending:
        node = pending[-1]
        waiting = [operand for operand in at.operands(node) if operand.uid not in results]
        if waiting:
            pending += waiting
            continue
        pending.pop()
        below = [results[operand.uid] for operand in at.operands(node)]
        deepest, level = max((deep for deep, _ in below), default=0), max((level for _, level in below), default=-1)
        results[node.uid] = (deepest + isinstance(node.operation, Call), level + 1)
    return results


class Rows:
    """Index rows of other values at the start of a batching stage, from earlier batches and from recorded values."""

    def __init__(self, claim: Claim) -> None:
        self._held: dict[int, tuple[Any, int]] = {}
        self._at = claim.stage
        graph = claim.planned.graph
        for number in range(graph.stages[claim.choice.stage].first, claim.number):
            decision = graph.decisions[number]
            if decision.applied:
                for index, node in enumerate(decision.subjects):
                    self._held[node.uid] = (number, index)
                    for reader in self._at.readers.get(node.uid, []):
                        if isinstance(reader.operation, Item):
                            self._held[reader.uid] = ((number, reader.operation.index), index)

    def row(self, node: Expr) -> tuple[Any, int, int] | None:
        """Return an id of the value that contains the row, the row's index, and the row count (0 if unknown)."""
        if node.uid in self._held:
            whole, index = self._held[node.uid]
            return whole, index, 0
        if isinstance(node.operation, Index0):
            whole = self._at.below_at(node, 0)
            return whole.uid, node.operation.index, whole.shape[0]
        return None


def subjects_of(claim: Claim, number: int) -> int:
    return len(claim.planned.graph.decisions[number].subjects)


def is_whole(claim: Claim, rows: Rows, column: Sequence[Expr]) -> bool:
    """Return whether the values are all rows of one value, in order."""
    results = [rows.row(node) for node in column]
    if results[0] is None:
        return False
    whole, _, count = results[0]
    if not count:
        count = subjects_of(claim, whole[0] if isinstance(whole, tuple) else whole)
    return count == len(column) and all(
        each is not None and each[:2] == (whole, index) for index, each in enumerate(results)
    )


def together(claim: Claim, members: list[Expr], rows: Rows) -> float:
    """Return the estimated time of the stacked batch in µs."""
    at, model = claim.stage, claim.planned.options.find(Batch).cost_model
    columns = [*zip(*[at.operands(node) for node in members], strict=True)]
    batched = tuple(any(operand is not column[0] for operand in column) for column in columns)
    body = batch_body(body_of(at, members[0]), len(members), batched)
    items = Counter(at.below_at(node, 0).uid for node in at.live.values() if isinstance(node.operation, Item))
    used = sum(items[node.uid] or 1 for node in members)
    total = price_of_body(body) + used * model.view
    for column, varies in zip(columns, batched, strict=True):
        if varies and not is_whole(claim, rows, column):
            total += model.call + 0.12 * len(members) + column[0].type.nbytes * len(members) / model.bandwidth
    return total


def sorted_members(claim: Claim, members: Iterable[Expr], rows: Rows) -> list[Expr]:
    def key(node: Expr) -> tuple[Any, ...]:
        row = rows.row(node) if node.uid in rows._held else None
        return (node.uid, -1) if row is None else (whole_uid(claim, row[0]), row[1])

    return sorted(members, key=lambda node: [key(operand) for operand in claim.stage.operands(node)])


def whole_uid(claim: Claim, whole: Any) -> int:
    """Return the uid of the result of an earlier batching decision."""
    number, index = whole if isinstance(whole, tuple) else (whole, 0)
    (result,) = claim.planned.graph.decisions[number].produced
    if not isinstance(result.type, TupleType):
        return result.uid
    items = [
        node
        for decision, node in claim.planned.graph.added
        if decision == number and isinstance(node.operation, Item) and node.operands[0] is result
    ]
    return next(node.uid for node in items if node.operation.index == index)  # type: ignore[attr-defined]


def buckets(claim: Claim) -> list[list[Expr]]:
    """Group the subjects by depth, operation and operand types."""
    readers: defaultdict[Any, list[Expr]] = defaultdict(list)
    depth = depths(claim.stage)
    for node in claim.subjects:
        deep, level = depth[node.uid]
        types = tuple(operand.type for operand in claim.stage.operands(node))
        key = (deep, id(node.operation)) if isinstance(node.operation, Call) else (deep, level, node.operation, types)
        readers[key].append(node)
    return [*readers.values()]


def member_name(claim: Claim) -> str:
    (name,) = {body_of(claim.stage, node).name for node in claim.subjects}
    return name


def are_calls(claim: Claim) -> bool:
    (calls,) = {isinstance(node.operation, Call) for node in claim.subjects}
    return calls


def separate(claim: Claim) -> float:
    return sum(price_of(node, claim.stage.operands(node)) for node in claim.subjects)


@of_decision(Batch.batched_calls, Batch.batched_operations)
def batched(claim: Claim) -> Facts:
    """Check that members are independent, and that the batch costs less than separate calls."""
    assert not {node.uid for node in claim.subjects} & claim.before.below(claim.subjects).keys()
    assert are_calls(claim) is (claim.choice.reason is Batch.batched_calls)
    assert len(claim.subjects) > 1
    stacked = together(claim, claim.subjects, Rows(claim))
    assert stacked < separate(claim)
    return {
        "name": member_name(claim),
        "count": len(claim.subjects),
        "separate_us": separate(claim),
        "together_us": stacked,
        **shapes_of(claim),
    }


def shapes_of(claim: Claim) -> Facts:
    """Return the shapes of one member and of the batch, which has a leading axis for operands that differ."""
    count, operands = len(claim.subjects), [claim.stage.operands(node) for node in claim.subjects]
    (before,) = {tuple(operand.shape for operand in each) for each in operands}
    columns = zip(before, zip(*operands, strict=True), strict=True)
    after = [(count, *shape) if len({each.uid for each in column}) > 1 else shape for shape, column in columns]
    (own,) = {node.type for node in claim.subjects}
    results = [type_.shape for type_ in (own.parts if isinstance(own, TupleType) else (own,))]

    def words(shapes: Iterable[tuple[int, ...]]) -> list[str]:
        return ["×".join(map(str, shape)) or "scalar" for shape in shapes]

    def text(inputs: Sequence[tuple[int, ...]], outputs: Iterable[tuple[int, ...]]) -> str:
        return f"({', '.join(words(inputs[:4]) + ['…'] * (len(inputs) > 4))}) → {', '.join(words(outputs))}"

    return {
        "shapes_before": text(before, results),
        "shapes_after": text(after, [(count, *shape) for shape in results]),
    }


@of_decision(Batch.dear_calls, Batch.dear_operations)
def dear(claim: Claim) -> Facts:
    assert are_calls(claim) is (claim.choice.reason is Batch.dear_calls)
    rows = Rows(claim)
    members = [sorted_members(claim, bucket, rows) for bucket in buckets(claim)]
    stacked = sum(together(claim, bucket, rows) for bucket in members)
    assert stacked >= separate(claim)
    return {
        "name": member_name(claim),
        "count": len(claim.subjects),
        "separate_us": separate(claim),
        "together_us": stacked,
    }


@of_decision(Batch.device_calls)
def device_calls(claim: Claim) -> Facts:
    body = body_of(claim.stage, claim.subjects[0])
    (device,) = {node.type.device for node in body.nodes}
    needed = [*[node.operation for node in body.nodes if node.operands], Stack(), Index0(0)]
    missing = next(operation for operation in needed if not runs_on(operation, device))
    return {"name": member_name(claim), "count": len(claim.subjects), "operation": missing.name, "device": device.name}


@of_decision(Batch.element_calls)
def element_calls(claim: Claim) -> Facts:
    body = body_of(claim.stage, claim.subjects[0])
    assert any(element_of(node.tensor_type.dtype) is not None for node in body.nodes)
    return {"name": member_name(claim), "count": len(claim.subjects)}


@of_decision(Batch.not_batchable_calls)
def not_batchable_calls(claim: Claim) -> Facts:
    body = body_of(claim.stage, claim.subjects[0])
    failing = [node for node in body.nodes if node.operands and (node.operation.unbatchable or not node.operation.pure)]
    return {
        "name": member_name(claim),
        "count": len(claim.subjects),
        "inner": failing[0].operation.label,
        "why": failing[0].operation.unbatchable or "it does more than compute a value, once for each call",
    }


@of_decision(Batch.not_batchable_operations)
def not_batchable_operations(claim: Claim) -> Facts:
    assert not are_calls(claim)
    assert all(node.operation.unbatchable or not node.operation.pure for node in claim.subjects)
    return {"name": member_name(claim), "count": len(claim.subjects)}


def calls_named(claim: Claim) -> list[Expr]:
    """Return all calls of functions with the subjects' name."""
    labels = {node.operation.label for node in claim.subjects}
    live = claim.stage.live.values()
    return [node for node in live if isinstance(node.operation, Call) and node.operation.label in labels]


@of_decision(Batch.same_operands)
def same_operands(claim: Claim) -> Facts:
    counts = set()
    for bucket in buckets(claim):
        assert len({tuple(each.uid for each in claim.stage.operands(node)) for node in bucket}) == 1
        counts.add(len(bucket))
    (count,) = counts
    assert count > 1
    return {"name": claim.subjects[0].operation.label, "count": count}


@of_decision(Batch.depth)
def depth(claim: Claim) -> Facts:
    """Check that no two unbatched calls of one body have the same depth."""
    result = depths(claim.stage)
    facts = set()
    for call in claim.subjects:
        alike = [node for node in calls_named(claim) if node.operation is call.operation]
        deep = {result[node.uid][0] for node in alike}
        assert len(deep) > 1
        assert [node for node in alike if result[node.uid][0] == result[call.uid][0]] == [call]
        facts.add((len(alike), len(deep)))
    ((count, levels),) = facts
    return {"name": claim.subjects[0].operation.label, "count": count, "depths": levels}


@of_decision(Batch.other_body)
def other_body(claim: Claim) -> Facts:
    calls = calls_named(claim)
    for call in claim.subjects:
        assert [node for node in calls if node.operation is call.operation] == [call]
    bodies = len({id(node.operation) for node in calls})
    assert bodies > 1
    return {"name": claim.subjects[0].operation.label, "bodies": bodies}
