"""Rules that depend on declared properties (idempotent, involution, even, monotone).

They also apply to user-defined operations. The rules refer to no specific operation: a class that declares ``is_even =
True`` is simplified like cos. A wrong declaration would change values. The laws in tests/laws therefore check the
declarations of all registered operations against their kernels.
"""

# ruff: noqa: D102  # match() and takes() are documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr, Operation
from explorer.ops.elementwise.unary import Absolute, Negative, Reciprocal
from explorer.ops.nn.pooling import MaxPool2d
from explorer.ops.reduction.reduce import Max, Min
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import difference
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class Idempotent(Rule):
    """f(f(x)) is f(x), and f(x, x) is x, if f is declared idempotent."""

    numerics = "exact"
    roots = (Operation,)

    again = Reason(
        "idempotent",
        "The second `{operation}` is removed, because it does not change the result of the first `{operation}`.",
        meaning="For example, abs(abs(x)) is abs(x); relu and floor have this property too. The operation is declared "
        "idempotent.",
    )
    equal_operands = Reason(
        "idempotent",
        "`{operation}` is removed, because both operands are `{x}`, and `{operation}` of two equal numbers is that "
        "number.",
        meaning="For example, maximum(x, x) is x. The operation is declared idempotent.",
    )

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return operation_class.idempotent and operation_class.elementwise

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operation, operands = node.operation, graph.operands(node)
        x = operands[0]
        is_repeated = x.operation is operation if len(operands) == 1 else all(operand is x for operand in operands)
        if not is_repeated or x.type is not node.type:
            return None
        facts = {"operation": operation.name, "x": x}
        return (self.again if len(operands) == 1 else self.equal_operands).applied(x, **facts)


class AbsorbedOperand(Rule):
    """f(f(a, b), b) is f(a, b) if f is declared idempotent, associative and commutative."""

    numerics = "exact"
    roots = (Operation,)

    taken_in = Reason(
        "absorbed",
        "The second `{operation}` with `{other}` is removed, because `{other}` is already an operand of the first "
        "`{operation}`, and applying `{operation}` to `{other}` again changes nothing.",
        meaning="For example, maximum(maximum(a, b), b) is maximum(a, b). The operation is declared idempotent, "
        "associative and commutative.",
    )

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
            if any(operand is other for operand in graph.operands(y)):
                facts = {"operation": node.operation.name, "y": y, "other": other}
                return self.taken_in.applied(y, **facts)
        return None


class Involution(Rule):
    """f(f(x)) is x if f is declared an involution, such as −x; 1 / (1 / x) is x except for rounding."""

    numerics = "exact"
    roots = (Operation,)

    undone = Reason(
        "involution",
        "`{inner}` and the following `{outer}` are both removed, because each undoes the other.",
        meaning="For example, −(−x) is x. The operation is declared an involution.",
    )
    reciprocals = Reason(
        "involution",
        "`{inner}` and the following `{outer}` are both removed, because 1 / (1 / x) is x except for rounding.",
        meaning="np.reciprocal(np.reciprocal(x)) rounds twice, and overflows if |x| is below 5.6e-309.",
        numerics="rounding",
    )
    dtype = Reason(
        "dtype",
        "`{operation}` of `{operation}` is computed as written, not replaced by `{x}`, because `{x}` is {given}, but "
        "the result is {wanted}.",
        meaning="Applying the operation twice gives x only if the operation keeps the dtype of x. For example, "
        "np.logical_not(np.logical_not(5)) is True, not 5.",
        change="Convert the operand to the dtype of the result first: x.astype(...).",
    )
    integers = Reason(
        "dtype",
        "The reciprocal of the reciprocal of `{x}` is computed as written, because `{x}` is {given}, and for some "
        "numbers of this dtype, 1 / (1 / x) is not x.",
        meaning="np.reciprocal(5) is 0, and the reciprocal of 0 is not 5. The reciprocal of the complex number 0 is "
        "NaN.",
        change='Convert the operand to a real floating-point dtype first: x.astype("float64").',
    )

    def applies_to(self, operation_class: type[Operation]) -> bool:
        return operation_class.involution and operation_class.elementwise

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        y = operands[0]
        if len(operands) != 1 or y.operation is not node.operation:
            return None
        (x,) = graph.operands(y)
        if x.type is not node.type:
            return self.dtype.declined(x=x, **difference(x, node), operation=node.operation.name)
        if isinstance(node.operation, Reciprocal):
            if x.dtype.kind in "iuc":
                return self.integers.declined(x=x, given=str(x.dtype))
            return self.reciprocals.applied(x, outer=node, inner=y)
        return self.undone.applied(x, outer=node, inner=y)


class EvenOfNegative(Rule):
    """f(−x) and f(|x|) are f(x) if f is declared even."""

    numerics = "exact"
    roots = (Operation,)

    even = Reason(
        "even",
        "`{y}`, which changes only signs, is removed and `{operation}` reads `{x}` directly, because `{operation}` "
        "gives the same result for a number and its negative.",
        meaning="For example, cos(−x) is cos(x), and |−x| is |x|. The operation is declared even.",
    )
    unsigned = Reason(
        "dtype",
        "`{operation}` reads `{y}`, as written, not `{x}` directly, because `{x}` is {given}, which has no negative "
        "numbers, so `{y}` changes more than the sign.",
        meaning="cos(−x) is cos(x). But in uint8 −1 is 255, and cos(255) is not cos(1).",
        change='Convert the operand to a signed dtype first: x.astype("int64").',
    )
    complex = Reason(
        "dtype",
        "`{operation}` reads `{y}`, as written, not `{x}` directly, because `{x}` is {given}, and `{operation}` is "
        "declared even only for real numbers.",
        meaning="An operation f with f(−x) = f(x), such as cos, is declared even in its class: is_even = True.",
        change="If f(−x) is f(x) for complex numbers too, write f(x), such as ex.absolute(x) for ex.absolute(-x).",
    )

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
            return (self.complex if x.dtype.kind == "c" else self.unsigned).declined(**facts, given=str(x.dtype))
        return self.even.applied(node.operation(x), **facts)


class ExtremeBeforeMonotone(Rule):
    """The maximum of f(x) is f of the maximum of x if f never decreases, so f is computed for fewer elements.

    In both cases the result is f of one of the elements. If several elements have equal f(x), another element may be
    chosen, so a zero may have the other sign.
    """

    numerics = "rounding"
    roots = (MaxPool2d, Max, Min)

    later = Reason(
        "extreme_before_monotone",
        "The {picked} elements are selected first, so that `{f}` is computed for {kept:element} instead of {all}. "
        "This is possible because `{f}` never decreases: the {picked} `{f}` is `{f}` of the {picked} element.",
        meaning="For example, max(relu(x)) is relu(max(x)). The operation is declared monotone.",
    )
    complex = Reason(
        "dtype",
        "`{f}` is computed for all elements before the {picked} are selected, because the elements of `{x}` are "
        "complex, and `{f}` does not preserve NumPy's order of complex numbers.",
        meaning="max(f(x)) is f(max(x)) only if f keeps the order of numbers.",
    )
    domain = Reason(
        "domain",
        "`{f}` is computed for all elements before the {picked} are selected, because `{f}` of some numbers is NaN: "
        "if the {picked} were selected first, such a NaN might be lost.",
        meaning="If any element is NaN, the maximum is NaN: max([√−1, √4]) is NaN, but √(max([−1, 4])) is 2.",
        change="If no NaN can occur, select the elements before applying the function, as in ex.sqrt(x.max(axis=1)).",
    )
    other_consumers = Reason(
        "other_consumers",
        "`{y}` is computed for all elements before the {picked} are selected, because the result of `{y}` is "
        "read {consumers:time}, not only for this selection, so all elements must be computed anyway.",
        meaning="If f never decreases, max(f(x)) is f(max(x)). This saves work only if nothing else reads f(x).",
        change="Remove the other readers, if they are not needed.",
    )
    result_type = Reason(
        "dtype",
        "`{f}` is computed for all elements before the {picked} are selected, because `{f}` of only the selected "
        "elements would be {given} instead of {wanted}.",
        meaning="A rule never changes the shape or dtype of a result.",
        change="If the operation is user-defined, let it return the same dtype for every shape.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        operation = y.operation
        if not operation.monotone or not operation.elementwise or len(y.operands) != 1 or node.size >= y.size:
            return None
        (x,) = graph.operands(y)
        picked = "smallest" if isinstance(node.operation, Min) else "largest"
        facts = {"f": operation.name, "x": x, "y": y, "picked": picked}
        if "c" in (x.dtype.kind, y.dtype.kind):
            return self.complex.declined(**facts)
        if not operation.defined_everywhere:
            return self.domain.declined(**facts)
        consumers = graph.consumers(y)
        if consumers > 1:
            return self.other_consumers.declined(**facts, consumers=consumers)
        replacement = operation(node.operation(x))
        if replacement.type is not node.type:
            return self.result_type.declined(**facts, **difference(replacement, node))
        return self.later.applied(replacement, **facts, kept=node.size, all=y.size, saved_flops=y.size - node.size)
