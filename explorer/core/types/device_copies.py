"""Values on devices: creation, copying and reading of arrays on any device.

Layer parameters, their training and net weights use these functions. Arrays are NumPy arrays on cpu, and the device's
own arrays elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType


def fill(type_: TensorType, target: Any, values: Any) -> None:
    """Copy ``values``, a NumPy array or an array on the same device, into ``target``, an array of ``type_``."""
    device = type_.device
    if device is cpu:
        np.copyto(target, values)
    elif isinstance(values, (np.ndarray, np.generic)):
        device.write(target, np.asarray(values, type_.dtype))
    else:
        with device.switch_to_device():
            device.copy(values, target, device)


def copied(type_: TensorType, values: Any) -> Any:
    """Return a new array of ``type_`` filled from ``values``, a NumPy array or an array on the same device."""
    target = type_.device.empty(type_.shape, type_.dtype)
    fill(type_, target, values)
    return target


def on_host(type_: TensorType, array: Any) -> Array:
    """Return the values of ``array``, which has type ``type_``, as a NumPy array; on cpu, this is ``array`` itself."""
    values: Array = array if type_.device is cpu else type_.device.read(array)
    return values
