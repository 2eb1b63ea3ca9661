"""Text form of an expression, as ``print(y)`` shows it: one line per node, with its category and type.

It is meant for a look in a cell; ``x.explore()`` shows the graph itself. The text of a large graph is cut after some
lines, since repeating shared values would double it at every level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.record.escape import visible

_LINES = 60
"""maximum number of lines"""
_LONGEST = 60
"""maximum number of characters of an attribute's value"""


class Node(Protocol):
    """Interface of expressions that printing needs."""

    uid: int
    operation: Any
    type: AnyType

    @property
    def operands(self) -> Sequence[Node]:
        """Nodes that it reads."""

    @property
    def label(self) -> str:
        """Name of the node."""


def nested(root: Node) -> str:
    """Return an expression as text, operands indented below the node that reads them: "log: matrix 2×3 float64".

    A value that several nodes read is written once, as "%1 = …", and is "%1" from then on. Of a large expression the
    nodes nearest to the root's first operands are written, and the others counted. The walk keeps its own stack, since
    an expression may be deeper than Python's recursion limit.
    """
    # Counted over the whole graph first, because a value's number must be on its first line.
    readers = _readers(root)
    numbers: dict[int, int] = {}
    lines: list[str] = []
    pending = [(root, 0)]
    written: set[int] = set()
    while pending and len(lines) < _LINES:
        node, depth = pending.pop()
        indent = "  " * depth
        if node.uid in numbers:
            lines.append(f"{indent}%{numbers[node.uid]}")
            continue
        written.add(node.uid)
        name = ""
        if readers[node.uid] > 1 and node.operands:
            numbers[node.uid] = len(numbers) + 1
            name = f"%{numbers[node.uid]} = "
        lines.append(f"{indent}{name}{visible(_called(node))}: {_type_text(node.type)}")
        pending.extend([(operand, depth + 1) for operand in reversed(node.operands)])
    if pending:
        hidden = len(readers) - len(written)
        more = (
            f"{hidden:,} more node{'s' * (hidden != 1)}" if hidden else f"{len(pending)} more lines of the same nodes"
        )
        lines.append(f"… {more}")
    return "\n".join(lines)


def _readers(root: Node) -> Counter[int]:
    """Count how often each node is read; the root counts as read once."""
    counts = Counter([root.uid])
    pending = [root]
    while pending:
        for operand in pending.pop().operands:
            if operand.uid not in counts:
                pending.append(operand)
            counts[operand.uid] += 1
    return counts


def _called(node: Node) -> str:
    """Return the node's label, with its attributes if the label is the operation's bare name."""
    attributes = node.operation.attributes
    if not attributes or not node.operands or node.label != node.operation.name:
        return node.label
    return f"{node.label}({', '.join([f'{name}={_value(value)}' for name, value in attributes.items()])})"


def _value(value: Any) -> str:
    text = dtype_name(value) if isinstance(value, np.dtype) else repr(value)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _type_text(type_: AnyType) -> str:
    if isinstance(type_, TensorType):
        return f"{type_.category} {type_!r}" if type_.shape else repr(type_)
    return repr(type_)
