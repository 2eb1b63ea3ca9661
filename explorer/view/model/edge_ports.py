"""Ports of boxes: the places where edges cross their borders, and the names that layers give them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from explorer.record import Recording
from explorer.view.model.labels import PORT, fit
from explorer.view.tree.box_tree import Paths, Tree
from explorer.view.tree.slots import Slots, source

_MOST = 4
"""ports of a side at most; where values are more, they share one: a comb of edges says less than a trunk"""
_Crossing = dict[tuple[int, int], None]


@dataclass(slots=True)
class Ports:
    """The ports of every box, numbered from 0 on each side, and which of them an edge uses."""

    counts: list[tuple[int, int]]
    """for each box, its ports at the top and at the bottom, at least one"""
    _found: dict[tuple[int, int, int], int]

    def ends(self, tree: Tree, box: int, tail: int, head: int) -> tuple[int, int]:
        """The port that an edge of a box starts at, and the one that it ends at; 0 where that end is no border."""
        items = tree.boxes[box].items
        if tail < 0:
            start = self._found.get((box, 0, head), 0)
        else:
            start = self._found.get((items[tail].number, 1, _outside(head)), 0) if items[tail].kind == "box" else 0
        if head < 0:
            return start, self._found.get((box, 1, tail), 0)
        return start, self._found.get((items[head].number, 0, _outside(tail)), 0) if items[head].kind == "box" else 0


def find_ports(tree: Tree, slots: Slots) -> Ports:
    """Tell for each side of each box which edges meet there, and give each set of them that is connected a port."""
    paths = Paths(tree)
    crossings: dict[tuple[int, int], _Crossing] = {}
    for producer, consumer in slots.edges:
        if tree.box_of[producer] == tree.box_of[consumer]:
            continue
        segments = list(paths.segments(producer, consumer))
        leaving = [segment for segment in segments if segment[2] < 0]
        entering = [segment for segment in segments if segment[1] < 0]
        shared = [segment for segment in segments if segment[1] >= 0 and segment[2] >= 0]
        for (box, tail, head), (inner, _, end) in pairwise([*leaving, *shared, *reversed(entering)]):
            if head < 0:
                crossings.setdefault((box, 1), {})[tail, _outside(end)] = None
            else:
                crossings.setdefault((inner, 0), {})[end, _outside(tail)] = None
    counts = [[1, 1] for _ in tree.boxes]
    found: dict[tuple[int, int, int], int] = {}
    for (box, side), pairs in crossings.items():
        port = _components(pairs)
        count = max(port.values()) + 1
        if count <= _MOST:
            counts[box][side] = count
            found.update(((box, side, end), number) for end, number in port.items() if number)
    return Ports([(top, bottom) for top, bottom in counts], found)


def _outside(item: int) -> int:
    """Write an item of the box around, or −1 for its border, apart from the items inside."""
    return -2 - item


def _components(pairs: _Crossing) -> dict[int, int]:
    """Number the connected sets of ends, from 0, in the order of the items inside."""
    joined: dict[int, list[int]] = {}
    for inside, outside in sorted(pairs):
        joined.setdefault(inside, []).append(outside)
        joined.setdefault(outside, []).append(inside)
    number: dict[int, int] = {}
    count = 0
    for first in joined:
        if first in number:
            continue
        number[first] = count
        waiting = [first]
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
"""px of names at one place at most"""


def port_names(recording: Recording, tree: Tree, slots: Slots) -> PortNames:
    """Find the names at every segment of an edge that ends or begins at the box of a layer."""
    named = _named(recording, slots)
    if not named:
        return {}
    paths = Paths(tree)
    found: dict[tuple[int, int, int], tuple[dict[str, None], dict[str, None]]] = {}
    for producer, consumer in slots.edges:
        if tree.box_of[producer] == tree.box_of[consumer]:
            continue
        segments = list(paths.segments(producer, consumer))
        leaving = [segment for segment in segments if segment[2] < 0]
        entering = [segment for segment in segments if segment[1] < 0]
        shared = [segment for segment in segments if min(segment[1:]) >= 0]
        for one, other in pairwise([*leaving, *shared, *reversed(entering)]):
            leaves = one[2] < 0
            box, side, segment = (one[0], "output", other) if leaves else (other[0], "input", one)
            names = named.get((tree.boxes[box].scope, side, producer), ())
            found.setdefault(segment, ({}, {}))[not leaves].update(dict.fromkeys(names))
    return {segment: (_said(start), _said(end)) for segment, (start, end) in found.items() if start or end}


def _named(recording: Recording, slots: Slots) -> dict[tuple[int, str, int], list[str]]:
    """Find the names of the ports that a slot's value is at, by scope and side."""
    found: dict[tuple[int, str, int], list[str]] = {}
    final = recording.resolver(recording.end)
    for port in recording.ports:
        for node in dict.fromkeys((port.node, final.get(port.node, port.node))):
            names = found.setdefault((port.scope, port.side, slots.of[source(recording, node)]), [])
            if port.name not in names:
                names.append(port.name)
    return found


def _said(names: dict[str, None]) -> str:
    return fit(", ".join(names), PORT, widest=_WIDEST) if names else ""
