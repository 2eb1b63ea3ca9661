"""Structural numbers of items; equal numbers mean equal structures.

Keys are numbered rather than hashed, so equal numbers are never a coincidence. The key of a box contains the numbers of
its items and not their keys, so that it stays short at any nesting depth.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from explorer.record import Recording
from explorer.view.tree.box_tree import BoxItem, Tree
from explorer.view.tree.slots import Slots


class Structure:
    """Numbers of structures, equal for equal structures; with ``types`` False, shapes of values do not count."""

    def __init__(self, recording: Recording, slots: Slots, *, types: bool = True) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._box_numbers: dict[int, int] = {}
        nodes, first = recording.nodes, [members[0] for members in slots.nodes]
        kinds, operations, callees = nodes.kind, nodes.operation, nodes.callee
        rows = nodes.type if types else [-1] * len(nodes)
        self._slot_numbers = [self.number((kinds[node], operations[node], rows[node], callees[node])) for node in first]

    def number(self, key: Hashable) -> int:
        """Return the number of a key that describes a structure."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of(self, item: BoxItem) -> int:
        """Return the number of an item; a box has one after ``enter`` was called for it."""
        table, number = item
        return self._slot_numbers[number] if table == "slot" else self._box_numbers[number]

    def enter(self, tree: Tree, boxes: Sequence[int], edges: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Number boxes, each after its inner boxes; ``edges`` are the edges in every box of the tree."""
        for index in boxes:
            box = tree.boxes[index]
            inner = tuple(sorted(edge for edge in edges[index] if edge[1] >= 0))
            self._box_numbers[index] = self.number((box.kind, tuple([self.of(item) for item in box.items]), inner))
