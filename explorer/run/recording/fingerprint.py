"""Fingerprints: digests of structure, equal on every machine.

Two plans with one digest have the same operations over the same types in the same kernels: tests of determinism,
goldens and comparisons between machines rest on it. Nothing that differs between two processes is hashed: no address,
uid or hash of Python's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call
from explorer.core.ir.operation import Operation
from explorer.plan.planner import Plan

_BYTES = 8


def fingerprint(planned: Plan) -> str:
    """Return a digest of the planned structure: operations, attributes, edges, types, kernels."""
    digest = hashlib.blake2b(digest_size=_BYTES)
    number: dict[int, int] = {}
    inputs = planned.graph.inputs
    _hash_nodes(digest, number, [(node, inputs[node.uid]) for node in planned.graph.live])
    schedule = planned.schedule
    for kernel, placement in zip(schedule.kernels, schedule.placements, strict=True):
        digest.update((",".join([str(number[node.uid]) for node in kernel.nodes]) + f"@{placement.buffer}|").encode())
    return digest.hexdigest()


def _hash_nodes(digest: Any, number: dict[int, int], nodes: Iterable[tuple[Expr, tuple[Expr, ...]]]) -> None:
    """Add nodes and their operands to the digest, in topological order, and number them by uid."""
    known: dict[int, str] = {}
    types: dict[int, str] = {}
    for node, operands in nodes:
        number[node.uid] = len(number)
        text = known.get(id(node.operation))
        if text is None:
            text = known[id(node.operation)] = _structure(node.operation)
        edges = ",".join([str(number[operand.uid]) for operand in operands])
        type_text = types.get(id(node.type))
        if type_text is None:
            type_text = types[id(node.type)] = repr(node.type)
        digest.update(f"{text}:{edges}:{type_text};".encode())


def _structure(operation: Operation) -> str:
    """Return an operation and its attributes as text, a call with the digest of its body; no addresses."""
    if type(operation) is Call:
        return f"call {operation.label}({_of_body(operation.body)})"
    attributes = [
        f"{name}={_of_body(v) if isinstance(v, Body) else spoken(v) if callable(v) else repr(v)}"
        for name, v in operation.attributes.items()
    ]
    return f"{operation.name}({','.join(attributes)})"


def _of_body(body: Body) -> str:
    """Return the digest of a body; captured values count by their type only."""
    known: str | None = body.derived.get("fingerprint")
    if known is None:
        digest = hashlib.blake2b(digest_size=_BYTES)
        inputs = (*body.parameters, *body.captured)
        digest.update(";".join([repr(node.type) for node in inputs]).encode())
        number = {node.uid: place for place, node in enumerate(inputs)}
        _hash_nodes(digest, number, [(node, node.operands) for node in body.nodes if node.uid not in number])
        digest.update(",".join([str(number[output.uid]) for output in body.outputs]).encode())
        known = body.derived["fingerprint"] = digest.hexdigest()
    return known


def spoken(value: Any) -> str:
    """Return the name of a function or class, without its address."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
