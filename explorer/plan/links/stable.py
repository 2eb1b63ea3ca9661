"""Compositions that overflow as written and have a stable form: stability comes from planning, not from twins of layers."""

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.ops.arithmetic import Add, Divide, Multiply
from explorer.ops.base import reshape
from explorer.ops.elementwise import Exp, Log, Log1p, Sigmoid, SigmoidGradient, softplus
from explorer.ops.loss import LogSoftmax, LogSumExp, NllLoss, NllLossGradient, Softmax, SoftmaxGradient
from explorer.ops.reduce import Sum
from explorer.plan.graph import Graph
from explorer.plan.links.match import constant, producer, same
from explorer.plan.rule import Answer, Applied, Declined, Link


class LogOfSoftmax(Link):
    """log(softmax(x)) is log-softmax: finite where softmax underflows to 0."""

    roots = (Log,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (y,) = graph.operands(node)
        softmax = producer(y, Softmax)
        if softmax is None:
            return None
        (x,) = graph.operands(y)
        return Applied(
            LogSoftmax(softmax.axes)(x),
            "{outer} of {inner} is one log-softmax, finite where {inner} underflows to 0",
            {"outer": node, "inner": y, "axes": list(softmax.axes)},
            "log_softmax",
        )


class LogOfSigmoid(Link):
    """log(sigmoid(x)) is −softplus(−x): finite where sigmoid underflows to 0."""

    roots = (Log,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (y,) = graph.operands(node)
        if producer(y, Sigmoid) is None:
            return None
        (x,) = graph.operands(y)
        return Applied(
            -softplus(-x), "log of {inner} is −softplus(−x), finite where {inner} underflows to 0", {"inner": y}, "log_sigmoid"
        )


class LogSumExponentials(Link):
    """log(Σ exp(x)) is logsumexp: the largest element is taken out before it overflows."""

    roots = (Log,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (total,) = graph.operands(node)
        reduction = producer(total, Sum)
        if reduction is None:
            return None
        (powers,) = graph.operands(total)
        if producer(powers, Exp) is None:
            return None
        (x,) = graph.operands(powers)
        if not reduction.axes:
            return Declined("no_axis", "{total} sums over no axis", {"total": total})
        return Applied(
            LogSumExp(reduction.axes, reduction.keepdims)(x),
            "log of the sum of {powers} is one logsumexp, which takes the largest element out before it overflows",
            {"powers": powers},
            "logsumexp",
        )


class LogOfOnePlusExp(Link):
    """log(1 + exp(x)) is softplus: x itself where exp(x) overflows."""

    roots = (Log, Log1p)

    def match(self, node: Expr, graph: Graph) -> Answer:
        (inner,) = graph.operands(node)
        if isinstance(node.operation, Log1p):
            powers: Expr | None = inner
        elif producer(inner, Add) is not None:
            a, b = graph.operands(inner)
            powers = b if constant(a, graph) == 1 else a if constant(b, graph) == 1 else None
        else:
            powers = None
        if powers is None or producer(powers, Exp) is None:
            return None
        (x,) = graph.operands(powers)
        if powers.shape != node.shape:
            return Declined("broadcast", "{powers} is broadcast before the logarithm", {"powers": powers})
        return Applied(softplus(x), "log(1 + {powers}) is softplus, x itself where {powers} overflows", {"powers": powers}, "softplus")


class NllOfSoftmax(Link):
    """NLL of softmax(x) is −Σ t·log-softmax(x) / Σ t: finite where a probability underflows to 0."""

    roots = (NllLoss,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        truth, prediction = graph.operands(node)
        softmax = producer(prediction, Softmax)
        if softmax is None:
            return None
        (x,) = graph.operands(prediction)
        return Applied(
            -((truth * LogSoftmax(softmax.axes)(x)).sum() / truth.sum()),
            "the negative log likelihood of {inner} is taken from its logits by log-softmax: finite where {inner} underflows to 0",
            {"inner": prediction, "axes": list(softmax.axes)},
            "nll_log_softmax",
        )


class GradientOfNllOfSoftmax(Link):
    """softmax-gradient ∘ NLL-gradient is (s·Σ t − t)·g / Σ t: no division by a probability (MetaNN forgets 1 / Σ t)."""

    roots = (SoftmaxGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if producer(upstream, NllLossGradient) is None:
            return None
        g, truth, prediction = graph.operands(upstream)
        if not same(prediction, y, graph):
            return Declined(
                "other_output", "{upstream} divides by another value than the softmax {y}", {"upstream": upstream, "y": y}
            )
        axes = node.operation.axes  # type: ignore[attr-defined]
        return Applied(
            (y * Sum(axes, True)(truth) - truth) * (g / truth.sum()),
            "the gradients of softmax and NLL together are (s·Σ t − t)·g / Σ t: no division by a probability that may be 0",
            {"upstream": upstream, "softmax": y},
            "softmax_nll_gradient",
        )


class GradientOfLogOfSoftmax(Link):
    """softmax-gradient of g / s is g − s·Σ g: no division by a probability."""

    roots = (SoftmaxGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if producer(upstream, Divide) is None:
            return None
        g, divisor = graph.operands(upstream)
        if not same(divisor, y, graph):
            return None
        if g.shape != y.shape:
            return Declined("broadcast", "{g} is broadcast against the softmax", {"g": g})
        axes = node.operation.axes  # type: ignore[attr-defined]
        return Applied(
            g - y * Sum(axes, True)(g),
            "the gradient of the log of {y} is g − s·Σ g: no division by a probability that may be 0",
            {"y": y},
            "log_softmax_gradient",
        )


class GradientOfLogOfSigmoid(Link):
    """sigmoid-gradient of g / s is g·(1 − s): no division by a probability."""

    roots = (SigmoidGradient,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        upstream, y = graph.operands(node)
        if producer(upstream, Divide) is None:
            return None
        g, divisor = graph.operands(upstream)
        if not same(divisor, y, graph):
            return None
        return Applied(
            _like(g * (1 - y), node),
            "the gradient of the log of {y} is g·(1 − s): no division by a probability that may be 0",
            {"y": y},
            "log_sigmoid_gradient",
        )


def _like(value: Expr, node: Expr) -> Expr:
    return reshape(value, node.shape)


class GradientOfLogSumExp(Link):
    """(g / Σ eˣ)·eˣ is g·softmax(x): neither eˣ nor its sum is computed."""

    roots = (Multiply,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        quotient, powers = graph.operands(node)
        if producer(powers, Exp) is None:
            quotient, powers = powers, quotient
        if producer(powers, Exp) is None:
            return None
        spread = quotient
        while spread.operation.name in ("broadcast_to", "reshape"):
            (spread,) = graph.operands(spread)
        if producer(spread, Divide) is None:
            return None
        g, total = graph.operands(spread)
        reduction = producer(total, Sum)
        if reduction is None or not same(graph.operands(total)[0], powers, graph):
            return None
        (x,) = graph.operands(powers)
        kept = tuple([1 if axis in reduction.axes else size for axis, size in enumerate(x.shape)])
        if g.shape != total.shape or node.shape != x.shape:
            return Declined("broadcast", "{g} is broadcast against the sum", {"g": g})
        return Applied(
            reshape(g, kept) * Softmax(reduction.axes)(x),
            "(g / Σ {powers})·{powers} is g·softmax: neither the power nor its sum is computed",
            {"powers": powers},
            "logsumexp_gradient",
        )


class GradientOfSoftplus(Link):
    """(g / (1 + eˣ))·eˣ is g·sigmoid(x): eˣ is not computed."""

    roots = (Multiply,)

    def match(self, node: Expr, graph: Graph) -> Answer:
        for quotient, powers in (graph.operands(node), graph.operands(node)[::-1]):
            if producer(powers, Exp) is None or producer(quotient, Divide) is None:
                continue
            g, divisor = graph.operands(quotient)
            if producer(divisor, Add) is None:
                continue
            a, b = graph.operands(divisor)
            other = b if constant(a, graph) == 1 else a if constant(b, graph) == 1 else None
            if other is not None and same(other, powers, graph):
                (x,) = graph.operands(powers)
                return Applied(
                    _like(g * Sigmoid()(x), node),
                    "(g / (1 + {powers}))·{powers} is g·sigmoid: {powers} may overflow and is not computed",
                    {"powers": powers},
                    "softplus_gradient",
                )
        return None
