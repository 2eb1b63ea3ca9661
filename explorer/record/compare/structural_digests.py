"""Structural digests of recorded graphs: numbers that are equal for equal nodes, alone and with all their operands.

Digests are numbers given out by one table for both recordings, not hashes: equal numbers mean equal structures, with no
chance of a collision, and comparing two subgraphs of any size is comparing two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from explorer.record.commutative import COMMUTATIVE
from explorer.record.recording import Recording


class RecordedGraph:
    """Recorded nodes of one graph; equal digests in two graphs that were digested together mean equal structures."""

    def __init__(self, recording: Recording, body: int, nodes: list[int]) -> None:
        self.recording, self.body, self.nodes = recording, body, nodes
        self.operands = recording.nodes.operands
        self.outputs = [node for node in recording.bodies[body].outputs if recording.nodes.born[node] < 0]
        self.kind: dict[int, Hashable] = {}
        """node → (kind, operation), which must be equal for two nodes to be paired"""
        self.structure: dict[int, int] = {}
        """node → digest of the node, its operands and the names of its leaves"""
        self.bare: dict[int, int] = {}
        """operation → the same digest without names; leaves are paired through their readers"""
        self.shared: dict[int, int] = {}
        """operand that belongs to another graph → its digest"""
        self.readers: dict[int, list[tuple[Hashable, int]]] = {node: [] for node in nodes}
        """node → (reader's kind and operand index, reader)"""

    def is_commutative(self, node: int) -> bool:
        """Tell whether the operands of a node may be exchanged."""
        return self.recording.operations[self.recording.nodes.operation[node]] in COMMUTATIVE

    def computes(self, node: int) -> bool:
        """Tell whether a node has a place of its own in the program order: weights and constants have not."""
        return self.recording.nodes.kind[node] not in ("leaf", "constant")

    def kinds(self) -> tuple[Callable[[int], Hashable], ...]:
        """Return the keys by which nodes may be aligned, the strictest first."""
        return (lambda node: (self.kind[node], self.recording.type_text(node))), self.kind.__getitem__

    def place(self, node: int) -> Hashable:
        """Return the scope path and kind of a node, with its name if it is not a constant."""
        rows, scopes = self.recording.nodes, self.recording.scopes
        names = []
        scope = rows.scope[node]
        while scope > 0:
            names.append(scopes[scope].name)
            scope = scopes[scope].parent
        return tuple(names), self.kind[node], rows.label[node] if rows.kind[node] != "constant" else ""


def graphs(before: Recording, after: Recording) -> tuple[dict[int, RecordedGraph], dict[int, RecordedGraph]]:
    """Return for each recording the graphs that the program calls: 0, and the bodies of calls.

    Bodies that share their nodes are one graph, under the number of those nodes.
    """
    numbers: dict[Hashable, int] = {}
    return _of(before, numbers), _of(after, numbers)


def _of(recording: Recording, numbers: dict[Hashable, int]) -> dict[int, RecordedGraph]:
    """Return the graphs of one recording by body."""
    rows = recording.nodes
    inside: dict[int, list[int]] = {}
    for node, body in enumerate(rows.body):
        if rows.born[node] < 0:
            inside.setdefault(body, []).append(node)
    called = [0] if recording.bodies else []
    known = {0, -1}
    graphs_by_body: dict[int, RecordedGraph] = {}
    # Grows while it is visited: bodies call bodies.
    for body in called:
        outputs = recording.bodies[body].outputs
        # A function that returns another one's nodes has no table of its own.
        own = rows.body[outputs[0]] if body and outputs else body
        graphs_by_body[body] = graphs_by_body.get(own) or RecordedGraph(recording, own, inside.get(own, []))
        graphs_by_body.setdefault(own, graphs_by_body[body])
        for node in graphs_by_body[body].nodes:
            if rows.callee[node] not in known:
                known.add(rows.callee[node])
                called.append(rows.callee[node])
    digests: dict[int, int] = {}
    for body in sorted(graphs_by_body, reverse=True):  # inner bodies have larger numbers
        graph = graphs_by_body[body]
        if not graph.kind:
            _number(graph, digests, numbers)
        bare = tuple([graph.bare.get(output, -1) for output in graph.outputs])
        digests[body] = numbers.setdefault(("body", recording.bodies[body].name, bare), len(numbers))
    return graphs_by_body


def _number(graph: RecordedGraph, digests: dict[int, int], numbers: dict[Hashable, int]) -> None:
    """Compute the digests of a graph's nodes, operands first; ``numbers`` maps structures to digests."""
    recording, rows = graph.recording, graph.recording.nodes
    bare: dict[int, int] = {}
    inputs = {node: at for at, node in enumerate(n for n in graph.nodes if rows.kind[n] == "input")}
    for node in graph.nodes:
        kind, operands = rows.kind[node], rows.operands[node]
        graph.kind[node] = kind, recording.operations[rows.operation[node]]
        attributes = tuple(sorted(rows.attributes.get(node, {}).items()))
        own: tuple[Any, ...] = graph.kind[node], recording.type_text(node), attributes
        own = *own, digests.get(rows.callee[node], -1), rows.label[node] if kind == "constant" else ""
        name = rows.label[node] if kind in ("leaf", "input", "call") else ""
        # Inputs are told apart by their place: two functions of equal structure may use their parameters the other way
        # round.
        place = inputs.get(node, -1)
        for each in operands:
            if each not in bare:  # a constant shared by several bodies, in the table of another one
                shared = "shared", rows.kind[each], rows.label[each], recording.type_text(each)
                bare[each] = graph.shared[each] = numbers.setdefault(shared, len(numbers))
        below = [bare[each] for each in operands], [graph.structure.get(each, bare[each]) for each in operands]
        if graph.is_commutative(node):  # x + b is b + x
            below = sorted(below[0]), sorted(below[1])
        bare[node] = numbers.setdefault((own, place, *below[0]), len(numbers))
        graph.structure[node] = numbers.setdefault((own, name or place, *below[1]), len(numbers))
        if graph.computes(node):
            graph.bare[node] = bare[node]
        for at, operand in enumerate(operands):
            if operand not in graph.shared:
                way = graph.kind[node], 0 if graph.is_commutative(node) else at
                graph.readers[operand].append((way, node))
