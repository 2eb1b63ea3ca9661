"""Totals of boxes and scopes: nodes, parameters, flops and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from explorer.record import Recording
from explorer.record.reasons import count_text
from explorer.view.tree.box_tree import Tree
from explorer.view.tree.slots import Slots

_EXACT = 1_000_000
"""number of parameters from which on totals are rounded"""


class Totals(NamedTuple):
    """Sums over recorded nodes."""

    nodes: int = 0
    parameters: int = 0
    """elements of the leaves inside a layer or an operator of a file; other leaves are inputs of the program"""
    flops: int = 0
    bytes: int = 0
    """bytes of all results that are allocated"""

    def plus(self, other: Totals) -> Totals:
        """Return the sums of both."""
        return Totals(*[a + b for a, b in zip(self, other, strict=True)])

    @property
    def text(self) -> str:
        """The parameters, or else the nodes, and the flops: ``147,968 parameters · 463 M flops``."""
        exact = self.parameters < _EXACT
        weights = f"{self.parameters:,}" if exact else count_text(self.parameters)
        first = f"{weights} parameters" if self.parameters else f"{self.nodes:,} node{'s' * (self.nodes != 1)}"
        return f"{first} · {count_text(self.flops)} flops" if self.flops else first


def of_node(recording: Recording, node: int) -> Totals:
    """Return the totals of one node."""
    nodes = recording.nodes
    weighs = nodes.kind[node] == "leaf" and _holds_weights(recording, nodes.scope[node])
    weighs |= nodes.kind[node] == "input" and nodes.body[node] == 0 and _in_layer(recording, nodes.scope[node])
    elements = prod(recording.types[nodes.type[node]].shape) if weighs else 0
    return Totals(1, elements, nodes.flops[node], nodes.bytes[node])


def _in_layer(recording: Recording, row: int) -> bool:
    """Whether a leaf without a value is a parameter: it is directly inside a layer's box."""
    return recording.scopes[row].kind == "layer"


def _holds_weights(recording: Recording, row: int) -> bool:
    while row >= 0:
        scope = recording.scopes[row]
        if scope.kind in ("layer", "file"):
            return True
        row = scope.parent
    return False


def of_boxes(recording: Recording, slots: Slots, tree: Tree) -> list[Totals]:
    """Return the totals of every box and its contents; the first node of each slot counts, except inlined calls."""
    totals = [Totals()] * len(tree.boxes)
    for box in tree.postorder():
        nodes, weights, flops, size = 0, 0, 0, 0
        for kind, index in tree.boxes[box].items:
            inner = of_node(recording, counted(recording, slots.nodes[index])) if kind == "slot" else totals[index]
            nodes, weights, flops, size = nodes + inner[0], weights + inner[1], flops + inner[2], size + inner[3]
        totals[box] = Totals(nodes, weights, flops, size)
    return totals


def counted(recording: Recording, members: Sequence[int]) -> int:
    """Return the node of a slot that is counted: the first one, or for an inlined call the node that follows it."""
    return next((node for node in members if recording.nodes.kind[node] != "call"), members[0])


def of_scopes(recording: Recording) -> list[Totals]:
    """Return the totals of every scope and those inside it, over the recorded nodes."""
    totals = [Totals()] * len(recording.scopes)
    nodes = recording.nodes
    for node in range(len(nodes)):
        if nodes.born[node] < 0 and nodes.kind[node] not in ("constant", "item"):
            totals[nodes.scope[node]] = totals[nodes.scope[node]].plus(of_node(recording, node))
    inside = [0] * len(totals)
    for scope in recording.scopes:
        inside[scope.parent] += scope.parent >= 0
    waiting = [row for row, count in enumerate(inside) if count == 0]
    for row in waiting:
        parent = recording.scopes[row].parent
        if parent >= 0:
            totals[parent] = totals[parent].plus(totals[row])
            inside[parent] -= 1
            if inside[parent] == 0:
                waiting.append(parent)
    return totals
