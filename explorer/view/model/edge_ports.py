"""Where edges cross the borders of boxes: values that have nothing to do with each other come in, or leave, apart.

What an edge outside a box and what an edge inside it go on to is known from the edges between nodes. Edges that share
one of the two share a port; a box with two independent inputs has two, so that their edges do not meet at its border.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from explorer.view.tree.box_tree import Paths, Tree
from explorer.view.tree.slots import Slots

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
        if tree.holder[producer] == tree.holder[consumer]:
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
