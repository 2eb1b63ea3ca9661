"""What declared characteristics allow, whatever the operation: users' own operations take part."""

# ruff: noqa: D102  # match() and takes() are documented once, by Link

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.core.operation import Operation
from explorer.ops.pool import MaxPool2d
from explorer.ops.reduce import Max, Min
from explorer.plan.graph import Graph
from explorer.plan.rule import Answer, Applied, Declined, Link


class Idempotent(Link):
    """f(f(x)) is f(x), and f(x, x) is x, where f is declared idempotent."""

    roots = (Operation,)

    def takes(self, kind: type[Operation]) -> bool:
        return kind.idempotent and kind.elementwise

    def match(self, node: Expr, graph: Graph) -> Answer:
        operation, operands = node.operation, graph.operands(node)
        x = operands[0]
        again = x.operation is operation if len(operands) == 1 else all(operand is x for operand in operands)
        if not again or x.type is not node.type:
            return None
        facts = {"operation": operation.name, "x": x}
        return Applied(x, "{operation} is idempotent: taken once more of {x} it changes nothing", facts, "idempotent")


class ExtremeBeforeMonotone(Link):
    """The largest f(x) is f of the largest x, where f never decreases: f is then taken of fewer elements."""

    roots = (MaxPool2d, Max, Min)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (y,) = graph.operands(node)
        operation = y.operation
        if not operation.monotone or not operation.elementwise or len(y.operands) != 1 or node.size >= y.size:
            return None
        (x,) = graph.operands(y)
        facts = {"f": operation.name, "x": x, "y": y}
        if not operation.total:
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
            "{f} never decreases, so it is taken of the {kept:element} that are left, not of all {all:element}",
            {**facts, "kept": node.size, "all": y.size, "saved_flops": y.size - node.size},
            "extreme_before_monotone",
        )
