"""Formulas of nodes: what an operation of two operands computes, by the names of its operands.

A node "subtract 1" may be ``x − 1`` or ``1 − x``: its formula tells which.
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
"""operation of two operands → its formula, as a NumPy user writes it"""


def formula(recording: Recording, node: int, shorten: Callable[[str], str] = str) -> str:
    """Return the formula of a node: ``0.5·x``, ``x + b``, ``1 − exp``; "" where it would tell nothing.

    An operand is a number or a name of the user's, else it is called by its operation. Where the order of operands does
    not matter, a formula needs one of the former; and everywhere two words for two operands. ``shorten`` is applied to
    each name.
    """
    nodes = recording.nodes
    operation = recording.operations[nodes.operation[node]]
    written, operands = _WRITTEN.get(operation), nodes.operands[node]
    if written is None or len(operands) != 2 or nodes.kind[node] != "operation":
        return ""
    words = [nodes.label[operand] for operand in operands]
    if operation in COMMUTATIVE and not any(_is_named(recording, operand) for operand in operands):
        return ""
    # "add / add" of two different sums would read like a division of one value by itself.
    if words[0] == words[1] and operands[0] != operands[1]:
        return ""
    # a number comes first in a product, wherever the program has it
    if operation == "multiply" and nodes.kind[operands[1]] == "constant" != nodes.kind[operands[0]]:
        words.reverse()
    return written.format(*map(shorten, words))


def _is_named(recording: Recording, node: int) -> bool:
    """Whether a node is a number, or a value to which the user gave a name."""
    nodes = recording.nodes
    kind = nodes.kind[node]
    return kind == "constant" or (
        kind in ("leaf", "input") and nodes.label[node] != recording.operations[nodes.operation[node]]
    )
