"""Device of a module's parameters and of the batches that are passed to it.

A batch is copied only when it enters a step, so all operands of the step are on one device. Results are returned as
NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.ir.tensor import Tensor
from explorer.core.types.device import Device, cpu
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import Array, TensorType
from explorer.layers.framework.parameters import Parameter


class Batch(NamedTuple):
    """Input or label of a step: a NumPy array or an array of the module's device, with its type on that device."""

    values: Any
    type: TensorType

    @property
    def array(self) -> Array:
        """The values as a NumPy array."""
        return self.values if isinstance(self.values, np.ndarray) else on_host(self.type, self.values)


def batch_on(device: Device, value: Any, dtype: np.dtype[Any], converted: str) -> Batch:
    """Return samples as a batch on ``device``; dtypes of the kinds ``converted`` become ``dtype``.

    A tensor on this device is not copied.
    """
    if isinstance(value, Tensor):
        if value.device is device is not cpu and (value.dtype == dtype or value.dtype.kind not in converted):
            return Batch(value.storage.array, value.tensor_type)
        value = value.array
    # Device kernels read one block of memory, and plans are built for row-major operands.
    array = np.ascontiguousarray(samples_of(value))
    if array.dtype != dtype and array.dtype.kind in converted:
        array = array.astype(dtype)
    return Batch(array, TensorType(array.shape, array.dtype, device))


def samples_of(value: Any) -> Array:
    """Return samples as an array; raise OperandError unless they are a regular array of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        problem = str(error)
    else:
        # Complex numbers would lose their imaginary part when a module converts them.
        if array.dtype.kind not in "cOSUMm":
            return array
        problem = f"elements of {array.dtype}"
    raise OperandError(
        f"samples given as a {type(value).__name__}: {problem}",
        rule="inputs and labels must be regular arrays of real numbers",
        fix="np.array(rows, dtype=np.float32)",
    )


def common_device(module: str, parameters: Mapping[str, Parameter]) -> Device:
    """Return the device of all parameters of a module; raise DeclarationError if there are several."""
    device_of = {name: parameter.device for name, parameter in parameters.items()}
    first = next(iter(device_of), "")
    other = next((name for name, device in device_of.items() if device is not device_of[first]), "")
    if other:
        raise DeclarationError(
            f"the parameter {other!r} on {device_of[other].name}, and {first!r} on {device_of[first].name}, in the "
            f"module {module!r}",
            rule="all parameters of a module must be on one device",
            fix=f"module.to_device({device_of[other].name!r}) before attach(), to move all parameters",
        )
    return device_of.get(first, cpu)


def elements_on(parameter: Parameter, device: Device) -> Any:
    """Return a parameter's elements as an array; raise StateError if they are not on the module's ``device``."""
    if parameter.device is not device:
        raise StateError(
            f"the parameter {parameter.name!r} on {parameter.device.name}, in a module on {device.name}",
            rule="all parameters of a module must be on its device; modules that share a parameter must use one device",
            fix=f"module.to_device({parameter.device.name!r}) or to_device({device.name!r}) moves all parameters",
        )
    return parameter.elements
