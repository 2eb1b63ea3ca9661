"""Digests of operators, which are short strings for comparing their arguments and inner graphs."""

from __future__ import annotations

import hashlib

from explorer.net.definition.operator_definition import OperatorDefinition


def operator_digest(operator: OperatorDefinition) -> str:
    """Return a digest of an operator's arguments and inner graphs, "" if it has neither.

    Weights in inner graphs contribute their shapes and dtypes, but not their elements.
    """
    if not operator.arguments and not operator.bodies:
        return ""
    digest = hashlib.sha256()
    remaining = [operator]
    while remaining:
        current = remaining.pop()
        weights = {name: (each.shape, each.dtype) for name, each in current.weights.items()}
        graphs = [(name, body.inputs, body.outputs, len(body.operators)) for name, body in current.bodies.items()]
        ports = "" if current is operator else (current.type, current.inputs, current.outputs, weights)
        digest.update(repr((ports, sorted(current.arguments.items()), graphs)).encode())
        remaining += [inner for body in current.bodies.values() for inner in body.operators]
    return digest.hexdigest()[:16]
