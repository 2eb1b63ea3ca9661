"""Compositions that overflow as written, and their stable forms.

Frameworks usually offer a second function for each: log_softmax next to softmax, a loss "with logits" next to the loss.
Here a user writes the formula of the textbook, and the plan computes the form that a numerical analyst would write.
Both are the same number in exact arithmetic; they differ where exp overflows (beyond 709, or 88 in float32) or is
rounded to 0, and in the last digits elsewhere. Powers in other shapes are left to cancel_powers.py.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.arithmetic import Add, Divide, Subtract
from explorer.ops.elementwise.unary import Exp, Log, Log1p, Reciprocal, Sigmoid, exp, softplus
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape
from explorer.ops.nn.losses import NllLoss
from explorer.ops.nn.softmax import LogSoftmax, LogSumExp, Softmax
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import constant, is_real, producer, same
from explorer.plan.rewrite.rule import Answer, Reason, Rule
from explorer.record.dimension_names import shape_text


def as_node(value: Expr, node: Expr) -> Expr:
    """Return a value in the dtype and shape of the node that it will replace."""
    return broadcast_to(cast(value, node.dtype), node.shape)


def _is_own_sum(value: Expr, powers: Expr, reduction: Sum, graph: PlanGraph) -> bool:
    """Whether a value is the sum of powers in a shape whose axes meet those of the powers."""
    if isinstance(value.operation, BroadcastTo):
        (value,) = graph.operands(value)
    kept = tuple([1 if axis in reduction.axes else size for axis, size in enumerate(powers.shape)])
    # exp(x) / exp(x).sum(axis=1) without keepdims divides by sums of other rows where the array is square.
    if (1,) * (len(kept) - value.ndim) + value.shape != kept:  # broadcasting puts missing axes in front
        return False
    while isinstance(value.operation, Reshape):
        (value,) = graph.operands(value)
    own = producer(value, Sum)
    return own is not None and own.axes == reduction.axes and same(graph.operands(value)[0], powers, graph)


class QuotientOfExponentials(Rule):
    """exp(x) / Σ exp(x) is softmax(x), exp(x) / exp(y) is exp(x − y): nothing that is divided overflows.

    Softmax shifts x by its largest element, so that each power is at most 1 and their sum at least 1.
    """

    roots = (Divide,)
    producers = (Exp,)
    concrete = True

    softmax = Reason(
        "softmax",
        "`{powers}` divided by its own sum is computed as one softmax, because softmax subtracts the largest operand "
        "of exp first: exp of what is left cannot overflow to ∞, as it can in the form that was written.",
        meaning="exp overflows beyond 709 (88 in float32); exp(x − m) / Σ exp(x − m) is the same number for every m.",
    )
    difference = Reason(
        "exponentials",
        "`{powers}` / `{divisor}` is computed as exp(x − y) instead of exp(x) / exp(y), because that is the same in "
        "exact arithmetic, and stays finite where exp(x) or exp(y) alone overflows to ∞.",
        meaning="exp(x) / exp(y) is exp(x − y); exp overflows beyond 709 (88 in float32).",
    )
    other_sum = Reason(
        "other_sum",
        "`{powers}` / `{divisor}` is computed as written, not as a softmax, because `{divisor}` is a sum of other "
        "exponentials than `{powers}`. So an overflow of exp to ∞ stays possible.",
        meaning="Softmax is exp(x) divided by the sum of the same exp(x), over some of its axes.",
        change="Divide by the sum of the same exponentials, with keepdims=True.",
    )
    dtype = Reason(
        "dtype",
        "`{powers}` / `{divisor}` is computed as written, not as one exp of the difference of the exponents, because "
        "these are {given}: they are subtracted only where both are {wanted}, as the result is.",
        meaning="In uint8 1 − 2 is 255, and in float32 x − y is rounded more than in float64. So exponents of any "
        "other dtype than the result's are left alone.",
        change="Convert the exponents first: x.astype(...).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        powers, divisor = graph.operands(node)
        if producer(powers, Exp) is None or not is_real(node):
            return None
        total = divisor
        while total.operation.name in ("broadcast_to", "reshape"):
            (total,) = graph.operands(total)
        reduction = producer(total, Sum)
        if producer(divisor, Exp) is not None:
            return self._of_two(node, powers, divisor, graph)
        if reduction is None or not reduction.axes or powers.shape != node.shape:
            return None
        if not _is_own_sum(divisor, powers, reduction, graph):
            return self.other_sum.declined(divisor=divisor, powers=powers)
        (x,) = graph.operands(powers)
        return self.softmax.applied(as_node(Softmax(reduction.axes)(x), node), powers=powers, axes=list(reduction.axes))

    def _of_two(self, node: Expr, powers: Expr, divisor: Expr, graph: PlanGraph) -> Answer:
        """Answer for a quotient of two powers."""
        (x,), (y,) = graph.operands(powers), graph.operands(divisor)
        if same(x, y, graph):  # 1, and no difference of what may be infinite
            return None
        if x.dtype != node.dtype or y.dtype != node.dtype:
            facts = {"powers": powers, "divisor": divisor, "wanted": str(node.dtype)}
            facts["given"] = f"{x.dtype} and {y.dtype}"
            return self.dtype.declined(**facts)
        return self.difference.applied(exp(x - y), powers=powers, divisor=divisor)


class QuotientOfOnePlusExp(Rule):
    """1 / (1 + exp(z)) is sigmoid(−z), exp(x) / (1 + exp(x)) is sigmoid(x): no power overflows.

    As written, the second one is ∞ / ∞ for a large x, where the result is 1.
    """

    roots = (Divide, Reciprocal)
    producers = (Add,)
    concrete = True

    negative = Reason(
        "sigmoid",
        "1 / (1 + `{powers}`) is computed as sigmoid(−x), where x is the operand of `{powers}`, because that is the "
        "same number, and is computed without an exp that can overflow, as exp(x) may.",
        meaning="The sigmoid of x is 1 / (1 + exp(−x)); exp overflows beyond 709 (88 in float32).",
    )
    positive = Reason(
        "sigmoid",
        "`{powers}` / (1 + `{powers}`) is computed as sigmoid(x), where x is the operand of `{powers}`, because that "
        "is the same number, and exp(x) alone may overflow: ∞ / ∞ is NaN.",
        meaning="exp(x) / (1 + exp(x)) is 1 / (1 + exp(−x)), the sigmoid of x; exp overflows beyond 709 (88 in "
        "float32).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        operands = graph.operands(node)
        divisor = operands[-1]
        if producer(divisor, Add) is None or divisor.shape != node.shape or not is_real(node):
            return None
        a, b = graph.operands(divisor)
        powers = b if constant(a, graph) == 1 else a
        if producer(powers, Exp) is None or constant(a if powers is b else b, graph) != 1 or powers.shape != node.shape:
            return None
        x = cast(graph.operands(powers)[0], node.dtype)
        if len(operands) == 1 or constant(operands[0], graph) == 1:
            return self.negative.applied(Sigmoid()(-x), powers=powers)
        if same(operands[0], powers, graph):
            return self.positive.applied(Sigmoid()(x), powers=powers)
        return None


class LogOfSoftmax(Rule):
    """log(softmax(x)) is log-softmax: finite where softmax underflows to 0.

    Also above 0 digits are lost first: a probability below 1e−38 has fewer of them in float32.
    """

    roots = (Log,)
    producers = (Softmax,)
    concrete = True

    log_softmax = Reason(
        "log_softmax",
        "`{outer}` of `{inner}` is computed in one step (log_softmax) instead of two, because small probabilities in "
        "`{inner}` are rounded to 0, and log(0) is −∞; in one step the result is an ordinary number.",
        meaning="The log of softmax(x) is y − log Σ exp(y) with y = x − max(x): no exp(y) overflows, and the sum is at "
        "least 1.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        softmax = producer(y, Softmax)
        if softmax is None or not is_real(node):
            return None
        (x,) = graph.operands(y)
        return self.log_softmax.applied(
            as_node(LogSoftmax(softmax.axes)(x), node), outer=node, inner=y, axes=list(softmax.axes)
        )


class LogOfSigmoid(Rule):
    """log(sigmoid(x)) is −softplus(−x), log(1 − sigmoid(x)) is −softplus(x): finite where they underflow to 0."""

    roots = (Log,)
    producers = (Sigmoid, Subtract)
    concrete = True

    log_sigmoid = Reason(
        "log_sigmoid",
        "The log of `{inner}` is computed as −softplus(−x), where x is the operand of `{inner}`, and softplus(x) is "
        "log(1 + exp(x)) without overflow, because that is the same number, and finite also where `{inner}` is rounded "
        "to 0: log(0) is −∞.",
        meaning="sigmoid(x) is 1 / (1 + exp(−x)), so its log is −log(1 + exp(−x)).",
    )
    complement = Reason(
        "log_one_minus_sigmoid",
        "The log of 1 − `{inner}` is computed as −softplus(x), where x is the operand of `{inner}`, and softplus(x) is "
        "log(1 + exp(x)) without overflow, because that is the same number, and finite also where `{inner}` is rounded "
        "to 1: log(1 − 1) is −∞.",
        meaning="1 − sigmoid(x) is 1 / (1 + exp(x)), so its log is −log(1 + exp(x)).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        complement = producer(y, Subtract) is not None
        if complement:
            minuend, y = graph.operands(y)
            if constant(minuend, graph) != 1 or y.shape != node.shape:
                return None
        if producer(y, Sigmoid) is None or not is_real(node):
            return None
        (x,) = graph.operands(y)
        x = cast(x, node.dtype)
        if complement:
            return self.complement.applied(-softplus(x), inner=y)
        return self.log_sigmoid.applied(-softplus(-x), inner=y)


class LogSumExponentials(Rule):
    """log(Σ exp(x)) is logsumexp: the largest element is taken out before it overflows.

    With the largest of n elements taken out, the log that is left lies between 0 and log(n).
    """

    roots = (Log,)
    producers = (Sum,)
    concrete = True

    logsumexp = Reason(
        "logsumexp",
        "The log of the sum of `{powers}` is computed in one step (logsumexp) instead of three, because logsumexp "
        "subtracts the largest operand of exp first: exp of what is left cannot overflow to ∞.",
        meaning="log Σ exp(x) is m + log Σ exp(x − m) for every m; exp overflows beyond 709 (88 in float32).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (total,) = graph.operands(node)
        reduction = producer(total, Sum)
        if reduction is None:
            return None
        (powers,) = graph.operands(total)
        if producer(powers, Exp) is None or not is_real(node) or not reduction.axes:
            return None
        (x,) = graph.operands(powers)
        return self.logsumexp.applied(as_node(LogSumExp(reduction.axes, reduction.keepdims)(x), node), powers=powers)


class LogOfOnePlusExp(Rule):
    """log(1 + exp(x)) is softplus: x itself where exp(x) overflows.

    At the other end, below −37, 1 + exp(x) is rounded to 1 in float64 and its log to 0, where softplus keeps exp(x).
    """

    roots = (Log, Log1p)
    producers = (Add, Exp)
    concrete = True

    softplus = Reason(
        "softplus",
        "The log of 1 + `{powers}` is computed in one step (softplus) instead of three, because that is the same in "
        "exact arithmetic, and stays finite where `{powers}` overflows to ∞.",
        meaning="softplus(x) is log(1 + exp(x)), which is close to x for large x.",
    )
    broadcast = Reason(
        "broadcast",
        "The log of 1 + `{powers}` is computed as written, not in one step (softplus), because the addition broadcasts "
        "`{powers}`: its shape is {before}, that of the result {after}. So an overflow of `{powers}` to ∞ stays "
        "possible.",
        meaning="A rule never changes the shape of a result.",
        change="Broadcast the exponent, or the log.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (inner,) = graph.operands(node)
        if isinstance(node.operation, Log1p):
            powers: Expr | None = inner
        elif producer(inner, Add) is not None:
            a, b = graph.operands(inner)
            powers = b if constant(a, graph) == 1 else a if constant(b, graph) == 1 else None
        else:
            powers = None
        if powers is None or producer(powers, Exp) is None or not is_real(node):
            return None
        (x,) = graph.operands(powers)
        if powers.shape != node.shape:
            return self.broadcast.declined(powers=powers, before=shape_text(powers.shape), after=shape_text(node.shape))
        return self.softplus.applied(softplus(cast(x, node.dtype)), powers=powers)


class NllOfSoftmax(Rule):
    """NLL of softmax(x) is −Σ t·log-softmax(x) / Σ t: finite where a probability underflows to 0."""

    roots = (NllLoss,)
    producers = (Softmax,)
    concrete = True

    nll = Reason(
        "nll_log_softmax",
        "The negative log likelihood of `{inner}` is computed from the operand of `{inner}`, not from its result, "
        "because small probabilities in the result are rounded to 0, and log(0) is −∞.",
        meaning="The log of softmax(x) is y − log Σ exp(y) with y = x − max(x): no exp(y) overflows, and the sum is at "
        "least 1.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        truth, prediction = graph.operands(node)
        softmax = producer(prediction, Softmax)
        if softmax is None or not is_real(node):
            return None
        (x,) = graph.operands(prediction)
        truth = cast(truth, node.dtype)
        return self.nll.applied(
            as_node(-((truth * LogSoftmax(softmax.axes)(x)).sum() / truth.sum()), node),
            inner=prediction,
            axes=list(softmax.axes),
        )
