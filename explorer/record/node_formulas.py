"""Formulas of nodes: expressions of binary operations in terms of their operands' names.

A node "subtract 1" may be ``x − 1`` or ``1 − x``, which its formula distinguishes.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.record.recording import Recording
from explorer.record.rows import COMMUTATIVE

_WRITTEN = {
    "add": "{} + {}",
    "subtract": "{} − {}",
    "multiply": "{}·{}",
    "divide": "{} / {}",
    "floor_divide": "{} // {}",
    "remainder": "{} % {}",
    "power": "{}**{}",
    "matmul": "{} @ {}",
    "equal": "{} == {}",
    "not_equal": "{} != {}",
    "less": "{} < {}",
    "less_equal": "{} <= {}",
    "greater": "{} > {}",
    "greater_equal": "{} >= {}",
    "maximum": "max({}, {})",
    "minimum": "min({}, {})",
    "logical_and": "{} & {}",
    "logical_or": "{} | {}",
    "logical_xor": "{} ^ {}",
}
"""binary operation → its formula, as a NumPy user writes it"""


def formula(recording: Recording, node: int, shorten: Callable[[str], str] = str) -> str:
    """Return the formula of a node: ``0.5·x``, ``x + b``, ``1 − exp``; "" if it would add no information.

    An operand is shown as a number or by the user's name, else by its operation's name. For commutative operations, a
    formula needs a number or a user's name; and two operands must always have different names. ``shorten`` is applied
    to each name.
    """
    nodes = recording.nodes
    operation = recording.operations[nodes.operation[node]]
    written, operands = _WRITTEN.get(operation), nodes.operands[node]
    if written is None or len(operands) != 2 or nodes.kind[node] != "operation":
        return ""
    words = [nodes.label[operand] for operand in operands]
    if operation in COMMUTATIVE and not any(_is_named(recording, operand) for operand in operands):
        return ""
    # "add / add" of two different sums would look like a value divided by itself.
    if words[0] == words[1] and operands[0] != operands[1]:
        return ""
    # a number comes first in a product, regardless of its position in the program
    if operation == "multiply" and nodes.kind[operands[1]] == "constant" != nodes.kind[operands[0]]:
        words.reverse()
    return written.format(*map(shorten, words))


def _is_named(recording: Recording, node: int) -> bool:
    """Whether a node is a number, or a value that the user named."""
    nodes = recording.nodes
    kind = nodes.kind[node]
    return kind == "constant" or (
        kind in ("leaf", "input") and nodes.label[node] != recording.operations[nodes.operation[node]]
    )
