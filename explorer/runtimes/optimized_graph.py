"""Mapping of the nodes of an optimized graph to the nodes of the file that they compute.

A runtime fuses, replaces and removes nodes, and keeps the names of most operands. Nodes that exchange values under new
names belong to one group. The operands of a group that have names in the file delimit the nodes that it computes: all
nodes between its operands and results. If the operands do not fit, only the nodes that compute the group's results are
certain.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from explorer.runtimes.contract import FileNode

_CONVERSIONS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
"""types of nodes that copy a value to another memory format or device"""
_CAST = "InsertedPrecisionFreeCast_"
"""prefix of the names of values that are computed in another dtype than in the file, and of the casts"""
_BLOCKED = re.compile(r"(.*)_nchwc(?:_token_\d+)?", re.DOTALL)
"""name of a node that computes an operand in a blocked memory format"""
_ADDEND = 3
"""index of the operand that a convolution in a blocked memory format adds to its result"""
_SHAPES = frozenset({"Shape", "Size"})


class OptimizedNode(NamedTuple):
    """Node of an optimized graph."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    activation: str = ""
    """type of the activation that it also computes"""


@dataclass(frozen=True, slots=True)
class Computed:
    """Groups of optimized nodes, and the file's nodes that each group computes."""

    groups: Mapping[int, int]
    """optimized node → its group"""
    nodes: Mapping[int, tuple[int, ...]]
    """group → nodes of the file in topological order; () if none is certain"""
    exact: Mapping[int, bool]
    """group → whether these are all nodes that it computes"""
    folded: frozenset[int]
    """nodes of the file that depend only on weights and shapes, and are computed before a run"""
    conversions: frozenset[int]
    """optimized nodes that only convert a value"""


def computed_nodes(
    given: Sequence[FileNode],
    optimized: Sequence[OptimizedNode],
    inputs: Collection[str],
    constants: Collection[str],
    equal: Mapping[str, str] | None = None,
) -> Computed:
    """Return which of the file's nodes each optimized node computes.

    ``inputs`` and ``constants`` are the names of the graph's inputs and weights. ``equal`` maps weights to weights with
    the same content. Both graphs are in topological order.
    """
    return _Mapping(given, optimized, inputs, constants, equal or {}).result()


class _Mapping:
    def __init__(
        self,
        given: Sequence[FileNode],
        optimized: Sequence[OptimizedNode],
        inputs: Collection[str],
        constants: Collection[str],
        equal: Mapping[str, str],
    ) -> None:
        self.given, self.optimized = given, optimized
        self.first, self.twins = _equal_values(given, equal)
        self.producer = {self._own(name): index for index, node in enumerate(given) for name in node.outputs if name}
        # a node whose value equals another one's has no name of its own
        self.producer.update({self._own(name): self.twins.get(index, index) for name, index in self.producer.items()})
        self.readers: dict[str, list[int]] = {}
        for index, node in enumerate(given):
            if index not in self.twins:
                for name in dict.fromkeys(map(self._own, node.inputs)):
                    self.readers.setdefault(name, []).append(index)
        self.inputs, self.constants = {*inputs}, {self._own(name) for name in constants}
        self.alias: dict[str, str] = {}
        """new name of a value → its name in the file"""
        self.conversions: set[int] = set()

    def _own(self, name: str) -> str:
        return self.first.get(name, name)

    def _known(self, name: str) -> str:
        """Return the name in the file of a value of the optimized graph, or its new name."""
        return self._own(self.alias.get(name, name))

    def result(self) -> Computed:
        """Return the mapping."""
        self._find_aliases()
        folded = self._folded()
        groups = self._groups()
        members: dict[int, list[int]] = {}
        for index, group in groups.items():
            members.setdefault(group, []).append(index)
        fixed = {self._own(name) for index in folded for name in self.given[index].outputs}
        available = self.inputs | self.constants | fixed
        done: set[int] = set()
        nodes: dict[int, tuple[int, ...]] = {}
        exact: dict[int, bool] = {}
        for group, indices in sorted(members.items(), key=lambda item: item[1][-1]):
            reads = {self._known(name) for index in indices for name in self.optimized[index].inputs if name}
            writes = {self._known(name) for index in indices for name in self.optimized[index].outputs if name}
            results = [name for name in sorted(writes) if name in self.producer and name not in available]
            # a converted operand is still an operand
            made = [
                name for index in indices if index not in self.conversions for name in self.optimized[index].outputs
            ]
            operands = {
                name for name in reads - {*map(self._known, made)} if name in self.producer or name in self.inputs
            }
            found, border = self._between(results, available)
            exact[group] = border - self.constants - fixed == operands - self.constants - fixed
            if not exact[group]:
                found = {self.producer[name] for name in results}
            found -= done
            done |= found
            available |= {*results}
            # All values that a group computes are available to later groups.
            own = [index for index in self.twins if self.twins[index] in found and index not in folded]
            nodes[group] = (*sorted({*found, *own} - {self._last(results)}), *self._result_node(results))
        return Computed(groups, nodes, exact, frozenset(folded), frozenset(self.conversions))

    def _last(self, results: Sequence[str]) -> int:
        return max([self.producer[name] for name in results], default=-1)

    def _result_node(self, results: Sequence[str]) -> list[int]:
        return [self._last(results)] if results else []

    def _find_aliases(self) -> None:
        """Find names in the file for new names, and the nodes that only convert values."""
        same = {node.name: index for index, node in enumerate(self.given)}
        outputs = {name for node in self.given for name in node.outputs}
        for index, node in enumerate(self.optimized):
            if node.type in _CONVERSIONS or (node.type == "Cast" and node.name.startswith(_CAST)):
                self.conversions.add(index)
                if node.outputs[0] not in outputs:
                    self.alias[node.outputs[0]] = self.alias.get(node.inputs[0], node.inputs[0])
                continue
            new = [name for name in node.outputs if name and name not in outputs]
            if not new:
                continue
            self.alias.update({name: plain for name in new if (plain := name.removeprefix(_CAST)) in outputs})
            blocked = _BLOCKED.fullmatch(node.name.removeprefix(_CAST))
            if blocked is not None and blocked[1] in outputs:
                self.alias[new[0]] = self._followed(node, self._own(blocked[1]))
            elif node.name in same:
                pairs = zip(node.outputs, self.given[same[node.name]].outputs, strict=False)
                self.alias.update({name: own for name, own in pairs if name in new and own and name not in self.alias})

    def _followed(self, node: OptimizedNode, value: str) -> str:
        """Return the result of a node that computes ``value``, then adds an operand and applies an activation."""
        if len(node.inputs) > _ADDEND:
            addend = self._known(node.inputs[_ADDEND])
            for reader in self.readers.get(value, ()):
                if self.given[reader].type in ("Add", "Sum") and {*map(self._own, self.given[reader].inputs)} == {
                    value,
                    addend,
                }:
                    value = self._own(self.given[reader].outputs[0])
                    break
        if node.activation and self.given[self.producer[value]].type != node.activation:
            readers = self.readers.get(value, [])
            if len(readers) == 1 and self.given[readers[0]].type == node.activation:
                value = self._own(self.given[readers[0]].outputs[0])
        return value

    def _folded(self) -> set[int]:
        """Return the nodes that depend only on weights and shapes, and that the optimized graph lacks."""
        kept = {name for node in self.optimized for name in node.outputs}
        known, folded = {*self.constants}, set[int]()
        for index, node in enumerate(self.given):
            is_known = all(self._own(name) in known for name in node.inputs if name)
            values = [self._own(name) for name in node.outputs if name]
            is_kept = any(name in kept for name in node.outputs) or any(
                self._own(name) in map(self._own, kept) for name in node.outputs if name
            )
            if not is_kept and (is_known or node.type in _SHAPES):
                folded.add(index)
                known.update(values)
        return folded

    def _groups(self) -> dict[int, int]:
        """Return the group of each optimized node: nodes that exchange values with new names, and conversions."""
        parent = [*range(len(self.optimized))]

        def root(index: int) -> int:
            while parent[index] != index:
                parent[index] = parent[parent[index]]
                index = parent[index]
            return index

        maker: dict[str, int] = {}
        for index, node in enumerate(self.optimized):
            for name in map(self._known, node.inputs):
                is_new = name not in self.producer and name not in self.inputs
                if name in maker and (is_new or index in self.conversions):
                    parent[root(index)] = root(maker[name])
            if index in self.conversions:
                # a converted input of the graph belongs to its first reader
                maker.setdefault(self._known(node.outputs[0]), index)
                continue
            for name in map(self._known, node.outputs):
                if name:
                    maker[name] = index
        for index in sorted(self.conversions):
            name = self.optimized[index].outputs[0]
            if root(index) == index and (reader := self._reader(name)) is not None and reader != index:
                parent[index] = root(reader)
        return {index: root(index) for index in range(len(self.optimized))}

    def _reader(self, name: str) -> int | None:
        return next((index for index, node in enumerate(self.optimized) if name in node.inputs), None)

    def _between(self, results: Sequence[str], available: Collection[str]) -> tuple[set[int], set[str]]:
        """Return the nodes between available values and results, and the available values that they read."""
        nodes, border, pending = set[int](), set[str](), [*results]
        while pending:
            index = self.producer[pending.pop()]
            if index in nodes:
                continue
            nodes.add(index)
            for read in map(self._own, self.given[index].inputs):
                if read in available:
                    border.add(read)
                elif read in self.producer:
                    pending.append(read)
        return nodes, border


def _equal_values(given: Sequence[FileNode], equal: Mapping[str, str]) -> tuple[dict[str, str], dict[int, int]]:
    """Return the name of a value → the first name with an equal value, and node → first equal node.

    Runtimes compute equal values once.
    """
    first = {**equal}
    numbers: dict[object, int] = {}
    twins: dict[int, int] = {}
    for index, node in enumerate(given):
        if node.type.startswith("Random") or node.type in ("Bernoulli", "Multinomial", "Dropout"):
            continue
        reads = tuple([first.get(name, name) for name in node.inputs])
        original = numbers.setdefault((node.type, reads, node.attributes, len(node.outputs)), index)
        if original != index:
            twins[index] = original
            first.update(zip(node.outputs, [first.get(name, name) for name in given[original].outputs], strict=True))
    return first, twins
