"""Optimizer steps of training files (domain ai.onnx.preview.training).

Adagrad and Adam use explorer's update rules, which agree with the standard. In Momentum, the standard averages
gradients and then multiplies by the learning rate, while explorer/ops/nn/update_rules.py, like Caffe2, includes the
rate in the average. The two agree only for a constant rate, so Momentum is written out here.
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
    """Return the new values, and the sums of squared gradients."""
    rule = Adagrad(1.0, epsilon)

    def step(x: Expr, gradient: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        step_size = cast(rate / (1 + count * decay_factor), x.dtype)
        new, state = rule.record(x, gradient, step_size, {"squares": squares})
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
    """Return new values, and means of gradients and squared gradients; the first step has no bias correction."""
    rule = Adam(alpha, beta, epsilon)

    def step(x: Expr, gradient: Expr, mean: Expr, squares: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        has_started = count > 0
        # avoid dividing by zero if the count is 0
        step_size = where(has_started, rule.length(rate, where(has_started, count, 1.0) - 1.0), rate)
        new, state = rule.record(x, gradient, cast(step_size, x.dtype), {"mean": mean, "squares": squares})
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
    """Return the new values, and decaying sums of gradients, in which the first gradient has weight 1."""

    def step(x: Expr, gradient: Expr, moments: Expr, rate: Expr, count: Expr) -> tuple[Expr, ...]:
        new = moments * alpha + gradient * cast(where(count > 0, beta, 1.0), x.dtype)
        direction = gradient + new * alpha if mode == "nesterov" else new
        return x - cast(rate, x.dtype) * direction, new

    return _steps(step, R, T, inputs, norm_coefficient, "values", "gradients", "moments")


def _steps(
    step: Step, rate: Expr, count: Expr, operands: tuple[Expr, ...], decay: float, *groups: str
) -> tuple[Expr, ...]:
    """Return the results for all tensors: all new values first, then all new states, grouped by kind."""
    rate, count = _scalar("R", rate, "f"), _scalar("T", count, "i")
    tensors, remainder = divmod(len(operands), len(groups))
    if not tensors or remainder:
        raise OperandError(
            f"{len(operands)} operands after R and T",
            rule=f"there must be equal numbers of {', '.join(groups[:-1])} and {groups[-1]}",
        )
    results = []
    for index in range(tensors):
        operands_by_group = dict(zip(groups, operands[index::tensors], strict=True))
        x = operands_by_group["values"]
        if x.dtype.kind != "f" or any(
            (value.shape, value.dtype) != (x.shape, x.dtype) for value in operands_by_group.values()
        ):
            raise OperandError(
                ", ".join(f"{name} {value.type}" for name, value in operands_by_group.items()),
                rule="a tensor, its gradient and its state must be real numbers with equal shapes and dtypes",
            )
        if decay:
            operands_by_group["gradients"] = operands_by_group["gradients"] + x * decay
        results.append(step(*operands_by_group.values(), rate, count))
    return tuple([result for part in zip(*results, strict=True) for result in part])


def _scalar(name: str, value: Expr, kind: str) -> Expr:
    """Return the rate or step count as a float64 scalar, because powers of a decay near 1 need the precision."""
    if value.size != 1 or value.dtype.kind != kind:
        wanted = "real number" if kind == "f" else "integer"
        raise OperandError(f"{name} is {value.type}", rule=f"{name} must be one {wanted}")
    return cast(reshape(value, ()), _FLOAT64)
