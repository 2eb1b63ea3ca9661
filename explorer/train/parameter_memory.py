"""Memory of parameters: each at one address, where every step reads and updates it.

A program whose operands lie at fixed addresses cuts its blocks once. Readers of a parameter get a copy, so that
expressions recorded before a step keep the value that they were recorded with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.core.errors import StateError
from explorer.core.types.device import Device
from explorer.core.types.device_values import copied, fill
from explorer.layers.framework.parameters import Parameter


def elements_on(parameter: Parameter, device: Device) -> Any:
    """Return the elements of a parameter as an array of the device of its module; raises StateError if they lie
    elsewhere."""
    if parameter.device is not device:
        raise StateError(
            f"the parameter {parameter.name!r} on {parameter.device.name}, in a module on {device.name}",
            rule="all parameters of a module must lie on its device; modules that share one must be on the same",
            fix=f"module.to_device({parameter.device.name!r}), or {device.name!r}: it moves all parameters",
        )
    return parameter.elements


class ParameterMemory:
    """Arrays of parameters on their devices by name, ``current``, which a step updates."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = dict(parameters)
        self.types = {name: held.type for name, held in self._parameters.items()}
        self.current: dict[str, Any] = {
            name: copied(held.type, held.elements) for name, held in self._parameters.items()
        }
        self._kept = [(held.keep_in, self.current[name]) for name, held in self._parameters.items()]

    def refresh(self) -> None:
        """Take over values that were assigned to parameters since the last step."""
        for name, held in self._parameters.items():
            if held.memory is not self.current[name]:
                fill(self.types[name], self.current[name], elements_on(held, self.types[name].device))
                held.keep_in(self.current[name])

    def commit(self) -> None:
        """Make the values of the arrays those of the parameters, after a step has updated them."""
        for keep_in, array in self._kept:
            keep_in(array)
