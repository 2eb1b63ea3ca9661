"""One operator of a net, as users hold it: its definition, and its weights to read, replace and release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from explorer.core.errors import UnknownNameError
from explorer.core.tensor import Tensor
from explorer.net.definition import OperatorDefinition, Plain
from explorer.net.weights import NetWeights


class OperatorWeights(Mapping[str, Tensor]):
    """The weights of an operator by attribute: read one, set one (its shape and dtype are checked), delete one."""

    def __init__(self, definition: OperatorDefinition, weights: NetWeights) -> None:
        self._definition, self._weights = definition, weights

    def _check(self, name: str) -> str:
        if name not in self._definition.weights:
            kind = f"weight of operator {self._definition.name!r}"
            raise UnknownNameError(name, kind=kind, known=self._definition.weights)
        return name

    def __getitem__(self, name: str) -> Tensor:
        return self._weights.tensor(self._definition.name, self._check(name))

    def __setitem__(self, name: str, value: Any) -> None:
        self._weights.replace(self._definition.name, self._check(name), value)

    def __delitem__(self, name: str) -> None:
        self._weights.release(self._definition.name, self._check(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._definition.weights)

    def __len__(self) -> int:
        return len(self._definition.weights)


class NetOperator:
    """An operator by its name; its weights are attributes too: ``net["conv1"].weight``."""

    definition: OperatorDefinition
    weights: OperatorWeights

    def __init__(self, definition: OperatorDefinition, weights: NetWeights) -> None:
        object.__setattr__(self, "definition", definition)
        object.__setattr__(self, "weights", OperatorWeights(definition, weights))

    @property
    def name(self) -> str:
        """The operator's name in its file."""
        return self.definition.name

    @property
    def type(self) -> str:
        """The operator's type in its file."""
        return self.definition.type

    @property
    def inputs(self) -> tuple[str, ...]:
        """The operands that it reads, in order."""
        return self.definition.inputs

    @property
    def input_names(self) -> Mapping[str, str]:
        """The operands that it reads by the names of its parameters, where the file tells."""
        return self.definition.input_names

    @property
    def outputs(self) -> tuple[str, ...]:
        """The operands that it produces, in order."""
        return self.definition.outputs

    @property
    def arguments(self) -> Mapping[str, Plain]:
        """Its plain arguments by name."""
        return self.definition.arguments

    def __getattr__(self, name: str) -> Tensor:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.weights[name]
        except UnknownNameError as error:
            raise AttributeError(str(error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.weights[name] = value

    def __delattr__(self, name: str) -> None:
        del self.weights[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.weights]

    def __repr__(self) -> str:
        reads, writes = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<{self.type} {self.name!r}: {reads or 'nothing'} → {writes or 'nothing'}>"
