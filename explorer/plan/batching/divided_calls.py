"""Divided mapped calls: ``ex.map`` in several parts, each computed by one worker.

A part is a call that is not inlined, so its operands are sent in one message and its results in another. It contains a
mapped call over fewer elements, which is planned like any other call (plan/passes/inline.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Body, Call, Parameter, make_body
from explorer.core.ir.mapped_call import MappedCall
from explorer.core.ir.recording_context import Scope, recording_at
from explorer.core.tracing.trace import outputs_of
from explorer.core.types.tensor_type import AnyType
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.slicing import part_of
from explorer.plan.batching.vectorize import batched_type
from explorer.plan.schedule.task_assignment import Network


class PartCall(Call):
    """Call of a function that computes some elements of a mapped call; one worker runs the whole call."""

    inlinable: ClassVar[bool] = False


def divided_us(call: MappedCall, types: Sequence[AnyType], batched_us: float, network: Network) -> float:
    """Return the estimated time in µs of a mapped call that is divided among all workers, including messages.

    ``types`` are the types of the operands. ``batched_us`` is the time in µs if one process computes all elements at
    once. Operands that are not mapped are sent to every worker.
    """
    parts = part_count(call, network)
    # Only the largest part counts, because all parts run concurrently, and the call ends when the last one ends.
    fraction = -(-call.size // parts) / call.size
    pairs = zip(types, call.batched, strict=True)
    operands = sum([type_.nbytes * (fraction if is_batched else 1.0) for type_, is_batched in pairs])
    results = fraction * call.size * sum([output.type.nbytes for output in call.body.outputs])
    messages = 2 * network.latency + network.overhead + (operands + results) / network.bandwidth
    return fraction * batched_us + messages


def part_count(call: MappedCall, network: Network) -> int:
    """Return the number of parts: one per worker, but at most one per element."""
    return max(1, min(network.workers, call.size))


def divided_body(call: MappedCall, parts: int) -> Body:
    """Return a body that computes ``call`` in parts.

    The body slices the operands, calls a PartCall for each part, and joins the results. The result is cached in the
    mapped body for each number of parts. Parts of equal size share one body.
    """
    key = ("divided", call.size, call.batched, parts)
    cached: Body | None = call.body.derived.get(key)
    if cached is None:
        cached = call.body.derived.setdefault(key, _divided(call, parts))
    return cached


def _divided(call: MappedCall, parts: int) -> Body:
    scope = Scope(call.label, "batch", None)
    origin = call.body.outputs[0]
    bounds = [call.size * part // parts for part in range(parts + 1)]
    with recording_at(scope, origin.code, origin.instruction):
        parameters = _parameters(call)
        # Part sizes differ by at most one, so only two bodies are planned, however many workers there are.
        bodies = {size: _part_body(call, size) for size in {last - first for first, last in pairwise(bounds)}}
        columns: list[list[Expr]] = []
        for first, last in pairwise(bounds):
            body = bodies[last - first]
            rows = [
                part_of(parameter, slice(first, last)) if is_batched else parameter
                for parameter, is_batched in zip(parameters, call.batched, strict=True)
            ]
            columns.append(outputs_of(record(PartCall(body), tuple(rows)), len(body.outputs)))
        outputs = [concatenate(results) for results in zip(*columns, strict=True)]
        return make_body(scope.name, parameters, (), tuple(outputs), scope)


def _part_body(call: MappedCall, size: int) -> Body:
    """Return a body over ``size`` elements whose only operation is a mapped call."""
    part = MappedCall(call.body, size, call.batched)
    parameters = _parameters(part)
    outputs = outputs_of(record(part, parameters), len(call.body.outputs))
    return make_body(part.label, parameters, (), tuple(outputs))


def _parameters(call: MappedCall) -> tuple[Expr, ...]:
    inputs = zip((*call.body.parameters, *call.body.captured), call.batched, strict=True)
    return tuple(
        [
            Parameter(batched_type(node.tensor_type, call.size) if is_batched else node.type, node.label)()
            for node, is_batched in inputs
        ]
    )
