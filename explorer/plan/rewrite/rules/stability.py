"""Compositions that overflow as written, and their stable forms: stability comes from planning, not twins of layers."""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.base import broadcast_to, cast
from explorer.ops.elementwise.arithmetic import Add, Divide, Subtract
from explorer.ops.elementwise.unary import Exp, Log, Log1p, Reciprocal, Sigmoid, exp, softplus
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape
from explorer.ops.nn.softmax_and_loss import LogSoftmax, LogSumExp, NllLoss, Softmax
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import constant, is_real, producer, same
from explorer.plan.rewrite.rule import Answer, Applied, Declined, Rule


def as_node(value: Expr, node: Expr) -> Expr:
    """A value in the dtype and shape of the node that it will stand for."""
    return broadcast_to(cast(value, node.dtype), node.shape)


def _is_own_sum(value: Expr, powers: Expr, reduction: Sum, graph: PlanGraph) -> bool:
    """Whether a value is the sum of powers in a shape whose axes meet those of the powers."""
    if isinstance(value.operation, BroadcastTo):
        (value,) = graph.operands(value)
    kept = tuple([1 if axis in reduction.axes else size for axis, size in enumerate(powers.shape)])
    if (1,) * (len(kept) - value.ndim) + value.shape != kept:  # broadcasting puts missing axes in front
        return False
    while isinstance(value.operation, Reshape):
        (value,) = graph.operands(value)
    own = producer(value, Sum)
    return own is not None and own.axes == reduction.axes and same(graph.operands(value)[0], powers, graph)


class QuotientOfExponentials(Rule):
    """exp(x) / Σ exp(x) is softmax(x), exp(x) / exp(y) is exp(x − y): nothing that is divided overflows."""

    roots = (Divide,)
    producers = (Exp,)
    concrete = True

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
            return Declined(
                "other_sum", "{divisor} is not the sum of {powers} beside it", {"divisor": divisor, "powers": powers}
            )
        (x,) = graph.operands(powers)
        return Applied(
            as_node(Softmax(reduction.axes)(x), node),
            "{powers} over its own sum is one softmax, which takes the largest element out before it overflows",
            {"powers": powers, "axes": list(reduction.axes)},
            "softmax",
        )

    @staticmethod
    def _of_two(node: Expr, powers: Expr, divisor: Expr, graph: PlanGraph) -> Answer:
        (x,), (y,) = graph.operands(powers), graph.operands(divisor)
        if same(x, y, graph):  # 1, and no difference of what may be infinite
            return None
        if x.dtype != node.dtype or y.dtype != node.dtype:
            facts = {"powers": powers, "divisor": divisor, "wanted": str(node.dtype)}
            return Declined("dtype", "the exponents of {powers} and {divisor} are not both {wanted}", facts)
        reason = "{powers} / {divisor} is the power of a difference: neither of them overflows"
        return Applied(exp(x - y), reason, {"powers": powers, "divisor": divisor}, "exponentials")


class QuotientOfOnePlusExp(Rule):
    """1 / (1 + exp(z)) is sigmoid(−z), exp(x) / (1 + exp(x)) is sigmoid(x): no power overflows."""

    roots = (Divide, Reciprocal)
    producers = (Add,)
    concrete = True

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
            reason = "1 / (1 + {powers}) is a sigmoid of the negative exponent: no power overflows"
            return Applied(Sigmoid()(-x), reason, {"powers": powers}, "sigmoid")
        if same(operands[0], powers, graph):
            reason = "{powers} / (1 + {powers}) is a sigmoid: no power overflows"
            return Applied(Sigmoid()(x), reason, {"powers": powers}, "sigmoid")
        return None


class LogOfSoftmax(Rule):
    """log(softmax(x)) is log-softmax: finite where softmax underflows to 0."""

    roots = (Log,)
    producers = (Softmax,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        softmax = producer(y, Softmax)
        if softmax is None or not is_real(node):
            return None
        (x,) = graph.operands(y)
        return Applied(
            as_node(LogSoftmax(softmax.axes)(x), node),
            "{outer} of {inner} is one log-softmax, finite where {inner} underflows to 0",
            {"outer": node, "inner": y, "axes": list(softmax.axes)},
            "log_softmax",
        )


class LogOfSigmoid(Rule):
    """log(sigmoid(x)) is −softplus(−x), log(1 − sigmoid(x)) is −softplus(x): finite where they underflow to 0."""

    roots = (Log,)
    producers = (Sigmoid, Subtract)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        complement = producer(y, Subtract) is not None
        if complement:
            one, y = graph.operands(y)
            if constant(one, graph) != 1 or y.shape != node.shape:
                return None
        if producer(y, Sigmoid) is None or not is_real(node):
            return None
        (x,) = graph.operands(y)
        x = cast(x, node.dtype)
        if complement:
            reason = "log of 1 − {inner} is −softplus(x), finite where {inner} rounds to 1"
            return Applied(-softplus(x), reason, {"inner": y}, "log_one_minus_sigmoid")
        reason = "log of {inner} is −softplus(−x), finite where {inner} underflows to 0"
        return Applied(-softplus(-x), reason, {"inner": y}, "log_sigmoid")


class LogSumExponentials(Rule):
    """log(Σ exp(x)) is logsumexp: the largest element is taken out before it overflows."""

    roots = (Log,)
    producers = (Sum,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (total,) = graph.operands(node)
        reduction = producer(total, Sum)
        if reduction is None:
            return None
        (powers,) = graph.operands(total)
        if producer(powers, Exp) is None or not is_real(node):
            return None
        (x,) = graph.operands(powers)
        if not reduction.axes:
            return Declined("no_axis", "{total} sums over no axis", {"total": total})
        return Applied(
            as_node(LogSumExp(reduction.axes, reduction.keepdims)(x), node),
            "log of the sum of {powers} is one logsumexp, which takes the largest element out before it overflows",
            {"powers": powers},
            "logsumexp",
        )


class LogOfOnePlusExp(Rule):
    """log(1 + exp(x)) is softplus: x itself where exp(x) overflows."""

    roots = (Log, Log1p)
    producers = (Add, Exp)
    concrete = True

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
            return Declined("broadcast", "{powers} is broadcast before the logarithm", {"powers": powers})
        return Applied(
            softplus(cast(x, node.dtype)),
            "log(1 + {powers}) is softplus, x itself where {powers} overflows",
            {"powers": powers},
            "softplus",
        )


class NllOfSoftmax(Rule):
    """NLL of softmax(x) is −Σ t·log-softmax(x) / Σ t: finite where a probability underflows to 0."""

    roots = (NllLoss,)
    producers = (Softmax,)
    concrete = True

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        truth, prediction = graph.operands(node)
        softmax = producer(prediction, Softmax)
        if softmax is None or not is_real(node):
            return None
        (x,) = graph.operands(prediction)
        truth = cast(truth, node.dtype)
        return Applied(
            as_node(-((truth * LogSoftmax(softmax.axes)(x)).sum() / truth.sum()), node),
            "the negative log likelihood of {inner} is taken from its logits by log-softmax:"
            " finite where {inner} underflows to 0",
            {"inner": prediction, "axes": list(softmax.axes)},
            "nll_log_softmax",
        )
