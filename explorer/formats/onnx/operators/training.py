"""Steps of optimizers (domain ai.onnx.preview.training), which files that train have behind their gradients.

They go by explorer's update rules where these are the standard's: Adagrad and Adam. The standard's momentum is a mean
of gradients, which the rate multiplies afterwards; the rule of explorer/ops/nn/update_rules.py has the rate in it, as
Caffe2 has, and agrees only while the rate stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.operator_checks import with_one_dtype
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import members, required
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.nn.update_rules import Adagrad, Adam

_DOMAIN = "ai.onnx.preview.training"
_FLOAT64 = np.dtype(np.float64)
Step = Callable[..., tuple[Expr, ...]]


@operator(f"{_DOMAIN}.Adagrad")
def adagrad(op: OperatorContext) -> tuple[Expr, ...]:
    """New values, and sums of squared gradients."""
    rule, decay = Adagrad(1.0, op.number("epsilon", 1e-6)), op.number("decay_factor", 0.0)

    def step(x: Expr, gradient: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        length = cast(rate / (1 + count * decay), x.dtype)
        new, state = rule.record(x, gradient, length, {"squares": squares})
        return new, state["squares"]

    return _steps(op, step, "values", "gradients", "squares")


@operator(f"{_DOMAIN}.Adam")
def adam(op: OperatorContext) -> tuple[Expr, ...]:
    """New values, and means of gradients and of their squares; before the first step neither mean is corrected."""
    rule = Adam(op.number("alpha", 0.9), op.number("beta", 0.999), op.number("epsilon", 1e-6))
    shrinks = op.number("norm_coefficient_post", 0.0)

    def step(x: Expr, gradient: Expr, mean: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        begun = count > 0
        # a count of 0 would divide by zero
        length = where(begun, rule.length(rate, where(begun, count, 1.0) - 1.0), rate)
        new, state = rule.record(x, gradient, cast(length, x.dtype), {"mean": mean, "squares": squares})
        return new * (1 - shrinks) if shrinks else new, state["mean"], state["squares"]

    return _steps(op, step, "values", "gradients", "means", "squares")


@operator(f"{_DOMAIN}.Momentum")
def momentum(op: OperatorContext) -> tuple[Expr, ...]:
    """New values, and sums of gradients that decay; the first gradient is taken whole."""
    alpha, beta = op.number("alpha"), op.number("beta")
    is_nesterov = op.word("mode", "", ("standard", "nesterov")) == "nesterov"

    def step(x: Expr, gradient: Expr, moments: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        new = moments * alpha + gradient * cast(where(count > 0, beta, 1.0), x.dtype)
        direction = gradient + new * alpha if is_nesterov else new
        return x - cast(rate, x.dtype) * direction, new

    return _steps(op, step, "values", "gradients", "moments")


def _steps(op: OperatorContext, step: Step, *groups: str) -> tuple[Expr, ...]:
    """Return the results of steps of all tensors: all new values first, then each part of their new states.

    Operands come in groups in the same order, gradients second; the norm's share is added to these.
    """
    rate, count = _scalar(op, "R", "f"), _scalar(op, "T", "i")
    operands, decay = members(op, "inputs"), op.number("norm_coefficient", 0.0)
    tensors, left = divmod(len(operands), len(groups))
    if not tensors or left:
        raise OperandError(
            f"{len(operands)} operands behind R and T",
            rule=f"{op.definition.type}: there must be as many {', '.join(groups[:-1])} and {groups[-1]}",
        )
    results = []
    for place in range(tensors):
        own = dict(zip(groups, operands[place::tensors], strict=True))
        with_one_dtype(**own)
        x = own["values"]
        if x.dtype.kind != "f" or any(value.shape != x.shape for value in own.values()):
            raise OperandError(
                ", ".join(f"{name} {value.type}" for name, value in own.items()),
                rule=f"{op.definition.type}: a tensor, its gradient and its state must be real numbers of one shape",
            )
        if decay:
            own["gradients"] = own["gradients"] + x * decay
        results.append(step(*own.values(), rate, count))
    return tuple([result for part in zip(*results, strict=True) for result in part])


def _scalar(op: OperatorContext, name: str, kind: str) -> Expr:
    """Return the rate or the count of steps as a scalar of float64, in which powers of a decay near 1 keep digits."""
    value = required(op, name)
    if value.size != 1 or value.dtype.kind != kind:
        raise OperandError(
            f"{name} is {value.type}",
            rule=f"{op.definition.type}: {name} must be one {'real' if kind == 'f' else 'whole'} number",
        )
    return cast(reshape(value, ()), _FLOAT64)
