"""Minimal interpreter that runs every recorded node's NumPy kernel in order, without plan or memory reuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.types.tensor_type import TupleType
from explorer.ops.control.scan import Scan
from explorer.ops.control.while_loop import WhileLoop


def reference(roots: Sequence[Expr], given: dict[int, Any] | None = None, noise: Any = None) -> list[Any]:
    """Return the values of expressions; a random generator ``noise`` perturbs every floating result by about 1e-13."""
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
        result = _called(operation, operands, noise)
        return result[0] if len(result) == 1 else tuple(result)
    if operation.view:
        return operation.kernel(None, *operands)
    if isinstance(node.type, TupleType):
        return operation.kernel(tuple(np.empty(p.shape, p.dtype) for p in node.type.parts), *operands)
    return operation.kernel(np.empty(node.shape, node.dtype), *operands)


def _called(operation: Call, operands: list[Any], noise: Any) -> list[Any]:
    """Return the outputs of a call or a loop; a conditional is its body's value, which contains both branches."""
    body = operation.body
    inputs = [n.uid for n in (*body.parameters, *body.captured)]

    def run(values: list[Any]) -> list[Any]:
        return reference(body.outputs, dict(zip(inputs, values, strict=True)), noise)

    if isinstance(operation, WhileLoop):
        state, outer = operands[: len(body.outputs)], operands[len(body.outputs) :]
        while state[0]:
            state = run([*state, *outer])
        return state[1:]
    if not isinstance(operation, Scan):
        return run(operands)
    count, axes = operation.states, operation.axes
    state, sequences, outer = operands[:count], operands[count:][: len(axes)], operands[count + len(axes) :]
    steps: list[list[Any]] = [[] for _ in operation.out_axes]
    for index in range(operation.length)[:: -1 if operation.reverse else 1]:
        elements = [np.take(x, index, axis) for x, axis in zip(sequences, axes, strict=True)]
        result = run([*state, *elements, *outer])
        state = result[:count]
        for values, output in zip(steps, result[count:], strict=True):
            values.append(output)
    stacks = []
    for values, output, axis in zip(steps, body.outputs[count:], operation.out_axes, strict=True):
        empty = np.zeros((0, *output.shape), output.dtype)
        ordered = values[:: -1 if operation.reverse else 1]
        stacks.append(np.stack(ordered, axis) if values else np.moveaxis(empty, 0, axis))
    return [*state, *stacks]
