"""Net definitions, which describe programs of operators that read and write named blobs, as in model files.

A definition contains no expressions; building a net from it creates them. Blob names connect the operators. Each blob,
or each version of a blob that is written repeatedly, is produced by one operator or is an input of the net.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, count
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import ExplorerError, OperandError, UnknownNameError
from explorer.core.memory_budget import claim_constant, claim_memory
from explorer.net.definition.operator_definition import (
    BlobDefinition,
    BlobType,
    Dimension,
    FileWeights,
    OperatorDefinition,
    Plain,
    WeightReference,
    Weights,
    graph_error,
    memory_dtype,
)
from explorer.net.definition.ssa import Resolver, TypeOf, history, split_name

__all__ = [
    "BlobDefinition",
    "BlobType",
    "Dimension",
    "NetDefinition",
    "OperatorDefinition",
    "Plain",
    "WeightReference",
    "Weights",
    "graph_error",
]


@dataclass(frozen=True)
class NetDefinition:
    """Program of operators on named blobs: ``operators`` in file order, and ``inputs`` and ``outputs`` as blob names.

    :meth:`of` creates a definition, derives its blobs and checks the graph. ``blobs`` maps the unique name of every
    version of every blob to its definition. ``dialect`` names the set of operator types ("pnnx", "onnx", "explorer").
    ``rewrites`` is True if operators run in order and may write a blob again. ``source`` is the file's path, or "".
    ``doc`` is the author's description, and ``metadata`` contains the other (name, value) pairs that the file states
    about itself: its producer, versions and metadata. ``signature`` is the key of the signature whose graph was
    selected, or "". Comparisons ignore ``source``, ``metadata``, ``signature`` and the values of weights.
    """

    name: str
    operators: tuple[OperatorDefinition, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    blobs: Mapping[str, BlobDefinition]
    source: str = field(default="", compare=False)
    weights: Weights = field(default_factory=dict, compare=False, repr=False)
    dialect: str = ""
    rewrites: bool = False
    doc: str = ""
    metadata: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    signature: str = field(default="", compare=False, repr=False)

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
        dialect: str = "",
        rewrites: bool = False,
        doc: str = "",
        metadata: Iterable[tuple[str, str]] = (),
        signature: str = "",
        type_of: TypeOf | None = None,
    ) -> NetDefinition:
        """Return a definition with derived producers and readers of blobs, after checking the graph.

        ``types`` maps names of blobs or versions (``x@1``) to declared types; a plain name means the first version.
        Raise an error with operator, blob and line for a duplicate name of an operator or input, a blob without a
        producer, a blob with two producers (unless ``rewrites``), a read of an overwritten version, or a cycle.
        """
        operators, inputs, outputs = tuple(operators), tuple(inputs), tuple(outputs)
        declared = types or {}

        def by_name(own: str, blob: str, version: int, producer: str | None) -> BlobType:
            return declared.get(own) or (declared.get(blob) if version == 0 else None) or BlobType()

        resolved = Resolver(operators, inputs, outputs, source, rewrites).resolved(type_of or by_name)
        definition = cls(
            name,
            operators,
            inputs,
            outputs,
            resolved.blobs,
            source,
            {} if weights is None else weights,
            dialect,
            rewrites,
            doc,
            tuple(metadata),
            signature,
        )
        definition.topological_order  # noqa: B018  (a cycle is rejected here, not at the first use)
        return definition

    def with_program(
        self,
        operators: Iterable[OperatorDefinition],
        inputs: Iterable[str],
        outputs: Iterable[str],
        types: Mapping[str, BlobType] | None = None,
        *,
        rewrites: bool = False,
        weights: Weights | None = None,
        type_of: TypeOf | None = None,
    ) -> NetDefinition:
        """Return a definition of other operators, with this definition's name, weights and facts about the file."""
        return NetDefinition.of(
            self.name,
            operators,
            inputs,
            outputs,
            types,
            source=self.source,
            weights=self.weights if weights is None else weights,
            dialect=self.dialect,
            rewrites=rewrites,
            doc=self.doc,
            metadata=self.metadata,
            signature=self.signature,
            type_of=type_of,
        )

    @cached_property
    def ssa(self) -> NetDefinition:
        """The same program with a unique name for every version of a blob."""
        if not self.rewrites or all(blob.name == blob.blob for blob in self.blobs.values()):
            return self
        resolved = Resolver(self.operators, self.inputs, self.outputs, self.source, True).resolved(
            lambda own, blob, version, producer: BlobType()
        )
        return replace(
            self, operators=resolved.operators, inputs=resolved.inputs, outputs=resolved.outputs, rewrites=False
        )

    @cached_property
    def results(self) -> dict[str, str]:
        """Mapping from the keys of a run's results to output blobs; a second output ``y`` has the key ``y_2``."""
        results: dict[str, str] = {}
        for blob in self.outputs:
            numbered = (f"{blob}_{number}" for number in count(2))
            names = chain([blob], (name for name in numbered if name not in self.outputs))
            results[next(name for name in names if name not in results)] = blob
        return results

    @cached_property
    def _by_name(self) -> dict[str, OperatorDefinition]:
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def _versions(self) -> dict[str, list[BlobDefinition]]:
        versions: dict[str, list[BlobDefinition]] = {}
        for blob in self.blobs.values():
            versions.setdefault(blob.blob, []).append(blob)
        return versions

    @property
    def stated(self) -> list[tuple[str, str]]:
        """Statements of the file about itself, with its description first."""
        return [("description", self.doc), *self.metadata] if self.doc else [*self.metadata]

    @property
    def is_table(self) -> bool:
        """Whether the program computes nothing and only returns weights, like the definition of a weights file."""
        ends = self.inputs or self.outputs or any(operator.inputs for operator in self.operators)
        return not ends and any(operator.weights for operator in self.operators)

    def operator(self, name: str) -> OperatorDefinition:
        """Return the operator with this name."""
        try:
            return self._by_name[name]
        except KeyError:
            raise UnknownNameError(name, kind="operator", known=self._by_name, fix=self._owner_of(name)) from None

    def _owner_of(self, name: Any) -> str:
        """Return the hint for an unknown operator name, which may be the key of a weight."""
        for operator in self.operators:
            for attribute, reference in operator.weights.items():
                if reference.key == name:
                    return f"net[{operator.name!r}].{attribute} is the weight {name!r}"
        if self.has_blob(name):
            producer = self.blob(name).producer
            by = f", computed by the operator {producer!r}" if producer else ""
            return f"{name!r} is a blob{by}: net.operands[{name!r}]"
        return "net.operators has all operators by name"

    def blob(self, name: str) -> BlobDefinition:
        """Return a blob in its final version, or one version of it by its unique name (``x@0``)."""
        blob = self.blobs.get(name)
        if blob is not None:
            return blob
        versions = self._versions.get(name)
        if versions is None:
            known = self._versions.get((split_name(name) or ("", 0))[0])
            fix = f"its versions are\n    {history(known)}" if known else ""
            if not known and name in self._by_name:
                computed = ", ".join(map(repr, self._by_name[name].outputs[:4])) or "nothing"
                fix = f"{name!r} is an operator, which computes {computed}"
            raise UnknownNameError(name, kind="blob", known=self.blobs, fix=fix)
        return versions[-1]

    def has_blob(self, name: str) -> bool:
        """Return whether :meth:`blob` finds this name."""
        return name in self.blobs or name in self._versions

    def input(self, name: str) -> BlobDefinition:
        """Return the first version of an input, as passed to the net."""
        return self.blobs[name] if name in self.blobs else self._versions[name][0]

    def versions(self, blob: str) -> tuple[BlobDefinition, ...]:
        """Return all versions of a blob in the order of writing."""
        return tuple(self._versions[self.blob(blob).blob])

    def history(self, blob: str) -> str:
        """Return a description of every version of a blob with its producer and readers."""
        return history(self.versions(blob))

    def weight(self, operator: str, attribute: str) -> NDArray[Any]:
        """Read the weight ``attribute`` of ``operator``; raise BudgetError if its size exceeds the memory budget."""
        reference = self._reference(operator, attribute)
        dtype = memory_dtype(reference.dtype)
        # Checked before anything is read, since a file of a few bytes may declare any shape.
        claim_memory(f"weight {reference.key!r}", math.prod(reference.shape) * dtype.itemsize)
        claim_constant(f"the value of weight {reference.key!r}", math.prod(reference.shape), dtype.itemsize)
        array = self.weights[reference.key]
        if array.shape != reference.shape:
            raise OperandError(
                f"weight {attribute!r} of operator {operator!r} has shape {array.shape}",
                rule=f"the array must have the declared shape {reference.shape}",
                fix="pass an array of the declared shape, or change the declaration as well",
            )
        return array

    def verify(self, operator: str, attribute: str) -> None:
        """Raise an error if a weight cannot be read, without creating an array for it."""
        if isinstance(self.weights, FileWeights):
            self.weights.verify(self._reference(operator, attribute).key)
        else:
            self.weight(operator, attribute)

    def _reference(self, operator: str, attribute: str) -> WeightReference:
        references = self.operator(operator).weights
        try:
            return references[attribute]
        except KeyError:
            raise UnknownNameError(attribute, kind=f"weight of operator {operator!r}", known=references) from None

    @cached_property
    def topological_order(self) -> tuple[OperatorDefinition, ...]:
        """The operators in an order in which each follows the operators whose blobs it reads.

        File order is kept where possible, and always if blobs may be rewritten.
        """
        if self.rewrites or self._is_ordered():
            return self.operators
        rank = {operator.name: index for index, operator in enumerate(self.operators)}
        waits, readers = [0] * len(rank), [list[int]() for _ in rank]
        for index, operator in enumerate(self.operators):
            # Each producer counts once, even if several of its blobs are read.
            for producer in {self.blobs[blob].producer for blob in operator.inputs} - {None}:
                assert producer is not None
                waits[index] += 1
                readers[rank[producer]].append(index)
        ready = [index for index, count in enumerate(waits) if count == 0]
        order = []
        # A heap of file positions keeps the file's order wherever possible.
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

    def _is_ordered(self) -> bool:
        """Return whether each operator comes after the operators whose blobs it reads."""
        written = set(self.inputs)
        for operator in self.operators:
            if not written.issuperset(operator.inputs):
                return False
            written.update(operator.outputs)
        return True

    def _cycle_error(self, ordered: set[str]) -> ExplorerError:
        current = next(operator for operator in self.operators if operator.name not in ordered)
        path: list[tuple[OperatorDefinition, str]] = []
        seen: dict[str, int] = {}
        # Each operator missing from the order reads another missing operator, so following these reads finds a cycle.
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
        shown = [f"{operator.quoted_label} reads {blob!r}" for operator, blob in cycle[:6]]
        more = f", … ({len(cycle)} operators in all)" if len(cycle) > len(shown) else ""
        return graph_error(
            self.source,
            cycle[0][0],
            f"operators wait for one another: {', '.join(shown)}{more}",
            rule="an operator must not read, through others, a value that it produces itself",
            fix="break the cycle: let one of these operators read another blob",
        )
