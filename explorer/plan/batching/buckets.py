"""Buckets: similar calls, and similar operations, that cannot depend on each other.

Two calls at equal depth (the most calls on a path up to them) are independent, since a path from one to the other would
make the depth of the second larger. So one walk that counts depths replaces a search for paths between all pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Body, Call, Item, Parameter, make_body
from explorer.core.ir.operation import Operation
from explorer.core.ir.recording_context import recording_at
from explorer.core.types.tensor_type import AnyType
from explorer.plan.graph.plan_graph import PlanGraph

_LEAF = 0, 0


@functools.lru_cache(256)
def single_operation_body(operation: Operation, types: tuple[AnyType, ...]) -> Body:
    """Return the body of a function that does nothing but one operation, so that both are batched by one path."""
    with recording_at(None, None):
        parameters = tuple([Parameter(type_, f"x{place}")() for place, type_ in enumerate(types)])
        return make_body(operation.name, parameters, (), (record(operation, parameters),))


@dataclass(slots=True)
class Bucket:
    """Similar calls, or operations, that cannot depend on each other."""

    members: list[Expr]
    body: Body
    """the function, or the single operation, that each member applies"""
    called: bool
    """whether the members are calls"""


def buckets_of(graph: PlanGraph, fewest: int) -> tuple[list[Bucket], dict[int, list[Expr]]]:
    """Return buckets in the order in which they can depend on each other, and by uid of a call its Item nodes.

    The order is by depth of calls, calls first, then by level; operations are looked at where there are ``fewest`` of
    one kind over operands of one type.
    """
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
            # Not max(): this runs for each operand of each node of a graph.
            if other[0] > deepest:
                deepest = other[0]
            if other[1] > level:
                level = other[1]
        operation = node.operation
        level += 1
        if isinstance(operation, Call) and operation.inlinable:
            deepest += 1
            # Operations are interned, so that calls of one body on operands of one type have one operation.
            calls.setdefault((deepest, id(operation)), []).append(node)
        elif isinstance(operation, Item):
            items.setdefault(operands[0].uid, []).append(node)
        # Views take no time, and tuples cannot be stacked: neither is batched by itself.
        elif not operation.view and not operation.takes_tuples:
            # By level alone first: only a level with enough operations is worth the keys that compare their types.
            operations.setdefault((deepest, level), []).append(node)
        depth[node.uid] = deepest, level
    buckets: list[tuple[tuple[int, ...], Bucket]] = []
    for (deep, _), members in calls.items():
        call = members[0].operation
        assert isinstance(call, Call)
        buckets.append(((deep, 0, 0), Bucket(members, call.body, True)))
    for (deep, level), nodes in operations.items():
        buckets += [((deep, 1, level), bucket) for bucket in _alike(nodes, inputs, fewest)]
    return [bucket for _, bucket in sorted(buckets, key=lambda pair: pair[0])], items


def _alike(nodes: Sequence[Expr], inputs: Mapping[int, Sequence[Expr]], fewest: int) -> Iterator[Bucket]:
    """Yield the operations of one level that are ``fewest`` or more over operands of the same types."""
    if len(nodes) < fewest:
        return
    by_pattern: dict[tuple[Operation | AnyType, ...], list[Expr]] = {}
    for node in nodes:
        by_pattern.setdefault((node.operation, *[operand.type for operand in inputs[node.uid]]), []).append(node)
    for members in by_pattern.values():
        if len(members) >= fewest:
            operation, *types = members[0].operation, *[operand.type for operand in inputs[members[0].uid]]
            yield Bucket(members, single_operation_body(operation, tuple(types)), False)
