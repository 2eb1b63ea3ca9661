"""Initial values of parameters: from a load buffer, else by name, else from a filler.

The load buffer comes first, since layers that share a parameter find it there; what a layer initialises enters it.
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
"""parameters, or arrays, by name; initialised parameters enter it, and later layers share them"""

Major = TypeVar("Major", bound=PolicyClass)


class ParameterHolder(Protocol):
    """Source of a parameter inside a layer: initialisers make the parameter, and the holder keeps it."""

    shape: tuple[int, ...]
    held: Parameter | None

    @property
    def name(self) -> str:
        """Name of the source, by which its parameter is looked up."""

    def select(self, major: type[Major]) -> Major:
        """Return its values of a major policy class."""

    def begin(self, initializer: Initializer | None, buffer: Buffer) -> Parameter:
        """Make its parameter, and enter it into the load buffer."""

    def hold(self, parameter: Parameter) -> None:
        """Keep its parameter."""


@named_methods
class Initializer:
    """Initial values by parameter name, a filler for the others, and the seed of fillers.

    ``fillers`` are the ones that the policy ParameterPolicy.initializer chooses by name. ``names`` maps a parameter's
    name to the one it is looked up by, so that two layers can share one parameter. The values that a filler draws
    depend on the seed and the parameter's name alone, not on the order of initialisation.
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
                    rule=f"{option} must be a mapping by {'their' if option == 'fillers' else 'parameter'} name",
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
        self._taken: set[str] = set()
        self.filler, self.seed, self.names = filler, seed, dict(names or {})

    def __repr__(self) -> str:
        return f"Initializer({[*self.values]}, filler={self.filler!r}, seed={self.seed})"

    def unused(self) -> tuple[str, ...]:
        """Names of values that no parameter used: a misspelt name goes unnoticed where a filler draws the rest."""
        return tuple([name for name in self.values if name not in self._taken])

    def name(self, own: str) -> str:
        """Return the name that a parameter is looked up by."""
        return self.names.get(own, own)

    def make(self, own: str, type_: TensorType, policies: Policies, buffer: Buffer) -> Parameter:
        """Make the parameter of a name from the buffer, the values or a filler; raises StateError without any of
        them."""
        name = self.name(own)
        buffered = buffer.get(name)
        chosen = policies.select(ParameterPolicy, own)
        parameter_class: type[Parameter] = chosen.type
        if not issubclass(parameter_class, Parameter):
            raise DeclarationError(
                f"the type {parameter_class.__name__} of the parameter {own!r}",
                rule="the policy ParameterPolicy.type must be a subclass of Parameter",
                fix=f"class {parameter_class.__name__}(ex.layers.Parameter): …",
            )
        # The same object, not its numbers: two layers that share a parameter are trained together.
        if isinstance(buffered, Parameter):
            if not isinstance(buffered, parameter_class):
                raise OperandError(
                    f"the parameter {own!r} shares {buffered!r}, which is in the load buffer",
                    rule=f"its type must be {parameter_class.__name__}",
                    fix="give both layers one ParameterPolicy.type, or check the map of names",
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
            self._taken.add(name)
            return parameter_class(name, tensor_for(name, self.values[name], type_, "of the initializer for"))
        filler = chosen.filler or self._named(chosen.initializer, own) or self.filler
        if filler is None:
            raise StateError(
                f"the parameter {name!r} ({type_}) has nothing to begin with"
                + (f"; there are values for {', '.join(list(self.values)[:5])}" if self.values else ""),
                rule="a parameter must be in the load buffer or the initializer's values, or have a filler",
                fix=f"init(Initializer({{{name!r}: array}})), or Initializer(filler=VarScale()), or a filler policy",
            )
        # One generator a parameter, so that adding a layer changes no other layer's initial values.
        generator = np.random.default_rng([self.seed, *name.encode()])
        drawn = filler.under(policies).fill(type_.shape, generator)
        return parameter_class(name, tensor_for(name, drawn, type_, "drawn for"))

    def _named(self, name: str | None, own: str) -> Filler | None:
        """Return the filler that a policy names; raises UnknownNameError for an unknown one."""
        if name is not None and name not in self.fillers:
            raise UnknownNameError(
                name,
                kind=f"filler of the initializer for {own!r}",
                known=self.fillers,
                fix=f"Initializer(fillers={{{name!r}: VarScale()}})",
            )
        return None if name is None else self.fillers[name]
