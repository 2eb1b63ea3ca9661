"""Risks of powers: which values may overflow, or divide by a number that is rounded to 0.

Taking values apart into terms is dear, and useless where no power can overflow. This walk, a few operations a node,
comes first: most graphs have no value at risk, and the rules about powers end here.
"""

from __future__ import annotations

from collections.abc import Container

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.ops.elementwise.arithmetic import Divide, Multiply, Power
from explorer.ops.elementwise.trigonometric_and_logs import Cosh, Rsqrt, Sinh
from explorer.ops.elementwise.unary import Exp, Negative, Reciprocal, Sigmoid
from explorer.ops.nn.losses import NllLossGradient
from explorer.ops.nn.softmax import Softmax
from explorer.plan.graph.plan_graph import PlanGraph

SOURCES = (Exp, Softmax, Sigmoid, Cosh, Sinh)
"""operations whose results overflow, or are rounded to 0, though they are positive"""
TERMS = 24
"""terms of a sum, and of an addition, that are kept apart"""
_SMALL = (Softmax, Sigmoid)
_DIVISORS: dict[type[Operation], int] = {Divide: 1, Reciprocal: 0, Power: 0, Rsqrt: 0, NllLossGradient: 2}
"""the operand that an operation divides by, by its place"""
_FACTORS = (Multiply, Divide, Negative)
"""operations after which one power, times factors without powers, still is one power"""


class Risks:
    """Levels of risk of the values of one graph, found on demand and without recursion."""

    def __init__(self, graph: PlanGraph, carriers: Container[type[Operation]], replacements: Container[int]) -> None:
        self.graph, self.carriers = graph, carriers
        """operations through which powers are followed"""
        self.replacements = replacements
        """uids of values recorded in the place of powers that cancelled"""
        self._levels: dict[int, int] = {}
        """by uid: 2 for values that may overflow, 1 for values computed from powers that do not, 0 for others"""
        self._single: set[int] = set()
        """uids of one power times factors without any: nothing cancels there"""

    def may_cancel(self, node: Expr) -> bool:
        """Whether powers are in a value that may overflow, and more than one of them, or a sum, so that some cancel."""
        return self.may_overflow(node) and node.uid not in self._single

    def may_overflow(self, node: Expr) -> bool:
        """Whether powers above 1, or divisors that may be rounded to 0, are in a value, so that its terms are of
        use."""
        levels, carriers, graph = self._levels, self.carriers, self.graph
        # A stack instead of recursion: graphs are deeper than Python's stack.
        pending = [] if node.uid in levels else [node]
        while pending:
            current = pending[-1]
            operation_class = type(current.operation)
            level = 1 if operation_class in _SMALL else 2 if operation_class in SOURCES else 0
            operands = () if level or operation_class not in carriers else graph.operands(current)
            if 0 < len(operands) <= TERMS:
                waiting = len(pending)
                for operand in operands:
                    if operand.uid in levels:
                        level = max(level, levels[operand.uid])
                    elif type(operand.operation) in carriers:
                        pending.append(operand)
                if len(pending) > waiting:
                    continue
                if level == 1 and operation_class in _DIVISORS and levels.get(operands[_DIVISORS[operation_class]].uid):
                    level = 2
            levels[current.uid] = level
            if operation_class is Exp:
                self._single.add(current.uid)
            elif level == 2 and operation_class in _FACTORS:
                powers = [operand.uid for operand in operands if levels.get(operand.uid) or not self._is_plain(operand)]
                if len(powers) == 1 and powers[0] in self._single:
                    self._single.add(current.uid)
            pending.pop()
        return levels[node.uid] == 2

    def _is_plain(self, node: Expr) -> bool:
        """Whether no powers were in a value, nor any that cancelled and left 0."""
        return type(node.operation) not in self.carriers and node.uid not in self.replacements

    def forget(self, node: Expr) -> None:
        """Enter that a value has no powers that can be followed, so that no rule takes it apart again."""
        self._levels[node.uid] = 0
