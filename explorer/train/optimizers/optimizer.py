"""Optimizers: an update rule, a learning rate, and state for each parameter.

An optimizer refers to parameters and gradients, but does not own them. Its state is a set of named arrays, so it can be
written to a file and read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.interrupts import Postponed
from explorer.core.ir.expr import Expr
from explorer.core.tracing.captures import note
from explorer.core.types.device_copies import copied, fill, on_host
from explorer.core.types.tensor_type import Array, TensorType
from explorer.layers.framework.parameters import Parameter
from explorer.ops.nn.learning_rates import LearningRate
from explorer.ops.nn.update_rules import UpdateRule
from explorer.train.attribute_errors import OPTIMIZER as INSTEAD
from explorer.train.attribute_errors import RATES, hint, refuse_setting
from explorer.train.compiled import Compiled, parameter
from explorer.train.module_device import elements_on
from explorer.train.optimizers.gradient_options import GradientOptions, scalars
from explorer.train.optimizers.parameter_groups import ParameterGroup, as_groups, as_rate, group_of, rate_settings


class Update(NamedTuple):
    """Step of an optimizer as expressions: new parameters and state, and the memory of the old values."""

    values: dict[Expr, Expr]
    """old value → new value"""
    memory: dict[Expr, Any]
    """operand → its memory, an array on the operand's device"""

    @property
    def results(self) -> list[Expr]:
        """The new values, as a list."""
        return [*self.values.values()]


@named_methods
class Optimizer:
    """Optimizer of an update rule: ``Optimizer(rule, rate)``; ``rate`` is a number or a learning-rate policy.

    Options for any rule: ``weight_decay``, which is added to the gradients or, with ``decoupled``, subtracted from the
    parameters; ``clip_norm``, the maximum joint norm of all gradients; and ``groups`` of parameters that have another
    rate or decay, or are frozen (ParameterGroup). ``attach`` sets the parameters, and ``step`` updates them once. A
    custom rule is a frozen dataclass:

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class SignDescent(ex.train.UpdateRule):
    ...     def record(self, parameter, gradient, length, state):
    ...         return parameter - length * ex.sign(gradient), {}
    >>> ex.train.Optimizer(SignDescent(), rate=0.01)
    Optimizer(SignDescent(), rate=Fixed(base=0.01))
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    """options that are 0 or False by default"""

    def __init__(
        self,
        rule: UpdateRule,
        rate: float | LearningRate,
        *,
        weight_decay: float = 0.0,
        decoupled: bool = False,
        clip_norm: float = 0.0,
        groups: Sequence[ParameterGroup] = (),
    ) -> None:
        if not isinstance(rule, UpdateRule):
            raise DeclarationError(
                f"Optimizer({rule!r}, …)", rule="the rule must be an UpdateRule", fix="ex.train.Adam(rate=0.001)"
            )
        self._rule, self._rate = rule, as_rate(rate)
        self._options, self._groups = GradientOptions(weight_decay, decoupled, clip_norm), as_groups(groups)
        self.owner: str = ""
        """name of the module that owns the optimizer"""
        self.parameters: dict[str, Parameter] = {}
        """parameters that the optimizer updates, by name; it does not own them"""
        self.replaced: dict[str, Parameter] = {}
        """parameters that a step replaces by values from their layers, such as means of batches, by name"""
        self._group_of: Mapping[str, ParameterGroup] = {}
        self.memory: ParameterMemory | None = None
        self._state: dict[str, Any] = {}
        """state arrays by name, on the devices of their parameters"""
        self._state_types: dict[str, TensorType] = {}
        self.spares: dict[int, Array] = {}
        """address of an old value → memory for a new value that cannot overwrite the old value"""
        # An array with one element and a fixed address, since it is an operand of each step, like the parameters.
        self._iteration = np.zeros(())
        self._interrupts = Postponed(Optimizer._apply)
        self._compiled: Compiled | None = None

    @property
    def rule(self) -> UpdateRule:
        """Update rule of the optimizer."""
        return self._rule

    @property
    def options(self) -> GradientOptions:
        """Options for any rule."""
        return self._options

    @property
    def groups(self) -> tuple[ParameterGroup, ...]:
        """Groups of parameters with separate settings."""
        return self._groups

    @property
    def rate(self) -> LearningRate:
        """Learning rate; a number or a policy may be assigned between steps."""
        note(lambda: self._rate)
        return self._rate

    @rate.setter
    def rate(self, rate: float | LearningRate) -> None:
        self._rate, self._compiled = as_rate(rate), None

    def release(self) -> None:
        """Release the parameters, their state and the step count."""
        self.owner, self.parameters, self.replaced, self._group_of, self.memory = "", {}, {}, {}, None
        self._state, self._state_types, self.spares, self._compiled = {}, {}, {}, None
        self._iteration = np.zeros(())

    def attach(self, parameters: Mapping[str, Parameter], replaced: Mapping[str, Parameter] | None = None) -> None:
        """Set the parameters, by name, except frozen ones; their state is initially zero.

        ``replaced`` are parameters that steps replace by values from their layers. Raises StateError if the optimizer
        is already attached, UnknownNameError for a group's name that matches no parameter, and DeclarationError for a
        parameter in two groups.
        """
        if self.memory is not None:
            raise StateError(
                f"{self!r} attached twice",
                rule="an optimizer must be attached once, because its state belongs to its parameters",
                fix="make another optimizer",
            )
        self._group_of = group_of(self.groups, parameters)
        frozen = {name for name, group in self._group_of.items() if group.frozen}
        self.parameters = {name: parameter_ for name, parameter_ in parameters.items() if name not in frozen}
        self.replaced = dict(replaced or {})
        self._allocate({})

    def follow(self) -> None:
        """Move the state to the devices of the parameters, keeping the step count."""
        self._require_memory()
        # state() copies from the old devices before new memory is allocated.
        self._allocate(self.state())

    def _allocate(self, state: Mapping[str, Array]) -> None:
        """Allocate memory for parameters and state on the parameters' devices; entries missing from ``state`` are 0."""
        # The compiled step uses the old memory.
        self.memory = ParameterMemory({**self.parameters, **self.replaced})
        self._compiled, self.spares = None, {}
        self._state_types = {
            f"{name} {entry}": parameter_.type
            for name, parameter_ in self.parameters.items()
            for entry in self.rule.state
        }
        self._state = {
            key: copied(type_, state[key] if key in state else np.zeros(type_.shape, type_.dtype))
            for key, type_ in self._state_types.items()
        }

    def count(self) -> Expr:
        """Record an operand for the number of completed steps: a float64 scalar on cpu."""
        return parameter(TensorType((), np.dtype(np.float64)), "iteration")

    def record(
        self,
        values: Mapping[str, Expr],
        gradients: Mapping[str, Expr],
        count: Expr | None = None,
        replaced: Mapping[str, tuple[Expr, Expr]] | None = None,
    ) -> Update:
        """Record one step for the parameters ``values`` with their ``gradients``, by name.

        ``count`` is the operand of ``count()`` if layers also read it. ``replaced`` contains the old and new values of
        replaced parameters. The learning rate is computed on cpu, like the step count, and copied to other devices.
        """
        memory = self._require_memory()
        iteration = self.count() if count is None else count
        steps = record_steps(self.rule, self.rate, self.options, self._group_of, values, iteration)
        gradients = self.options.clipped(gradients)
        rule_gradients = {
            name: steps[name].options.with_decay(gradients[name], value) for name, value in values.items()
        }
        updated: dict[Expr, Expr] = {}
        operand_memory: dict[Expr, Any] = {iteration: self._iteration}
        for name, value in values.items():
            old_state = {entry: parameter(value.type, f"{name} {entry}") for entry in self.rule.state}
            decayed = steps[name].options.decayed(value, steps[name].rate)
            new, state = self.rule.record(decayed, rule_gradients[name], steps[name].length, old_state)
            if new.type != value.type or {*state} != {*old_state} or any(state[e].type != value.type for e in state):
                raise DeclarationError(
                    f"{self.rule!r} updated {name!r} ({value.type}) to {new.type}, with the state {', '.join(state)}",
                    rule=f"new value and state ({', '.join(self.rule.state) or 'none'}) must have the parameter's type",
                    fix="keep to the parameter's dtype: x.astype(parameter.dtype)",
                )
            operand_memory[value], updated[value] = memory.current[name], new
            for entry in self.rule.state:
                operand_memory[old_state[entry]] = self._state[f"{name} {entry}"]
                updated[old_state[entry]] = state[entry]
        for name, (old_value, new_value) in (replaced or {}).items():
            operand_memory[old_value], updated[old_value] = memory.current[name], new_value
        return Update(updated, operand_memory)

    def begin(self) -> None:
        """Read values assigned to parameters since the last step."""
        self._require_memory().refresh()

    def commit(self, step: Compiled) -> None:
        """Apply the updates of a computed step; an interrupt is postponed until all are applied.

        Nothing is updated before this call, so a failed or interrupted step changes no value.
        """
        self._interrupts.hold()
        try:
            self._apply(step)
        finally:
            self._interrupts.release()

    def _apply(self, step: Compiled) -> None:
        step.update()
        self._require_memory().commit()
        self._iteration[()] += 1

    @property
    def iteration(self) -> int:
        """Number of completed steps."""
        return int(self._iteration)

    def step(self, gradients: Mapping[str, Any]) -> None:
        """Update all parameters with ``gradients`` by parameter name; raise OperandError if one is missing."""
        check_type(gradients, "gradients", Mapping, "a mapping of parameter names to arrays", "module.gradients")
        missing = [name for name in self.parameters if name not in gradients]
        if missing:
            raise OperandError(
                f"a step of {self!r} without gradients of {', '.join(map(repr, missing))}",
                rule="each parameter must have a gradient",
                fix="module.backward(label)",
            )
        for name, parameter_ in self.parameters.items():
            problem = _misfit(gradients[name], parameter_.type)
            if problem:
                raise OperandError(
                    f"a step of {self!r} with a gradient {problem} of {name!r}",
                    rule=f"a gradient must be real numbers of its parameter's shape, {parameter_.type.shape}",
                    fix="module.backward(label) computes them",
                )
        self.begin()
        if self._compiled is None:
            types = {name: parameter_.type for name, parameter_ in self.parameters.items()}
            values = {name: parameter(type_, name) for name, type_ in types.items()}
            operands = {name: parameter(type_, f"gradient of {name}") for name, type_ in types.items()}
            update = self.record(values, operands)
            self._compiled = Compiled(
                [], [*operands.values()], update.memory, updates=update.values, spares=self.spares
            )
        self._compiled(*[gradients[name] for name in self.parameters])
        self.commit(self._compiled)

    def _require_memory(self) -> ParameterMemory:
        if self.memory is None:
            raise StateError(
                f"{self!r}, which has no parameters",
                rule="attach() must come before a step",
                fix="optimizer.attach({name: parameter}), or module.attach()",
            )
        return self.memory

    # -- dump and restore ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Return copies of the state arrays, keyed by parameter and entry: ``"hidden/weight momentum"``."""
        return {key: np.array(on_host(self._state_types[key], array)) for key, array in self._state.items()}

    def check_state(self, arrays: Mapping[str, Any]) -> None:
        """Raise OperandError unless ``arrays`` have the same names, shapes and dtypes as ``state()``."""
        for key in {*self._state, *arrays}:
            type_ = self._state_types.get(key)
            expected = f"{type_.dtype} {type_.shape}" if type_ is not None else "absent"
            actual = f"{arrays[key].dtype} {arrays[key].shape}" if key in arrays else "absent"
            if actual != expected:
                raise OperandError(
                    f"the optimizer's state {key!r} is {actual}",
                    rule=f"it must be {expected}",
                    fix="restore into a module of the same layers and optimizer",
                )

    def load_state(self, arrays: Mapping[str, Any], iteration: int) -> None:
        """Set the arrays of ``state()`` and the step count, after checking all of them."""
        self.check_state(arrays)
        if type(iteration) is not int or iteration < 0:
            raise OperandError(
                f"load_state(…, {iteration!r})", rule="the number of steps must be an integer of 0 or more", fix="0"
            )
        for key, array in arrays.items():
            fill(self._state_types[key], self._state[key], array)
        self._iteration[...] = iteration

    def settings(self) -> dict[str, Any]:
        """Return the constructor's arguments as numbers and strings."""
        return {
            "rule": {"type": type(self.rule).__name__, **asdict(self.rule)},
            "rate": rate_settings(self.rate),
            "options": asdict(self.options),
            "groups": [group.settings() for group in self.groups],
        }

    def __setattr__(self, name: str, value: Any) -> None:
        # The optimizer's own attributes first, since a step sets some of them.
        is_new = "_compiled" in vars(self) and name not in vars(self)
        if is_new and name in {*INSTEAD, *asdict(self.options), *asdict(self.rule)}:
            rule = (
                "an optimizer's settings are arguments of its constructor; only its rate may be assigned, between steps"
            )
            fix = "optimizer.rate = 0.001" if name in RATES else f"make another {type(self).__name__}"
            refuse_setting(self, name, value, rule, fix)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}" + hint(name, INSTEAD), name=name, obj=self
        )

    def __repr__(self) -> str:
        is_named = type(self) is not Optimizer
        settings = [(field.name, getattr(self.rule, field.name)) for field in fields(self.rule)] if is_named else []
        # Options exist for any rule, so they are listed only if they are set or not 0 by default.
        options = asdict(self.options)
        settings += [(name, options[name]) for name in options if options[name] or self.defaults.get(name)]
        settings += [("groups", [*self.groups])] if self.groups else []
        settings_text = "".join([f", {name}={value!r}" for name, value in settings])
        return f"{type(self).__name__}({'' if is_named else f'{self.rule!r}, '}rate={self.rate!r}{settings_text})"


def _misfit(gradient: Any, type_: TensorType) -> str:
    """Return why a gradient does not fit its parameter; "" if it fits."""
    try:
        array = gradient if hasattr(gradient, "dtype") else np.asarray(gradient)
    except ValueError as error:
        return f"{type(gradient).__name__} ({error})"
    fits = array.shape == type_.shape and array.dtype.kind in "biuf"
    return "" if fits else f"{array.dtype} {array.shape}"


class ParameterMemory:
    """Arrays of parameters on their devices, by name; a step updates those in ``current``."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = dict(parameters)
        self.types = {name: parameter_.type for name, parameter_ in self._parameters.items()}
        self.current: dict[str, Any] = {
            name: copied(parameter_.type, parameter_.elements) for name, parameter_ in self._parameters.items()
        }
        self._assignments = [
            (parameter_.use_memory, self.current[name]) for name, parameter_ in self._parameters.items()
        ]

    def __repr__(self) -> str:
        return f"<ParameterMemory of {', '.join(self.types)}>"

    def refresh(self) -> None:
        """Read values assigned to parameters since the last step."""
        for name, parameter_ in self._parameters.items():
            # An assignment sets a new array, so comparing identities detects it.
            if parameter_.memory is not self.current[name]:
                fill(self.types[name], self.current[name], elements_on(parameter_, self.types[name].device))
                parameter_.use_memory(self.current[name])

    def commit(self) -> None:
        """Set the parameters' values from the arrays, after a step has updated them."""
        for use_memory, array in self._assignments:
            use_memory(array)


class ParameterStep(NamedTuple):
    """Options of a parameter, and its learning rate and step length, scalars with its dtype and device."""

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
    """Record the step of each parameter, by name; ``rate`` and ``options`` apply to those outside groups."""
    by_rate: dict[LearningRate, list[str]] = {}
    for name in values:
        group = group_of.get(name)
        by_rate.setdefault(rate if group is None or group.rate is None else group.rate, []).append(name)
    steps: dict[str, ParameterStep] = {}
    for policy, names in by_rate.items():
        recorded = policy.record(iteration)
        members = [values[name] for name in names]
        options_of = {name: _options(options, group_of.get(name)) for name in names}
        lengths = scalars(rule.length(recorded, iteration), members)
        # The rate is recorded only if it decays a value.
        rates = (
            scalars(recorded, members)
            if any(own_options.decays_values for own_options in options_of.values())
            else lengths
        )
        for name, value in zip(names, members, strict=True):
            key = value.dtype, value.device
            steps[name] = ParameterStep(options_of[name], rates[key], lengths[key])
    return steps


def _options(options: GradientOptions, group: ParameterGroup | None) -> GradientOptions:
    decay = None if group is None else group.weight_decay
    return options if decay is None else replace(options, weight_decay=decay)
