"""A program by names: operators over named blobs, as every file format is read.

A definition holds no state and no engine value: what it means is for the net that is built from it. Every blob has
one producer, an operator or the outside world; operators are found by the names of their blobs, never by position.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from numpy.typing import NDArray

from explorer.core.errors import ExplorerError, FileError, OperandError, UnknownNameError

Plain: TypeAlias = "bool | int | float | complex | str | tuple[Plain, ...] | None"
Dimension: TypeAlias = int | str | None
"""a length, the name of an unknown length, or None for an unknown one without a name"""
Weights: TypeAlias = Mapping[str, NDArray[Any]]
"""arrays by key; a file's mapping reads an array when it is asked for, a plain dict serves as well"""


@dataclass(frozen=True, slots=True)
class WeightReference:
    """Where an operator's weight is found: its key in the definition's weights, shape, and dtype name as stored.

    The dtype is NumPy's name, or "bfloat16" or "complex32", which NumPy lacks; bfloat16 is handed out as float32.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class OperatorDefinition:
    """One operator: its type, blobs in order, plain arguments and weights, and where its file says so.

    ``input_names`` maps names of the operator's parameters to the blobs that were passed for them, where a file tells.
    ``boxes`` are the boxes around it, outermost first, where the file tells them otherwise than by the name: none for a
    name that was made up. ``line`` counts from 1, in a binary file it is the node's number, 0 where there is no file;
    ``text`` is that line. Both are left out of comparisons.
    """

    type: str
    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    arguments: Mapping[str, Plain] = field(default_factory=dict)
    input_names: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, WeightReference] = field(default_factory=dict)
    boxes: tuple[str, ...] | None = None
    line: int = field(default=0, compare=False)
    text: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class BlobType:
    """What a file says about a blob: shape (None where it says nothing) and dtype name."""

    shape: tuple[Dimension, ...] | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class BlobDefinition:
    """One blob: what its file says of its type, its producer (None: an input) and who reads it."""

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str | None
    producer: str | None
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class NetDefinition:
    """A whole program by names; ``operators`` in the file's order, ``inputs`` and ``outputs`` are names of blobs.

    Make one with :meth:`of`, which derives the blobs and checks the graph. ``source`` is the file's path, "" where
    there is none; it and the weights' values are left out of comparisons.
    """

    name: str
    operators: tuple[OperatorDefinition, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    blobs: Mapping[str, BlobDefinition]
    source: str = field(default="", compare=False)
    weights: Weights = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        operators: Iterable[OperatorDefinition],
        inputs: Iterable[str],
        outputs: Iterable[str],
        types: Mapping[str, BlobType] | None = None,
        *,
        source: str = "",
        weights: Weights | None = None,
    ) -> NetDefinition:
        """Derive producers and consumers and check the graph.

        Raises an error that names operator, blob and line for an operator's or input's name used twice, a blob with two
        producers, a blob that nobody produces, and a cycle.
        """
        operators, inputs, outputs = tuple(operators), tuple(inputs), tuple(outputs)
        blobs = _derive_blobs(operators, inputs, outputs, types or {}, source)
        definition = cls(name, operators, inputs, outputs, blobs, source, {} if weights is None else weights)
        definition.topological_order  # noqa: B018  (a cycle is refused here, not at the first use)
        return definition

    @cached_property
    def _by_name(self) -> dict[str, OperatorDefinition]:
        return {operator.name: operator for operator in self.operators}

    def operator(self, name: str) -> OperatorDefinition:
        """The operator of this name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownNameError(name, kind="operator", known=self._by_name) from None

    def blob(self, name: str) -> BlobDefinition:
        """The blob of this name."""
        try:
            return self.blobs[name]
        except KeyError:
            raise UnknownNameError(name, kind="blob", known=self.blobs) from None

    def weight(self, operator: str, attribute: str) -> NDArray[Any]:
        """Read one weight, an array of the declared shape."""
        references = self.operator(operator).weights
        try:
            reference = references[attribute]
        except KeyError:
            raise UnknownNameError(attribute, kind=f"weight of operator {operator!r}", known=references) from None
        array = self.weights[reference.key]
        if array.shape != reference.shape:
            raise OperandError(
                f"weight {attribute!r} of operator {operator!r} has shape {array.shape}",
                rule=f"the definition declares shape {reference.shape}",
                fix="give an array of the declared shape, or change the declaration with it",
            )
        return array

    @cached_property
    def topological_order(self) -> tuple[OperatorDefinition, ...]:
        """The operators, each after those whose blobs it reads; among the ready ones the file's order decides."""
        rank = {operator.name: index for index, operator in enumerate(self.operators)}
        waits, readers = [0] * len(rank), [list[int]() for _ in rank]
        for index, operator in enumerate(self.operators):
            for producer in {self.blobs[blob].producer for blob in operator.inputs} - {None}:
                assert producer is not None
                waits[index] += 1
                readers[rank[producer]].append(index)
        ready = [index for index, count in enumerate(waits) if count == 0]
        order = []
        while ready:
            index = heapq.heappop(ready)
            order.append(self.operators[index])
            for reader in readers[index]:
                waits[reader] -= 1
                if waits[reader] == 0:
                    heapq.heappush(ready, reader)
        if len(order) < len(self.operators):
            raise self._cycle_error({operator.name for operator in order})
        return tuple(order)

    def _cycle_error(self, ordered: set[str]) -> ExplorerError:
        current = next(operator for operator in self.operators if operator.name not in ordered)
        path: list[tuple[OperatorDefinition, str]] = []
        seen: dict[str, int] = {}
        while current.name not in seen:
            seen[current.name] = len(path)
            blob, producer = next(
                (blob, producer)
                for blob in current.inputs
                if (producer := self.blobs[blob].producer) is not None and producer not in ordered
            )
            path.append((current, blob))
            current = self._by_name[producer]
        cycle = path[seen[current.name] :]
        shown = [f"{operator.name!r} (line {operator.line}) reads {blob!r}" for operator, blob in cycle[:6]]
        more = f", … ({len(cycle)} operators in all)" if len(cycle) > len(shown) else ""
        return graph_error(
            self.source,
            cycle[0][0],
            f"operators wait for one another: {', '.join(shown)}{more}",
            rule="no operator may read, through others, what it produces itself",
            fix="break the cycle: let one of these operators read another blob",
        )


def graph_error(source: str, operator: OperatorDefinition | None, given: str, *, rule: str, fix: str) -> ExplorerError:
    """An error about a graph: a FileError with the operator's line where it came from a file, else an OperandError."""
    if source:
        return FileError(given, path=source, line=(operator and operator.line) or None, rule=rule, fix=fix)
    return OperandError(given, rule=rule, fix=fix)


def _derive_blobs(
    operators: tuple[OperatorDefinition, ...],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    types: Mapping[str, BlobType],
    source: str,
) -> dict[str, BlobDefinition]:
    named: dict[str, OperatorDefinition] = {}
    producers: dict[str, OperatorDefinition | None] = {}
    for blob in inputs:
        if blob in producers:
            raise graph_error(
                source, None, f"{blob!r} is an input twice", rule="an input has one name", fix="name each input once"
            )
        producers[blob] = None
    for operator in operators:
        earlier = named.setdefault(operator.name, operator)
        if earlier is not operator:
            raise graph_error(
                source,
                operator,
                f"operator name {operator.name!r} is used twice, first on line {earlier.line}",
                rule="an operator's name stands for one operator; weights are found by it",
                fix="rename one of the two",
            )
        for blob in operator.outputs:
            if blob in producers:
                first = producers[blob]
                who = f"operator {first.name!r} (line {first.line})" if first is not None else "an input of the net"
                raise graph_error(
                    source,
                    operator,
                    f"operator {operator.name!r} produces {blob!r}, which is already produced by {who}",
                    rule="a blob has one producer",
                    fix="give one of the two outputs another name",
                )
            producers[blob] = operator
    consumers: dict[str, dict[str, None]] = {blob: {} for blob in producers}
    for operator in operators:
        for blob in (*operator.inputs, *operator.input_names.values()):
            if blob not in producers:
                raise graph_error(
                    source,
                    operator,
                    f"operator {operator.name!r} reads {blob!r}, which nobody produces",
                    rule="what an operator reads is an input of the net or the output of an operator",
                    fix="correct the name, or add the operator or input that produces it",
                )
            consumers[blob][operator.name] = None
    for blob in outputs:
        if blob not in producers:
            raise graph_error(
                source,
                None,
                f"the net's output {blob!r} is produced by nobody",
                rule="an output of the net is an input of it or the output of an operator",
                fix="correct the name, or add the operator that produces it",
            )
    return {
        blob: BlobDefinition(
            blob,
            types[blob].shape if blob in types else None,
            types[blob].dtype if blob in types else None,
            producer.name if producer is not None else None,
            tuple(consumers[blob]),
        )
        for blob, producer in producers.items()
    }
