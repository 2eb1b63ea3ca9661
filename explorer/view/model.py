"""What there is to draw in a recording, without positions: slots, boxes, edges, fused groups and every text."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from explorer.record import Recording
from explorer.view.boxes import Box, Tree, lift, scope_tree
from explorer.view.fold import fold
from explorer.view.lines import NAME, TYPE, Lines, box_size, fit, node_size
from explorer.view.slots import Slots, build_slots

USEFUL = 40
"""boxes and nodes that are visible at the beginning, if opening whole boxes allows it"""

_MEANT = ("function", "layer", "scope", "file", "batch")


@dataclass(slots=True)
class Model:
    """Slots and boxes with their texts and sizes; lists are indexed by slot, by box or by row of ``texts``."""

    recording: Recording
    slots: Slots
    tree: Tree
    texts: list[tuple[str, str, str]]
    slot_texts: list[list[int]]
    """for each slot, the row of texts of each of its nodes"""
    slot_sizes: list[list[tuple[int, int]]]
    """for each slot, width and height in px of each of its nodes"""
    box_texts: list[tuple[str, str]]
    box_sizes: list[tuple[int, int]]
    edges: list[list[tuple[int, int]]]
    """for each box, (from item, to item) with −1 for its border"""
    groups: list[list[list[int]]]
    """for each box, the items that run as one kernel in the end, where there are two or more"""

    def extent(self, slot: int) -> tuple[int, int]:
        """Return the width and height of a slot: its largest node fits."""
        sizes = self.slot_sizes[slot]
        return max(wide for wide, _ in sizes), max(high for _, high in sizes)


def build_model(recording: Recording) -> Model:
    """Find the slots and boxes of a recording and choose which boxes are open at the beginning."""
    slots = build_slots(recording)
    tree = scope_tree(recording, slots)
    fold(recording, slots, tree)
    _choose_open(tree)
    lines = Lines(recording)
    rows = [[lines.of(node) for node in members] for members in slots.nodes]
    kinds = recording.nodes.kind
    known: dict[tuple[str, int], tuple[int, int]] = {}
    sizes = []
    for members, texts in zip(slots.nodes, rows, strict=True):
        place = []
        for node, row in zip(members, texts, strict=True):
            key = (kinds[node], row)
            if key not in known:
                known[key] = node_size(kinds[node], lines.texts[row])
            place.append(known[key])
        sizes.append(place)
    box_texts = _box_texts(tree)
    return Model(
        recording,
        slots,
        tree,
        lines.texts,
        rows,
        sizes,
        box_texts,
        [box_size(text) for text in box_texts],
        lift(tree, slots),
        _kernel_groups(recording, slots, tree),
    )


def _box_texts(tree: Tree) -> list[tuple[str, str]]:
    """Write each box's name with its "×n", and how many nodes it holds."""
    held = [0] * len(tree.boxes)
    for box in tree.inside_out():
        for kind, index in tree.boxes[box].items:
            held[box] += 1 if kind == "slot" else held[index]
    return [(_name(box), fit(f"{count:,} nodes", TYPE)) for box, count in zip(tree.boxes, held, strict=True)]


def _name(box: Box) -> str:
    if box.count == 1:
        return fit(box.label, NAME, bold=True)
    return fit(f"{fit(box.label, NAME, bold=True)[:24]} ×{box.count:,}", NAME, bold=True)


def _choose_open(tree: Tree) -> None:
    """Open boxes best first, while no more than ``USEFUL`` things are visible: what people drew, near the top, small."""
    for outermost in tree.bodies:
        tree.boxes[outermost].open = True
        visible = len(tree.boxes[outermost].items)
        ready = _closed_inside(tree, outermost, 1)
        heapq.heapify(ready)
        while ready:
            depth, size, box = heapq.heappop(ready)
            if visible + size - 1 <= USEFUL:
                tree.boxes[box].open = True
                visible += size - 1
                for inner in _closed_inside(tree, box, depth + 1):
                    heapq.heappush(ready, inner)


def _closed_inside(tree: Tree, box: int, depth: int) -> list[tuple[int, int, int]]:
    inner = [index for kind, index in tree.boxes[box].items if kind == "box"]
    return [(depth, len(tree.boxes[index].items), index) for index in inner if tree.boxes[index].kind in _MEANT]


def _kernel_groups(recording: Recording, slots: Slots, tree: Tree) -> list[list[list[int]]]:
    """Find the items of each box that end in one kernel; of groups that grew, the last one counts."""
    groups: list[list[list[int]]] = [[] for _ in tree.boxes]
    taken: set[int] = set()
    for group in sorted(recording.groups, key=lambda group: -group.decision):
        members = sorted({slots.of[node] for node in group.members if slots.of[node] >= 0})
        holders = {tree.holder[slot] for slot in members}
        if group.kind == "kernel" and len(members) > 1 and len(holders) == 1 and not taken & set(members):
            taken.update(members)
            holder = holders.pop()
            place = {index: item for item, (kind, index) in enumerate(tree.boxes[holder].items) if kind == "slot"}
            groups[holder].append([place[slot] for slot in members])
    return groups
