"""Operator types that update parameters, with the names of Caffe2 and the update rules of ops/nn/update_rules.py.

Rates are positive, because the step is subtracted. The parameter and the state are overwritten, as in net.Adam(["w",
"m", "v", "w_grad", "rate", "iteration"], ["w", "m", "v"]).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import cast, reshape
from explorer.ops.nn import learning_rates, update_rules
from explorer.ops.nn.learning_rates import LearningRate as Policy

_FLOAT64 = np.dtype(np.float64)


@net_operator(in_place=True, gradient="refused")
def Iter(iteration: Expr) -> Expr:
    """Return the index of the training step, incremented by one."""
    return iteration + 1


@net_operator(gradient="refused")
def LearningRate(
    iteration: Expr,
    *,
    base_lr: float,
    policy: Literal["fixed", "step", "exp", "inv", "poly", "linearWarmup", "constantWarmup"] = "fixed",
    stepsize: int = 1,
    gamma: float = 0.1,
    power: float = 1.0,
    max_iter: int = 1,
    num_iter: Annotated[int, "number of warm-up steps"] = 1,
    start_multiplier: Annotated[float, "factor of the first step, for linearWarmup"] = 0.0,
    multiplier: Annotated[float, "factor of the warm-up steps, for constantWarmup"] = 0.5,
) -> Expr:
    """Return the learning rate for ``iteration``, which is base_lr times the factor of ``policy``."""
    fixed = learning_rates.Fixed(base_lr)
    rates: dict[str, Policy] = {
        "fixed": fixed,
        "step": learning_rates.Step(base_lr, stepsize, gamma),
        "exp": learning_rates.Exp(base_lr, gamma),
        "inv": learning_rates.Inv(base_lr, gamma, power),
        "poly": learning_rates.Poly(base_lr, max_iter, power),
        "linearWarmup": learning_rates.LinearWarmup(fixed, num_iter, start_multiplier),
        "constantWarmup": learning_rates.ConstantWarmup(fixed, num_iter, multiplier),
    }
    return cast(rates[policy].record(_scalar(iteration)), np.dtype(np.float32))


@net_operator(in_place=((0, 0), (1, 1), (3, 2)), gradient="refused")
def MomentumSGDUpdate(
    gradient: Expr, momentum: Expr, rate: Expr, parameter: Expr, *, factor: float = 0.9, nesterov: bool = False
) -> tuple[Expr, Expr, Expr]:
    """Compute m ← factor·m + rate·g, p ← p − m; return the step taken, the new momentum and the new parameter."""
    rule = update_rules.Momentum(factor, nesterov)
    new, state = rule.record(parameter, gradient, cast(_scalar(rate), parameter.dtype), {"momentum": momentum})
    return parameter - new, state["momentum"], new


@net_operator(in_place=((0, 0), (1, 1)), gradient="refused")
def Adagrad(
    parameter: Expr, squares: Expr, gradient: Expr, rate: Expr, *, decay: float = 1.0, epsilon: float = 1e-5
) -> tuple[Expr, Expr]:
    """Compute h ← decay·h + g², p ← p − rate·g / (√h + ε); return the new parameter and h."""
    new, state = _updated(update_rules.Adagrad(decay, epsilon), parameter, gradient, rate, squares)
    return new, state


@net_operator(in_place=((0, 0), (1, 1), (2, 2)), gradient="refused")
def Adam(
    parameter: Expr,
    mean: Expr,
    squares: Expr,
    gradient: Expr,
    rate: Expr,
    iteration: Expr,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
) -> tuple[Expr, Expr, Expr]:
    """Apply Adam's update; return the new parameter, mean and squares. The first step has iteration 0."""
    rule = update_rules.Adam(beta1, beta2, epsilon)
    length = rule.length(_scalar(rate), _scalar(iteration))
    new, first, second = _updated(rule, parameter, gradient, length, mean, squares)
    return new, first, second


@net_operator(in_place=((0, 0), (1, 1), (2, 2)), gradient="refused")
def RmsProp(
    parameter: Expr,
    squares: Expr,
    momentum: Expr,
    gradient: Expr,
    rate: Expr,
    *,
    decay: float = 0.9,
    factor: float = 0.0,
    epsilon: float = 1e-5,
) -> tuple[Expr, Expr, Expr]:
    """Compute v ← v + (1 − decay)·(g² − v), m ← factor·m + rate·g / √(v + ε), p ← p − m; return p, v and m."""
    new, first, second = _updated(
        update_rules.RMSProp(decay, factor, epsilon), parameter, gradient, rate, squares, momentum
    )
    return new, first, second


@net_operator(in_place=((0, 0), (1, 1), (2, 2)), gradient="refused")
def Ftrl(
    parameter: Expr,
    squares: Expr,
    linear: Expr,
    gradient: Expr,
    rate: Expr,
    *,
    beta: float = 1.0,
    lambda1: float = 0.001,
    lambda2: float = 0.001,
) -> tuple[Expr, Expr, Expr]:
    """Apply FTRL's update (McMahan et al., 2013) with rate α; return the new parameter, squares and linear part."""
    new, first, second = _updated(update_rules.Ftrl(beta, lambda1, lambda2), parameter, gradient, rate, squares, linear)
    return new, first, second


def _updated(rule: update_rules.UpdateRule, parameter: Expr, gradient: Expr, length: Expr, *state: Expr) -> Any:
    """Record the update of ``rule``; return the new parameter and state, in the order of ``rule.state``."""
    for operand in (gradient, *state):
        if operand.type != parameter.type:
            raise OperandError(
                f"{operand.type} for a parameter {parameter.type}",
                rule=f"{type(rule).__name__}: gradient and state must have the parameter's type",
                fix="fill the state with zeros of the parameter's shape: net.ConstantFill(['w'], 'm')",
            )
    scalar = cast(_scalar(length), parameter.dtype)
    new, after = rule.record(parameter, gradient, scalar, dict(zip(rule.state, state, strict=True)))
    return new, *[after[name] for name in rule.state]


def _scalar(number: Expr) -> Expr:
    if number.size != 1:
        raise OperandError(
            f"{number.type} for a scalar",
            rule="a learning rate and a step index must be scalars",
            fix="net.LearningRate('iteration', 'rate', base_lr=0.1)",
        )
    return cast(reshape(number, ()), _FLOAT64)
