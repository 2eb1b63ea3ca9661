"""What parameters begin with: a load buffer, else a value by name, else a filler, else nothing does."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeAlias

import numpy as np

from explorer.core.device import Device
from explorer.core.errors import OperandError, StateError
from explorer.core.tensor import Tensor, tensor
from explorer.core.types import Shape
from explorer.layers.filler import Filler
from explorer.layers.parameter import Parameter

Buffer: TypeAlias = MutableMapping[str, Any]
"""parameters, or arrays, by name; what is initialised with it enters it and is shared by what comes later"""


class Initializer:
    """Values by parameter name, a filler for the rest, and the seed that fillers draw with.

    ``names`` maps a parameter's name to the one it goes by, so that two layers share one parameter. What a filler
    draws depends on the seed and the parameter's name alone, not on the order of initialisation.
    """

    def __init__(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        filler: Filler | None = None,
        seed: int = 0,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.values = dict(values or {})
        self.filler, self.seed, self.names = filler, seed, dict(names or {})

    def name(self, own: str) -> str:
        """The name that a parameter goes by."""
        return self.names.get(own, own)

    def make(
        self, own: str, shape: Shape, dtype: np.dtype[Any], device: Device, filler: Filler | None, buffer: Buffer
    ) -> Parameter:
        """The parameter of a name: from the buffer, from the values, from the filler; raises StateError otherwise."""
        name = self.name(own)
        held = buffer.get(name)
        if isinstance(held, Parameter):
            _check(name, held.array, shape, "in the load buffer")
            return held
        if held is not None:
            return Parameter(name, _tensor(name, held, shape, dtype, device, "in the load buffer"))
        if name in self.values:
            return Parameter(name, _tensor(name, self.values[name], shape, dtype, device, "of the initializer"))
        filler = filler or self.filler
        if filler is None:
            raise StateError(
                f"the parameter {name!r} {shape} has nothing to begin with",
                rule="it is looked for in the load buffer, then among the initializer's values, then a filler draws it",
                fix=f"init(Initializer({{{name!r}: array}})), or Initializer(filler=VarScale()), or a filler policy",
            )
        generator = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        return Parameter(name, _tensor(name, filler.fill(shape, dtype, generator), shape, dtype, device, "drawn"))


def _tensor(name: str, value: Any, shape: Shape, dtype: np.dtype[Any], device: Device, where: str) -> Tensor:
    array = value.array if isinstance(value, Tensor) else np.asarray(value)
    _check(name, array, shape, where)
    if not np.can_cast(array.dtype, dtype, "same_kind") and array.dtype.kind not in "iub":
        raise OperandError(
            f"the value {where} of the parameter {name!r} is {array.dtype.name}",
            rule=f"it converts to the parameter's dtype, {dtype.name}",
        )
    return tensor(array.astype(dtype), name=name, device=device)


def _check(name: str, array: Any, shape: Shape, where: str) -> None:
    if np.shape(array) != shape:
        raise OperandError(
            f"the value {where} of the parameter {name!r} has the shape {np.shape(array)}",
            rule=f"the parameter's shape is {shape}",
            fix="check the layer's arguments, or the name",
        )
