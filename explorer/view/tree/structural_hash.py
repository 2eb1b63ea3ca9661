"""Structural numbers of items, from the inside out: equal numbers mean equal structures."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from explorer.record import Recording
from explorer.view.tree.box_tree import BoxItem, Tree
from explorer.view.tree.slots import Slots


class Structure:
    """Structural numbers; with ``types`` False, items that differ only in the shapes of their values are equal."""

    def __init__(self, recording: Recording, slots: Slots, *, types: bool = True) -> None:
        self._nodes, self._slots, self._types = recording.nodes, slots, types
        self._numbers: dict[Hashable, int] = {}
        self._slot_numbers: dict[int, int] = {}
        self._box_numbers: dict[int, int] = {}

    def number(self, key: Hashable) -> int:
        """Return the number of a key that describes a structure."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of(self, item: BoxItem) -> int:
        """Return the number of an item; a box has one after ``enter`` was called for it."""
        if item.table == "box":
            return self._box_numbers[item.number]
        number = self._slot_numbers.get(item.number)
        if number is None:
            nodes, node = self._nodes, self._slots.nodes[item.number][0]
            type_ = nodes.type[node] if self._types else -1
            number = self.number((nodes.kind[node], nodes.operation[node], type_, nodes.callee[node]))
            self._slot_numbers[item.number] = number
        return number

    def enter(self, tree: Tree, boxes: Sequence[int], edges: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Number boxes, each after those inside it; ``edges`` are those in every box of the tree."""
        for index in boxes:
            box = tree.boxes[index]
            inner = tuple(sorted(edge for edge in edges[index] if edge[1] >= 0))
            self._box_numbers[index] = self.number((box.kind, tuple([self.of(item) for item in box.items]), inner))
