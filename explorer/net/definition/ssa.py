"""Static single assignment: determines which version of a blob each operator reads and writes.

In a program that may rewrite its blobs, a name means the value written last before the read. Every value gets a unique
name, ``x@0``, ``x@1``, …, or keeps the plain name if its blob is written once. Later code therefore works on values
that never change.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.core.errors import ExplorerError
from explorer.core.memory_budget import AXES
from explorer.core.types.tensor_type import is_addressable
from explorer.net.definition.operator_definition import (
    BlobDefinition,
    BlobType,
    OperatorDefinition,
    graph_error,
    memory_dtype,
)

TypeOf = Callable[[str, str, int, str | None], BlobType]
"""function from a value's unique name, blob, version and producer to its declared type"""
_VERSIONED = re.compile(r"(.+)@(0|[1-9][0-9]{0,8})", re.DOTALL)
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Resolved:
    """Program in which every value has a unique name."""

    operators: tuple[OperatorDefinition, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    blobs: dict[str, BlobDefinition]


def own_name(blob: str, version: int, versions: int) -> str:
    """Return the name of one version of a blob that has ``versions`` versions."""
    return blob if versions == 1 else f"{blob}@{version}"


def split_name(name: str) -> tuple[str, int] | None:
    """Return the blob and the version for a name such as ``x@1``; None if the name has no version."""
    match = _VERSIONED.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def history(versions: Sequence[BlobDefinition]) -> str:
    """Return a description of the versions of a blob with their producers and readers."""
    lines = []
    for version in versions:
        readers = [repr(name) for name in version.consumers[:_SHOWN]] + ["…"] * (len(version.consumers) > _SHOWN)
        writer = f"written by {version.producer!r}" if version.producer is not None else "an input of the net"
        lines.append(f"{version.name}: {writer}, read by {', '.join(readers) or 'nothing'}")
    return "\n    ".join(lines)


class Resolver:
    """Resolver of the names of one program, used for a single call of ``resolved``."""

    def __init__(
        self,
        operators: tuple[OperatorDefinition, ...],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        source: str,
        rewrites: bool,
    ) -> None:
        self._operators, self._inputs, self._outputs = operators, inputs, outputs
        self._source, self._rewrites = source, rewrites
        # Counted before resolving, because later writes determine whether a value is named x or x@0.
        self._count = Counter([*inputs, *(blob for operator in operators for blob in operator.outputs)])
        self._current: dict[str, int] = {}
        self._producers: dict[str, list[OperatorDefinition | None]] = {}
        self._readers: dict[str, dict[str, None]] = {}

    def resolved(self, type_of: TypeOf) -> Resolved:
        """Return the program with every name resolved.

        Raise an error with operator, blob and line if a name is used twice, or if an operator reads a blob that has no
        producer, is not written yet, or is overwritten. The error contains the versions of the blob.
        """
        inputs = [self._write(None, blob) for blob in self._inputs]
        self._check_names()
        # Without rewriting every blob has one version, and files may list operators in any order.
        operators = self._in_order() if self._rewrites else self._in_any_order()
        outputs = [self._read(None, blob) for blob in self._outputs]
        return Resolved(tuple(operators), tuple(inputs), tuple(outputs), self._blobs(type_of))

    def _check_names(self) -> None:
        """Raise an error for duplicate operator names, impossible weight shapes, and invalid ``input_names``."""
        named: dict[str, OperatorDefinition] = {}
        for operator in self._operators:
            earlier = named.setdefault(operator.name, operator)
            if earlier is not operator:
                first = f", first on line {earlier.line}" if earlier.line else ""
                raise self._error(
                    operator,
                    f"operator name {operator.name!r} is used twice{first}",
                    rule="operator names must be unique, because weights are found by them",
                    fix="rename one of the two",
                )
            for attribute, weight in operator.weights.items():
                if not is_addressable(weight.shape, memory_dtype(weight.dtype)):
                    raise self._error(
                        operator,
                        f"weight {attribute!r} of operator {operator.name!r} has {len(weight.shape)} axes: "
                        f"{weight.shape[:AXES]}",
                        rule=f"an array must have at most {AXES} axes and at most 2⁶³ − 1 bytes",
                        fix="export the model again",
                    )
            read = frozenset(operator.inputs if operator.input_names else ())
            invalid = [name for name, blob in operator.input_names.items() if blob not in read]
            if invalid:
                raise self._error(
                    operator,
                    f"operator {operator.name!r} is passed {operator.input_names[invalid[0]]!r} as {invalid[0]!r}",
                    rule=f"values passed by name must be among the operator's inputs: "
                    f"{', '.join(operator.inputs[:_SHOWN]) or 'the operator has none'}",
                    fix="add it to the operator's inputs, or omit its name",
                )

    def _in_order(self) -> list[OperatorDefinition]:
        """Resolve operators in sequence, where a name means the version written last."""
        operators = []
        for operator in self._operators:
            # Reads before writes, since an in-place operator reads the version before its own.
            reads = {blob: self._read(operator, blob) for blob in (*operator.inputs, *operator.input_names.values())}
            operators.append(self._renamed(operator, reads, [self._write(operator, blob) for blob in operator.outputs]))
        return operators

    def _in_any_order(self) -> list[OperatorDefinition]:
        """Resolve first all outputs and then all reads, since the order does not matter if each blob has one version.

        Operands passed by name are also among the inputs. Each value has the name of its blob.
        """
        for operator in self._operators:
            for blob in operator.outputs:
                self._write(operator, blob)
        readers = self._readers
        for operator in self._operators:
            for blob in operator.inputs:
                if blob not in readers:
                    raise self._absent(operator, blob)
                readers[blob][operator.name] = None
        return [*self._operators]

    @staticmethod
    def _renamed(operator: OperatorDefinition, reads: Mapping[str, str], writes: list[str]) -> OperatorDefinition:
        inputs, outputs = tuple(reads[blob] for blob in operator.inputs), tuple(writes)
        # Most operators keep their names, so they need no copy.
        if inputs == operator.inputs and outputs == operator.outputs:
            return operator
        names = {name: reads[blob] for name, blob in operator.input_names.items()}
        return replace(operator, inputs=inputs, outputs=outputs, input_names=names)

    def _write(self, operator: OperatorDefinition | None, blob: str) -> str:
        """Add a new version of a blob and return its unique name; ``operator`` writes it, or is None for an input."""
        if blob in self._current and (operator is None or not self._rewrites):
            raise self._second_producer(operator, blob)
        if self._rewrites and split_name(blob):
            raise self._error(
                operator,
                f"{f'operator {operator.name!r} writes' if operator else 'an input is named'} {blob!r}",
                rule="a blob's name must not end in @ and a number, which select a version to read",
                fix=f"write {blob.rpartition('@')[0]!r}; its versions are numbered automatically",
            )
        producers = self._producers.setdefault(blob, [])
        if operator is not None and producers and producers[-1] is operator:
            raise self._error(
                operator,
                f"operator {operator.name!r} writes {blob!r} twice",
                rule="an operator must write a blob only once",
                fix="give one of the two outputs another name",
            )
        producers.append(operator)
        version = self._current[blob] = len(producers) - 1
        name = own_name(blob, version, self._count[blob])
        self._readers[name] = {}
        return name

    def _second_producer(self, operator: OperatorDefinition | None, blob: str) -> ExplorerError:
        if operator is None:
            return self._error(
                None, f"{blob!r} is an input twice", rule="input names must be unique", fix="name each input once"
            )
        first = self._producers[blob][0]
        producer = f"operator {first.quoted_label}" if first is not None else "an input of the net"
        return self._error(
            operator,
            f"operator {operator.name!r} produces {blob!r}, which is already produced by {producer}",
            rule="a blob must have only one producer",
            fix="give one of the two outputs another name",
        )

    def _read(self, operator: OperatorDefinition | None, blob: str) -> str:
        """Return the unique name of the version that ``operator`` reads, and add the operator to its readers."""
        # A file without versions may name a blob x@1.
        versioned = split_name(blob) if self._rewrites and blob not in self._current else None
        base, version = versioned or (blob, self._current.get(blob, -1))
        if base not in self._current:
            raise self._absent(operator, base)
        if version != self._current[base]:
            raise self._overwritten(operator, base, version)
        name = own_name(base, version, self._count[base])
        if operator is not None:
            self._readers[name][operator.name] = None
        return name

    def _absent(self, operator: OperatorDefinition | None, blob: str) -> ExplorerError:
        """Return the error for reading a blob that no operator writes, or only a later operator."""
        near = difflib.get_close_matches(blob, self._current, n=3)
        hint = f"; near names: {', '.join(near)}" if near else ""
        later = [other for other in self._operators if blob in other.outputs]
        if operator is not None and later:
            return self._error(
                operator,
                f"operator {operator.name!r} reads {blob!r}, which operator {later[0].quoted_label} writes only later",
                rule="operators of a net that rewrites blobs run in order, so a blob must be written before it is read",
                fix=f"put {later[0].name!r} before {operator.name!r}",
            )
        if operator is None:
            return self._error(
                None,
                f"nothing produces the net's output {blob!r}",
                rule="an output of the net must be an input or the output of an operator",
                fix=f"correct the name, or add the operator that produces it{hint}",
            )
        return self._error(
            operator,
            f"operator {operator.name!r} reads {blob!r}, which nothing produces",
            rule="a blob that is read must be an input of the net or the output of an operator",
            fix=f"correct the name, or add the operator or input that produces it{hint}",
        )

    def _overwritten(self, operator: OperatorDefinition | None, blob: str, version: int) -> ExplorerError:
        reader = f"operator {operator.name!r} reads" if operator else "the net returns"
        current = self._current[blob]
        state = "is not written yet" if version > current else "is overwritten by then"
        return self._error(
            operator,
            f"{reader} {blob}@{version}, which {state}\n    {history(self._history(blob))}",
            rule=f"a name must refer to the version written last, which is {blob}@{current} there",
            fix=f"read {blob!r}, or keep the earlier value under another name: Copy({blob!r}, {blob + '_kept'!r})",
        )

    def _history(self, blob: str) -> list[BlobDefinition]:
        count = self._count[blob]
        return [
            BlobDefinition(name, None, None, maker.name if maker else None, tuple(self._readers[name]), blob, version)
            for version, maker in enumerate(self._producers[blob])
            for name in [own_name(blob, version, count)]
        ]

    def _blobs(self, type_of: TypeOf) -> dict[str, BlobDefinition]:
        blobs = {}
        for blob, producers in self._producers.items():
            for version, maker in enumerate(producers):
                name = own_name(blob, version, len(producers))
                producer = maker.name if maker is not None else None
                type = type_of(name, blob, version, producer)
                readers = tuple(self._readers[name])
                blobs[name] = BlobDefinition(
                    name, type.shape, type.dtype, producer, readers, blob, version, type.container, type.keys
                )
        return blobs

    def _error(self, operator: OperatorDefinition | None, problem: str, *, rule: str, fix: str) -> ExplorerError:
        return graph_error(self._source, operator, problem, rule=rule, fix=fix)
