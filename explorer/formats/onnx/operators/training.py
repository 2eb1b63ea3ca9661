"""Steps of optimizers (domain ai.onnx.preview.training), which files that train have behind their gradients.

They go by explorer's update rules where these are the standard's: Adagrad and Adam. The standard's momentum is a mean
of gradients, which the rate multiplies afterwards; the rule of explorer/ops/nn/update_rules.py has the rate in it, as
Caffe2 has, and agrees only while the rate stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.base.table import operator
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.nn.update_rules import Adagrad, Adam

_DOMAIN = "ai.onnx.preview.training"
_FLOAT64 = np.dtype(np.float64)
Step = Callable[..., tuple[Expr, ...]]


@operator(f"{_DOMAIN}.Adagrad")
def adagrad(
    R: Expr,
    T: Expr,
    *inputs: Expr,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Expr, ...]:
    """New values, and sums of squared gradients."""
    rule = Adagrad(1.0, epsilon)

    def step(x: Expr, gradient: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        length = cast(rate / (1 + count * decay_factor), x.dtype)
        new, state = rule.record(x, gradient, length, {"squares": squares})
        return new, state["squares"]

    return _steps(step, R, T, inputs, norm_coefficient, "values", "gradients", "squares")


@operator(f"{_DOMAIN}.Adam")
def adam(
    R: Expr,
    T: Expr,
    *inputs: Expr,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Expr, ...]:
    """New values, and means of gradients and of their squares; before the first step neither mean is corrected."""
    rule = Adam(alpha, beta, epsilon)

    def step(x: Expr, gradient: Expr, mean: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        begun = count > 0
        # a count of 0 would divide by zero
        length = where(begun, rule.length(rate, where(begun, count, 1.0) - 1.0), rate)
        new, state = rule.record(x, gradient, cast(length, x.dtype), {"mean": mean, "squares": squares})
        shrunk = new * (1 - norm_coefficient_post) if norm_coefficient_post else new
        return shrunk, state["mean"], state["squares"]

    return _steps(step, R, T, inputs, norm_coefficient, "values", "gradients", "means", "squares")


@operator(f"{_DOMAIN}.Momentum")
def momentum(
    R: Expr,
    T: Expr,
    *inputs: Expr,
    alpha: float,
    beta: float,
    mode: Literal["standard", "nesterov"],
    norm_coefficient: float = 0.0,
) -> tuple[Expr, ...]:
    """New values, and sums of gradients that decay; the first gradient is taken whole."""

    def step(x: Expr, gradient: Expr, moments: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        new = moments * alpha + gradient * cast(where(count > 0, beta, 1.0), x.dtype)
        direction = gradient + new * alpha if mode == "nesterov" else new
        return x - cast(rate, x.dtype) * direction, new

    return _steps(step, R, T, inputs, norm_coefficient, "values", "gradients", "moments")


def _steps(
    step: Step, rate: Expr, count: Expr, operands: tuple[Expr, ...], decay: float, *groups: str
) -> tuple[Expr, ...]:
    """Return the results of steps of all tensors: all new values first, then each part of their new states.

    Operands come in groups in the same order, gradients second; the norm's share is added to these.
    """
    rate, count = _scalar("R", rate, "f"), _scalar("T", count, "i")
    tensors, left = divmod(len(operands), len(groups))
    if not tensors or left:
        raise OperandError(
            f"{len(operands)} operands behind R and T",
            rule=f"there must be as many {', '.join(groups[:-1])} and {groups[-1]}",
        )
    results = []
    for index in range(tensors):
        own = dict(zip(groups, operands[index::tensors], strict=True))
        x = own["values"]
        if x.dtype.kind != "f" or any((value.shape, value.dtype) != (x.shape, x.dtype) for value in own.values()):
            raise OperandError(
                ", ".join(f"{name} {value.type}" for name, value in own.items()),
                rule="a tensor, its gradient and its state must be real numbers of one shape and one dtype",
            )
        if decay:
            own["gradients"] = own["gradients"] + x * decay
        results.append(step(*own.values(), rate, count))
    return tuple([result for part in zip(*results, strict=True) for result in part])


def _scalar(name: str, value: Expr, kind: str) -> Expr:
    """Return the rate or the count of steps as a scalar of float64, in which powers of a decay near 1 keep digits."""
    if value.size != 1 or value.dtype.kind != kind:
        wanted = "real number" if kind == "f" else "integer"
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must be one {wanted}")
    return cast(reshape(value, ()), _FLOAT64)
