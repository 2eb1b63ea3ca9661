"""Fingerprints: digests of structure, equal on every machine."""

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
    """A digest of the planned structure: operations, attributes, edges, types, kernels; equal on every machine."""
    digest = hashlib.blake2b(digest_size=_BYTES)
    number: dict[int, int] = {}
    inputs = planned.graph.inputs
    _hash_nodes(digest, number, [(node, inputs[node.uid]) for node in planned.graph.live])
    for kernel in planned.schedule.kernels:
        digest.update((",".join([str(number[node.uid]) for node in kernel.nodes]) + f"@{kernel.buffer}|").encode())
    return digest.hexdigest()


def _hash_nodes(digest: Any, number: dict[int, int], nodes: Iterable[tuple[Expr, tuple[Expr, ...]]]) -> None:
    """Take nodes with their operands in, operands first, and give them numbers by uid."""
    known: dict[int, str] = {}
    for node, operands in nodes:
        number[node.uid] = len(number)
        told = known.get(id(node.operation))
        if told is None:
            told = known[id(node.operation)] = _structure(node.operation)
        edges = ",".join([str(number[operand.uid]) for operand in operands])
        digest.update(f"{told}:{edges}:{node.type!r};".encode())


def _structure(operation: Operation) -> str:
    """An operation and its attributes, for a call the digest of its body. No addresses."""
    if isinstance(operation, Call):
        return f"call {operation.label}({_of_body(operation.body)})"
    given = [f"{name}={spoken(v) if callable(v) else repr(v)}" for name, v in operation.attributes.items()]
    return f"{operation.name}({','.join(given)})"


def _of_body(body: Body) -> str:
    """The digest of a body; what stands outside counts by its type only."""
    held: str | None = body.derived.get("fingerprint")
    if held is None:
        digest = hashlib.blake2b(digest_size=_BYTES)
        inputs = (*body.parameters, *body.captured)
        digest.update(";".join([repr(node.type) for node in inputs]).encode())
        number = {node.uid: place for place, node in enumerate(inputs)}
        _hash_nodes(digest, number, [(node, node.operands) for node in body.nodes if node.uid not in number])
        digest.update(",".join([str(number[output.uid]) for output in body.outputs]).encode())
        held = body.derived["fingerprint"] = digest.hexdigest()
    return held


def spoken(value: Any) -> str:
    """A function or class by its name, without its address."""
    return str(getattr(value, "__qualname__", type(value).__qualname__))
