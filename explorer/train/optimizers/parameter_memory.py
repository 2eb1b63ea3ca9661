"""Memory of parameters: each at one address, where every step reads and updates it.

A program whose operands lie at fixed addresses cuts its blocks once. Readers of a parameter get a copy, so that
expressions recorded before a step keep the value that they were recorded with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.core.types.device_values import copied, fill
from explorer.layers.framework.parameters import Parameter
from explorer.train.module_device import elements_on


class ParameterMemory:
    """Arrays of parameters on their devices by name, ``current``, which a step updates."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = dict(parameters)
        self.types = {name: held.type for name, held in self._parameters.items()}
        self.current: dict[str, Any] = {
            name: copied(held.type, held.elements) for name, held in self._parameters.items()
        }
        self._kept = [(held.keep_in, self.current[name]) for name, held in self._parameters.items()]

    def __repr__(self) -> str:
        return f"<ParameterMemory of {', '.join(self.types)}>"

    def refresh(self) -> None:
        """Take over values that were assigned to parameters since the last step."""
        for name, held in self._parameters.items():
            # Whoever assigns to a parameter gives it an array of its own: identity tells, and nothing is compared.
            if held.memory is not self.current[name]:
                fill(self.types[name], self.current[name], elements_on(held, self.types[name].device))
                held.keep_in(self.current[name])

    def commit(self) -> None:
        """Make the values of the arrays those of the parameters, after a step has updated them."""
        for keep_in, array in self._kept:
            keep_in(array)
