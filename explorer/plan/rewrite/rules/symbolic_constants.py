"""Rules that use the structure of zeros and constants."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.creation.constants import OneHot, Zero
from explorer.ops.elementwise.arithmetic import Add, AddN, Multiply, Subtract, add_n
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.gather import Take, TakeGradient
from explorer.ops.manipulation.one_hot import Labels, OneHotEncoding
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, Transpose
from explorer.ops.manipulation.slicing import Slice
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import producer
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule


def _zero(node: Expr) -> Expr:
    return Zero(node.shape, node.dtype, "", node.device)()


class ProductWithZero(Rule):
    """A product with ZeroTensor is ZeroTensor, whatever the other factor holds: 0 · ∞ = NaN is given up."""

    roots = (Multiply, Matmul)
    producers = (Zero,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        for factor in graph.operands(node):
            if producer(factor, Zero) is not None:
                reason = (
                    "a factor is ZeroTensor, the algebraic zero: the product is zero whatever the other factor holds,"
                    " also where that is infinite or NaN and 0.0 would give {instead}"
                )
                return Applied(_zero(node), reason, {"instead": "NaN"}, "zero_product")
        return None


class ProductWithOneHot(Rule):
    """A one-hot vector times a matrix is a row of it, a matrix times one a column: nothing is multiplied out."""

    roots = (Matmul,)
    producers = (OneHot,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        left, right = producer(a, OneHot), producer(b, OneHot)
        hot, other, axis = (left, b, max(0, b.ndim - 2)) if left is not None else (right, a, a.ndim - 1)
        if hot is None:
            return None
        if other.dtype != node.dtype:
            facts = {"other": other, "given": str(other.dtype), "wanted": str(node.dtype)}
            return Declined("dtype", "{other} is {given}, the product {wanted}", facts)
        spans = tuple([hot.position if i == axis else (0, size, 1) for i, size in enumerate(other.shape)])
        row = Slice(spans)(other)
        return Applied(
            row if hot.value == 1 else row * hot.value,
            "a one-hot vector takes what {other} has at {position}: nothing is multiplied out",
            {"other": other, "position": hot.position},
            "one_hot_product",
        )


class ProductWithOneHotRows(Rule):
    """A matrix of one-hot rows, or its transposition, picks rows or columns, or adds them up: nothing is multiplied."""

    roots = (Matmul,)
    producers = (OneHotEncoding, Transpose)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        for place, hot in enumerate((a, b)):
            turned = producer(hot, Transpose) is not None
            source = graph.operands(hot)[0] if turned else hot
            rows, other = producer(source, OneHotEncoding), (b, a)[place]
            if rows is None:
                continue
            labels = graph.operands(source)[0]
            facts = {"other": other, "given": str(other.dtype), "wanted": str(node.dtype)}
            if other.dtype != node.dtype:
                return Declined("dtype", "{other} is {given}, the product {wanted}", facts)
            picks = turned == (place == 1)
            if (place == 0 and other.ndim > 2) or labels.ndim != 1:
                reason = "rows of one matrix are picked by a vector: {other} is {type}, class numbers are {labels}"
                facts = {"other": other, "type": repr(other.type), "labels": repr(labels.type)}
                return Declined("batched", reason, facts)
            axis = 0 if place == 0 else other.ndim - 1
            checked = Labels(rows.classes)(labels)
            shape = (*other.shape[:axis], rows.classes, *other.shape[axis + 1 :])
            new = Take(axis)(other, checked) if picks else TakeGradient(axis, shape)(other, checked)
            reason = (
                "one-hot rows take what {other} has at {labels}: nothing is multiplied out"
                if picks
                else "one-hot rows add what {other} holds to the places {labels}: nothing is multiplied out"
            )
            return Applied(new, reason, {"other": other, "labels": labels}, "one_hot_rows")
        return None


class ZeroThroughView(Rule):
    """A view or a sum of the structured zero is a structured zero."""

    roots = (Reshape, Transpose, BroadcastTo, Sum)
    producers = (Zero,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (x,) = graph.operands(node)
        if producer(x, Zero) is None:
            return None
        return Applied(_zero(node), "{x} is the structured zero, and stays it in another shape", {"x": x}, "zero_moved")


class SumWithZero(Rule):
    """A term that is ZeroTensor is dropped: −0.0 keeps its sign, which adding 0.0 would take."""

    roots = (Add, Subtract, AddN)
    producers = (Zero,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        zeros = [term for term in terms if producer(term, Zero) is not None]
        if not zeros:
            return None
        kept = [term for term in terms if producer(term, Zero) is None]
        if not kept:
            new = _zero(node)
        elif len(kept) > 1:
            new = add_n(*kept)
        elif kept[0].type is node.type:
            new = -kept[0] if isinstance(node.operation, Subtract) and kept[0] is terms[1] else kept[0]
        else:
            new = kept[0]
        if new.type is not node.type:
            return Declined("type", "without the zero the result would be {type}", {"type": repr(new.type)})
        return Applied(
            new,
            "left out {count} of {terms:term}: ZeroTensor, the algebraic zero, which changes no number; 0.0 would make"
            " {instead} of −0.0",
            {"count": len(zeros), "terms": len(terms), "instead": "0.0"},
            "zero_term",
        )
