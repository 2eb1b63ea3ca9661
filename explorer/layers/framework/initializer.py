"""Initial values of parameters: taken from a load buffer, from named values, or from a filler, in this order.

Initialized parameters are added to the load buffer, where layers that share a parameter find it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError
from explorer.core.policy import Policies, PolicyClass
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.fillers import Filler
from explorer.layers.framework.parameters import Parameter, tensor_for
from explorer.layers.framework.policy_classes import ParameterPolicy

Buffer: TypeAlias = MutableMapping[str, Any]
"""name → parameter or array; initialized parameters are added, so that later layers can share them"""

Major = TypeVar("Major", bound=PolicyClass)


class ParameterHolder(Protocol):
    """Source layer that holds a parameter, which an initializer creates."""

    shape: tuple[int, ...]
    parameter: Parameter | None

    @property
    def name(self) -> str:
        """Name under which the source's parameter is looked up."""

    def select(self, major: type[Major]) -> Major:
        """Return the values of the policy class ``major``."""

    def begin(self, initializer: Initializer | None, buffer: Buffer) -> Parameter:
        """Create the parameter and add it to the load buffer."""

    def hold(self, parameter: Parameter) -> None:
        """Store ``parameter`` in the source."""


@named_methods
class Initializer:
    """Initial values by parameter name, and a seeded filler for all other parameters.

    The policy ParameterPolicy.initializer selects one of ``fillers`` by name. ``names`` maps a parameter's name to the
    name under which it is looked up, so that two layers can share a parameter. A filler's values depend only on the
    seed and the parameter's name, and not on the order of initialization.
    """

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        filler: Filler | None = None,
        fillers: Mapping[str, Filler] | None = None,
        seed: int = 0,
        names: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise DeclarationError(f"the seed {seed!r}", rule="a seed must be an integer of 0 or more", fix="seed=0")
        for option, entries in (("values", values), ("names", names), ("fillers", fillers)):
            if entries is not None and not isinstance(entries, Mapping):
                raise DeclarationError(
                    f"Initializer({option}={entries!r})",
                    rule=f"{option} must be a mapping keyed by {'their' if option == 'fillers' else 'parameter'} name",
                    fix=f"{option}={{name: …}}; layer.paths() lists the parameters",
                )
        self.fillers = dict(fillers or {})
        for each in (filler, *self.fillers.values()):
            if each is not None and not isinstance(each, Filler):
                raise DeclarationError(
                    f"the filler {each!r}",
                    rule="a filler must be an instance of a subclass of Filler",
                    fix="Constant(0.0)",
                )
        self.values = dict(values or {})
        self._used: set[str] = set()
        self.filler, self.seed, self.names = filler, seed, dict(names or {})

    def __repr__(self) -> str:
        return f"Initializer({[*self.values]}, filler={self.filler!r}, seed={self.seed})"

    def unused(self) -> tuple[str, ...]:
        """Return the names of values that no parameter used, perhaps because they are misspelt."""
        return tuple([name for name in self.values if name not in self._used])

    def name(self, own: str) -> str:
        """Return the name under which the parameter ``own`` is looked up."""
        return self.names.get(own, own)

    def make(self, own: str, type_: TensorType, policies: Policies, buffer: Buffer) -> Parameter:
        """Create a parameter from the buffer, the values or a filler.

        Raises StateError if none of them provides a value, and OperandError if a value does not have type ``type_``.
        """
        name = self.name(own)
        buffered = buffer.get(name)
        parameter_policies = policies.select(ParameterPolicy, own)
        parameter_class: type[Parameter] = parameter_policies.type
        if not issubclass(parameter_class, Parameter):
            raise DeclarationError(
                f"the type {parameter_class.__name__} of the parameter {own!r}",
                rule="the policy ParameterPolicy.type must be a subclass of Parameter",
                fix=f"class {parameter_class.__name__}(ex.layers.Parameter): …",
            )
        # Share the Parameter object itself, so that training changes it for all its layers.
        if isinstance(buffered, Parameter):
            if not isinstance(buffered, parameter_class):
                raise OperandError(
                    f"the parameter {own!r} shares {buffered!r}, which is in the load buffer",
                    rule=f"its type must be {parameter_class.__name__}",
                    fix="use the same ParameterPolicy.type for both layers, or check the map of names",
                )
            if buffered.value.type != type_:
                raise OperandError(
                    f"the parameter {own!r} shares {buffered!r}, which is in the load buffer",
                    rule=f"the shared parameter must have the shape, dtype and device {type_}",
                    fix="check the layer's arguments and policies, or the map of names",
                )
            return buffered
        if buffered is not None:
            return parameter_class(name, tensor_for(name, buffered, type_, "in the load buffer for"))
        if name in self.values:
            self._used.add(name)
            return parameter_class(name, tensor_for(name, self.values[name], type_, "of the initializer for"))
        filler = parameter_policies.filler or self._filler_of(parameter_policies.initializer, own) or self.filler
        if filler is None:
            raise StateError(
                f"the parameter {name!r} ({type_}) has no initial value"
                + (f"; there are values for {', '.join(list(self.values)[:5])}" if self.values else ""),
                rule="a parameter must be in the load buffer or the initializer's values, or have a filler",
                fix=f"init(Initializer({{{name!r}: array}})), or Initializer(filler=VarScale()), or a filler policy",
            )
        # Use one generator per parameter, so that adding a layer does not change the initial values of others.
        generator = np.random.default_rng([self.seed, *name.encode()])
        drawn = filler.with_policies(policies).fill(type_.shape, generator)
        return parameter_class(name, tensor_for(name, drawn, type_, "drawn for"))

    def _filler_of(self, name: str | None, own: str) -> Filler | None:
        """Return the filler ``name``, or the default filler for None; raise UnknownNameError if it does not exist."""
        if name is not None and name not in self.fillers:
            raise UnknownNameError(
                name,
                kind=f"filler of the initializer for {own!r}",
                known=self.fillers,
                fix=f"Initializer(fillers={{{name!r}: VarScale()}})",
            )
        return None if name is None else self.fillers[name]
