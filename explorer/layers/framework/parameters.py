"""Parameters of layers, and collectors of their gradients.

A parameter is a named reference to a tensor. Training replaces the tensor, but expressions recorded earlier keep the
old one.
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
    """Named reference to a replaceable tensor; layers that share a parameter refer to the same object.

    The policy ParameterPolicy.type selects a subclass, which may override ``assign``, for example to clip weights.
    """

    __slots__ = ("_memory", "_type", "_value", "name")

    def __init__(self, name: str, value: Tensor) -> None:
        self.name = name
        self._value: Tensor | None = value
        self._type = value.tensor_type
        self._memory: Any = None

    @property
    def value(self) -> Tensor:
        """The parameter's tensor.

        While training keeps the elements in its own memory, each access returns a copy. A traced function that reads
        ``value`` is traced again after the tensor is replaced.
        """
        note(self._tensor)
        return self._tensor()

    @value.setter
    def value(self, value: Tensor) -> None:
        # Programs that read the elements expect this type; another type would cause wrong results, or errors far from
        # here.
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
        """Convert the elements to ``dtype``, for example when a module with that dtype adopts the parameter."""
        if self._type.dtype != dtype:
            self._replace(tensor(self.array, dtype, name=self.name, device=self.device))

    @property
    def type(self) -> TensorType:
        """Shape, dtype and device of the tensor."""
        return self._type

    @property
    def device(self) -> Device:
        """Device of the tensor."""
        return self._type.device

    def to_device(self, device: Device) -> None:
        """Copy the elements to ``device``; expressions recorded earlier keep the old elements."""
        if device is not self.device:
            self.value = tensor(self.array, name=self.name, device=device)

    @property
    def memory(self) -> Any:
        """Array on the parameter's device in which training keeps the elements.

        None if training does not keep the elements, or if they have been replaced since then.
        """
        return self._memory

    @property
    def elements(self) -> Any:
        """Elements as an array on the parameter's device, which must not be written to."""
        note(self._tensor)
        return self.value.storage.array if self._memory is None else self._memory

    def use_memory(self, memory: Any) -> None:
        """Read the elements from ``memory``, an array on the parameter's device, from now on.

        Call this method again after each update of the array. If a subclass overrides ``assign``, the elements are
        assigned instead.
        """
        if type(self).assign is not Parameter.assign:
            self.assign(on_host(self._type, memory))
        else:
            self._memory, self._value = memory, None

    def assign(self, array: Any) -> None:
        """Assign a copy of the elements in ``array``; expressions recorded earlier keep the old elements.

        Raises OperandError if the shape differs or the dtype cannot be converted.
        """
        self.value = self.tensor_from({self.name: array})

    def tensor_from(self, arrays: Mapping[str, Any]) -> Tensor:
        """Return this parameter's array in ``arrays`` as a tensor.

        Raises UnknownNameError if there is none, and OperandError if its shape or dtype is wrong.
        """
        if self.name not in arrays:
            raise UnknownNameError(self.name, kind="weight", known=arrays, fix="pass an array for every parameter")
        return tensor_for(self.name, arrays[self.name], self.value.tensor_type, "assigned to")

    @property
    def array(self) -> Array:
        """Elements as a read-only array."""
        return self.value.array

    def __reduce__(self) -> tuple[Any, ...]:
        type_ = self.value.tensor_type
        return _parameter, (type(self), self.name, np.array(self.array), type_)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.value.type})"


def tensor_for(name: str, value: Any, type_: TensorType, where: str) -> Tensor:
    """Copy ``value`` to a tensor of ``type_`` for the parameter ``name``.

    Raises OperandError if the shape or dtype does not match.
    """
    try:
        array = value.array if isinstance(value, Tensor) else np.asarray(value)
    except ValueError as error:
        raise OperandError(
            f"the value {where} the parameter {name!r}: {error}",
            rule="the value must be a regular array of numbers",
            fix=f"pass an array of shape {type_.shape}",
        ) from None
    if array.shape != type_.shape:
        raise OperandError(
            f"the value {where} the parameter {name!r} has shape {array.shape}",
            rule=f"the value must have the parameter's shape, {type_.shape}",
            fix="check the layer's arguments, or the name",
        )
    # for user-defined dtypes, compare the stored dtypes
    stored = numbers_of(array)
    stored_dtype = numbers_of(np.empty((), type_.dtype)).dtype
    if stored.dtype.kind not in "biuf" or not (
        np.can_cast(stored.dtype, stored_dtype, "same_kind") or stored.dtype.kind in "biu"
    ):
        raise OperandError(
            f"the value {where} the parameter {name!r} is {dtype_name(array.dtype)}",
            rule=f"the value must be convertible to the parameter's dtype, {dtype_name(type_.dtype)}",
            fix=f"convert it first, or build the layer with ParameterPolicy.dtype({dtype_name(array.dtype)!r})",
        )
    return tensor(converted(array, type_.dtype), name=name, device=type_.device)


def _parameter(parameter_class: type[Parameter], name: str, array: Array, type_: TensorType) -> Parameter:
    return parameter_class(name, tensor_for(name, array, type_, "of"))


class GradCollector:
    """Gradients by parameter; multiple gradients of one parameter are summed."""

    def __init__(self) -> None:
        self._parts_of: dict[int, tuple[Parameter, list[Expr]]] = {}

    def collect(self, parameter: Parameter, gradient: Expr) -> None:
        """Add ``gradient`` to the gradient of ``parameter``."""
        # identify parameters by object, because layers share the object, and names are not unique
        self._parts_of.setdefault(id(parameter), (parameter, []))[1].append(gradient)

    def __repr__(self) -> str:
        return f"GradCollector(parameters={len(self)})"

    def __iter__(self) -> Iterator[tuple[Parameter, Expr]]:
        """Iterate over (parameter, gradient expression) pairs in order of collection."""
        for parameter, parts in self._parts_of.values():
            yield parameter, parts[0] if len(parts) == 1 else add_n(*parts)

    def __len__(self) -> int:
        return len(self._parts_of)

    def clear(self) -> None:
        """Remove all gradients."""
        self._parts_of.clear()
