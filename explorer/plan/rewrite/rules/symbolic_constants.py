"""Rules for ZeroTensor and one-hot vectors, whose elements are not stored.

Gradients contain many of them. If a value does not affect the loss, its gradient is ZeroTensor, and the gradient of a
lookup is a product with one-hot rows. ZeroTensor is defined as the algebraic zero: its product with ∞ is zero, not NaN.
The fact ``instead`` of the decision states the result that the number 0.0 would have given. These rules do not apply to
the number 0.0 (assets/decisions/0010-numbers-follow-ieee-754.md).
"""

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
from explorer.plan.rewrite.rule import Answer, Reason, Rule


def _zero(node: Expr) -> Expr:
    return Zero(node.shape, node.dtype, "", node.device)()


class ProductWithZero(Rule):
    """A product with ZeroTensor is ZeroTensor, even if the other factor contains ∞ or NaN."""

    numerics = "exact"
    roots = (Multiply, Matmul)
    producers = (Zero,)
    concrete = True

    zero = Reason(
        "zero_product",
        "`{node}` is not computed: its result is a ZeroTensor (zeros that are not stored), because its operand "
        "`{factor}` is one. Stored zeros would be multiplied, because 0.0 · ∞ is {instead}.",
        meaning="A ZeroTensor is an exact zero, and its product with any value is zero. It stores no elements. "
        "ex.tensor(0.0) is an ordinary number, which is multiplied.",
        change="If 0 · ∞ must be NaN, use ex.tensor(np.zeros(…)), which stores its elements.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        for factor in graph.operands(node):
            if producer(factor, Zero) is not None:
                return self.zero.applied(_zero(node), node=node, factor=factor, instead="NaN")
        return None


class ProductWithOneHot(Rule):
    """A one-hot vector times a matrix is a row of the matrix; a matrix times a one-hot vector is a column."""

    numerics = "reassociating"
    roots = (Matmul,)
    producers = (OneHot,)
    concrete = True

    row = Reason(
        "one_hot_product",
        "The matrix product is not computed: {part} {position} of `{other}` is used instead, because the other factor "
        "is a one-hot vector, whose only nonzero element is at index {position}.",
        meaning="A one-hot vector has a single 1, like a row of np.eye: np.eye(3)[1] @ x is x[1]. If it has another "
        "number instead of 1, the row is multiplied by this number. The product as written also adds 0 times the "
        "other elements, which is NaN if they contain ∞ or NaN.",
    )
    dtype = Reason(
        "dtype",
        "The matrix product of `{other}` and a one-hot vector is computed, instead of selecting a row of `{other}`, "
        "because the row would be {given}, but the product must be {wanted}.",
        meaning="A one-hot vector has a single 1, like a row of np.eye. A rule never changes the dtype of a result.",
        change="Create the one-hot vector with the dtype of the other factor.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        # One one-hot factor is enough; the result is a row or a column of the other factor.
        left, right = producer(a, OneHot), producer(b, OneHot)
        hot, other, axis = (left, b, max(0, b.ndim - 2)) if left is not None else (right, a, a.ndim - 1)
        if hot is None:
            return None
        if other.dtype != node.dtype:
            facts = {"other": other, "given": str(other.dtype), "wanted": str(node.dtype)}
            return self.dtype.declined(**facts)
        spans = tuple([hot.position if i == axis else (0, size, 1) for i, size in enumerate(other.shape)])
        row = Slice(spans)(other)
        part = "element" if other.ndim == 1 else "column" if left is None else "row"
        facts = {"other": other, "position": hot.position, "part": part}
        return self.row.applied(row if hot.value == 1 else row * hot.value, **facts)


class ProductWithOneHotRows(Rule):
    """A product with one-hot rows, or with their transpose, selects or adds rows or columns of the other factor."""

    numerics = "reassociating"
    roots = (Matmul,)
    producers = (OneHotEncoding, Transpose)
    concrete = True

    picked = Reason(
        "one_hot_rows",
        "The matrix product is not computed: rows or columns of `{other}` are selected by the indices `{labels}` "
        "instead, because each row of the other factor is one-hot, with its 1 at such an index.",
        meaning="A one-hot row has a single 1, like a row of np.eye: np.eye(3)[labels] @ x is x[labels]. On the right "
        "side of the product, one-hot rows select columns. The product as written also adds 0 times the other "
        "elements, which is NaN if they contain ∞ or NaN.",
    )
    added = Reason(
        "one_hot_rows",
        "The matrix product is not computed: rows or columns of `{other}` are added to zeros at the indices "
        "`{labels}` instead (scatter-add), because each row of the other factor is one-hot, with its 1 at such an "
        "index.",
        meaning="A one-hot row has a single 1, like a row of np.eye: np.add.at(zeros, labels, x) changes zeros to "
        "np.eye(3)[labels].T @ x. The product as written also adds 0 times the other elements, which is NaN if they "
        "contain ∞ or NaN.",
    )
    dtype = Reason(
        "dtype",
        "The matrix product of `{other}` and one-hot rows is computed, instead of selecting rows of `{other}`, "
        "because selected rows would be {given}, but the product must be {wanted}.",
        meaning="A one-hot row has a single 1, like a row of np.eye. A rule never changes the dtype of a result.",
        change="Create the one-hot rows with the dtype of the other factor.",
    )
    batched = Reason(
        "batched",
        "The matrix product of `{other}` and one-hot rows is computed as written. Selecting rows instead requires "
        "that `{other}` is a matrix and the labels are a vector, but the shape and dtype of `{other}` are {type}, and "
        "of the labels {labels}.",
        meaning="A one-hot row has a single 1. If labels is a vector and x is a matrix, np.eye(3)[labels] @ x is "
        "x[labels].",
        change="Reshape the labels to a vector and the other factor to a matrix.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        a, b = graph.operands(node)
        for index, hot in enumerate((a, b)):
            is_transposed = producer(hot, Transpose) is not None
            source = graph.operands(hot)[0] if is_transposed else hot
            rows, other = producer(source, OneHotEncoding), (b, a)[index]
            if rows is None:
                continue
            labels = graph.operands(source)[0]
            facts = {"other": other, "given": str(other.dtype), "wanted": str(node.dtype)}
            if other.dtype != node.dtype:
                return self.dtype.declined(**facts)
            selects = is_transposed == (index == 1)
            if (index == 0 and other.ndim > 2) or labels.ndim != 1:
                facts = {"other": other, "type": repr(other.type), "labels": repr(labels.type)}
                return self.batched.declined(**facts)
            axis = 0 if index == 0 else other.ndim - 1
            checked = Labels(rows.classes)(labels)
            shape = (*other.shape[:axis], rows.classes, *other.shape[axis + 1 :])
            new = Take(axis)(other, checked) if selects else TakeGradient(axis, shape)(other, checked)
            return (self.picked if selects else self.added).applied(new, other=other, labels=labels)
        return None


class ZeroThroughView(Rule):
    """A view or a sum of ZeroTensor is ZeroTensor."""

    numerics = "exact"
    roots = (Reshape, Transpose, BroadcastTo, Sum)
    producers = (Zero,)
    concrete = True

    moved = Reason(
        "zero_moved",
        "`{node}` is not computed: its result is a ZeroTensor (zeros that are not stored), because its operand `{x}` "
        "is one, and reshaping, transposing, repeating or adding zeros gives zeros.",
        meaning="A ZeroTensor has a shape and a dtype, but stores no elements.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (x,) = graph.operands(node)
        if producer(x, Zero) is None:
            return None
        return self.moved.applied(_zero(node), node=node, x=x)


class SumWithZero(Rule):
    """A ZeroTensor term is removed; unlike after adding 0.0, −0.0 keeps its sign."""

    numerics = "exact"
    roots = (Add, Subtract, AddN)
    producers = (Zero,)
    concrete = True

    dropped = Reason(
        "zero_term",
        "{count:term is|terms are} removed from a sum of {terms:term}, because adding a ZeroTensor, which is an exact "
        "zero, changes no number. An array of zeros would not be removed: −0.0 + 0.0 is {instead}.",
        meaning="A ZeroTensor is an exact zero: x + 0 is x, even for −0.0. −0.0 and 0.0 compare equal, but 1 / 0.0 is "
        "∞ and 1 / −0.0 is −∞.",
    )
    type = Reason(
        "type",
        "The addition of a ZeroTensor is computed, not removed, because without it the result would be {type}, but it "
        "must be {wanted}.",
        meaning="A rule never changes the shape or dtype of a result.",
        change="Use a ZeroTensor with the shape and dtype of the other terms.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        zeros = [term for term in terms if producer(term, Zero) is not None]
        if not zeros:
            return None
        nonzero = [term for term in terms if producer(term, Zero) is None]
        if not nonzero:
            new = _zero(node)
        elif len(nonzero) > 1:
            new = add_n(*nonzero)
        elif nonzero[0].type is node.type:
            new = -nonzero[0] if isinstance(node.operation, Subtract) and nonzero[0] is terms[1] else nonzero[0]
        else:
            new = nonzero[0]
        if new.type is not node.type:
            return self.type.declined(type=repr(new.type), wanted=repr(node.type))
        return self.dropped.applied(new, count=len(zeros), terms=len(terms), instead="0.0")
