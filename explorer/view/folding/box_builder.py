"""Box builder: groups items into nested boxes, names them, and shows only the first of many equal ones.

fold.py and stacks.py decide what belongs together; here the boxes are made, the same way for all of them. Boxes are
appended to the tree and never removed or renumbered while it is folded, so that a box's index stays its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.record import Recording
from explorer.view.tree.box_tree import Box, BoxItem, Tree
from explorer.view.tree.slots import Slots
from explorer.view.tree.structural_hash import Structure

FEW = 6
"""maximum number of equal boxes shown side by side in a repeat or stack"""
PARTS = 40
"""maximum number of parts that a large box is cut into"""


class Joined(NamedTuple):
    """Items of one box that become a nested box."""

    kind: str
    label: str
    members: list[int]


class BoxBuilder:
    """Builder of boxes in a tree."""

    def __init__(self, recording: Recording, slots: Slots, tree: Tree) -> None:
        self.recording, self.slots, self.tree = recording, slots, tree
        nodes, first, names = recording.nodes, [members[0] for members in slots.nodes], recording.operations
        self.leaf = [nodes.kind[node] in ("leaf", "input") for node in first]
        self.operations = [
            nodes.label[node] if nodes.kind[node] == "call" else names[nodes.operation[node]] for node in first
        ]
        """for each slot, the operation of its first node: its name, or the name of a function"""
        self.structure = Structure(recording, slots)
        self._blocks = 0

    def first(self, slot: int) -> int:
        """Return the first node of a slot."""
        return self.slots.nodes[slot][0]

    def is_leaf(self, item: BoxItem) -> bool:
        """Whether an item is an input value of the program."""
        return item.table == "slot" and self.leaf[item.number]

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
            elif members[0].table == "box" and group.kind != "block":
                self._keep_first(inner, members)
            inside.update(dict.fromkeys(group.members, inner))
        # fromkeys keeps the first place of each: a new box stands where its first member stood.
        kept = list(dict.fromkeys(BoxItem("box", inside[i]) if i in inside else item for i, item in enumerate(items)))
        if len(kept) == 1 and joined and joined[0].kind == "repeat" and self.tree.boxes[box].parent >= 0:
            # A box that contains only a repeat becomes that repeat.
            self.tree.boxes[box].count = len(joined[0].members)
            kept = self.tree.boxes[kept[0].number].items
        self.tree.hold(box, kept)

    def number(self, boxes: Sequence[int]) -> None:
        """Label new boxes as numbered blocks."""
        for number, box in enumerate(boxes, self._blocks + 1):
            self.tree.boxes[box].label, self.tree.boxes[box].count = f"block {number:,}", 1
        self._blocks += len(boxes)

    def common(self, items: list[BoxItem]) -> str:
        """Return a common name for equal items: their shared name, or the first and the last one."""
        nodes, boxes = self.recording.nodes, self.tree.boxes
        first, last = (
            boxes[index].label.split(" / ")[0] if table == "box" else nodes.label[self.first(index)]
            for table, index in (items[0], items[-1])
        )
        if first == last:
            return first
        return f"{first} … {last.removeprefix(first[: first.rfind('.') + 1])}"

    def _keep_first(self, box: int, members: list[BoxItem]) -> None:
        """Show the first of many equal boxes and hide the others behind one more click; show all if they are few."""
        if len(members) <= FEW:
            return
        label = f"{len(members) - 1:,} more: {self.common(members[1:])}"
        rest = self.add(Box("part", label, box, count=len(members) - 1))
        self.tree.hold(rest, members[1:])
        self.tree.hold(box, [members[0], BoxItem("box", rest)])

    def add(self, box: Box) -> int:
        """Append a box; return its index."""
        self.tree.boxes.append(box)
        return len(self.tree.boxes) - 1

    def _split_chain(self, box: int, members: list[BoxItem], label: str) -> None:
        """Split a chain into nested chains that are short enough to read."""
        parts = members
        # Half as many again may stay: cutting 45 into 40 and 5 would hide little.
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
        return self.tree.boxes[item.number].count if item.table == "box" else 1
