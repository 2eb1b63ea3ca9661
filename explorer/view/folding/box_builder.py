"""Items of a box become a box of their own, named after what they are; of many equal ones the first is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.record import Recording
from explorer.view.tree.box_tree import Box, BoxItem, Tree, lift
from explorer.view.tree.slots import Slots
from explorer.view.tree.structural_hash import Structure

FEW = 6
"""equal boxes that stand side by side in their repeat or stack at most"""
PARTS = 40
"""boxes into which a box with more items is cut at most"""


class Joined(NamedTuple):
    """Items of one box that become a box of their own."""

    kind: str
    label: str
    members: list[int]


class BoxBuilder:
    """Makes boxes in a tree."""

    def __init__(self, recording: Recording, slots: Slots, tree: Tree) -> None:
        self.recording, self.slots, self.tree = recording, slots, tree
        kinds = recording.nodes.kind
        self.leaf = [kinds[members[0]] in ("leaf", "input") for members in slots.nodes]
        self.structure = Structure(recording, slots)
        self._blocks = 0

    def first(self, slot: int) -> int:
        """The first node that stands in a slot."""
        return self.slots.nodes[slot][0]

    def operation(self, slot: int) -> str:
        """What the first node of a slot does: an operation's name, or a function's."""
        nodes, node = self.recording.nodes, self.first(slot)
        return nodes.label[node] if nodes.kind[node] == "call" else self.recording.operations[nodes.operation[node]]

    def is_leaf(self, item: BoxItem) -> bool:
        """Whether an item is a value that the program is given."""
        return item.kind == "slot" and self.leaf[item.number]

    def join(self, box: int, joined: Sequence[Joined]) -> None:
        """Put each group of items into a box of its own, at the place of its first member."""
        items = self.tree.boxes[box].items
        inside: dict[int, int] = {}
        for group in joined:
            inner = self.add(Box(group.kind, group.label, box, count=len(group.members)))
            members = [items[member] for member in group.members]
            self.tree.hold(inner, members)
            if group.kind == "chain":
                self._split_chain(inner, members, group.label)
            elif members[0].kind == "box" and group.kind != "block":
                self._keep_first(inner, members)
            inside.update(dict.fromkeys(group.members, inner))
        kept = list(dict.fromkeys(BoxItem("box", inside[i]) if i in inside else item for i, item in enumerate(items)))
        if len(kept) == 1 and joined and joined[0].kind == "repeat" and self.tree.boxes[box].parent >= 0:
            # A box that holds nothing but a repeat is the repeat.
            self.tree.boxes[box].count = len(joined[0].members)
            kept = self.tree.boxes[kept[0].number].items
        self.tree.hold(box, kept)

    def number(self, boxes: Sequence[int]) -> None:
        """Call new boxes blocks, by their number, and enter how they are built."""
        for number, box in enumerate(boxes, self._blocks + 1):
            self.tree.boxes[box].label, self.tree.boxes[box].count = f"block {number:,}", 1
        self._blocks += len(boxes)
        if boxes:
            self.structure.enter(self.tree, boxes, lift(self.tree, self.slots.recorded))

    def common(self, items: list[BoxItem]) -> str:
        """Name equal things together: the common name, or the first and last one."""
        nodes, boxes = self.recording.nodes, self.tree.boxes
        first, last = (
            boxes[index].label.split(" / ")[0] if kind == "box" else nodes.label[self.first(index)]
            for kind, index in (items[0], items[-1])
        )
        if first == last:
            return first
        return f"{first} … {last.removeprefix(first[: first.rfind('.') + 1])}"

    def _keep_first(self, box: int, members: list[BoxItem]) -> None:
        """Show the first of many equal boxes, the others behind one more click; of few, all."""
        if len(members) <= FEW:
            return
        label = f"{len(members) - 1:,} more: {self.common(members[1:])}"
        rest = self.add(Box("part", label, box, count=len(members) - 1))
        self.tree.hold(rest, members[1:])
        self.tree.hold(box, [members[0], BoxItem("box", rest)])

    def add(self, box: Box) -> int:
        """Enter a new box; returns its index."""
        self.tree.boxes.append(box)
        return len(self.tree.boxes) - 1

    def _split_chain(self, box: int, members: list[BoxItem], label: str) -> None:
        """Divide a chain into chains of chains, so that each is short enough to read."""
        parts = members
        while len(parts) > PARTS + PARTS // 2:
            groups = [parts[start : start + PARTS] for start in range(0, len(parts), PARTS)]
            parts = []
            for group in groups:
                inner = self.add(Box("chain", label, box))
                self.tree.hold(inner, group)
                self.tree.boxes[inner].count = sum(self._length(item) for item in group)
                parts.append(BoxItem("box", inner))
        self.tree.hold(box, parts)

    def _length(self, item: BoxItem) -> int:
        return self.tree.boxes[item.number].count if item.kind == "box" else 1
