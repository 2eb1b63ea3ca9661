"""``pnnx.Expression``: a text of calls, expanded to single operations inside the operator's box."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import scope
from explorer.core.memory_budget import listed
from explorer.formats.pnnx.expression_parser import parse
from explorer.formats.pnnx.expression_tree import Call, ListOf, Literal, Operand, members, postorder
from explorer.formats.pnnx.operators.expression_functions import apply
from explorer.formats.pnnx.operators.table import file_operator
from explorer.net.operators.context import OperatorContext


@file_operator("pnnx.Expression")
def expression(op: OperatorContext) -> Any:
    """The value of the expression: plain where no tensor takes part in it.

    What is written twice is recorded twice, for deduplication to find. Misplaced brackets, which pnnx writes, are read
    as prefix notation; a box around the operations says so.
    """
    text = op.argument("expr")
    if not isinstance(text, str):
        raise OperandError(f"expr={text!r}", rule="an expression is a text")
    parsed = parse(text, len(op.operands))
    if parsed.form == "nested":
        return _evaluate(parsed.tree, op.operands)
    with scope("read as prefix notation: its brackets are misplaced", "file"):
        return _evaluate(parsed.tree, op.operands)


def _evaluate(tree: Any, operands: tuple[Any, ...]) -> Any:
    stack: list[Any] = []
    for node in postorder(tree):
        if isinstance(node, Operand):
            stack.append(operands[node.index])
        elif isinstance(node, Literal):
            stack.append(node.value)
        else:
            count = len(members(node))
            arguments = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            assert isinstance(node, (Call, ListOf))
            stack.append(listed(tuple(arguments)) if isinstance(node, ListOf) else apply(node.function, arguments))
    (value,) = stack
    return value
