"""What there is to draw in a recording, without positions: slots, boxes, edges, fused groups and every text."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.record import Recording
from explorer.record.reason import count_text
from explorer.view import font
from explorer.view.boxes import Box, Item, Tree, lift, scope_tree
from explorer.view.fold import fold
from explorer.view.lines import NAME, TITLE, TYPE, Lines, box_size, fit, group_title, node_size, short_type
from explorer.view.slots import Slots, build_slots

USEFUL = 40
"""boxes and nodes that are visible at the beginning, if opening whole boxes allows it"""

_FEW = 12
_READABLE = 8
"""operators of a file that are shown with all their nodes at most; of more, each is one closed box"""
_TYPE = 120.0
"""px of an operator's type at most, so that the type of its result has room beside it"""
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
    extents: list[tuple[int, int]]
    """for each slot, width and height in px: its largest node fits"""
    edges: list[list[tuple[int, int]]]
    """for each box, (from item, to item) with −1 for its border"""
    groups: list[list[tuple[int, list[int]]]]
    """for each box, the items that run as one kernel in the end, two or more, and the width of their title in px"""


def build_model(recording: Recording) -> Model:
    """Find the slots and boxes of a recording and choose which boxes are open at the beginning."""
    slots = build_slots(recording)
    tree = scope_tree(recording, slots)
    fold(recording, slots, tree)
    many = sum(scope.type != "" for scope in recording.scopes) > _READABLE
    _choose_open(tree, many)
    lines = Lines(recording, slots.of)
    rows = [[lines.of(node) for node in members] for members in slots.nodes]
    kinds = recording.nodes.kind
    sizes = [
        [node_size(kinds[node], lines.texts[row]) for node, row in zip(members, texts, strict=True)]
        for members, texts in zip(slots.nodes, rows, strict=True)
    ]
    extents = [
        place[0] if len(place) == 1 else (max(wide for wide, _ in place), max(high for _, high in place))
        for place in sizes
    ]
    box_texts = _box_texts(recording, slots, tree)
    return Model(
        recording,
        slots,
        tree,
        lines.texts,
        rows,
        sizes,
        box_texts,
        [box_size(text) for text in box_texts],
        extents,
        lift(tree, slots),
        _kernel_groups(recording, slots, tree),
    )


def _box_texts(recording: Recording, slots: Slots, tree: Tree) -> list[tuple[str, str]]:
    """Write each box's name with its "×n", how many nodes it holds and what they compute."""
    held, flops = [0] * len(tree.boxes), [0] * len(tree.boxes)
    for box in tree.inside_out():
        for kind, index in tree.boxes[box].items:
            held[box] += 1 if kind == "slot" else held[index]
            flops[box] += recording.nodes.flops[slots.nodes[index][0]] if kind == "slot" else flops[index]
    texts = []
    for named, count, work in zip(tree.boxes, held, flops, strict=True):
        cost = f" · {count_text(work)} flops" if work else ""
        detail = _result(recording, slots, named) if named.is_operator else f"{count:,} nodes{cost}"
        texts.append((_name(named), fit(detail, TYPE)))
    return texts


def _result(recording: Recording, slots: Slots, box: Box) -> str:
    """Say what an operator does and the type of its result: ``nn.Conv2d · 8×8×8 f32``."""
    last = max(slots.nodes[slot][0] for _, slot in box.items)
    return f"{fit(box.type, TYPE, widest=_TYPE)} · {short_type(recording, recording.nodes.type[last])}"


def _name(box: Box) -> str:
    if box.count == 1:
        return fit(box.label, NAME, bold=True)
    return fit(f"{fit(box.label, NAME, bold=True)[:24]} ×{box.count:,}", NAME, bold=True)


def _choose_open(tree: Tree, operators_closed: bool) -> None:
    """Open what people drew, from the outside in, while no more than ``USEFUL`` things are visible.

    The boxes of one parent open together, so that equals look equal; where that leaves little to see, those that fit.
    """
    for outermost in tree.bodies:
        visible = len(tree.boxes[outermost].items)
        opened = [outermost]
        for parent in opened:
            tree.boxes[parent].open = True
            inner = [index for kind, index in tree.boxes[parent].items if kind == "box"]
            meant = sorted((len(tree.boxes[i].items), i) for i in inner if _is_meant(tree, i, operators_closed))
            together = visible + sum(size - 1 for size, _ in meant) <= USEFUL
            for size, box in meant if together or visible < _FEW else ():
                # A picture of three boxes says nothing: one that is twice as large as useful says more.
                if visible + size - 1 <= (USEFUL if visible >= _FEW else 2 * USEFUL):
                    visible += size - 1
                    opened.append(box)


def _is_meant(tree: Tree, index: int, operators_closed: bool) -> bool:
    """Tell whether to open a box unasked: what people drew, and what shows the first of many equal boxes."""
    box = tree.boxes[index]
    if box.is_operator and operators_closed:
        return False
    shows_first = box.kind in ("repeat", "stack") and box.items[0].kind == "box"
    return box.kind in _MEANT or (shows_first and tree.boxes[box.items[0].number].kind in _MEANT)


def _kernel_groups(recording: Recording, slots: Slots, tree: Tree) -> list[list[tuple[int, list[int]]]]:
    """Find the items of each box that end in one kernel; of groups that grew, the last one counts.

    A closed operator stands for what is inside it.
    """
    groups: list[list[tuple[int, list[int]]]] = [[] for _ in tree.boxes]
    taken: set[Item] = set()
    for group in sorted(recording.groups, key=lambda group: -group.decision):
        found = {slots.of[node] for node in group.members if slots.of[node] >= 0}
        members = dict.fromkeys(_closed(tree, slot) for slot in sorted(found))
        holders = {tree.holder[index] if kind == "slot" else tree.boxes[index].parent for kind, index in members}
        if group.kind == "kernel" and len(members) > 1 and len(holders) == 1 and not taken & set(members):
            taken.update(members)
            holder = holders.pop()
            place = {item: number for number, item in enumerate(tree.boxes[holder].items)}
            width = round(font.width(group_title(group.label, 99), TITLE, bold=True))
            groups[holder].append((width, sorted(place[item] for item in members)))
    return groups


def _closed(tree: Tree, slot: int) -> Item:
    """Return the closed operator around a slot, or the slot."""
    box = tree.holder[slot]
    closed = box >= 0 and tree.boxes[box].is_operator and not tree.boxes[box].open
    return Item("box", box) if closed else Item("slot", slot)
