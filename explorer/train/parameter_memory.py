"""Memory of parameters: each at one address, where every step reads and updates it.

A program whose operands lie at fixed addresses cuts its blocks once. Readers of a parameter get a copy, so that
expressions recorded before a step keep the value that they were recorded with.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.layers.framework.parameters import Parameter


class ParameterMemory:
    """Arrays of parameters by name, ``current``, which a step updates."""

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        self._parameters = dict(parameters)
        self.current = {name: np.array(held.array) for name, held in self._parameters.items()}
        self._kept = [(held.keep_in, self.current[name]) for name, held in self._parameters.items()]

    def refresh(self) -> None:
        """Take over values that were assigned to parameters since the last step."""
        for name, held in self._parameters.items():
            if held.memory is not self.current[name]:
                np.copyto(self.current[name], held.array)
                held.keep_in(self.current[name])

    def commit(self) -> None:
        """Make the values of the arrays those of the parameters, after a step has updated them."""
        for keep_in, array in self._kept:
            keep_in(array)
