"""Formulas of nodes: binary operations written with the names of their operands.

The node "subtract 1", for example, may be ``x − 1`` or ``1 − x``.
"""

from __future__ import annotations

from collections.abc import Callable

from explorer.record.recording import Recording
from explorer.record.rows import COMMUTATIVE

_TEMPLATES = {
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
"""binary operation → template of its formula, in NumPy notation"""


def formula(recording: Recording, node: int, shorten: Callable[[str], str] = str) -> str:
    """Return the formula of a node: ``0.5·x``, ``x + b``, ``1 − exp``; "" if it would add no information.

    Operands are written as numbers, as names given by the user, or else as names of operations. A commutative operation
    has a formula only if an operand is a number or has a user's name. Different operands must always have different
    names. ``shorten`` is applied to each name.
    """
    nodes = recording.nodes
    operation = recording.operations[nodes.operation[node]]
    template, operands = _TEMPLATES.get(operation), nodes.operands[node]
    if template is None or len(operands) != 2 or nodes.kind[node] != "operation":
        return ""
    names = [nodes.label[operand] for operand in operands]
    if operation in COMMUTATIVE and not any(_is_named(recording, operand) for operand in operands):
        return ""
    # "add / add" for two different sums would look like a value divided by itself.
    if names[0] == names[1] and operands[0] != operands[1]:
        return ""
    # a number comes first in a product, regardless of its position in the program
    if operation == "multiply" and nodes.kind[operands[1]] == "constant" != nodes.kind[operands[0]]:
        names.reverse()
    return template.format(*map(shorten, names))


def _is_named(recording: Recording, node: int) -> bool:
    """Return whether a node is a number, or a value that the user named."""
    nodes = recording.nodes
    kind = nodes.kind[node]
    return kind == "constant" or (
        kind in ("leaf", "input") and nodes.label[node] != recording.operations[nodes.operation[node]]
    )
