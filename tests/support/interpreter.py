"""A tiny interpreter: every recorded node by its own NumPy kernel, in order of recording. No plan, no memory reuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import TupleType


def reference(roots: Sequence[Expr], given: dict[int, Any] | None = None, noise: Any = None) -> list[Any]:
    """The values of expressions; with ``noise`` (a random generator) every floating result is off by about 1e-13."""
    values: dict[int, Any] = dict(given or {})
    with np.errstate(all="ignore"):
        for node in reachable(roots, stop=lambda n: n.uid in values):
            if node.uid not in values:
                value = _value(node, [values[operand.uid] for operand in node.operands], noise)
                if noise is not None and isinstance(value, np.ndarray) and value.dtype.kind == "f" and node.operands:
                    value = value * (1 + 1e-13 * noise.standard_normal(value.shape))
                values[node.uid] = value
    return [values[root.uid] for root in roots]


def _value(node: Expr, operands: list[Any], noise: Any) -> Any:
    operation = node.operation
    if isinstance(node, Tensor):
        return node.array
    if isinstance(operation, Call):
        body = operation.body
        inputs = [n.uid for n in (*body.parameters, *body.captured)]
        found = reference(body.outputs, dict(zip(inputs, operands, strict=True)), noise)
        return found[0] if len(found) == 1 else tuple(found)
    if operation.view:
        return operation.kernel(None, *operands)
    if isinstance(node.type, TupleType):
        return operation.kernel(tuple(np.empty(p.shape, p.dtype) for p in node.type.parts), *operands)
    return operation.kernel(np.empty(node.shape, node.dtype), *operands)
