"""What declared characteristics allow, whatever the operation: users' own operations take part."""

# ruff: noqa: D102  # match() and takes() are documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.ops.elementwise.unary import Absolute, Negative, Reciprocal
from explorer.ops.nn.pooling import MaxPool2d
from explorer.ops.reduction.reduce import Max, Min
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule


class Idempotent(Rule):
    """f(f(x)) is f(x), and f(x, x) is x, where f is declared idempotent."""

    roots = (Operation,)

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return operation_class.idempotent and operation_class.elementwise

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operation, operands = node.operation, graph.operands(node)
        x = operands[0]
        again = x.operation is operation if len(operands) == 1 else all(operand is x for operand in operands)
        if not again or x.type is not node.type:
            return None
        facts = {"operation": operation.name, "x": x}
        return Applied(x, "{operation} is idempotent: taken once more of {x} it changes nothing", facts, "idempotent")


class AbsorbedOperand(Rule):
    """f(f(a, b), b) is f(a, b), where f is declared idempotent, associative and commutative."""

    roots = (Operation,)

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return (
            operation_class.idempotent
            and operation_class.associative
            and operation_class.commutative
            and operation_class.elementwise
        )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        if len(operands) != 2:
            return None
        for y, other in (operands, operands[::-1]):
            if y.operation is not node.operation or y.type is not node.type:
                continue
            if any(taken is other for taken in graph.operands(y)):
                facts = {"operation": node.operation.name, "y": y, "other": other}
                reason = "{y} has taken {other} in, and {operation} is idempotent, associative and commutative"
                return Applied(y, reason, facts, "absorbed")
        return None


class Involution(Rule):
    """f(f(x)) is x where f is declared an involution, as −(−x) is x; 1 / (1 / x) is x but for rounding."""

    roots = (Operation,)

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return operation_class.involution and operation_class.elementwise

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        y = operands[0]
        if len(operands) != 1 or y.operation is not node.operation:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            facts = {"x": x, "given": repr(x.type), "wanted": repr(node.type)}
            return Declined("dtype", "{x} is {given}, the result is {wanted}", facts)
        if x.dtype.kind in "iu" and isinstance(node.operation, Reciprocal):
            return Declined("dtype", "{x} is {given}: integer reciprocals lose x", {"x": x, "given": str(x.dtype)})
        return Applied(x, "{outer} undoes {inner}", {"outer": node, "inner": y}, "involution")


class EvenOfNegative(Rule):
    """f(−x) and f(|x|) are f(x) where f is declared even: the sign makes no difference."""

    roots = (Operation,)

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return operation_class.is_even and operation_class.elementwise

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        y = operands[0]
        if len(operands) != 1 or not isinstance(y.operation, (Negative, Absolute)):
            return None
        (x,) = graph.operands(y)
        facts = {"operation": node.operation.name, "x": x, "y": y}
        if x.type is not y.type or x.dtype.kind not in "fi":
            reason = "{x} is {given}, whose negative is no number of another sign"
            return Declined("dtype", reason, {**facts, "given": str(x.dtype)})
        return Applied(node.operation(x), "{operation} is even: of {y} it is what it is of {x}", facts, "even")


class ExtremeBeforeMonotone(Rule):
    """The largest f(x) is f of the largest x, where f never decreases: f is then taken of fewer elements."""

    roots = (MaxPool2d, Max, Min)

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        operation = y.operation
        if not operation.monotone or not operation.elementwise or len(y.operands) != 1 or node.size >= y.size:
            return None
        (x,) = graph.operands(y)
        facts = {"f": operation.name, "x": x, "y": y}
        if "c" in (x.dtype.kind, y.dtype.kind):
            return Declined("dtype", "{x} is complex: the order of complex numbers is no {f}'s", facts)
        if not operation.defined_everywhere:
            return Declined(
                "domain",
                "{f} is not defined for every number: a NaN among the elements would be lost with the smaller ones",
                facts,
            )
        consumers = graph.consumers(y)
        if consumers > 1:
            return Declined(
                "other_consumers",
                "{y} has {consumers:consumer}, so all its elements are computed anyway",
                {**facts, "consumers": consumers},
            )
        made = operation(node.operation(x))
        if made.type is not node.type:
            return Declined(
                "dtype",
                "of {x}, {given}, the result would be {found}, not {wanted}",
                {**facts, "given": repr(x.type), "found": repr(made.type), "wanted": repr(node.type)},
            )
        return Applied(
            made,
            "{f} never decreases, so it is taken of the {kept:element that is left|elements that are left},"
            " not of all {all:element}",
            {**facts, "kept": node.size, "all": y.size, "saved_flops": y.size - node.size},
            "extreme_before_monotone",
        )
