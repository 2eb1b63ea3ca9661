"""The names of layers' ports, where edges enter and leave their boxes."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

from explorer.record import Recording
from explorer.view.model.labels import PORT, fit
from explorer.view.tree.box_tree import Paths, Tree
from explorer.view.tree.slots import Slots, source

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
        if tree.holder[producer] == tree.holder[consumer]:
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
