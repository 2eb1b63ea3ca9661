"""Parameters of layers: named tensors that training changes, and collectors of their gradients.

A parameter is a name for a tensor, not the tensor: training puts another tensor behind the name, and expressions
recorded before keep the value that they were recorded with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor, tensor, tensor_of_values
from explorer.core.tracing.captures import note
from explorer.core.types.custom_dtypes import converted, dtype_name, numbers_of
from explorer.core.types.device import Device
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import Array, TensorType
from explorer.ops.elementwise.arithmetic import add_n


class Parameter:
    """Named tensor that can be replaced; layers that share a parameter hold the same object.

    A subclass, which the policy ParameterPolicy.type chooses, may override ``assign`` (to limit weights, say).
    """

    __slots__ = ("_memory", "_type", "_value", "name")

    def __init__(self, name: str, value: Tensor) -> None:
        self.name = name
        self._value: Tensor | None = value
        self._type = value.tensor_type
        self._memory: Any = None

    @property
    def value(self) -> Tensor:
        """The tensor; while training keeps the elements in memory of its own, a copy of them, made when it is asked
        for. A function being traced will be traced again once it is replaced."""
        note(self._tensor)
        return self._tensor()

    @value.setter
    def value(self, value: Tensor) -> None:
        # Programs of this parameter read elements of one type: another one would be noticed far from here, or never.
        if not isinstance(value, Tensor) or (value.shape, value.dtype) != (self._type.shape, self._type.dtype):
            type_ = value.type if isinstance(value, Tensor) else type(value).__name__
            raise OperandError(
                f"the value of the parameter {self.name!r} set to a {type_}",
                rule=f"it must be a tensor of the parameter's shape and dtype, {self._type}",
                fix="parameter.assign(array), which converts numbers",
            )
        self._replace(value)

    def _tensor(self) -> Tensor:
        if self._value is None:
            assert self._memory is not None
            self._value = tensor_of_values(self._type, self._memory, self.name)
        return self._value

    def _replace(self, value: Tensor) -> None:
        self._value, self._memory, self._type = value, None, value.tensor_type

    def convert(self, dtype: Any) -> None:
        """Convert the elements to a dtype, that of the module which the parameter belongs to from now on."""
        if self._type.dtype != dtype:
            self._replace(tensor(self.array, dtype, name=self.name, device=self.device))

    @property
    def type(self) -> TensorType:
        """Shape, dtype and device of the tensor."""
        return self._type

    @property
    def device(self) -> Device:
        """Device that the tensor is on."""
        return self._type.device

    def to_device(self, device: Device) -> None:
        """Move the elements to a device; expressions recorded before keep the old ones."""
        if device is not self.device:
            self.value = tensor(self.array, name=self.name, device=device)

    @property
    def memory(self) -> Any:
        """Array of its device in which training keeps the elements; None without one, or if the parameter was assigned
        since."""
        return self._memory

    @property
    def elements(self) -> Any:
        """Elements as an array of its device, to be read only."""
        note(self._tensor)
        return self.value.storage.array if self._memory is None else self._memory

    def keep_in(self, memory: Any) -> None:
        """Read the elements from an array of its device from now on; called again, too, whenever they were updated
        there.

        A subclass that overrides ``assign`` (to limit weights, say) assigns them.
        """
        if type(self).assign is not Parameter.assign:
            self.assign(on_host(self._type, memory))
        else:
            self._memory, self._value = memory, None

    def assign(self, array: Any) -> None:
        """Assign new elements, copied; expressions recorded before keep the old ones.

        Raises OperandError for another shape, or numbers that its dtype cannot hold.
        """
        self.value = self.made({self.name: array})

    def made(self, arrays: Mapping[str, Any]) -> Tensor:
        """Return a tensor of the array of its name; raises UnknownNameError without one, OperandError for a wrong
        one."""
        if self.name not in arrays:
            raise UnknownNameError(self.name, kind="weight", known=arrays, fix="give an array for every parameter")
        return tensor_for(self.name, arrays[self.name], self.value.tensor_type, "assigned to")

    @property
    def array(self) -> Array:
        """Elements, read-only."""
        return self.value.array

    def __reduce__(self) -> tuple[Any, ...]:
        type_ = self.value.tensor_type
        return _parameter, (type(self), self.name, np.array(self.array), type_)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.value.type})"


def tensor_for(name: str, value: Any, type_: TensorType, where: str) -> Tensor:
    """Copy a value to a tensor for the named parameter; raises OperandError if its type cannot hold it."""
    try:
        array = value.array if isinstance(value, Tensor) else np.asarray(value)
    except ValueError as error:
        raise OperandError(
            f"the value {where} the parameter {name!r}: {error}",
            rule="the value must be a regular array of numbers",
            fix=f"give an array of the shape {type_.shape}",
        ) from None
    if array.shape != type_.shape:
        raise OperandError(
            f"the value {where} the parameter {name!r} has the shape {array.shape}",
            rule=f"the value must have the parameter's shape, {type_.shape}",
            fix="check the layer's arguments, or the name",
        )
    # A user's dtype is judged by the numbers that its elements stand for.
    numbers = numbers_of(array)
    wanted = numbers_of(np.empty((), type_.dtype)).dtype
    if numbers.dtype.kind not in "biuf" or not (
        np.can_cast(numbers.dtype, wanted, "same_kind") or numbers.dtype.kind in "biu"
    ):
        raise OperandError(
            f"the value {where} the parameter {name!r} is {dtype_name(array.dtype)}",
            rule=f"the value must convert to the parameter's dtype, {dtype_name(type_.dtype)}",
            fix=f"convert it first, or make the layer with ParameterPolicy.dtype({dtype_name(array.dtype)!r})",
        )
    return tensor(converted(array, type_.dtype), name=name, device=type_.device)


def _parameter(parameter_class: type[Parameter], name: str, array: Array, type_: TensorType) -> Parameter:
    return parameter_class(name, tensor_for(name, array, type_, "of"))


class GradCollector:
    """Gradients by parameter; those of a parameter that is shared, or ran several times, are summed."""

    def __init__(self) -> None:
        self._parts_of: dict[int, tuple[Parameter, list[Expr]]] = {}

    def collect(self, parameter: Parameter, gradient: Expr) -> None:
        """Add one more gradient of a parameter."""
        # By identity: parameters are shared as objects, and two may have one name.
        self._parts_of.setdefault(id(parameter), (parameter, []))[1].append(gradient)

    def __repr__(self) -> str:
        return f"GradCollector(parameters={len(self)})"

    def __iter__(self) -> Iterator[tuple[Parameter, Expr]]:
        """Iterate over parameters and their gradient expressions, in the order of collection."""
        for parameter, parts in self._parts_of.values():
            yield parameter, parts[0] if len(parts) == 1 else add_n(*parts)

    def __len__(self) -> int:
        return len(self._parts_of)

    def clear(self) -> None:
        """Remove all gradients."""
        self._parts_of.clear()
