"""Totals of boxes and scopes: nodes, parameters, flops and bytes.

Pictures and texts use them. A stored tensor may have several leaves, one near each operator that reads it. It counts
once in each box or scope that contains any of its leaves, so it counts once in the whole graph.

The browser computes the same sums at each step (data/totals.js), because the current nodes change with the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from explorer.record import Recording
from explorer.record.reasons import counted_text, short_counted_text
from explorer.view.tree.box_tree import Tree
from explorer.view.tree.slots import Slots

_EXACT = 1_000_000
"""number of parameters above which totals are rounded"""


class Totals(NamedTuple):
    """Sums over recorded nodes."""

    nodes: int = 0
    parameters: int = 0
    """elements of the leaves inside a layer or an operator of a file; other leaves are inputs of the program"""
    flops: int = 0
    """sum of the known flops"""
    bytes: int = 0
    """bytes of all results that are allocated"""

    @property
    def text(self) -> str:
        """The parameters or else the nodes, and the flops: ``147,968 parameters · 463 M flops``."""
        weights = (counted_text if self.parameters < _EXACT else short_counted_text)(self.parameters, "parameter")
        first = weights if self.parameters else counted_text(self.nodes, "node")
        return f"{first} · {short_counted_text(self.flops, 'flop')}" if self.flops else first


def _sum(rows: Iterable[Totals]) -> Totals:
    """Return the elementwise sums of at least one row."""
    return Totals(*map(sum, zip(*rows, strict=True)))


class Leaves(NamedTuple):
    """Sizes of the values that exist before a run; each leaf is in ``parameters`` or in ``others``."""

    parameters: dict[int, int]
    """node → elements, for leaves inside a layer or an operator of a file, with or without a value"""
    weights: dict[int, int]
    """node → bytes, for the same leaves"""
    others: dict[int, int]
    """node → elements, for inputs of the program"""


def leaves_of(recording: Recording) -> Leaves:
    """Return the sizes of a recording's leaves."""
    nodes, leaves = recording.nodes, Leaves({}, {}, {})
    owned = _inside_layers(recording)
    for node, role in enumerate(nodes.kind):
        row = nodes.scope[node]
        # A leaf without a value is a parameter if it is directly inside a layer's box.
        is_parameter = role == "input" and nodes.body[node] == 0 and recording.scopes[row].kind == "layer"
        if is_parameter or (role == "leaf" and owned[row]):
            leaves.parameters[node], leaves.weights[node] = _size(recording, nodes.type[node])
        elif role == "leaf":
            leaves.others[node], _ = _size(recording, nodes.type[node])
    return leaves


def _inside_layers(recording: Recording) -> list[bool]:
    """Return for each scope whether it is a layer or an operator of a file, or inside one."""
    known: dict[int, bool] = {-1: False}
    for start in range(len(recording.scopes)):
        path, row = [], start
        while row not in known:
            path.append(row)
            if recording.scopes[row].kind in ("layer", "file"):
                known[row] = True
                break
            row = recording.scopes[row].parent
        known.update(dict.fromkeys(path, known[row]))
    return [known[row] for row in range(len(recording.scopes))]


def _size(recording: Recording, row: int) -> tuple[int, int]:
    """Return the numbers of elements and bytes of a type."""
    elements, size, waiting = 0, 0, [row]
    for each in waiting:
        type_ = recording.types[each]
        waiting += type_.parts
        if type_.dtype != "tuple":
            elements += (count := prod(type_.shape))
            size += count * _width(type_.dtype) // 8
    return elements, size


def _width(dtype: str) -> int:
    """Return the number of bits per element of the named dtype; 8 for bool."""
    digits = dtype[len(dtype.rstrip("0123456789")) :]
    return int(digits or 8)


def of_node(recording: Recording, leaves: Leaves, node: int) -> Totals:
    """Return the totals of one node."""
    return Totals(1, leaves.parameters.get(node, 0), recording.nodes.flops[node] or 0, recording.nodes.bytes[node])


def of_boxes(recording: Recording, slots: Slots, tree: Tree) -> list[Totals]:
    """Return each box's totals, including its contents, over the recorded nodes.

    A box without recorded nodes was created by a pass: of each of its slots the first node is counted, and inlined
    calls are not counted.
    """
    leaves = leaves_of(recording)
    slot_of = {members[0]: slot for slot, members in enumerate(slots.nodes)}
    around = {node: tree.box_of[slot_of[node]] for node in leaves.parameters if node in slot_of}
    repeated = _repeated(recording, leaves, around, [box.parent for box in tree.boxes])
    none = Totals()
    recorded, created = [none] * len(tree.boxes), [none] * len(tree.boxes)
    for box in tree.postorder():
        in_program, from_passes = [Totals(parameters=-repeated[box])], [none]
        for table, index in tree.boxes[box].items:
            if table == "box":
                in_program.append(recorded[index])
                from_passes.append(created[index])
            elif recording.nodes.born[slots.nodes[index][0]] < 0:
                in_program.append(of_node(recording, leaves, slots.nodes[index][0]))
            else:
                from_passes.append(of_node(recording, leaves, counted(recording, slots.nodes[index])))
        recorded[box], created[box] = _sum(in_program), _sum(from_passes)
    return [first if first.nodes else second for first, second in zip(recorded, created, strict=True)]


def counted(recording: Recording, members: Sequence[int]) -> int:
    """Return the node of a slot that is counted: the first one, or the node that follows an inlined call."""
    kinds = recording.nodes.kind
    if kinds[members[0]] != "call":
        return members[0]
    return next((node for node in members if kinds[node] != "call"), members[0])


def _repeated(recording: Recording, leaves: Leaves, around: Mapping[int, int], parents: Sequence[int]) -> Counter[int]:
    """Return container → parameters to subtract, because leaves of the same tensor meet there.

    ``around`` maps leaves to their innermost containers, and ``parents`` each container to the one around it, or −1.
    """
    repeated: Counter[int] = Counter()
    for group in shared_groups(recording):
        visited: set[int] = set()
        for node in group:
            container = around.get(node, -1)
            while container >= 0 and container not in visited:
                visited.add(container)
                container = parents[container]
            if container >= 0:
                repeated[container] += leaves.parameters.get(node, 0)
    return repeated


def shared_groups(recording: Recording) -> Collection[Sequence[int]]:
    """Return the groups of leaves that have the same stored tensor."""
    groups: dict[int, list[int]] = {}
    for node, first in recording.shared_leaves.items():
        groups.setdefault(first, [first]).append(node)
    return groups.values()


def of_scopes(recording: Recording) -> list[Totals]:
    """Return the totals of every scope and its inner scopes, over the recorded nodes."""
    leaves, nodes = leaves_of(recording), recording.nodes
    around = {node: nodes.scope[node] for node in leaves.parameters if nodes.born[node] < 0}
    repeated = _repeated(recording, leaves, around, [scope.parent for scope in recording.scopes])
    totals = [Totals(parameters=-repeated[row]) for row in range(len(recording.scopes))]
    for node in range(len(nodes)):
        if nodes.born[node] < 0 and nodes.kind[node] not in ("constant", "item"):
            totals[nodes.scope[node]] = _sum((totals[nodes.scope[node]], of_node(recording, leaves, node)))
    inside = [0] * len(totals)
    for scope in recording.scopes:
        inside[scope.parent] += scope.parent >= 0
    waiting = [row for row, count in enumerate(inside) if count == 0]
    # Innermost scopes first, so that a scope is complete before it is added to its parent.
    for row in waiting:
        parent = recording.scopes[row].parent
        if parent >= 0:
            totals[parent] = _sum((totals[parent], totals[row]))
            inside[parent] -= 1
            if inside[parent] == 0:
                waiting.append(parent)
    return totals
