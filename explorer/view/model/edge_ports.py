"""Ports of boxes: points where edges cross box borders, with the port names of layers.

Without ports all edges of a box would meet in one point of its border, and several operands would look like one value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from explorer.record import Recording
from explorer.view.model.labels import PORT, fit
from explorer.view.tree.box_tree import Paths, Segment, Tree
from explorer.view.tree.slots import Slots, source

_MAX_PORTS = 12
"""maximum number of ports per side; more values share ports, since many parallel edges are hard to read"""
_BORDER = -1
"""border of the parent box, used as the outside item"""
_Crossing = dict[tuple[int, int, int], None]
"""(slot of the value, inside item, outside item or border) of each edge that crosses a side of a box"""


@dataclass(slots=True)
class Ports:
    """Ports of every box, numbered from 0 on each side, and the ports that edges use."""

    counts: list[tuple[int, int]]
    """for each box, the number of ports at the top and at the bottom, at least one each"""
    number: dict[tuple[int, int, int], int]
    """(box, side, slot) → the port at which the slot's value crosses the top (0) or bottom (1), if not port 0"""
    edges: list[list[tuple[int, int, int, int]]]
    """for each box, (from item, to item, start port, end port) of its edges; two items have several if values cross
    borders at several ports; 0 for an end that is not at a border"""
    left: dict[tuple[int, int, int], int]
    """(box, adjacent reader or border, bottom port) → slot whose value is read there; −1 for several slots"""


def find_ports(tree: Tree, slots: Slots, edges: list[list[tuple[int, int]]]) -> Ports:
    """Assign a port to each value that crosses a side of a box, or to each group of values if there are many."""
    counts = [[1, 1] for _ in tree.boxes]
    number: dict[tuple[int, int, int], int] = {}
    tops, bottoms = _crossings(tree, slots)
    for side, crossings in enumerate((tops, bottoms)):
        for box, crossing in crossings.items():
            # A part is cut by size, so the relations of its values are visible only further inside.
            port = _grouped(crossing, by_value=tree.boxes[box].kind != "part")
            counts[box][side] = max(port.values()) + 1
            number.update(((box, side, slot), own) for slot, own in port.items() if own)
    left: dict[tuple[int, int, int], int] = {}
    for box, crossing in bottoms.items():
        for slot, _, outside in crossing:
            reader = box, outside, number.get((box, 1, slot), 0)
            left[reader] = slot if left.get(reader, slot) == slot else -1
    return Ports([(top, bottom) for top, bottom in counts], number, _edges(tree, slots, edges, number), left)


def _crossings(tree: Tree, slots: Slots) -> tuple[dict[int, _Crossing], dict[int, _Crossing]]:
    """Return the crossings of each box's top, where edges enter, and of each box's bottom, where they leave."""
    paths = Paths(tree)
    box_of, depth, parent = paths.box_of, paths.depth, paths.parent
    slot_index, box_index = paths.slot_index, paths.box_index
    tops: dict[int, _Crossing] = {}
    bottoms: dict[int, _Crossing] = {}
    for producer, consumer in slots.edges:
        start, end = box_of[producer], box_of[consumer]
        if start == end:
            continue
        tail, head = slot_index[producer], slot_index[consumer]
        # The same walk as Paths.segments; here each border is crossed from an item inside to an item outside.
        left = entered = inner_tail = inner_head = -1
        while start != end:
            if depth[start] >= depth[end]:
                if left >= 0:
                    bottoms[left][producer, inner_tail, _BORDER] = None
                left, inner_tail = start, tail
                bottoms.setdefault(left, {})
                tail, start = box_index[start], parent[start]
            else:
                if entered >= 0:
                    tops[entered][producer, inner_head, _BORDER] = None
                entered, inner_head = end, head
                tops.setdefault(entered, {})
                head, end = box_index[end], parent[end]
        if left >= 0:
            bottoms[left][producer, inner_tail, head] = None
        if entered >= 0:
            tops[entered][producer, inner_head, tail] = None
    return tops, bottoms


def _edges(
    tree: Tree, slots: Slots, edges: list[list[tuple[int, int]]], number: dict[tuple[int, int, int], int]
) -> list[list[tuple[int, int, int, int]]]:
    """Return each box's edges with their ports."""
    # An edge at a port is in the port's box or next to it; all other boxes have one edge between two items.
    touched = {box for box, _, _ in number}
    touched |= {tree.boxes[box].parent for box in touched}
    with_ports: dict[int, dict[tuple[int, int, int, int], None]] = {box: {} for box in touched}
    paths = Paths(tree, number)
    for producer, consumer in slots.edges if touched else ():
        start, end = tree.box_of[producer], tree.box_of[consumer]
        if start != end:
            for box, *edge in paths.segments(producer, consumer):
                if box in with_ports:
                    tail, head, out, into = edge
                    with_ports[box][tail, head, out, into] = None
        elif start in with_ports:
            with_ports[start][paths.slot_index[producer], paths.slot_index[consumer], 0, 0] = None
    return [
        list(with_ports[box]) if box in with_ports else [(tail, head, 0, 0) for tail, head in own]
        for box, own in enumerate(edges)
    ]


def _grouped(crossing: _Crossing, by_value: bool) -> dict[int, int]:
    """Number the ports of the values that cross a side of a box, in the order of the items inside."""
    rows = sorted(crossing, key=lambda row: row[1])
    for keys in _groupings(rows) if by_value else [_connected(rows)]:
        if len(set(keys.values())) <= _MAX_PORTS:
            first: dict[Hashable, int] = {}
            return {slot: first.setdefault(keys[slot], len(first)) for slot, _, _ in rows}
    return {slot: 0 for slot, _, _ in rows}


def _groupings(rows: list[tuple[int, int, int]]) -> Iterator[dict[int, Hashable]]:
    """Yield mappings of values to keys, with fewer and fewer different keys; values with equal keys share a port.

    The keys are, in turn, the value itself, its outside items, its inside items, and its connected set of items.
    """
    yield {slot: slot for slot, _, _ in rows}
    for side in (2, 1):
        ends: defaultdict[int, set[int]] = defaultdict(set)
        for row in rows:
            ends[row[0]].add(row[side])
        yield {slot: frozenset(own) for slot, own in ends.items()}
    yield _connected(rows)


def _connected(rows: list[tuple[int, int, int]]) -> dict[int, Hashable]:
    """Return for each value the connected set of items at the ends of its edges."""
    component = _components([(inside, -2 - outside) for _, inside, outside in rows])
    return {slot: component[inside] for slot, inside, _ in rows}


def _components(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """Return the number of each item's connected set; inside items are 0, 1, …, and outside items −1, −2, …."""
    joined: defaultdict[int, list[int]] = defaultdict(list)
    for inside, outside in pairs:
        joined[inside].append(outside)
        joined[outside].append(inside)
    number: dict[int, int] = {}
    for count, first in enumerate(joined):
        if first in number:
            continue
        number[first] = count
        waiting = [first]
        # The list grows during the loop, so that all connected items are reached without recursion.
        for end in waiting:
            for other in joined[end]:
                if other not in number:
                    number[other] = count
                    waiting.append(other)
    return number


PortNames: TypeAlias = dict[Segment, tuple[str, str]]
"""segment of an edge → names of the layers' ports at both ends; "" for an end without a name"""
_WIDEST = 120.0
"""maximum width in px of the names at one position"""


def port_names(recording: Recording, tree: Tree, slots: Slots, ports: Ports) -> PortNames:
    """Return the port names for every segment of an edge that starts or ends at a layer's box."""
    named = _named(recording, slots)
    if not named:
        return {}
    paths = Paths(tree, ports.number)
    ends: dict[Segment, tuple[dict[str, None], dict[str, None]]] = {}
    for producer, consumer in slots.edges:
        if tree.box_of[producer] == tree.box_of[consumer]:
            continue
        segments = list(paths.segments(producer, consumer))
        leaving = [segment for segment in segments if segment[2] < 0]
        entering = [segment for segment in segments if segment[1] < 0]
        shared = [segment for segment in segments if min(segment[1:3]) >= 0]
        for near, far in pairwise([*leaving, *shared, *reversed(entering)]):
            leaves = near[2] < 0
            box, side, segment = (near[0], "output", far) if leaves else (far[0], "input", near)
            names = named.get((tree.boxes[box].scope, side, producer), ())
            ends.setdefault(segment, ({}, {}))[not leaves].update(dict.fromkeys(names))
    return {
        segment: (_joined_names(start), _joined_names(end)) for segment, (start, end) in ends.items() if start or end
    }


def _named(recording: Recording, slots: Slots) -> dict[tuple[int, str, int], list[str]]:
    """Return the names of the ports with a slot's value, by scope and side."""
    named: dict[tuple[int, str, int], list[str]] = {}
    final = recording.resolver(recording.end)
    for port in recording.ports:
        for node in dict.fromkeys((port.node, final.get(port.node, port.node))):
            names = named.setdefault((port.scope, port.side, slots.of[source(recording, node)]), [])
            if port.name not in names:
                names.append(port.name)
    return named


def _joined_names(names: dict[str, None]) -> str:
    return fit(", ".join(names), PORT, widest=_WIDEST) if names else ""
