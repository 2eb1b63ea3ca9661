"""Batch: independent calls of one function, or independent equal operations, become one call or operation on stacked
operands.

A loop over samples records the same operations for each sample. The pass finds these operations (`buckets_of`),
vectorizes the body of the function over a leading batch axis (plan/batching/vectorize.py), stacks the operands, and
makes every reader read its row. `ex.function` marks code that is worth batching as a whole. Equal single operations are
batched only if there are enough of them, because stacking operands costs as much as a few small kernels.

The depth of a call is the maximum number of calls on a path to it. Two calls at equal depth are independent, because a
path from the first to the second would make the second deeper. Computing depths in one traversal therefore replaces a
search for paths between all pairs.

The origin of these rules is described in assets/decisions/0003-lessons-from-batching-a-thousand-calls.md.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from explorer.core.ir.expr import Expr, Operation, make_replacement, next_uid, record, runs_on
from explorer.core.ir.function import Body, Call, Item, Parameter, make_body
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.traversal import reachable
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.ops.manipulation.concat import GatherStack, Stack
from explorer.ops.manipulation.slicing import Index0
from explorer.plan.batching.vectorize import NotBatchableError, batch_body
from explorer.plan.graph.constancy import prepared
from explorer.plan.graph.cost_model import REFERENCE_COST_MODEL, CostModel, body_cost
from explorer.plan.graph.decisions import NodeGroup
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Facts, Reason, RuleInfo
from explorer.plan.rewrite.matchers import member
from explorer.record.dimension_names import shape_text

_BATCH = "Batching stacks operands: f(x0), f(x1), … become the rows of f(np.stack([x0, x1, …]))."
_UNBATCHED = 'ex.EvalPlan(without=["batch"]) computes them one by one.'

_SHOWN = 4
"""maximum number of operands whose shapes are listed in a decision"""
_ROW = 0.12
"""µs to copy one row to a stack, in addition to the time for its bytes"""


@dataclass(frozen=True)
class Batch(Pass):
    """Run many calls of one function, or many equal operations, as one batched call or operation if that is faster.

    Batch elements have equal call depth; operations also have equal level. Therefore no element can depend on another.
    """

    batched_calls = Reason(
        "batched",
        "{count:call} to `{name}` are computed as one call on stacked operands, because this takes an estimated "
        "{together_us} instead of {separate_us}. The shapes are {shapes_before} for each call, and {shapes_after} for "
        "the one call.",
        meaning=f"{_BATCH} (5×3, 3) → 5 means operands of the shapes 5×3 and 3, and a result of shape 5.",
        change=_UNBATCHED,
    )
    batched_operations = Reason(
        "batched",
        "{count} `{name}` operations are computed as one operation on stacked operands, because this takes an "
        "estimated {together_us} instead of {separate_us}. The shapes are {shapes_before} for each operation, and "
        "{shapes_after} for the one operation.",
        meaning=f"{_BATCH} (5×3, 3) → 5 means operands of the shapes 5×3 and 3, and a result of shape 5.",
        change=_UNBATCHED,
    )
    device_calls = Reason(
        "device",
        "{count:call} to `{name}` are computed one by one, not batched, because batching needs the operation "
        "`{operation}`, for which the device `{device}` has no code.",
        meaning=_BATCH,
        change="Register a kernel for the missing operation on this device: @ex.kernel(operation, on=device).",
    )
    element_calls = Reason(
        "element_type",
        "{count:call} to `{name}` are computed one by one, not batched, because their elements have a custom dtype, "
        "and only elements of NumPy's dtypes can be stacked.",
        meaning=_BATCH,
        change='Convert the operands to a NumPy dtype first: x.astype("float64").',
    )
    not_batchable_calls = Reason(
        "not_batchable",
        "{count:call} to `{name}` are computed one by one, not batched, because `{name}` contains `{inner}`, which "
        "cannot be computed on stacked operands: {why}.",
        meaning=_BATCH,
        change="Move this operation out of the function. If it is user-defined, give its class a batch() method "
        "instead.",
    )
    dear_calls = Reason(
        "stacking_costs_more",
        "{count:call} to `{name}` are computed one by one, not batched, because one by one they take an estimated "
        "{separate_us}, but batched they would take {together_us}, with the time to stack their operands.",
        meaning=_BATCH,
        change="If the operands are already rows of one array, apply the function to the whole array instead of to "
        "its rows.",
    )
    not_batchable_operations = Reason(
        "not_batchable",
        "{count} `{name}` operations are computed one by one, not batched, because `{name}` cannot be computed on "
        "stacked operands of these shapes.",
        meaning=f"{_BATCH} An operation can be batched if its batch() method defines how, and if it has no side "
        "effects.",
        change="If the operation is user-defined, give its class a batch() method.",
    )
    dear_operations = Reason(
        "stacking_costs_more",
        "{count} `{name}` operations are computed one by one, not batched, because one by one they take an estimated "
        "{separate_us}, but batched they would take {together_us}, with the time to stack their operands.",
        meaning=_BATCH,
        change="If the operands are already rows of one array, apply the operation to the whole array instead of to "
        "its rows.",
    )
    same_operands = Reason(
        "same_operands",
        "{count:call} to `{name}` are not batched, because their operands are the same values, so there is nothing to "
        "stack.",
        meaning=_BATCH,
        change='Leave out the option without=["dedup"]: equal calls are then merged into one, unless they have side '
        "effects.",
    )
    depth = Reason(
        "depth",
        "{count:call} to `{name}` are computed one by one, not batched, because they are at {depths} different "
        "depths: a call may need the result of another call, and must then start later.",
        meaning=f"{_BATCH} The depth of a call is the length of the longest chain of calls that must finish one after "
        "another before it. Calls of one depth cannot need each other's results.",
        change="Let no call need the result of another: calls that read only stored values have the same depth and "
        "are batched.",
    )
    other_body = Reason(
        "other_body",
        "This call to `{name}` is not batched with the others, because only calls with the same shapes, dtypes and "
        "options can be batched: `{name}` was recorded (traced) {bodies:time}, once for each combination.",
        meaning=f"{_BATCH} A function is traced once for each combination of operand types and options. Another "
        "function with the same name is traced separately.",
        change="Give all calls operands of the same shape and dtype.",
    )

    cost_model: CostModel = field(default=REFERENCE_COST_MODEL)
    fewest: int = 5
    """minimum number of equal operations on equal types; with fewer operations, stacking takes as long as it saves"""
    name, numerics = "batch", "reordering"
    decides = "batches"

    def run(self, graph: PlanGraph) -> None:
        """Consider the buckets in order of dependency, and record why nodes were not batched."""
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
    """State of the pass on one graph: nodes that were batched, and nodes that were not."""

    def __init__(self, rule: Batch, graph: PlanGraph, items: dict[int, list[Expr]]) -> None:
        self.rule, self.prices, self.graph, self.items = rule, rule.cost_model, graph, items
        self.rows = BatchMembers(graph)
        self._kept: dict[tuple[str, Reason], tuple[list[Expr], list[float]]] = {}
        """(name, reason) → operations that were not batched, and their total costs with and without batching"""

    def consider(self, bucket: Bucket) -> None:
        """Batch the nodes of a bucket if the estimated cost is lower; otherwise decline with a reason.

        The cost of a batch includes the vectorized body, the stacking of operands that no earlier batch has stacked,
        and one view for each result that is read separately.
        """
        members, rows, inputs = bucket.members, self.rows, self.graph.inputs
        # Calls on the same values must stack them in the same order, in whatever order they were recorded. The backward
        # pass records its calls in reverse order, and dedup merges only equal stacks.
        columns = list(zip(*[inputs[node.uid] for node in members], strict=True))
        batched = tuple([len(set(map(id, column))) > 1 for column in columns])
        # if no operand differs, the nodes are equal, and dedup merges them
        if not any(batched):
            return
        different = [column for column, is_batched in zip(columns, batched, strict=True) if is_batched]
        keys = [*zip(*[map(rows.sort_key, column) for column in different], strict=True)]
        count = len(members)
        order = sorted(range(count), key=keys.__getitem__)
        members[:] = [members[index] for index in order]
        columns = [tuple([column[index] for index in order]) for column in columns]
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
                extra_facts={"inner": error.given, "why": error.rule},
            )
            return
        missing = _without_kernel(vectorized)
        if missing is not None:
            self._keep(bucket, self.rule.device_calls, None, extra_facts=missing)
            return
        separate_us = count * body_cost(bucket.body, self.prices)
        # Each result is read as a row, and a row is a view.
        results = sum(len(self.items.get(node.uid, ())) or 1 for node in members)
        batched_us = body_cost(vectorized, self.prices) + results * self.prices.view
        for column, is_batched in zip(columns, batched, strict=True):
            if is_batched and rows.as_whole(column) is None:
                stacked_bytes = column[0].type.nbytes * count
                batched_us += self.prices.call + _ROW * count + stacked_bytes / self.prices.bandwidth
        # If the costs are equal, keep the program as written, because this is easier to understand.
        if batched_us < separate_us:
            prices = {"separate_us": round(separate_us, 2), "together_us": round(batched_us, 2)}
            self._batch(members, columns, batched, vectorized, {"name": bucket.body.name, "count": count, **prices})
        else:
            self._keep(bucket, self.rule.dear_calls, self.rule.dear_operations, (batched_us, separate_us))

    def close(self) -> None:
        """Replace batched nodes that are read outside of batches by rows.

        Records declined decisions for nodes that were not batched.
        """
        self.rows.finish()
        for (name, reason), (members, prices) in self._kept.items():
            self._refuse(members, name, reason, prices)

    def _keep(
        self,
        bucket: Bucket,
        of_calls: Reason,
        of_operations: Reason | None,
        prices: tuple[float, ...] = (),
        extra_facts: Facts | None = None,
    ) -> None:
        """Keep the nodes of a bucket unbatched, for the reason ``of_calls`` or ``of_operations``.

        Calls are declined immediately. Operations with the same name are declined together later, with the sum of their
        costs. ``prices`` contains the costs in µs with and without batching. If there is no reason for operations,
        fusion decides about them.
        """
        if bucket.called:
            self._refuse(bucket.members, bucket.body.name, of_calls, prices, extra_facts)
        elif of_operations is not None:
            members, totals = self._kept.setdefault((bucket.body.name, of_operations), ([], [0.0] * len(prices)))
            members.extend(bucket.members)
            totals[:] = [total + price for total, price in zip(totals, prices, strict=True)]

    def _refuse(
        self,
        members: list[Expr],
        name: str,
        reason: Reason,
        prices: Sequence[float],
        extra_facts: Facts | None = None,
    ) -> None:
        """Record, with ``extra_facts``, that nodes of one function or operation are not batched."""
        facts: Facts = {"name": name, "count": len(members), **(extra_facts or {})}
        if prices:
            batched, separate = prices
            facts |= {"separate_us": round(separate, 2), "together_us": round(batched, 2)}
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
        """Record the batch of ``members`` and replace them by its rows; ``body`` is the vectorized body.

        All new nodes (stacks, the batch, its outputs) belong to one decision. New nodes are recognised by their uids,
        which are larger than the uids of older nodes.
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
            output_types = result.type.parts if isinstance(result.type, TupleType) else ()
            # A body with one output returns this output, and a body with several outputs a tuple. Convert both to a
            # list.
            batched_outputs = [record(Item(index), (result,)) for index in range(len(output_types))] or [result]
        facts |= {
            "shapes_before": _shapes([column[0] for column in columns], first),
            "shapes_after": _shapes(operands, result),
        }
        # Record the decision after the batch, because the decision refers to the result.
        decision = graph.decide(
            self.rule,
            self.rule.batched_calls if isinstance(first.operation, Call) else self.rule.batched_operations,
            facts,
            members,
            (result,),
        )
        graph.groups.append(NodeGroup(decision, "batch", list(members), body.name))
        stacks = [operand for operand in operands if operand.uid > last_old]
        # An operation's batching rule may record several operations between the operands and the result.
        intermediates = [
            node for node in reachable([result], stop=lambda node: node.uid < last_operand) if node.uid > last_operand
        ]
        graph.add_nodes(decision, [*stacks, *intermediates, *(batched_outputs if output_types else ())], first)
        for index, node in enumerate(members):
            if output_types:
                for item in self.items.get(node.uid, ()):
                    assert isinstance(item.operation, Item)
                    rows.add(item, batched_outputs[item.operation.index], index, decision)
                # The outputs of this node are rows now, so the node itself needs no replacement.
                graph.removed.append((decision, node))
            else:
                rows.add(node, result, index, decision)


def _shapes(operands: Sequence[Expr], result: Expr) -> str:
    """Return the shapes of operands and results as a string, such as ``(64, 64×10) → 10``."""
    types = result.type.parts if isinstance(result.type, TupleType) else (result.type,)
    texts = [shape_text(operand.shape) for operand in operands[:_SHOWN]] + ["…"] * (len(operands) > _SHOWN)
    return f"({', '.join(texts)}) → {', '.join([shape_text(type_.shape) for type_ in types])}"


def _without_kernel(body: Body) -> Facts | None:
    """Return facts about the first operation of a batch that has no kernel on its device.

    Returns None if all have kernels. A batch stacks its operands, computes the vectorized body ``body``, and returns
    rows.
    """
    devices = dict.fromkeys([node.type.device for node in body.nodes])
    required = [(node.operation, node.type.device) for node in body.nodes]
    required += [(operation, device) for device in devices for operation in (Stack(), Index0(0))]
    for operation, device in required:
        if device is not cpu and not isinstance(operation, (Parameter, Call, Item)) and not runs_on(operation, device):
            return {"operation": operation.name, "device": device.name}
    return None


def record_unbatched(
    rule: RuleInfo, buckets: Iterable[Sequence[Expr]], first: int, cost_model: CostModel, graph: PlanGraph
) -> None:
    """Record a declined decision for every call that has no decision since the index ``first``.

    Functions that are called only once are excluded. A bucket contains the calls of one body at one call depth. Its
    estimated cost is the time to start a call's kernels, because all calls of a batch would share these kernels.
    """
    explained = {node.uid for decision in graph.decisions[first:] for node in decision.subjects}
    buckets_by_name: dict[str, list[Sequence[Expr]]] = {}
    for bucket in buckets:
        buckets_by_name.setdefault(bucket[0].operation.label, []).append(bucket)
    for name, function_buckets in buckets_by_name.items():
        depths: dict[int, list[Sequence[Expr]]] = {}
        for bucket in function_buckets:
            depths.setdefault(id(bucket[0].operation), []).append(bucket)
        # If a function is called only once, there is nothing to batch the call with.
        if len(function_buckets) == 1 and len(function_buckets[0]) == 1:
            continue
        counts = {body: sum(map(len, body_buckets)) for body, body_buckets in depths.items()}
        for bucket in function_buckets:
            if bucket[0].uid in explained:
                continue
            body = id(bucket[0].operation)
            body_buckets, count = depths[body], counts[body]
            if len(bucket) > 1:
                reason = Batch.same_operands
                facts: Facts = {"name": name, "count": len(bucket)}
            elif len(body_buckets) > 1:
                reason = Batch.depth
                facts = {"name": name, "count": count, "depths": len(body_buckets)}
            else:
                reason = Batch.other_body
                facts = {"name": name, "bodies": len(depths)}
            cost = _starts(bucket[0]) * cost_model.call
            for call in bucket:
                graph.decline(rule, reason, facts, call, estimated_cost_us=cost)


def _starts(call: Expr) -> int:
    """Return the number of kernels that ``call`` starts."""
    assert isinstance(call.operation, Call)
    return sum([bool(node.operands) and not node.operation.view for node in call.operation.body.nodes])


_reader = functools.cache(Index0)
"""Index0 operations by index; the cache contains as many as the largest batch has elements"""


class UnreadMembers(dict[int, tuple[Expr, int]]):
    """uid of a node that was replaced by a row of a batch → the batched value and the index of the row"""


class BatchMembers:
    """Nodes that were replaced by rows of batched values."""

    def __init__(self, graph: PlanGraph) -> None:
        self._graph = graph
        self._members: dict[int, tuple[Expr, int]] = {}
        """uid of a node → the batched value, and the index of the node's row in it"""
        self._nodes_by_decision: dict[int, list[Expr]] = {}
        """decision → the nodes that it batched"""
        self._read_individually: set[int] = set()
        """uids of batched nodes that a batch reads individually"""

    def add(self, node: Expr, batched_value: Expr, index: int, decision: int) -> None:
        """Record that ``node`` is the row ``index`` of a batched value, according to a decision."""
        self._members[node.uid] = batched_value, index
        self._nodes_by_decision.setdefault(decision, []).append(node)

    def sort_key(self, node: Expr) -> tuple[int, int]:
        """Return a key that sorts nodes by their batched values, then by their rows."""
        entry = self._members.get(node.uid)
        return (node.uid, -1) if entry is None else (entry[0].uid, entry[1])

    def as_whole(self, column: Sequence[Expr]) -> Expr | None:
        """Return the value whose rows are exactly the nodes in ``column``, in order; return None if there is none."""
        first = self._member(column[0])
        if first is None or first[0].shape[0] != len(column):
            return None
        for index, node in enumerate(column):
            row = self._member(node)
            # The rows must be in order and without gaps. Any other selection of rows needs a gather.
            if row is None or row[0] is not first[0] or row[1] != index:
                return None
        return first[0]

    def stack(self, column: Sequence[Expr]) -> Expr:
        """Return a value whose rows are the nodes in ``column``: an existing value, a gather of rows or a stack."""
        batched_value = self.as_whole(column)
        if batched_value is not None:
            return batched_value
        # Leaves are no rows of a value.
        members = [self._member(node) for node in column] if any(node.operands for node in column) else []
        # If no node is a row of a value, use a Stack, which needs no look-ups.
        if not any(members):
            return Stack()(*column)
        return GatherStack.of([(node, None) if row is None else row for node, row in zip(column, members, strict=True)])

    def shared(self, node: Expr) -> Expr:
        """Return ``node``, which every element of a batch reads, and remember that it is needed individually."""
        if node.uid in self._members:
            self._read_individually.add(node.uid)
        return node

    def finish(self) -> None:
        """Replace each batched node that is read outside of batches by a row, and remove the other batched nodes."""
        members, graph = self._members, self._graph
        if not members:
            return
        needed = self._read_individually.union([root.uid for root in graph.roots])
        removed = {node.uid for _, node in graph.removed}
        # Readers outside of batches are the roots, and the nodes that were not batched.
        for node in graph.live:
            if node.uid not in members and node.uid not in removed:
                needed.update([operand.uid for operand in graph.inputs[node.uid]])
        for decision, nodes in self._nodes_by_decision.items():
            unread = [node for node in nodes if node.uid not in needed]
            graph.removed += [(decision, node) for node in unread]
            graph.notes(UnreadMembers).update({node.uid: members[node.uid] for node in unread})
            graph.substitute_many(decision, [(node, self._row(node)) for node in nodes if node.uid in needed])

    def _row(self, node: Expr) -> Expr:
        """Record the row that replaces ``node``, with the node's scope and source line."""
        batched_value, index = self._members[node.uid]
        return make_replacement(_reader(index), (batched_value,), node, node.scope, node.type)

    def _member(self, node: Expr) -> tuple[Expr, int] | None:
        """Return (value, index) if ``node`` is a row of a value; otherwise return None.

        It may be a row because of batching, or because the program was written that way.
        """
        entry = self._members.get(node.uid)
        return member(node, self._graph) if entry is None else entry


@functools.lru_cache(256)
def single_operation_body(operation: Operation, types: tuple[AnyType, ...]) -> Body:
    """Return a body with a single operation, so that the same code can batch calls and single operations."""
    with recording_at(None, None):
        parameters = tuple([Parameter(type_, f"x{index}")() for index, type_ in enumerate(types)])
        return make_body(operation.name, parameters, (), (record(operation, parameters),))


@dataclass(slots=True)
class Bucket:
    """Similar calls or operations that are independent of each other."""

    members: list[Expr]
    body: Body
    """the body of the function, or of the single operation, that each node applies"""
    called: bool
    """whether the nodes are calls"""


def buckets_of(graph: PlanGraph, fewest: int) -> tuple[list[Bucket], dict[int, list[Expr]]]:
    """Return buckets in order of dependency, and a map from the uid of a call to its Item nodes.

    Buckets are sorted by call depth; at each depth calls come first, then operations by level. Equal operations on
    operands of the same types form a bucket only if there are at least ``fewest`` of them.
    """
    levels: dict[int, int] = {}
    """uid of a node → maximum number of operations on a path to the node"""
    depths: dict[int, int] = {}
    """uid of a node that depends on calls → maximum number of calls on a path to the node"""
    calls: dict[tuple[int, int], list[Expr]] = {}
    operations: list[Expr] = []
    positions: list[int] = []
    """depth and level of each operation, as depth · stride + level"""
    items: dict[int, list[Expr]] = {}
    inputs, stride = graph.inputs, len(graph.live) + 1
    once = {node.uid for node in prepared(graph)}
    for node in graph.live:
        uid = node.uid
        operands = inputs[uid]
        level = deepest = 0
        # Do not call max(), because this runs for each operand of each node of a graph.
        for operand in operands:
            operand_level = levels[operand.uid]
            if operand_level >= level:
                level = operand_level + 1
        levels[uid] = level
        if not operands:
            continue
        if depths:
            for operand in operands:
                depth = depths.get(operand.uid, 0)
                if depth > deepest:
                    deepest = depth
        operation = node.operation
        if isinstance(operation, Call) and operation.inlinable:
            deepest += 1
            # Equal operations are the same object, so equal calls have operations with the same id.
            calls.setdefault((deepest, id(operation)), []).append(node)
        elif isinstance(operation, Item):
            items.setdefault(operands[0].uid, []).append(node)
        # Views take no time, operations on weights run only once, and tuples cannot be stacked.
        elif not (operation.view or operation.takes_tuples or uid in once):
            operations.append(node)
            positions.append(deepest * stride + level)
        if deepest:
            depths[uid] = deepest
    buckets: list[tuple[tuple[int, ...], Bucket]] = []
    for (call_depth, _), members in calls.items():
        call = members[0].operation
        assert isinstance(call, Call)
        buckets.append(((call_depth, 0, 0), Bucket(members, call.body, True)))
    # Group by position first. The keys with types are needed only for positions that have enough operations.
    wide = {position for position, count in Counter(positions).items() if count >= fewest}
    alike: dict[int, list[Expr]] = {}
    for node, position in zip(operations, positions, strict=True) if wide else ():
        if position in wide:
            alike.setdefault(position, []).append(node)
    for position, nodes in alike.items():
        call_depth, level = divmod(position, stride)
        buckets += [((call_depth, 1, level), bucket) for bucket in _equal_operations(nodes, inputs, fewest)]
    return [bucket for _, bucket in sorted(buckets, key=lambda pair: pair[0])], items


def _equal_operations(nodes: Sequence[Expr], inputs: Mapping[int, Sequence[Expr]], fewest: int) -> Iterator[Bucket]:
    """Yield buckets of at least ``fewest`` equal operations of one level, on operands of the same types."""
    by_pattern: dict[tuple[Operation | AnyType, ...], list[Expr]] = {}
    for node in nodes:
        by_pattern.setdefault((node.operation, *[operand.type for operand in inputs[node.uid]]), []).append(node)
    for members in by_pattern.values():
        if len(members) >= fewest:
            operation, *types = members[0].operation, *[operand.type for operand in inputs[members[0].uid]]
            yield Bucket(members, single_operation_body(operation, tuple(types)), False)
