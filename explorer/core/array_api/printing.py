"""String form of an expression, for ``print(y)``: one line per node, with its label and type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.record.escape import visible

_MAX_LINES = 60
_MAX_VALUE_LENGTH = 60
"""maximum number of characters of an attribute's value"""


class Node(Protocol):
    """Interface of expressions that printing needs."""

    uid: int
    operation: Any
    type: AnyType

    @property
    def operands(self) -> Sequence[Node]:
        """Operands of the node."""

    @property
    def label(self) -> str:
        """Name of the node."""


def nested(root: Node) -> str:
    """Return an expression as text, with operands indented below their reader: "log: matrix 2×3 float64".

    A value with several readers is printed once, as "%1 = …", and as "%1" afterwards. For a large expression, only the
    first nodes in depth-first order are printed, followed by the number of remaining nodes. The traversal uses an
    explicit stack, because an expression may be deeper than Python's recursion limit.
    """
    # Count all readers first, because a shared value is numbered where it first occurs.
    readers = _readers(root)
    number_of: dict[int, int] = {}
    lines: list[str] = []
    pending = [(root, 0)]
    visited: set[int] = set()
    while pending and len(lines) < _MAX_LINES:
        node, depth = pending.pop()
        indent = "  " * depth
        if node.uid in number_of:
            lines.append(f"{indent}%{number_of[node.uid]}")
            continue
        visited.add(node.uid)
        name = ""
        if readers[node.uid] > 1 and node.operands:
            number_of[node.uid] = len(number_of) + 1
            name = f"%{number_of[node.uid]} = "
        lines.append(f"{indent}{name}{visible(_label_with_attributes(node))}: {_type_text(node.type)}")
        pending.extend([(operand, depth + 1) for operand in reversed(node.operands)])
    if pending:
        hidden = len(readers) - len(visited)
        remainder = (
            f"{hidden:,} more node{'s' * (hidden != 1)}" if hidden else f"{len(pending)} more lines of the same nodes"
        )
        lines.append(f"… {remainder}")
    return "\n".join(lines)


def _readers(root: Node) -> Counter[int]:
    """Count how often each node is read as an operand; the root counts as read once."""
    counts = Counter([root.uid])
    pending = [root]
    while pending:
        for operand in pending.pop().operands:
            if operand.uid not in counts:
                pending.append(operand)
            counts[operand.uid] += 1
    return counts


def _label_with_attributes(node: Node) -> str:
    """Return the node's label, with its attributes if the label is just the operation's name."""
    attributes = node.operation.attributes
    if not attributes or not node.operands or node.label != node.operation.name:
        return node.label
    return f"{node.label}({', '.join([f'{name}={_value(value)}' for name, value in attributes.items()])})"


def _value(value: Any) -> str:
    text = dtype_name(value) if isinstance(value, np.dtype) else repr(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[:_MAX_VALUE_LENGTH] + "…"


def _type_text(type_: AnyType) -> str:
    if isinstance(type_, TensorType):
        return f"{type_.category} {type_!r}" if type_.shape else repr(type_)
    return repr(type_)
