"""Ports of boxes: points where edges cross their borders, with the port names of layers.

The layout uses it. Without ports all edges of a box would meet in one point of its border, and operands that have
nothing to do with each other would look like one value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from explorer.record import Recording
from explorer.view.model.labels import PORT, fit
from explorer.view.tree.box_tree import Paths, Tree
from explorer.view.tree.slots import Slots, source

_MOST = 4
"""maximum number of ports of a side; more values share one port, since a comb of edges is hard to read"""
_BORDER = -1
"""border of the parent box, as the item outside"""
_Crossing = dict[tuple[int, int], None]


@dataclass(slots=True)
class Ports:
    """Ports of every box, numbered from 0 on each side, and the ports that edges use."""

    counts: list[tuple[int, int]]
    """for each box, the number of ports at the top and at the bottom, at least one"""
    ends: list[list[tuple[int, int]]]
    """for each edge of each box, the ports at its start and at its end; 0 for an end that is not at a border"""
    read: dict[tuple[int, int], int]
    """(box, reader) → the item inside that the reader reads, an item next to the box or the border (−1) around both"""

    def read_by(self, box: int, reader: int) -> int:
        """Return the item of a box that an item next to it reads, or the border (−1) around both; −1 for several."""
        return self.read.get((box, reader), -1)


def find_ports(tree: Tree, slots: Slots, edges: list[list[tuple[int, int]]]) -> Ports:
    """Group the edges that meet at each side of each box into connected sets, and give each set a port."""
    counts = [[1, 1] for _ in tree.boxes]
    number: dict[tuple[int, int, int], int] = {}
    """(box, side, inner item) → its port, where that is not 0"""
    tops, bottoms = _crossings(tree, slots)
    for side, crossings in enumerate((tops, bottoms)):
        for box, pairs in crossings.items():
            port = _components(pairs)
            count = max(port.values()) + 1
            if count <= _MOST:
                counts[box][side] = count
                number.update(((box, side, end), own) for end, own in port.items() if own)
    ported = {box for box, _, _ in number}
    ends = [_ends(tree, box, own, number, ported) for box, own in enumerate(edges)]
    return Ports([(top, bottom) for top, bottom in counts], ends, _read(bottoms))


def _read(bottoms: dict[int, _Crossing]) -> dict[tuple[int, int], int]:
    """Return the item inside that each reader of a box reads; −1 for several."""
    items: dict[tuple[int, int], int] = {}
    for box, pairs in bottoms.items():
        for inside, outside in pairs:
            reader = (box, _outside(outside))
            items[reader] = -1 if reader in items else inside
    return items


def _crossings(tree: Tree, slots: Slots) -> tuple[dict[int, _Crossing], dict[int, _Crossing]]:
    """Return the (item inside, item outside) of each edge that crosses the top of a box, and of those at its bottom."""
    paths = Paths(tree)
    holder, place, depth, parent, box_place = paths.holder, paths.slot_place, paths.depth, paths.parent, paths.box_place
    tops: dict[int, _Crossing] = {}
    bottoms: dict[int, _Crossing] = {}
    for producer, consumer in slots.edges:
        start, end = holder[producer], holder[consumer]
        if start == end:
            continue
        tail, head = place[producer], place[consumer]
        # The walk of Paths.segments once more: here each border is crossed from an item inside to one outside.
        left = entered = inner_tail = inner_head = -1
        while start != end:
            if depth[start] >= depth[end]:
                if left >= 0:
                    bottoms[left][inner_tail, _BORDER] = None
                left, inner_tail = start, tail
                bottoms.setdefault(left, {})
                tail, start = box_place[start], parent[start]
            else:
                if entered >= 0:
                    tops[entered][inner_head, _BORDER] = None
                entered, inner_head = end, head
                tops.setdefault(entered, {})
                head, end = box_place[end], parent[end]
        if left >= 0:
            bottoms[left][inner_tail, _outside(head)] = None
        if entered >= 0:
            tops[entered][inner_head, _outside(tail)] = None
    return tops, bottoms


def _ends(
    tree: Tree, box: int, edges: list[tuple[int, int]], number: dict[tuple[int, int, int], int], ported: set[int]
) -> list[tuple[int, int]]:
    """Return the ports at the ends of a box's edges; ``ported`` are the boxes in ``number``."""
    inner = [index if table == "box" else -1 for table, index in tree.boxes[box].items]
    if box not in ported and ported.isdisjoint(inner):
        return [(0, 0)] * len(edges)
    return [
        (
            number.get((box, 0, head) if tail < 0 else (inner[tail], 1, _outside(head)), 0),
            number.get((box, 1, tail) if head < 0 else (inner[head], 0, _outside(tail)), 0),
        )
        for tail, head in edges
    ]


def _outside(item: int) -> int:
    """Encode an item of the parent box, or −1 for its border, distinct from the items inside."""
    return -2 - item


def _components(pairs: _Crossing) -> dict[int, int]:
    """Number the connected sets of ends from 0, in the order of the items inside."""
    joined: defaultdict[int, list[int]] = defaultdict(list)
    for inside, outside in pairs:
        joined[inside].append(outside)
        joined[outside].append(inside)
    number: dict[int, int] = {}
    count = 0
    for first in sorted(end for end in joined if end >= 0):
        if first in number:
            continue
        number[first] = count
        waiting = [first]
        # The list grows while it is walked, so that all that is connected is reached without recursion.
        for end in waiting:
            for other in joined[end]:
                if other not in number:
                    number[other] = count
                    waiting.append(other)
        count += 1
    return number


PortNames: TypeAlias = dict[tuple[int, int, int], tuple[str, str]]
"""(box, from item, to item) of an edge's segment → the ports at its beginning and its end, "" where there is none"""
_WIDEST = 120.0
"""maximum width in px of names at one place"""


def port_names(recording: Recording, tree: Tree, slots: Slots) -> PortNames:
    """Return the port names for every segment of an edge that starts or ends at a layer's box."""
    named = _named(recording, slots)
    if not named:
        return {}
    paths = Paths(tree)
    ends: dict[tuple[int, int, int], tuple[dict[str, None], dict[str, None]]] = {}
    for producer, consumer in slots.edges:
        if tree.box_of[producer] == tree.box_of[consumer]:
            continue
        segments = list(paths.segments(producer, consumer))
        leaving = [segment for segment in segments if segment[2] < 0]
        entering = [segment for segment in segments if segment[1] < 0]
        shared = [segment for segment in segments if min(segment[1:]) >= 0]
        for near, far in pairwise([*leaving, *shared, *reversed(entering)]):
            leaves = near[2] < 0
            box, side, segment = (near[0], "output", far) if leaves else (far[0], "input", near)
            names = named.get((tree.boxes[box].scope, side, producer), ())
            ends.setdefault(segment, ({}, {}))[not leaves].update(dict.fromkeys(names))
    return {segment: (_said(start), _said(end)) for segment, (start, end) in ends.items() if start or end}


def _named(recording: Recording, slots: Slots) -> dict[tuple[int, str, int], list[str]]:
    """Return the names of the ports that have a slot's value, by scope and side."""
    named: dict[tuple[int, str, int], list[str]] = {}
    final = recording.resolver(recording.end)
    for port in recording.ports:
        for node in dict.fromkeys((port.node, final.get(port.node, port.node))):
            names = named.setdefault((port.scope, port.side, slots.of[source(recording, node)]), [])
            if port.name not in names:
                names.append(port.name)
    return named


def _said(names: dict[str, None]) -> str:
    return fit(", ".join(names), PORT, widest=_WIDEST) if names else ""
