"""Compositions that overflow as written, and their stable forms.

Frameworks usually have a second function for the stable form, such as log_softmax or a loss "with logits". Here a user
writes the textbook formula, and the plan computes its stable form. The two forms are equal in exact arithmetic. They
differ if exp overflows (beyond 709, or 88 in float32) or is rounded to 0; otherwise only the last digits differ. Each
rule makes one step, and its result is matched again. For example, the log of a slice of a softmax becomes the slice of
the log, and the log becomes a log-softmax. Structures that no rule recognises are computed as written.

``ex.grad`` applies these rules before it differentiates the program (plan/stabilise.py), because the gradients of the
stable operations are stable too.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.ops.base import broadcast_to, cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import Add, AddN, Divide, Multiply, NotEqual, Select, Subtract
from explorer.ops.elementwise.trigonometric_and_logs import Cosh, Log2, Log10, Logaddexp
from explorer.ops.elementwise.unary import (
    Exp,
    Log,
    Log1mexp,
    Log1p,
    Negative,
    Reciprocal,
    Sigmoid,
    exp,
    log,
    softplus,
)
from explorer.ops.manipulation.gather import Take, TakeAlong
from explorer.ops.manipulation.one_hot import OneHotEncoding
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, Transpose
from explorer.ops.manipulation.slicing import Index0, Slice
from explorer.ops.nn.nll_loss import NllLoss, NllLossGradient
from explorer.ops.nn.softmax import LogSoftmax, LogSumExp, Softmax, SoftmaxGradient
from explorer.ops.reduction.reduce import Mean, Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import POWERS, constant, is_real, producer, same
from explorer.plan.rewrite.rule import Answer, Reason, Rule
from explorer.record.dimension_names import shape_text

_TERMS = 16
"""maximum number of terms in a sum of powers for which the log of each term is recorded"""


def as_node(value: Expr, node: Expr) -> Expr:
    """Return ``value`` converted and broadcast to the dtype and shape of ``node``, which it will replace."""
    return broadcast_to(cast(value, node.dtype), node.shape)


class QuotientOfExponentials(Rule):
    """exp(x) / Σ exp(x) is softmax(x), exp(x) / exp(y) is exp(x − y), 1 / exp(x) is exp(−x), without overflow.

    Softmax subtracts the largest element from x, so each power is at most 1, and their sum is at least 1.
    """

    numerics = "rounding"
    roots = (Divide, Reciprocal)
    producers = (Exp,)
    concrete = True

    reciprocal = Reason(
        "exponentials",
        "1 / `{powers}` is computed as exp(−x), where x is the operand of `{powers}`, because both are equal in exact "
        "arithmetic, but exp(x) may overflow to ∞.",
        meaning="1 / exp(x) is exp(−x). exp(x) overflows for x above 709 (88 in float32).",
    )
    softmax = Reason(
        "softmax",
        "`{powers}` divided by its own sum is computed as one softmax, because softmax subtracts the largest element "
        "from all elements before it computes exp, which then cannot overflow to ∞.",
        meaning="exp(x) overflows for x above 709 (88 in float32). Subtracting a number m changes nothing in exact "
        "arithmetic: exp(x − m) / sum(exp(x − m)) is the same for every m.",
    )
    difference = Reason(
        "exponentials",
        "`{powers}` / `{divisor}` is computed as exp(x − y), where x and y are the operands of the two exponentials, "
        "because this is equal in exact arithmetic, but exp(x) or exp(y) may overflow to ∞.",
        meaning="exp(x) / exp(y) is exp(x − y). exp(x) overflows for x above 709 (88 in float32).",
    )
    other_sum = Reason(
        "other_sum",
        "`{powers}` / `{divisor}` is computed as written, not as a softmax, because `{total}` adds other numbers than "
        "those of `{powers}`. So `{powers}` may still overflow to ∞.",
        meaning="softmax(x) is exp(x) divided by the sum of the same exp(x) over some of its axes. exp(x) overflows "
        "for x above 709 (88 in float32).",
        change="For a softmax, divide by the sum of the same exponentials.",
    )
    other_shape = Reason(
        "other_sum",
        "`{powers}` / `{divisor}` is computed as written, not as a softmax, because `{divisor}` has the "
        "shape {given}, but the sum of `{powers}` with keepdims=True has the shape {wanted}. So `{powers}` may still "
        "overflow to ∞.",
        meaning="softmax(x, axis=1) is exp(x) / exp(x).sum(axis=1, keepdims=True). Without keepdims=True, a 5×5 array "
        "is divided by sums of shape 5, so each element is divided by the sum of another row.",
        change="For a softmax, add keepdims=True to the sum.",
    )
    dtype = Reason(
        "dtype",
        "`{powers}` / `{divisor}` is computed as written, not as exp(x − y), because the operand of `{other}` is "
        "{given}, but the result is {wanted}.",
        meaning="exp(x) / exp(y) is exp(x − y). In uint8, 1 − 2 is 255, and in float32, x − y is rounded more than in "
        "float64. So x − y is computed only in the dtype of the result.",
        change="Convert this operand to the dtype of the result first: x.astype(...).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        *numerator, divisor = graph.operands(node)
        if not is_real(node):
            return None
        if producer(divisor, Exp) is not None and (not numerator or constant(numerator[0], graph) == 1):
            if divisor.type is not node.type:
                return None
            return self.reciprocal.applied(exp(-cast(graph.operands(divisor)[0], node.dtype)), powers=divisor)
        if not numerator or producer(numerator[0], Exp) is None:
            return None
        (powers,) = numerator
        total = divisor
        while total.operation.name in ("broadcast_to", "reshape"):
            (total,) = graph.operands(total)
        reduction = producer(total, Sum)
        if producer(divisor, Exp) is not None:
            return self._of_two(node, powers, divisor, graph)
        if reduction is None or not reduction.axes or powers.shape != node.shape:
            return None
        if not same(graph.operands(total)[0], powers, graph):
            return self.other_sum.declined(divisor=divisor, powers=powers, total=total)
        value = graph.operands(divisor)[0] if isinstance(divisor.operation, BroadcastTo) else divisor
        kept_shape = tuple([1 if axis in reduction.axes else size for axis, size in enumerate(powers.shape)])
        # If the array is square, exp(x) / exp(x).sum(axis=1) without keepdims divides by the sums of other rows.
        # Broadcasting inserts missing axes at the front.
        if (1,) * (len(kept_shape) - value.ndim) + value.shape != kept_shape:
            shapes = {"given": shape_text(value.shape), "wanted": shape_text(kept_shape)}
            return self.other_shape.declined(divisor=value, powers=powers, **shapes)
        while isinstance(value.operation, Reshape):
            (value,) = graph.operands(value)
        if value is not total:
            return None
        (x,) = graph.operands(powers)
        return self.softmax.applied(as_node(Softmax(reduction.axes)(x), node), powers=powers, axes=list(reduction.axes))

    def _of_two(self, node: Expr, powers: Expr, divisor: Expr, graph: PlanGraph) -> Answer:
        (x,), (y,) = graph.operands(powers), graph.operands(divisor)
        for other, operand in ((powers, x), (divisor, y)):
            if operand.dtype != node.dtype:
                dtypes = {"given": str(operand.dtype), "wanted": str(node.dtype)}
                return self.dtype.declined(powers=powers, divisor=divisor, other=other, **dtypes)
        return self.difference.applied(exp(x - y), powers=powers, divisor=divisor)


class QuotientOfOnePlusExp(Rule):
    """n / (1 + exp(z)) is n · sigmoid(−z), exp(x) / (exp(x) + exp(y)) is sigmoid(x − y), without overflow.

    As written, the second form is ∞ / ∞ for a large x, although its value is 1.
    """

    numerics = "rounding"
    roots = (Divide, Reciprocal)
    producers = (Add,)
    concrete = True

    negative = Reason(
        "sigmoid",
        "Division by 1 + `{powers}` is computed as multiplication by sigmoid(−x), where x is the operand of "
        "`{powers}`, because both are equal in exact arithmetic, but exp(x) may overflow to ∞.",
        meaning="sigmoid(x) is 1 / (1 + exp(−x)). exp(x) overflows for x above 709 (88 in float32).",
    )
    positive = Reason(
        "sigmoid",
        "`{powers}` / (`{powers}` + 1) is computed as sigmoid(x), where x is the operand of `{powers}`, because "
        "exp(x) may overflow to ∞, and ∞ / ∞ is NaN.",
        meaning="exp(x) / (exp(x) + 1) is 1 / (1 + exp(−x)), which is sigmoid(x). exp(x) overflows for x above 709 "
        "(88 in float32).",
    )
    share = Reason(
        "sigmoid",
        "`{powers}` / (`{powers}` + `{other}`) is computed as sigmoid(x − y), where x and y are the operands of the "
        "two exponentials, because exp(x) may overflow to ∞, and ∞ / ∞ is NaN.",
        meaning="exp(x) / (exp(x) + exp(y)) is 1 / (1 + exp(y − x)), which is sigmoid(x − y). exp(x) overflows for x "
        "above 709 (88 in float32).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        *numerator, divisor = graph.operands(node)
        if producer(divisor, Add) is None or divisor.shape != node.shape or not is_real(node):
            return None
        terms = graph.operands(divisor)
        exponents = [_exponent(term, node, graph) for term in terms]
        if any(exponent is None for exponent in exponents) or not any(producer(term, Exp) for term in terms):
            return None
        for one, other in ((0, 1), (1, 0)):
            power, (x, y) = terms[one], (exponents[one], exponents[other])
            if numerator and producer(power, Exp) is not None and same(numerator[0], power, graph):
                if constant(terms[other], graph) == 1:
                    return self.positive.applied(as_node(Sigmoid()(x), node), powers=power)
                return self.share.applied(as_node(Sigmoid()(x - y), node), powers=power, other=terms[other])
        one = 0 if constant(terms[0], graph) == 1 else 1
        powers, number = terms[1 - one], constant(numerator[0], graph) if numerator else 1
        if constant(terms[one], graph) != 1 or powers.shape != node.shape:
            return None
        sigmoid = Sigmoid()(-exponents[1 - one])
        if number in (1, -1):
            return self.negative.applied(sigmoid if number == 1 else -sigmoid, powers=powers)
        if numerator[0].dtype != node.dtype:
            return None
        return self.negative.applied(as_node(numerator[0] * sigmoid, node), powers=powers)


def _exponent(term: Expr, node: Expr, graph: PlanGraph) -> Any:
    """Return x, in the dtype of ``node``, for a term exp(x), and 0 for the constant 1; return None for other terms."""
    if constant(term, graph) == 1:
        return 0.0
    if producer(term, Exp) is None or term.dtype != node.dtype:
        return None
    return cast(graph.operands(term)[0], node.dtype)


class LogOfSoftmax(Rule):
    """log(softmax(x)) is log_softmax(x), which is finite even if softmax underflows to 0.

    Digits are lost even earlier: a float32 probability below 1e−38 has fewer digits.
    """

    numerics = "rounding"
    roots = (Log,)
    producers = (Softmax,)
    concrete = True

    log_softmax = Reason(
        "log_softmax",
        "`{outer}` of `{inner}` is computed in one step (log_softmax), because `{inner}` rounds small probabilities "
        "to 0, and log(0) is −∞. log_softmax gives a finite result.",
        meaning="log(softmax(x)) is y − log(sum(exp(y))), with y = x − max(x). No exp(y) overflows, and the sum is at "
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
    """log(sigmoid(x)) is −softplus(−x), and log(1 − sigmoid(x)) is −softplus(x), without a log of 0."""

    numerics = "rounding"
    roots = (Log, Log1p)
    producers = (Sigmoid, Subtract, Negative)
    concrete = True

    log_sigmoid = Reason(
        "log_sigmoid",
        "The log of `{inner}` is computed as −softplus(−x), where x is the operand of `{inner}`, because `{inner}` "
        "may be rounded to 0, and log(0) is −∞.",
        meaning="sigmoid(x) is 1 / (1 + exp(−x)), so its log is −log(1 + exp(−x)). softplus(x) is log(1 + exp(x)), "
        "computed without overflow.",
    )
    complement = Reason(
        "log_one_minus_sigmoid",
        "The log of 1 − `{inner}` is computed as −softplus(x), where x is the operand of `{inner}`, because `{inner}` "
        "may be rounded to 1, and log(1 − 1) is −∞.",
        meaning="1 − sigmoid(x) is 1 / (1 + exp(x)), so its log is −log(1 + exp(x)). softplus(x) is log(1 + exp(x)), "
        "computed without overflow.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        complement = producer(y, Subtract) is not None
        if isinstance(node.operation, Log1p):
            if producer(y, Negative) is None:
                return None
            complement, (y,) = True, graph.operands(y)
        elif complement:
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
    """log(Σ exp(x)), and the log of a mean or a multiple, is logsumexp, which subtracts the largest element first.

    If the largest of n elements is subtracted, the remaining log is between 0 and log(n).
    """

    numerics = "rounding"
    roots = (Log,)
    producers = (Sum, Mean, Multiply, Divide)
    concrete = True

    logsumexp = Reason(
        "logsumexp",
        "The log of the sum of `{powers}` is computed in one step (logsumexp), because logsumexp subtracts the "
        "largest element from all elements before it computes exp, which then cannot overflow to ∞.",
        meaning="For every number m, log(sum(exp(x))) is m + log(sum(exp(x − m))). exp(x) overflows for x above 709 "
        "(88 in float32).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (total,) = graph.operands(node)
        total, scale = _multiple(total, graph)
        reduction = producer(total, Sum) or producer(total, Mean)
        if reduction is None:
            return None
        (powers,) = graph.operands(total)
        x = _below_views(powers, graph)
        if x is None or not is_real(node) or not reduction.axes or total.shape != node.shape:
            return None
        if isinstance(reduction, Mean):
            if not powers.size:  # the mean of no elements is NaN
                return None
            scale /= powers.size / total.size
        if not 0 < scale < math.inf:
            return None
        value = LogSumExp(reduction.axes, reduction.keepdims, scale)(x)
        return self.logsumexp.applied(as_node(value, node), powers=powers)


def _below_views(powers: Expr, graph: PlanGraph) -> Expr | None:
    """Return x if ``powers`` is exp(x), the same view of x if it is a view of exp(x), or else None."""
    views: list[Expr] = []
    while isinstance(powers.operation, (Reshape, Transpose, BroadcastTo)):
        views.append(powers)
        (powers,) = graph.operands(powers)
    if producer(powers, Exp) is None:
        return None
    (x,) = graph.operands(powers)
    for view in reversed(views):
        x = view.operation(x)
    return x


def _multiple(value: Expr, graph: PlanGraph) -> tuple[Expr, float]:
    """Return (x, factor) if ``value`` is x times or divided by a positive number, else (``value``, 1)."""
    if isinstance(value.operation, (Multiply, Divide)):
        a, b = graph.operands(value)
        number = constant(b, graph)
        if number is None and isinstance(value.operation, Multiply):
            (a, b), number = (b, a), constant(a, graph)
        if isinstance(number, (int, float)) and 0 < number < math.inf and a.type is value.type:
            return a, float(number if isinstance(value.operation, Multiply) else 1 / number)
    return value, 1.0


class LogOfOnePlusExp(Rule):
    """log(1 + exp(x)) is softplus(x), which is x if exp(x) overflows.

    For x below −37, 1 + exp(x) is rounded to 1 in float64, so its log is 0, whereas softplus returns exp(x).
    """

    numerics = "rounding"
    roots = (Log, Log1p)
    producers = (Add, Exp, Sum)
    concrete = True

    softplus = Reason(
        "softplus",
        "The log of 1 + `{powers}` is computed in one step (softplus), because both are equal in exact arithmetic, "
        "but softplus stays finite if `{powers}` overflows to ∞.",
        meaning="softplus(x) is log(1 + exp(x)), which is close to x if x is large.",
    )
    broadcast = Reason(
        "broadcast",
        "The log of 1 + `{powers}` is computed as written, not as softplus, because the addition broadcasts "
        "`{powers}` from shape {before} to {after}, but softplus keeps the shape. So `{powers}` may still overflow to "
        "∞.",
        meaning="softplus(x) is log(1 + exp(x)), computed without overflow; its result has the shape of x. A rule "
        "never changes the shape of a result.",
        change="Broadcast x before exp, ex.exp(ex.broadcast_to(x, shape)), or broadcast the log.",
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
        if powers is None or not is_real(node):
            return None
        if producer(powers, Sum) is not None and producer(graph.operands(powers)[0], Exp) is not None:
            # The log is matched again and becomes a logsumexp.
            return self.softplus.applied(softplus(log(powers)), powers=powers) if powers.type is node.type else None
        if producer(powers, Exp) is None:
            return None
        (x,) = graph.operands(powers)
        if powers.shape != node.shape:
            return self.broadcast.declined(powers=powers, before=shape_text(powers.shape), after=shape_text(node.shape))
        return self.softplus.applied(softplus(cast(x, node.dtype)), powers=powers)


class NllOfSoftmax(Rule):
    """The NLL of softmax(x) is −Σ t · log_softmax(x) / Σ t, finite even if a probability underflows to 0."""

    numerics = "rounding"
    roots = (NllLoss,)
    producers = (Softmax,)
    concrete = True

    nll = Reason(
        "nll_log_softmax",
        "The negative log likelihood of `{inner}` is computed from the operand of `{inner}`, not from its result, "
        "because small probabilities in the result are rounded to 0, and log(0) is −∞.",
        meaning="log(softmax(x)) is y − log(sum(exp(y))), with y = x − max(x). No exp(y) overflows, and the sum is at "
        "least 1.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        target, prediction = graph.operands(node)
        softmax = producer(prediction, Softmax)
        if softmax is None or not is_real(node):
            return None
        (x,) = graph.operands(prediction)
        # Half-precision sums may overflow even if their quotient does not.
        sum_dtype = accumulator_dtype(node.dtype)
        target, x = cast(target, sum_dtype), cast(x, sum_dtype)
        return self.nll.applied(
            as_node(-((target * LogSoftmax(softmax.axes)(x)).sum() / target.sum()), node),
            inner=prediction,
            axes=list(softmax.axes),
        )


class SoftmaxGradientOfNll(Rule):
    """The gradient of the NLL of a softmax s is (s − t) · g / n for n one-hot rows t, without a division by s."""

    numerics = "rounding"
    roots = (SoftmaxGradient,)
    producers = (NllLossGradient,)
    concrete = True

    fused = Reason(
        "nll_gradient",
        "`{outer}` and `{inner}` are computed together, in one formula that does not divide by the probabilities "
        "`{s}`, because small probabilities are rounded to 0, and 0 / 0 is NaN.",
        meaning="The gradient of the negative log likelihood (NLL) divides by the probabilities s = softmax(x), and "
        "the gradient of softmax multiplies by them, so both cancel. For a target t of n one-hot rows, the result is "
        "(s − t) · g / n, where g is the gradient with respect to the NLL.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        gradient, s = graph.operands(node)
        if producer(gradient, NllLossGradient) is None or not is_real(node):
            return None
        g, target, prediction = graph.operands(gradient)
        if not same(prediction, s, graph) or s.type is not node.type or target.type is not node.type:
            return None
        axes: tuple[int, ...] = node.operation.axes  # type: ignore[attr-defined]  # the rule's root
        value = (s * Sum(axes, True)(target) - target) * (g / target.sum())
        return self.fused.applied(as_node(value, node), outer=node, inner=gradient, s=s)


class LogOfOneMinusExp(Rule):
    """log(1 − exp(x)) is log1mexp(x), which is accurate whether exp(x) is near 1 or near 0."""

    numerics = "rounding"
    roots = (Log, Log1p)
    producers = (Subtract, Negative)
    concrete = True

    log1mexp = Reason(
        "log1mexp",
        "The log of 1 − `{powers}` is computed in one step (log1mexp), because 1 − `{powers}` loses digits if "
        "`{powers}` is near 1, and is rounded to 1 if `{powers}` is near 0.",
        meaning="log1mexp(x) is log(−expm1(x)) for x ≥ −log 2, and log1p(−exp(x)) for smaller x. Both keep all digits "
        "in their range (Mächler).",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if isinstance(node.operation, Log1p):
            if producer(y, Negative) is None:
                return None
            (powers,) = graph.operands(y)
        elif producer(y, Subtract) is not None:
            one, powers = graph.operands(y)
            if constant(one, graph) != 1:
                return None
        else:
            return None
        if producer(powers, Exp) is None or not is_real(node) or powers.type is not node.type:
            return None
        x = cast(graph.operands(powers)[0], node.dtype)
        return self.log1mexp.applied(Log1mexp()(x), powers=powers)


class LogOfChosen(Rule):
    """log Σ h · softmax(x) with one-hot rows h is log_softmax(x) at the positions of the ones."""

    numerics = "rounding"
    roots = (Log,)
    producers = (Sum,)
    concrete = True

    chosen = Reason(
        "log_of_chosen",
        "One-hot rows select elements of `{powers}`, of which the log is computed. They now select from "
        "log_softmax(x) instead, which computes the log of the softmax in one step, because `{powers}` rounds small "
        "probabilities to 0, and log(0) is −∞.",
        meaning="A one-hot row h has a single 1, so sum(h · p) is the selected element of p, and the log of this "
        "element is the selected element of log(p). log_softmax is finite even where the softmax is rounded to 0.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (total,) = graph.operands(node)
        reduction = producer(total, Sum)
        if reduction is None or not is_real(node) or not reduction.axes:
            return None
        (product,) = graph.operands(total)
        if producer(product, Multiply) is None:
            return None
        for powers, rows in itertools.permutations(graph.operands(product)):
            if producer(powers, Softmax) is not None and producer(rows, OneHotEncoding) is not None:
                if powers.type is not rows.type or total.type is not node.type:
                    return None
                minus_infinity = full((), -math.inf, node.dtype, node.device)
                logs = Select()(NotEqual()(rows, full((), 0.0, rows.dtype, rows.device)), log(powers), minus_infinity)
                value = LogSumExp(reduction.axes, reduction.keepdims)(logs)
                return self.chosen.applied(value, powers=powers)
        return None


class LogOfSum(Rule):
    """log(a + b) of exponentials is logaddexp(log a, log b), without overflow; log(cosh(x)) has this form too."""

    numerics = "rounding"
    roots = (Log,)
    producers = (Add, AddN, Cosh, Multiply, Divide, Sum)
    concrete = True

    logaddexp = Reason(
        "logaddexp",
        "The log of `{y}`, {form}, is computed by logaddexp from the exponents, because the exponentials may "
        "overflow to ∞, even though the log is finite.",
        meaning="log(exp(a) + exp(b)) is max(a, b) + log(1 + exp(−|a − b|)), whose only exp is at most 1. exp(x) "
        "overflows for x above 709 (88 in float32).",
    )
    weights = Reason(
        "weights",
        "The log of `{y}` is computed as written, not as a logsumexp, because `{weights}`, by which `{powers}` is "
        "multiplied before the sum, may contain negative numbers, whose log is NaN.",
        meaning="If all weights w are positive, log(sum(w · p)) is logsumexp(log(p) + log(w)). For p = exp(x), log(p) "
        "is x, even if exp(x) overflows to ∞.",
        change="If all weights are positive, write ex.logsumexp(x + ex.log(w), axis). If each row of the weights has "
        "a single 1, select elements with np.take_along_axis instead.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        if not is_real(node) or y.dtype != node.dtype:
            return None
        inner, scale = _multiple(y, graph)
        if isinstance(inner.operation, Cosh):
            (x,) = graph.operands(inner)
            x, scale = cast(x, node.dtype), scale / 2
            value = Logaddexp()(x, -x)
        elif isinstance(inner.operation, (Add, AddN)) and (logs := _logs(inner, node, graph)):
            value = functools.reduce(Logaddexp(), logs)
        else:
            return self._of_weighted(y, graph)
        if scale != 1:
            value = value + math.log(scale)
        form = "a multiple of exp(x) + exp(−x)" if isinstance(inner.operation, Cosh) else "a sum of exponentials"
        return self.logaddexp.applied(as_node(value, node), y=y, form=form)

    def _of_weighted(self, y: Expr, graph: PlanGraph) -> Answer:
        """Decline if powers are multiplied by a tensor before they are summed, because its sign is not known."""
        if producer(y, Sum) is None:
            return None
        (product,) = graph.operands(y)
        if producer(product, Multiply) is None:
            return None
        for powers, weights in itertools.permutations(graph.operands(product)):
            if isinstance(powers.operation, POWERS):
                return self.weights.declined(y=y, powers=powers, weights=weights)
        return None


def _logs(total: Expr, node: Expr, graph: PlanGraph) -> list[Expr]:
    """Record the logs of the terms of a sum and return them.

    The terms must be exponentials, sums of exponentials, or positive constants. For other sums, or if there are more
    than 16 terms, return [].
    """
    logs: list[Expr] = []
    powers, pending = 0, [total]
    while pending:
        term = pending.pop()
        if isinstance(term.operation, (Add, AddN)):
            pending += reversed(graph.operands(term))
            if len(logs) + len(pending) > _TERMS:
                return []
            continue
        number = constant(term, graph)
        if isinstance(number, (int, float)) and 0 < number < math.inf:
            logs.append(full((), math.log(number), node.dtype, node.device))
            continue
        inner, scale = _multiple(term, graph)
        summed = producer(inner, Sum) is not None and producer(graph.operands(inner)[0], Exp) is not None
        if (producer(inner, Exp) is None and not summed) or inner.dtype != node.dtype:
            return []
        powers += 1
        logs.append(log(inner) + math.log(scale) if scale != 1 else log(inner))
    return logs if powers else []


def _fault(powers: Expr) -> str:
    """Return how the value of ``powers`` may be wrong although its log is finite."""
    return "is rounded to 0" if isinstance(powers.operation, (Softmax, Sigmoid)) else "overflows to ∞"


class LogOfPart(Rule):
    """The log of a slice, or of another view, of a softmax, a sigmoid or an exponential is the same view of the log."""

    numerics = "exact"
    roots = (Log,)
    producers = (Slice, Index0, Reshape, Transpose, BroadcastTo, Take, TakeAlong)
    concrete = True

    part = Reason(
        "log_of_part",
        "The log of `{powers}` is computed first, and `{part}` is applied to the result. Log and `{powers}` "
        "can then be computed in one step, whose result is finite even if `{powers}` {fault}.",
        meaning="np.log(p[:, 1]) is np.log(p)[:, 1]. An example of such a step is log_softmax.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (part,) = graph.operands(node)
        inner, views = part, list[Expr]()
        while isinstance(inner.operation, self.producers):
            views.append(inner)
            inner = graph.operands(inner)[0]
        if not views or not isinstance(inner.operation, POWERS) or not is_real(node) or part.type is not node.type:
            return None
        value = log(inner)
        for view in reversed(views):
            value = view.operation(value, *graph.operands(view)[1:])
        return self.part.applied(value, powers=inner, part=part, fault=_fault(inner))


class OtherLog(Rule):
    """log10 and log2 of a softmax, a sigmoid or a sum of exponentials are the natural log times a constant."""

    numerics = "rounding"
    roots = (Log10, Log2)
    producers = (Softmax, Sigmoid, Sum, Exp)
    concrete = True

    natural = Reason(
        "natural_log",
        "`{outer}` of `{powers}` is computed as the natural log times {factor}, because the natural log of `{powers}` "
        "is computed in one step, whose result is finite even if `{powers}` {fault}.",
        meaning="log10(x) is log(x) · 0.434294…, and log2(x) is log(x) · 1.442695…, where log is the natural log.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (y,) = graph.operands(node)
        has_stable_log = isinstance(y.operation, POWERS) or (
            isinstance(y.operation, Sum) and producer(graph.operands(y)[0], Exp) is not None
        )
        if not has_stable_log or not is_real(node) or y.type is not node.type:
            return None
        factor = 1 / math.log(10 if isinstance(node.operation, Log10) else 2)
        return self.natural.applied(log(y) * factor, outer=node, powers=y, factor=round(factor, 6), fault=_fault(y))
