"""Nets with operators on blobs: each of these runs in its place, and what lies between two of them is one plan.

A workspace runs such nets. Parts between operators on blobs are ordinary nets, with plans of their own: their inputs
are blobs that were there before, their outputs all blobs that they write, since a later part may read any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TypeAlias

from explorer.core.errors import ExplorerError
from explorer.net.blob import Blob
from explorer.net.blob_operator import BLOB_OPERATORS, BlobOperator
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.definition.edits import changed
from explorer.net.definition.operator_definition import graph_error
from explorer.net.net import Net

Find: TypeAlias = Callable[[str], Blob]
"""the blob of a name, made where there is none"""


def has_blob_operators(definition: NetDefinition) -> bool:
    """Whether a net has operators that run by themselves."""
    return any(operator.type in BLOB_OPERATORS for operator in definition.operators)


class OrderedRun:
    """A net cut at its operators on blobs; the nets between them are planned once."""

    def __init__(self, net: Net) -> None:
        self._definition = net.definition
        self._parts = [*_parts(net)]

    def run(self, find: Find, executor: str) -> None:
        """Run all parts in their order on the blobs of a workspace."""
        for part in self._parts:
            if isinstance(part, OperatorDefinition):
                self._run_operator(part, find)
            else:
                results = part.run_on_device({name: find(name).elements() for name in part.inputs}, executor)
                for name, value in results.items():
                    # Names of versions end in "@" and a number; a workspace has one blob for all of them, in which the
                    # last one stays.
                    find(name.rpartition("@")[0] or name).reset(value)

    def _run_operator(self, operator: OperatorDefinition, find: Find) -> None:
        """Run one operator; an error names it, and its line."""
        own = BlobOperator(operator, tuple(map(find, operator.inputs)), tuple(map(find, operator.outputs)))
        try:
            BLOB_OPERATORS[operator.type](own, **operator.arguments)
        except ExplorerError as error:
            raise graph_error(
                self._definition.source,
                operator,
                f"operator {operator.name!r} ({operator.type}): {error.given}",
                rule=error.rule,
                fix=error.fix,
            ) from error


def _parts(net: Net) -> Iterator[OperatorDefinition | Net]:
    """Return the operators on blobs, and nets of those between them, in their order."""
    definition = net.definition
    for is_own, group in groupby(definition.operators, lambda operator: operator.type in BLOB_OPERATORS):
        operators = [*group]
        if is_own:
            yield from operators
            continue
        written: dict[str, None] = {}
        read: dict[str, None] = {}
        for operator in operators:
            # Dicts for their order: the parts of a net must be the same in every process.
            read.update(dict.fromkeys([name for name in operator.inputs if name not in written]))
            written.update(dict.fromkeys(operator.outputs))
        yield net.with_definition(changed(definition, operators=operators, inputs=[*read], outputs=[*written]))
