"""What boxes and scopes hold in total: nodes, parameters, flops and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from explorer.record import Recording
from explorer.record.reasons import count_text
from explorer.view.tree.box_tree import Tree
from explorer.view.tree.slots import Slots

_EXACT = 1_000_000
"""parameters that are rounded"""


class Totals(NamedTuple):
    """Sums over recorded nodes."""

    nodes: int = 0
    parameters: int = 0
    """elements of the leaves inside a layer or an operator of a file; others are what the program is given"""
    flops: int = 0
    bytes: int = 0
    """of all results that are allocated"""

    def plus(self, other: Totals) -> Totals:
        """The sums of both."""
        return Totals(*[one + two for one, two in zip(self, other, strict=True)])

    @property
    def text(self) -> str:
        """The parameters, or else the nodes, and the flops: ``147,968 parameters · 463 M flops``."""
        exact = self.parameters < _EXACT
        weights = f"{self.parameters:,}" if exact else count_text(self.parameters)
        first = f"{weights} parameters" if self.parameters else f"{self.nodes:,} node{'s' * (self.nodes != 1)}"
        return f"{first} · {count_text(self.flops)} flops" if self.flops else first


def of_node(recording: Recording, node: int) -> Totals:
    """The totals of one node."""
    nodes = recording.nodes
    weighs = nodes.kind[node] == "leaf" and _holds_weights(recording, nodes.scope[node])
    weighs |= nodes.kind[node] == "input" and nodes.body[node] == 0 and _in_layer(recording, nodes.scope[node])
    elements = prod(recording.types[nodes.type[node]].shape) if weighs else 0
    return Totals(1, elements, nodes.flops[node], nodes.bytes[node])


def _in_layer(recording: Recording, row: int) -> bool:
    """Tell whether what has no value yet is a parameter: it stands in the box of a layer itself."""
    return recording.scopes[row].kind == "layer"


def _holds_weights(recording: Recording, row: int) -> bool:
    while row >= 0:
        scope = recording.scopes[row]
        if scope.kind in ("layer", "file"):
            return True
        row = scope.parent
    return False


def of_boxes(recording: Recording, slots: Slots, tree: Tree) -> list[Totals]:
    """The totals of every box with all that is inside it; of each slot the first node counts, but no call that went."""
    found = [Totals()] * len(tree.boxes)
    for box in tree.postorder():
        nodes, weights, flops, size = 0, 0, 0, 0
        for kind, index in tree.boxes[box].items:
            inner = of_node(recording, counted(recording, slots.nodes[index])) if kind == "slot" else found[index]
            nodes, weights, flops, size = nodes + inner[0], weights + inner[1], flops + inner[2], size + inner[3]
        found[box] = Totals(nodes, weights, flops, size)
    return found


def counted(recording: Recording, members: Sequence[int]) -> int:
    """The first of a slot's nodes; after a call, whose work is that of the nodes in its place, what came for it."""
    return next((node for node in members if recording.nodes.kind[node] != "call"), members[0])


def of_scopes(recording: Recording) -> list[Totals]:
    """The totals of every scope with all scopes inside it, over the nodes that the program recorded."""
    found = [Totals()] * len(recording.scopes)
    nodes = recording.nodes
    for node in range(len(nodes)):
        if nodes.born[node] < 0 and nodes.kind[node] not in ("constant", "item"):
            found[nodes.scope[node]] = found[nodes.scope[node]].plus(of_node(recording, node))
    inside = [0] * len(found)
    for scope in recording.scopes:
        inside[scope.parent] += scope.parent >= 0
    waiting = [row for row, count in enumerate(inside) if count == 0]
    for row in waiting:
        parent = recording.scopes[row].parent
        if parent >= 0:
            found[parent] = found[parent].plus(found[row])
            inside[parent] -= 1
            if inside[parent] == 0:
                waiting.append(parent)
    return found
