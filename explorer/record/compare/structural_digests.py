"""Recorded graphs as two of them are compared: what each node is, by itself and with all that it reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from explorer.record.recording import Recording


class RecordedGraph:
    """The recorded nodes of one graph. Equal numbers of two graphs that were made together mean equal things."""

    def __init__(self, recording: Recording, body: int, nodes: list[int]) -> None:
        self.recording, self.body, self.nodes = recording, body, nodes
        self.operands = recording.nodes.operands
        self.outputs = [node for node in recording.bodies[body].outputs if recording.nodes.born[node] < 0]
        self.kind: dict[int, Hashable] = {}
        """node → operation and kind: what a node must have in common with its partner"""
        self.structure: dict[int, int] = {}
        """node → number of what it is, with all that it reads and the names of its leaves"""
        self.bare: dict[int, int] = {}
        """operation → the same without names: leaves are paired by those who read them"""
        self.shared: dict[int, int] = {}
        """nodes of another graph that nodes of this one read → number of what they are"""
        self.readers: dict[int, list[tuple[Hashable, int]]] = {node: [] for node in nodes}
        """node → how it is read, and by which node"""

    def computes(self, node: int) -> bool:
        """Tell whether a node stands in the order of the program by itself: no weight and no number does."""
        return self.recording.nodes.kind[node] not in ("leaf", "constant")

    def kinds(self) -> tuple[Callable[[int], Hashable], ...]:
        """What nodes may have in common, the most telling first."""
        return (lambda node: (self.kind[node], self.recording.type_text(node))), self.kind.__getitem__

    def place(self, node: int) -> Hashable:
        """What kind of node stands in which scope; of one that is no operation, with its name."""
        rows, scopes = self.recording.nodes, self.recording.scopes
        names = []
        scope = rows.scope[node]
        while scope > 0:
            names.append(scopes[scope].name)
            scope = scopes[scope].parent
        return tuple(names), self.kind[node], rows.label[node] if rows.kind[node] != "constant" else ""


def graphs(before: Recording, after: Recording) -> tuple[dict[int, RecordedGraph], dict[int, RecordedGraph]]:
    """Return, of both recordings, each graph that the program calls: 0, and the bodies of calls.

    Bodies that share their nodes are one graph, under the number that its nodes have.
    """
    numbers: dict[Hashable, int] = {}
    return _of(before, numbers), _of(after, numbers)


def _of(recording: Recording, numbers: dict[Hashable, int]) -> dict[int, RecordedGraph]:
    rows = recording.nodes
    inside: dict[int, list[int]] = {}
    for node, body in enumerate(rows.body):
        if rows.born[node] < 0:
            inside.setdefault(body, []).append(node)
    called = [0] if recording.bodies else []
    known = {0, -1}
    found: dict[int, RecordedGraph] = {}
    for body in called:
        outputs = recording.bodies[body].outputs
        own = rows.body[outputs[0]] if body and outputs else body
        found[body] = found.get(own) or RecordedGraph(recording, own, inside.get(own, []))
        found.setdefault(own, found[body])
        for node in found[body].nodes:
            if rows.callee[node] not in known:
                known.add(rows.callee[node])
                called.append(rows.callee[node])
    digests: dict[int, int] = {}
    for body in sorted(found, reverse=True):  # those inside a body come after it
        graph = found[body]
        if not graph.kind:
            _number(graph, digests, numbers)
        bare = tuple([graph.bare.get(output, -1) for output in graph.outputs])
        digests[body] = numbers.setdefault(("body", recording.bodies[body].name, bare), len(numbers))
    return found


def _number(graph: RecordedGraph, digests: dict[int, int], numbers: dict[Hashable, int]) -> None:
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
        place = inputs.get(node, -1)
        for each in operands:
            if each not in bare:  # a number that several bodies share, and another one holds
                shared = "shared", rows.kind[each], rows.label[each], recording.type_text(each)
                bare[each] = graph.shared[each] = numbers.setdefault(shared, len(numbers))
        bare[node] = numbers.setdefault((own, place, *[bare[each] for each in operands]), len(numbers))
        below = [graph.structure.get(each, bare[each]) for each in operands]
        graph.structure[node] = numbers.setdefault((own, name or place, *below), len(numbers))
        if graph.computes(node):
            graph.bare[node] = bare[node]
        for at, operand in enumerate(operands):
            if operand not in graph.shared:
                graph.readers[operand].append(((graph.kind[node], at), node))
