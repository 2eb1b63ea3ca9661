"""Editor of a net, which appends operators and edits the definition; each edit creates a new, checked definition.

``net.FC(…)`` checks its arguments against the schema of the type and adds an operator. Each registered type is
immediately available as such a method, with a signature and help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.source_location import users_line
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.types.tensor_type import Array
from explorer.net.building.weights import NetWeights, joined
from explorer.net.definition import edits
from explorer.net.definition.definition import NetDefinition, OperatorDefinition, Plain, WeightReference
from explorer.net.operators.table import OperatorTable

Names: TypeAlias = str | Iterable[str]


@dataclass(frozen=True, slots=True)
class WrittenOperator:
    """Operator added in Python, and the arrays that were passed as its weights, by key."""

    operator: OperatorDefinition
    arrays: Mapping[str, Array]


def names_of(names: Names, argument: str) -> tuple[str, ...]:
    """Return a name or several names as a tuple; ``argument`` is the argument that an error names."""
    is_one = isinstance(names, str) or not isinstance(names, Iterable)
    listed: tuple[Any, ...] = (names,) if is_one else tuple(names)
    if not all(isinstance(name, str) and name for name in listed):
        raise OperandError(f"{argument} {listed!r}", rule="blobs must be given by name", fix='net.Relu("x", "y")')
    return listed


def free_name(wanted: str, is_taken: Callable[[str], bool], tried: dict[str, int]) -> str:
    """Return ``wanted``, with a number appended if the name is taken; ``tried`` stores the last number of each name."""
    if not is_taken(wanted):
        return wanted
    # The search continues where the last one ended, since a net may have thousands of operators of one type.
    index = next(index for index in count(tried.get(wanted, 1)) if not is_taken(f"{wanted}_{index}"))
    tried[wanted] = index
    return f"{wanted}_{index}"


def own_name_of(type: str) -> str:
    """Return the default name of operators of a type: mat_mul for ``MatMul``, relu for ``nn.ReLU``."""
    family, _, word = type.replace("::", ".").rpartition(".")
    return (word if family else re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word)).lower()


def write(
    table: OperatorTable,
    type: str,
    name: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    values: Mapping[str, Any],
    weights: Mapping[str, Any],
    is_key: Callable[[str], bool],
    doc: str = "",
) -> WrittenOperator:
    """Return the operator for a call such as ``net.FC(…)``; ``is_key(key)`` returns whether a weight has this key.

    Raise UnknownNameError with similar types for an unknown type, or the error of the type's schema.
    """
    if type not in table:
        raise UnknownNameError(
            type,
            kind=f"operator type of {table.format}",
            known=table.near(type) or table.types(),
            fix="correct it, or register the type",
        )
    schema = table.schema(type)
    arguments: dict[str, Plain] = {}
    arrays = dict(weights)
    for key, value in values.items():
        # A weight may be written like an argument: net.Conv("x", weight=array).
        if schema is not None and key in schema.weights:
            if value is not None:
                arrays[key] = value
        else:
            arguments[key] = _plain(key, value)
    references: dict[str, WeightReference] = {}
    stored: dict[str, Array] = {}
    for attribute, value in arrays.items():
        array = tensor(value).array
        key = free_name(f"{name}.{attribute}", lambda key: is_key(key) or key in stored, {})
        references[attribute], stored[key] = WeightReference(key, array.shape, array.dtype.name), array
    location = users_line()
    operator = OperatorDefinition(
        type,
        name,
        inputs,
        outputs,
        arguments,
        dict(zip(table.input_names(type, len(inputs)), inputs, strict=False)),
        weights=references,
        line=location.line,
        text=location.text,
        file=location.where,
        doc=doc,
    )
    if schema is not None:
        try:
            schema.check(operator)
        except ExplorerError as error:
            raise OperandError(f"operator {name!r} ({type}): {error.given}", rule=error.rule, fix=error.fix) from None
    return WrittenOperator(operator, stored)


def _plain(name: str, value: Any) -> Plain:
    if isinstance(value, (list, tuple)):
        return tuple(_plain(name, item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (np.dtype, type)) and not isinstance(value, bool):
        return np.dtype(value).name
    if isinstance(value, (bool, int, float, complex, str)) or value is None:
        return value
    noun = "a tensor" if isinstance(value, (Tensor, np.ndarray, Expr)) else f"a {type(value).__name__}"
    raise OperandError(
        f"{name} is {noun}",
        rule="arguments must be numbers, strings, None, or tuples of them",
        fix="pass arrays as weights={…}, or as blobs: net.GivenTensorFill([], 'w', values=array)",
    )


class OperatorCall:
    """Callable ``net.Relu(inputs, outputs, **arguments)``, which adds an operator."""

    def __init__(self, type: str, table: OperatorTable, add: Callable[..., Any]) -> None:
        self.type, self._add = type, add
        self.schema = table.schema(type)
        self.__name__ = type
        self.__doc__ = self.schema.help if self.schema is not None else (table[type].__doc__ or type)
        if self.schema is not None:
            # Used by ``help`` and by editors. The call itself accepts any keywords, which the schema checks.
            self.__signature__ = self.schema.signature
        else:
            self.__signature__ = inspect.signature(add)

    def __call__(self, inputs: Names = (), outputs: Names | None = None, **options: Any) -> Any:
        """Add an operator of this type to the net; return the name or names of its outputs."""
        return self._add(self.type, inputs, outputs, **options)

    def __repr__(self) -> str:
        return f"<operator type {self.schema or self.type}>"


class Draft:
    """Definition to which operators are appended one by one, without rebuilding it each time."""

    def __init__(self, definition: NetDefinition) -> None:
        self._base = definition
        self._operators: list[OperatorDefinition] = []
        self._names = {operator.name for operator in definition.operators}
        self._blobs = {blob.blob for blob in definition.blobs.values()}
        self.arrays: dict[str, Array] = {}
        self._tried: dict[str, int] = {}
        self._keys = {weight.key for operator in definition.operators for weight in operator.weights.values()}

    def free_operator(self, wanted: str) -> str:
        """Return an unused operator name."""
        return free_name(wanted, self._names.__contains__, self._tried)

    def free_blob(self, wanted: str) -> str:
        """Return an unused blob name."""
        return free_name(wanted, self._blobs.__contains__, {})

    def has_key(self, key: str) -> bool:
        """Return whether a weight is stored under this key."""
        return key in self._keys or key in self.arrays

    def add(self, written: WrittenOperator) -> None:
        """Append an operator; if the definition would be invalid, raise its error."""
        operator = written.operator
        # Only the new operator is checked, since checking the whole net for each operator would take quadratic time.
        fits = (
            operator.name not in self._names
            and self._blobs.issuperset(operator.inputs)
            and (self._base.rewrites or self._blobs.isdisjoint(operator.outputs))
            and len({*operator.outputs}) == len(operator.outputs)
            and not any("@" in blob for blob in operator.outputs)
        )
        # Created only to raise its error, which contains the operator, the blob and the known names.
        if not fits:
            self._with([*self._operators, operator])
        self._operators.append(operator)
        self._names.add(operator.name)
        self._blobs.update(operator.outputs)
        self.arrays.update(written.arrays)

    def definition(self) -> NetDefinition:
        """Return the complete definition."""
        return self._with(self._operators)

    def _with(self, operators: list[OperatorDefinition]) -> NetDefinition:
        return edits.changed(
            self._base,
            operators=[*self._base.operators, *operators],
            weights=joined(self._base.weights, self.arrays),
        )


class NetEditor:
    """Current definition and weights of a net; each edit replaces the definition and updates the weights."""

    def __init__(self, definition: NetDefinition, table: OperatorTable, weights: NetWeights | None = None) -> None:
        self.table = table
        self.is_edited = False
        self._draft: Draft | None = None
        self._definition = definition
        self._weights = NetWeights(definition) if weights is None else weights

    @property
    def definition(self) -> NetDefinition:
        """The current definition."""
        if self._draft is not None:
            # Operators that were added one by one are checked together now, because checking the whole net after each
            # would take quadratic time.
            draft, self._draft = self._draft, None
            self.adopt(draft.definition())
        return self._definition

    @property
    def weights(self) -> NetWeights:
        """The weights of all operators."""
        self.definition  # noqa: B018  (added operators have weights too)
        return self._weights

    def adopt(self, definition: NetDefinition, renamed: Mapping[str, str] | None = None) -> None:
        """Use another definition; ``renamed`` maps new names of operators to old names.

        Weights are found by operator and attribute; a renamed operator keeps its weights, including replaced arrays.
        """
        self._weights = self._weights.for_definition(definition, renamed or {})
        self._definition = definition
        self.is_edited = True

    def add(
        self, type: str, inputs: Names, outputs: Names | None, before: str | None, after: str | None, **options: Any
    ) -> OperatorDefinition:
        """Add an operator at the end, or before or after another operator, and return it."""
        draft = self._draft or Draft(self.definition)
        written = self._write(draft, type, names_of(inputs, "inputs"), outputs, **options)
        # The usual case, in which nothing is rebuilt until the definition is read.
        if before is None and after is None:
            draft.add(written)
            self._draft = draft
        else:
            definition = self.definition
            position = edits.position(definition, before, after)
            self.adopt(edits.insert(definition, written.operator, position, self._with(written)))
        return written.operator

    def insert(
        self, type: str, blob: str, others: Names, output: str | None, readers: Sequence[str] | None, **options: Any
    ) -> OperatorDefinition:
        """Insert an operator between a blob and its readers, and return the operator."""
        definition = self.definition
        reads = (definition.blob(blob).blob, *names_of(others, "others"))
        # The draft is used only to find unused names.
        written = self._write(Draft(definition), type, reads, output, **options)
        self.adopt(edits.splice(definition, written.operator, blob, readers, self._with(written)))
        return written.operator

    def replace(self, name: str, type: str, weights: Mapping[str, Any] | None, doc: str, arguments: Any) -> None:
        """Replace an operator by one of another type, keeping its name, inputs and outputs, but no arguments or
        weights."""
        definition = self.definition
        old = definition.operator(name)
        is_key = Draft(definition).has_key
        written = write(self.table, type, name, old.inputs, old.outputs, arguments, weights or {}, is_key, doc)
        self.adopt(edits.put(definition, replace(written.operator, boxes=old.boxes), self._with(written)))

    def _write(
        self,
        draft: Draft,
        type: str,
        inputs: tuple[str, ...],
        outputs: Names | None,
        name: str | None,
        weights: Mapping[str, Any] | None,
        doc: str,
        arguments: Mapping[str, Any],
    ) -> WrittenOperator:
        own = draft.free_operator(own_name_of(type)) if name is None else name
        writes = self._output_names(type, own, draft) if outputs is None else names_of(outputs, "outputs")
        return write(self.table, type, own, inputs, writes, arguments, weights or {}, draft.has_key, doc)

    def _output_names(self, type: str, name: str, draft: Draft) -> tuple[str, ...]:
        schema = self.table.schema(type)
        number = schema.outputs.minimum if schema is not None else 1
        if number == 1:
            return (draft.free_blob(name),)
        return tuple(draft.free_blob(f"{name}_{index}") for index in range(number))

    def _with(self, written: WrittenOperator) -> Any:
        return joined(self._definition.weights, written.arrays)
