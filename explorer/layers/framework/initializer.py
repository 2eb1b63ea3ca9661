"""What parameters begin with: a load buffer, else a value by name, else a filler, else nothing does."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError
from explorer.core.policy import Policies
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.fillers import Filler
from explorer.layers.framework.parameters import Parameter, tensor_for
from explorer.layers.framework.policy_classes import ParameterPolicy

Buffer: TypeAlias = MutableMapping[str, Any]
"""parameters, or arrays, by name; what is initialised with it enters it and is shared by what comes later"""


class Initializer:
    """Values by parameter name, a filler for the rest, and the seed that fillers draw with.

    ``fillers`` are those that the policy ParameterPolicy.initializer chooses by name. ``names`` maps a parameter's name
    to the one it goes by, so that two layers share one parameter. What a filler draws depends on the seed and the
    parameter's name alone, not on the order of initialisation.
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
            raise DeclarationError(f"the seed {seed!r}", rule="a seed is a whole number, zero or more", fix="seed=0")
        for what, given in (("values", values), ("names", names), ("fillers", fillers)):
            if given is not None and not isinstance(given, Mapping):
                raise DeclarationError(
                    f"Initializer({what}={given!r})",
                    rule=f"{what} are given by {'their' if what == 'fillers' else 'parameter'} name",
                    fix="a layer's parameters are named by their paths: layer.paths()",
                )
        self.fillers = dict(fillers or {})
        for each in (filler, *self.fillers.values()):
            if each is not None and not isinstance(each, Filler):
                raise DeclarationError(
                    f"the filler {each!r}", rule="a filler is an object of a class of Filler", fix="Constant(0.0)"
                )
        self.values = dict(values or {})
        self._taken: set[str] = set()
        self.filler, self.seed, self.names = filler, seed, dict(names or {})

    def unused(self) -> tuple[str, ...]:
        """Names of values that no parameter began with: a name may be misspelt where a filler draws the rest."""
        return tuple([name for name in self.values if name not in self._taken])

    def name(self, own: str) -> str:
        """The name that a parameter goes by."""
        return self.names.get(own, own)

    def make(self, own: str, type_: TensorType, policies: Policies, buffer: Buffer) -> Parameter:
        """The parameter of a name: from the buffer, from the values, from a filler; raises StateError otherwise."""
        name = self.name(own)
        held = buffer.get(name)
        chosen = policies.select(ParameterPolicy, own)
        made: type[Parameter] = chosen.type
        if not issubclass(made, Parameter):
            raise DeclarationError(
                f"the type {made.__name__} of the parameter {own!r}",
                rule="the policy ParameterPolicy.type must be a subclass of Parameter",
                fix=f"class {made.__name__}(ex.layers.Parameter): …",
            )
        if isinstance(held, Parameter):
            if not isinstance(held, made):
                raise OperandError(
                    f"the parameter {own!r} shares {held!r}, which is in the load buffer",
                    rule=f"its type must be {made.__name__}",
                    fix="give both layers one ParameterPolicy.type, or check the map of names",
                )
            if held.value.type != type_:
                raise OperandError(
                    f"the parameter {own!r} shares {held!r}, which is in the load buffer",
                    rule=f"its shape, dtype and device are {type_}",
                    fix="check the layer's arguments and policies, or the map of names",
                )
            return held
        if held is not None:
            return made(name, tensor_for(name, held, type_, "in the load buffer for"))
        if name in self.values:
            self._taken.add(name)
            return made(name, tensor_for(name, self.values[name], type_, "of the initializer for"))
        filler = chosen.filler or self._named(chosen.initializer, own) or self.filler
        if filler is None:
            raise StateError(
                f"the parameter {name!r} ({type_}) has nothing to begin with"
                + (f"; there are values for {', '.join(list(self.values)[:5])}" if self.values else ""),
                rule="it is looked for in the load buffer, then among the initializer's values, then a filler draws it",
                fix=f"init(Initializer({{{name!r}: array}})), or Initializer(filler=VarScale()), or a filler policy",
            )
        generator = np.random.default_rng([self.seed, *name.encode()])
        drawn = filler.under(policies).fill(type_.shape, generator)
        return made(name, tensor_for(name, drawn, type_, "drawn for"))

    def _named(self, name: str | None, own: str) -> Filler | None:
        """The filler that a policy names; raises UnknownNameError where it is none of the fillers."""
        if name is not None and name not in self.fillers:
            raise UnknownNameError(
                name,
                kind=f"filler of the initializer for {own!r}",
                known=self.fillers,
                fix=f"Initializer(fillers={{{name!r}: VarScale()}})",
            )
        return None if name is None else self.fillers[name]
