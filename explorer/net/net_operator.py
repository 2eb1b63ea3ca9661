"""Handle of one operator of a net, which provides its definition, and reads, replaces and releases its weights.

``net["conv1"]`` creates a handle. After the net is edited, the handle still describes the original operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from explorer.core.errors import UnknownNameError
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Array
from explorer.net.building.weights import NetWeights
from explorer.net.definition.argument_kinds import Arguments
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.operators.table import OperatorTable
from explorer.record.escape import visible


class OperatorWeights(Mapping[str, Tensor]):
    """Mapping of an operator's attributes to weights; setting a weight checks its shape and dtype.

    ``del weights["bias"]`` releases the memory of a weight, and the next use reads the file again.
    ``weights.take("bias")`` reads and releases a weight in one call.
    """

    def __init__(self, definition: OperatorDefinition, weights: NetWeights) -> None:
        self._definition, self._weights = definition, weights

    def __repr__(self) -> str:
        return f"<weights {', '.join(self)} of {self._definition.name}>"

    def _check(self, name: str) -> str:
        if name not in self._definition.weights:
            noun = f"weight of operator {self._definition.name!r}"
            raise UnknownNameError(name, kind=noun, known=self._definition.weights)
        return name

    def __getitem__(self, name: str) -> Tensor:
        return self._weights.tensor(self._definition.name, self._check(name))

    def __setitem__(self, name: str, value: Any) -> None:
        self._weights.replace(self._definition.name, self._check(name), value)

    def __delitem__(self, name: str) -> None:
        self._weights.release(self._definition.name, self._check(name))

    def take(self, name: str, dtype: Any = None, *, release: bool = True) -> Array:
        """Return a weight as a read-only array of the declared shape, and release the net's copy of it.

        ``dtype``, if given, must be the declared dtype. Raise OperandError for a different dtype or a weight without
        elements. Raise FileError if NumPy lacks the dtype, or if the file has a wrong number of bytes for the weight.
        """
        return self._weights.take(self._definition.name, self._check(name), dtype, release=release)

    def __iter__(self) -> Iterator[str]:
        return iter(self._definition.weights)

    def __len__(self) -> int:
        return len(self._definition.weights)


class NetOperator:
    """Operator of a net by name; its weights are also attributes: ``net["conv1"].weight``."""

    definition: OperatorDefinition
    weights: OperatorWeights
    _program: NetDefinition
    _table: OperatorTable

    def __init__(
        self, definition: OperatorDefinition, weights: NetWeights, program: NetDefinition, table: OperatorTable
    ) -> None:
        # Bypasses our own __setattr__, which sets weights.
        object.__setattr__(self, "definition", definition)
        object.__setattr__(self, "weights", OperatorWeights(definition, weights))
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_table", table)

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
        """Names of the operands that the operator reads, in order."""
        return self.definition.inputs

    @property
    def input_names(self) -> Mapping[str, str]:
        """Mapping from parameter names to operand names; empty if the file contains no parameter names."""
        return self.definition.input_names

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the operands that the operator writes, in order."""
        return self.definition.outputs

    @property
    def arguments(self) -> Arguments:
        """Plain arguments by name; ``arguments.kind("stride")`` returns an argument's kind, numbered as in PNNX."""
        return Arguments(self.name, self.definition.arguments)

    @property
    def predecessors(self) -> tuple[str, ...]:
        """Names of the operators whose outputs this operator reads, without duplicates, in input order."""
        program = self._program
        producers = (program.blobs[blob].producer for blob in program.ssa.operator(self.name).inputs)
        return tuple(dict.fromkeys(name for name in producers if name is not None))

    @property
    def successors(self) -> tuple[str, ...]:
        """Names of the operators that read the outputs of this operator, without duplicates, in output order."""
        program = self._program
        readers = (program.blobs[blob].consumers for blob in program.ssa.operator(self.name).outputs)
        return tuple(dict.fromkeys(name for names in readers for name in names))

    @property
    def layer(self) -> Callable[..., Any] | None:
        """Function registered for the operator's type, which records its expressions; None for an unknown type."""
        return self._table.get(self.type)

    def __getattr__(self, name: str) -> Tensor:
        # Copying and pickling request such names before the attributes exist.
        if name.startswith("_"):
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
        return visible(f"<{self.type} {self.name!r}: {reads or 'nothing'} → {writes or 'nothing'}>")
