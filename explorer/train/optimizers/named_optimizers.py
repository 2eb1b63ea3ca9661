"""Optimizers with a fixed update rule. They accept the rule's numbers and the options of any optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError
from explorer.ops.nn import update_rules
from explorer.ops.nn.learning_rates import LearningRate
from explorer.ops.nn.update_rules import UpdateRule
from explorer.train.optimizers.gradient_options import GradientOptions
from explorer.train.optimizers.optimizer import Optimizer

_GROUPS = inspect.signature(Optimizer).parameters["groups"]
"""the only option that is not a number: groups of parameters with separate settings"""


class _Named(Optimizer):
    """Optimizer with a fixed rule, constructed with the rule's numbers by name."""

    rule_class: ClassVar[type[UpdateRule]]

    def __init__(self, rate: float | LearningRate = 0.01, *positional: Any, **numbers: Any) -> None:
        names = [field.name for field in fields(self.rule_class)]
        options = [*[field.name for field in fields(GradientOptions)], _GROUPS.name]
        unknown = [name for name in numbers if name not in (*names, *options)]
        if unknown or positional:
            raise DeclarationError(
                f"{type(self).__name__}({f'{unknown[0]}=…' if unknown else f'{rate!r}, {positional[0]!r}'})",
                rule=f"options (all but the rate by name) must be among {', '.join(['rate', *names, *options])}",
                fix=f"{type(self).__name__}(rate=0.01)",
            )
        settings = {**self.defaults, **numbers}
        rule = self.rule_class(**{name: settings[name] for name in settings if name in names})
        super().__init__(rule, rate, **{name: settings[name] for name in settings if name in options})

    def __init_subclass__(cls) -> None:
        rule_parameters = [*inspect.signature(cls.rule_class).parameters.values()]
        rate = inspect.Parameter("rate", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=0.01)
        # Completion and help then show the rule's numbers.
        options = [*inspect.signature(GradientOptions).parameters.values()]
        options = [option.replace(default=cls.defaults.get(option.name, option.default)) for option in options]
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # inspect reads it; typeshed has no such name
            [
                rate,
                *[
                    parameter_.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                    for parameter_ in (*rule_parameters, *options)
                ],
                _GROUPS,
            ]
        )
        cls.__doc__ = f"{cls.__doc__}\n\n{inspect.cleandoc(cls.rule_class.__doc__ or '')}"


class SGD(_Named):
    """Optimizer that uses gradient descent."""

    rule_class = update_rules.SGD


class Momentum(_Named):
    """Optimizer that uses gradient descent with momentum, or with Nesterov's momentum."""

    rule_class = update_rules.Momentum


class Adagrad(_Named):
    """Optimizer that uses Adagrad."""

    rule_class = update_rules.Adagrad


class Adam(_Named):
    """Optimizer that uses Adam."""

    rule_class = update_rules.Adam


class AdamW(_Named):
    """Optimizer that uses Adam with decoupled weight decay."""

    rule_class = update_rules.Adam
    defaults: ClassVar[Mapping[str, Any]] = {"weight_decay": 0.01, "decoupled": True}


class AMSGrad(_Named):
    """Optimizer that uses AMSGrad."""

    rule_class = update_rules.AMSGrad


class RMSProp(_Named):
    """Optimizer that uses RMSProp."""

    rule_class = update_rules.RMSProp


class Ftrl(_Named):
    """Optimizer that uses FTRL-proximal."""

    rule_class = update_rules.Ftrl
