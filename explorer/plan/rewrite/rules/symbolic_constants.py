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
from explorer.plan.rewrite.matchers import difference, producer
from explorer.plan.rewrite.rule import Answer, Reason, Rule
from explorer.record.dimension_names import shape_text


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
        "`{factor}` is a ZeroTensor. If the zeros were stored, `{node}` would be computed, because 0.0 · ∞ is "
        "{instead}.",
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
        "The matrix product is not computed: {part} {position} of `{other}`{times} is used instead, because the other "
        "factor is a one-hot vector, whose only nonzero element is at index {position}.",
        meaning="A one-hot vector has a single 1, like a row of np.eye: np.eye(3)[1] @ x is x[1]. The product as "
        "written also adds 0 times the other elements of x, which is NaN if these elements contain ∞ or NaN.",
    )
    dtype = Reason(
        "dtype",
        "The matrix product of `{other}` and a one-hot vector is computed, instead of selecting a part of `{other}`, "
        "because the part would be {given}, but the product is {wanted}.",
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
        times = "" if hot.value == 1 else f" times {hot.value:g}"
        facts = {"other": other, "position": hot.position, "part": part, "times": times}
        return self.row.applied(row if hot.value == 1 else row * hot.value, **facts)


class ProductWithOneHotRows(Rule):
    """A product with one-hot rows, or with their transpose, selects or adds rows or columns of the other factor."""

    numerics = "reassociating"
    roots = (Matmul,)
    producers = (OneHotEncoding, Transpose)
    concrete = True

    picked = Reason(
        "one_hot_rows",
        "The matrix product is not computed: {parts} of `{other}` are selected by the indices `{labels}` instead, "
        "because {line} i of the other factor is one-hot, with its 1 at index `{labels}`[i].",
        meaning="A one-hot row has a single 1, like a row of np.eye: np.eye(3)[labels] @ x is x[labels], and "
        "x @ np.eye(3)[labels].T is x[:, labels]. The product as written also adds 0 times the other elements of x, "
        "which is NaN if one of these elements is ∞ or NaN.",
    )
    added = Reason(
        "one_hot_rows",
        "The matrix product is not computed: {parts} of `{other}` are added to zeros at the indices `{labels}` "
        "instead (scatter-add), because {line} i of the other factor is one-hot, with its 1 at index `{labels}`[i].",
        meaning="A one-hot row has a single 1, like a row of np.eye: np.add.at(zeros, labels, x) changes zeros to "
        "np.eye(3)[labels].T @ x. The product as written also adds 0 times the other elements of x, which is NaN if "
        "one of these elements is ∞ or NaN.",
    )
    dtype = Reason(
        "dtype",
        "The matrix product of `{other}` and one-hot rows is computed, instead of selecting or adding {parts} of "
        "`{other}`, because the result would be {given}, not {wanted}.",
        meaning="A one-hot row has a single 1, like a row of np.eye. A rule never changes the dtype of a result.",
        change="Create the one-hot rows with the dtype of the other factor.",
    )
    batched = Reason(
        "batched",
        "The matrix product of one-hot rows and `{other}` is computed, instead of selecting or adding rows of "
        "`{other}`, because `{other}` is not one matrix, but a stack of matrices (shape {shape}).",
        meaning="A one-hot row has a single 1, like a row of np.eye. If x is a matrix, np.eye(3)[labels] @ x is "
        "x[labels].",
        change="Multiply each matrix of the stack separately, such as x[0] and x[1].",
    )
    labels = Reason(
        "batched",
        "The matrix product of `{other}` and one-hot rows is computed, instead of selecting or adding {parts} of "
        "`{other}`, because the labels of the one-hot rows, `{labels}`, have the shape {shape} and are not a vector.",
        meaning="A one-hot row has a single 1, like a row of np.eye. If labels is a vector, np.eye(3)[labels] @ x is "
        "x[labels].",
        change="Reshape the labels to a vector.",
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
            parts = "elements" if other.ndim == 1 else "columns" if index else "rows"
            facts = {"other": other, "parts": parts}
            if other.dtype != node.dtype:
                return self.dtype.declined(**facts, given=str(other.dtype), wanted=str(node.dtype))
            selects = is_transposed == (index == 1)
            if labels.ndim != 1:
                return self.labels.declined(**facts, labels=labels, shape=shape_text(labels.shape))
            if index == 0 and other.ndim > 2:
                return self.batched.declined(other=other, shape=shape_text(other.shape))
            axis = 0 if index == 0 else other.ndim - 1
            checked = Labels(rows.classes)(labels)
            shape = (*other.shape[:axis], rows.classes, *other.shape[axis + 1 :])
            new = Take(axis)(other, checked) if selects else TakeGradient(axis, shape)(other, checked)
            line = "column" if is_transposed else "row"
            return (self.picked if selects else self.added).applied(new, **facts, labels=labels, line=line)
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
        "is a ZeroTensor, and `{node}` of zeros is zeros.",
        meaning="A ZeroTensor has a shape and a dtype, but stores no elements. Reshaping, transposing, repeating or "
        "adding zeros gives zeros.",
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
        "zero, changes no number. If the zeros were stored, they would be added, because −0.0 + 0.0 is {instead}.",
        meaning="A ZeroTensor is an exact zero: x + 0 is x, even for −0.0. −0.0 and 0.0 compare equal, but 1 / 0.0 is "
        "∞ and 1 / −0.0 is −∞.",
    )
    type = Reason(
        "type",
        "The addition of a ZeroTensor is computed, not removed, because without the ZeroTensor, the result would be "
        "{given}, not {wanted}.",
        meaning="A rule never changes the shape or dtype of a result.",
        change="Use a ZeroTensor with the shape and dtype of the other terms.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        terms = graph.operands(node)
        zeros = [term for term in terms if isinstance(term.operation, Zero)]
        if not zeros:
            return None
        nonzero = [term for term in terms if not isinstance(term.operation, Zero)]
        if not nonzero:
            new = _zero(node)
        elif len(nonzero) > 1:
            new = add_n(*nonzero)
        elif nonzero[0].type is node.type:
            new = -nonzero[0] if isinstance(node.operation, Subtract) and nonzero[0] is terms[1] else nonzero[0]
        else:
            new = nonzero[0]
        if new.type is not node.type:
            return self.type.declined(**difference(new, node))
        return self.dropped.applied(new, count=len(zeros), terms=len(terms), instead="0.0")
