"""Rates, lengths of steps and options of parameters: those of the optimizer, or of the group that a parameter is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.ops.nn.learning_rates import LearningRate
from explorer.ops.nn.update_rules import UpdateRule
from explorer.train.optimizers.gradient_options import GradientOptions
from explorer.train.optimizers.parameter_groups import ParameterGroup
from explorer.train.optimizers.scalars import scalars


class ParameterStep(NamedTuple):
    """Options of a parameter, and its learning rate and the length of its step, scalars of its dtype and device."""

    options: GradientOptions
    rate: Expr
    length: Expr


def record_steps(
    rule: UpdateRule,
    rate: LearningRate,
    options: GradientOptions,
    group_of: Mapping[str, ParameterGroup],
    values: Mapping[str, Expr],
    iteration: Expr,
) -> dict[str, ParameterStep]:
    """Record the step of each parameter by name, each rate once; ``rate`` and ``options`` hold outside of groups."""
    by_rate: dict[LearningRate, list[str]] = {}
    for name in values:
        group = group_of.get(name)
        by_rate.setdefault(rate if group is None or group.rate is None else group.rate, []).append(name)
    steps: dict[str, ParameterStep] = {}
    for policy, names in by_rate.items():
        recorded = policy.record(iteration)
        members = [values[name] for name in names]
        own = {name: _options(options, group_of.get(name)) for name in names}
        lengths = scalars(rule.length(recorded, iteration), members)
        # The rate itself only where a value decays by it.
        rates = scalars(recorded, members) if any(each.decays_values for each in own.values()) else lengths
        for name, value in zip(names, members, strict=True):
            place = value.dtype, value.device
            steps[name] = ParameterStep(own[name], rates[place], lengths[place])
    return steps


def _options(options: GradientOptions, group: ParameterGroup | None) -> GradientOptions:
    decay = None if group is None else group.weight_decay
    return options if decay is None else replace(options, weight_decay=decay)
