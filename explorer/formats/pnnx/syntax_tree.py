"""Syntax trees of expressions in PNNX files, shown as text and as a graph.

The graph's operations cannot be computed, but views show them like any other graph: the stage *recorded* shows the
tree, and *dedup* merges equal subexpressions.
"""

from __future__ import annotations

from typing import Unpack

from explorer.core.argument_checks import options_of
from explorer.core.errors import OperandError
from explorer.core.ir.explore_options import ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import View, hooks
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.source_location import SourceLocation
from explorer.formats.pnnx.expression_parser import Parsed, parse
from explorer.formats.pnnx.expression_tree import Call, ListOf, Node, Operand, members, postorder, write
from explorer.net import NetOperator
from explorer.net.building.unsupported import Opaque
from explorer.record.escape import visible
from explorer.run.evalplan import EvalPlan

_ARGUMENT = "expr"


class _Word(Opaque, abstract=True):
    """Operation that represents a word of an expression and cannot be computed."""

    @property
    def label(self) -> str:
        return self.kind


class SyntaxTree:
    """Syntax tree of an expression. ``print`` shows it as indented lines, ``explore`` as a graph."""

    def __init__(self, text: str, parsed: Parsed, operands: tuple[str, ...]) -> None:
        self.text = text
        """the expression as written in its file"""
        self.is_prefix = parsed.form == "prefix"
        """whether brackets are misplaced, so that the expression was read as prefix notation"""
        self._tree, self._operands = parsed.tree, operands

    @options_of(ViewOptions)
    def explore(self, **options: Unpack[ViewOptions]) -> View:
        """Return a view of the tree. Each node's source line is the complete expression."""
        plan = EvalPlan(title=self.text, record="off")
        plan.register(self._recorded())
        return hooks.explore(plan.prepare(), **options)

    def _recorded(self) -> Expr:
        stack: list[Expr] = []
        with recording_at(None, SourceLocation("expression", 1, self.text)):
            for node in postorder(self._tree):
                count = len(members(node))
                arguments, stack = stack[len(stack) - count :], stack[: len(stack) - count]
                word = self._word(node)
                rule = "a syntax tree must be looked at, not computed"
                stack.append(
                    _Word(word, (), "it is a word of an expression", rule, "net.run(x)", word, "pnnx")(*arguments)
                )
        (root,) = stack
        return root

    def _word(self, node: Node) -> str:
        if isinstance(node, Call):
            return node.function
        if isinstance(node, ListOf):
            return "list"
        named = isinstance(node, Operand) and node.index < len(self._operands)
        return f"{write(node)} {self._operands[node.index]}" if named and isinstance(node, Operand) else write(node)

    def __str__(self) -> str:
        lines = [self.text + "  (read as prefix notation: its brackets are misplaced)" * self.is_prefix]
        # Each entry is a node, the prefix of its line, and the prefix of its children's lines. Not recursive, since
        # trees may be very deep.
        waiting: list[tuple[Node, str, str]] = [(self._tree, "", "")]
        while waiting:
            node, stem, inner = waiting.pop()
            lines.append(f"{stem}{self._word(node)}")
            children = members(node)
            for index in reversed(range(len(children))):
                is_last = index == len(children) - 1
                stems = inner + ("└ " if is_last else "├ "), inner + ("  " if is_last else "│ ")
                waiting.append((children[index], *stems))
        return "\n".join(map(visible, lines))

    def __repr__(self) -> str:
        return f"<syntax tree of {self.text!r:.80}>"


def syntax_tree(expression: str | NetOperator) -> SyntaxTree:
    """Return the syntax tree of a ``pnnx.Expression``, given as a string or as an operator of a net.

    Raise ExpressionError if the string has a syntax error, OperandError if the operator has no expression.

    >>> tree = ex.syntax_tree("add(@0,mul(@1,2))")
    >>> print(tree)
    add(@0,mul(@1,2))
    add
    ├ @0
    └ mul
      ├ @1
      └ 2
    """
    if isinstance(expression, str):
        return SyntaxTree(expression, parse(expression), ())
    text = expression.arguments.get(_ARGUMENT) if isinstance(expression, NetOperator) else None
    if not isinstance(text, str):
        raise OperandError(
            f"the syntax tree of {expression!r}",
            rule="the argument must be an expression as a string, or an operator of type pnnx.Expression",
            fix='ex.syntax_tree("add(@0,mul(@1,2))")',
        )
    return SyntaxTree(text, parse(text, len(expression.inputs)), expression.inputs)
