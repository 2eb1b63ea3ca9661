"""Memory of parameters and of an optimizer's state: each at one address, where every step reads and updates it.

A program whose operands lie at fixed addresses cuts its blocks once. Readers of a parameter get a copy, so that
expressions recorded before a step keep the value that they were recorded with.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.layers.framework.parameters import Parameter


class ParameterMemory:
    """Arrays of parameters by name: ``current`` values, and ``following`` ones, which a step writes."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = dict(parameters)
        self.current = {name: np.array(held.array) for name, held in self._parameters.items()}
        self.following = {name: np.empty_like(array) for name, array in self.current.items()}

    def refresh(self) -> None:
        """Take over values that were assigned to parameters since the last step."""
        for name, held in self._parameters.items():
            if held.memory is not self.current[name]:
                np.copyto(self.current[name], held.array)
                held.keep_in(self.current[name])

    def commit(self) -> None:
        """Make the following values the current ones."""
        for name, held in self._parameters.items():
            np.copyto(self.current[name], self.following[name])
            held.keep_in(self.current[name])
