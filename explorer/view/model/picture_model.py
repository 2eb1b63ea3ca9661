"""Model of a picture without coordinates: slots, boxes, edges, fused kernels and all texts.

Every view uses it: the layout places its items, and the static picture and the payload are built from both.
All text is measured and shortened here, so that Python and the browser draw boxes with the same size.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.record import Recording
from explorer.record.reasons import counted_text
from explorer.view.base import font
from explorer.view.folding.fold import fold
from explorer.view.model.box_summary import batch_lines, contents
from explorer.view.model.edge_ports import PortNames, Ports, find_ports, port_names
from explorer.view.model.labels import (
    NAME,
    TYPE,
    WIDEST,
    WIDEST_NOTE,
    Lines,
    Text,
    box_size,
    fit,
    node_size,
    short_type,
    weights_text,
)
from explorer.view.model.operator_titles import operator_title, single_operators
from explorer.view.model.totals import Totals, of_boxes
from explorer.view.tree.acyclic_boxes import split_visits
from explorer.view.tree.box_tree import Box, BoxItem, Tree, drop_single, lifted, scope_tree
from explorer.view.tree.slots import Slots, build_slots, first_change
from explorer.view.tree.structural_hash import Structure


@dataclass(slots=True)
class Model:
    """Slots and boxes with their texts and sizes; lists are indexed by slot, by box or by row of ``texts``."""

    recording: Recording
    slots: Slots
    tree: Tree
    texts: list[Text]
    slot_texts: list[list[int]]
    """for each slot, the row of texts of each node"""
    slot_sizes: list[list[tuple[int, int]]]
    """for each slot, the width and height in px of each node"""
    box_texts: list[tuple[str, ...]]
    """for each box, its name and one to three lines about its contents"""
    box_sizes: list[tuple[int, int]]
    totals: list[Totals]
    """for each box, the totals of its contents"""
    extents: list[tuple[int, int]]
    """for each slot, the width and height in px of its largest node"""
    edges: list[list[tuple[int, int]]]
    """for each box, (from item, to item) with −1 for its border"""
    ports: Ports
    """points where edges cross the borders of boxes"""
    port_names: PortNames
    """names of layers' ports at the ends of edges"""
    groups: list[list[list[int]]]
    """for each box, the sets of at least two items that are finally in one kernel"""
    first_change: int
    """first decision that produced, removed or grouped nodes; −1 if there is none"""


def build_model(recording: Recording, has_weights: bool = True) -> Model:
    """Build the slots and boxes of a recording and choose which boxes are initially open.

    ``has_weights``: whether closed operators list the shapes of their weights.
    """
    slots = build_slots(recording)
    tree = scope_tree(recording, slots)
    if split_visits(recording, tree, slots):
        drop_single(recording, slots, tree)
    # The order matters: scopes become boxes before anything is folded; the open boxes are chosen among all boxes; and
    # below, a closed operator represents its contents in kernel groups.
    fold(recording, slots, tree)
    _count_steps(recording, slots, tree)
    edges, recorded = lifted(tree, slots)
    choose_open(recording, slots, tree, recorded)
    operators = single_operators(recording, slots, tree)
    lines = Lines(recording, slots.of, operators)
    rows = [[lines.of(node) for node in members] for members in slots.nodes]
    kinds = recording.nodes.kind
    sizes = [
        [node_size(kinds[node], lines.texts[row]) for node, row in zip(members, texts, strict=True)]
        for members, texts in zip(slots.nodes, rows, strict=True)
    ]
    extents = [
        own[0] if len(own) == 1 else (max(wide for wide, _ in own), max(high for _, high in own)) for own in sizes
    ]
    totals = of_boxes(recording, slots, tree)
    ports = find_ports(tree, slots, edges)
    box_texts = _box_texts(recording, slots, tree, totals, contents(recording, slots, tree, operators), has_weights)
    return Model(
        recording,
        slots,
        tree,
        lines.texts,
        rows,
        sizes,
        box_texts,
        [box_size(text) for text in box_texts],
        totals,
        extents,
        edges,
        ports,
        port_names(recording, tree, slots, ports),
        _kernel_groups(recording, slots, tree),
        first_change(recording),
    )


def _count_steps(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Store the number of steps of each recurrent operator or layer: the innermost typed box around a recurrence."""
    nodes = recording.nodes
    for node, callee in enumerate(nodes.callee):
        length = nodes.attributes.get(node, {}).get("length", "") if callee >= 0 and nodes.born[node] < 0 else ""
        box = tree.box_of[slots.of[node]] if length.isdigit() and slots.of[node] >= 0 else -1
        while box >= 0 and not tree.boxes[box].type:
            box = tree.boxes[box].parent
        if box >= 0:
            tree.boxes[box].steps = max(tree.boxes[box].steps, int(length))


def _box_texts(
    recording: Recording, slots: Slots, tree: Tree, totals: list[Totals], summaries: list[str], has_weights: bool
) -> list[tuple[str, ...]]:
    """Return for each box its name with "×n", its summary, and its totals or, for a batch, its shapes and gain."""
    texts: list[tuple[str, ...]] = []
    operators = recording.operators if has_weights else ()
    weights = {row.scope: line for row in operators if (line := weights_text(row.weights))}
    for box, inside, total in zip(tree.boxes, summaries, totals, strict=True):
        if box.batches:
            texts.append((_name(box), *filter(None, [inside]), *batch_lines(recording, box.batches)))
            continue
        if box.is_operator:
            details = [_result(recording, slots, box), *filter(None, [weights.get(box.scope)])]
        elif box.steps:
            details = [_recurrence(box), total.text]
        else:
            details = [inside, total.text] if inside else [total.text]
        texts.append((_name(box), *details))
    return texts


def _result(recording: Recording, slots: Slots, box: Box) -> str:
    """Return the second line of an operator: its type or its generated name, and its result's type."""
    first = [slots.nodes[slot][0] for _, slot in box.items]
    last = max([node for node in first if recording.nodes.born[node] < 0] or first)
    type_ = short_type(recording, recording.nodes.type[last], recording.dimension_names(last))
    return " · ".join(filter(None, [_note(box), type_]))


def _recurrence(box: Box) -> str:
    """Return the second line of a recurrent operator or layer: its type or its generated name, and its steps."""
    return " · ".join(filter(None, [_note(box), f"×{counted_text(box.steps, 'step')}"]))


def _note(box: Box) -> str:
    """Return the type or the generated name of an operator of a file; "" for a layer."""
    note = "" if box.kind == "layer" else operator_title(box.label, box.type, box.type).note
    return fit(note, TYPE, widest=WIDEST_NOTE)


def box_title(box: Box) -> str:
    """Return a box's name, or the type of an operator with a generated name."""
    is_operator = (box.is_operator or box.steps) and box.kind != "layer"
    return operator_title(box.label, box.type, box.type).title if is_operator else box.label


def _name(box: Box) -> str:
    """Return a box's title with the class of a layer, and with "×n" unless the box is a part."""
    label = f"{box.label} · {box.type}" if box.kind == "layer" and box.type else box_title(box)
    if box.count == 1 or box.kind == "part":
        return fit(label, NAME, bold=True)
    times = f" ×{box.count:,}"
    return fit(label, NAME, bold=True, widest=WIDEST - font.width(times, NAME, bold=True)) + times


def family_of(recording: Recording, node: int) -> str:
    """Return the family of a node's operation; "" for a leaf, or if its declaration states none."""
    return recording.families.get(recording.operations[recording.nodes.operation[node]], "")


def family_of_box(model: Model, index: int) -> str:
    """Return the family of the costliest operation of an operator of a file; "" for other boxes."""
    recording, box = model.recording, model.tree.boxes[index]
    if not box.is_operator:
        return ""
    inside = [model.slots.nodes[slot][0] for _, slot in box.items]
    known = [node for node in inside if family_of(recording, node)]
    return family_of(recording, max(known, key=lambda node: recording.nodes.flops[node] or 0)) if known else ""


def _kernel_groups(recording: Recording, slots: Slots, tree: Tree) -> list[list[list[int]]]:
    """Return the items of each box that are finally in one kernel; of growing kernels only the final state counts.

    A closed operator represents its contents.
    """
    groups: list[list[list[int]]] = [[] for _ in tree.boxes]
    taken: set[BoxItem] = set()
    for group in sorted(recording.groups, key=lambda group: -group.decision):
        member_slots = {slots.of[node] for node in group.members if slots.of[node] >= 0}
        members = dict.fromkeys(_closed(tree, slot) for slot in sorted(member_slots))
        containers = {tree.box_of[index] if table == "slot" else tree.boxes[index].parent for table, index in members}
        if group.kind == "kernel" and len(members) > 1 and len(containers) == 1 and not taken & set(members):
            taken.update(members)
            container = containers.pop()
            index_of = {item: number for number, item in enumerate(tree.boxes[container].items)}
            groups[container].append(sorted(index_of[item] for item in members))
    return groups


def _closed(tree: Tree, slot: int) -> BoxItem:
    """Return the closed operator around a slot, or the slot."""
    box = tree.box_of[slot]
    closed = box >= 0 and tree.boxes[box].is_operator and not tree.boxes[box].open
    return BoxItem("box", box) if closed else BoxItem("slot", slot)


MAX_VISIBLE = 40
"""maximum number of initially visible boxes and nodes, if at least ``_MIN_VISIBLE`` are visible"""

_MIN_VISIBLE = 12
_MAX_OPERATORS = 8
"""maximum number of operators of a file that are shown open; if there are more, all of them are closed"""
_OPENABLE = ("function", "layer", "scope", "file", "batch", "block")


def choose_open(recording: Recording, slots: Slots, tree: Tree, recorded: list[list[tuple[int, int]]]) -> None:
    """Open user-defined boxes, outermost first, as long as at most ``MAX_VISIBLE`` items are visible.

    ``recorded`` are each box's segments of the edges that the program recorded.

    The boxes of one parent are opened together or, if too little is visible, one by one. Of boxes with equal structure,
    regardless of shapes, the first is opened, and others only if too little is visible.
    """
    structure = Structure(recording, slots, types=False)
    structure.enter(tree, tree.postorder(), recorded)
    operators_closed = sum(scope.type != "" for scope in recording.scopes) > _MAX_OPERATORS
    chooser = _OpenBoxChooser(tree, structure, _sizes(recording, slots, tree), operators_closed)
    for outermost in tree.bodies:
        chooser.open(outermost)


def _sizes(recording: Recording, slots: Slots, tree: Tree) -> list[int]:
    """Return for each box its number of recorded items, or of all items if none was recorded.

    Nodes that passes add to a box of the program must not close it.
    """
    born = recording.nodes.born
    sizes = []
    for box in tree.boxes:
        items = [table == "box" or born[slots.nodes[number][0]] < 0 for table, number in box.items]
        sizes.append(sum(items) or len(items))
    return sizes


class _OpenBoxChooser:
    """Choice of the initially open boxes."""

    def __init__(self, tree: Tree, structure: Structure, sizes: list[int], operators_closed: bool) -> None:
        self._boxes, self._structure, self._operators_closed = tree.boxes, structure, operators_closed
        self._sizes = sizes
        self._seen: set[int] = set()
        self._visible = 0

    def open(self, outermost: int) -> None:
        """Open the boxes of one graph."""
        self._visible = self._sizes[outermost]
        self._boxes[outermost].open = True
        self._seen.clear()
        opened = [outermost]
        others: list[int] = []
        # The list grows during the loop, since boxes open level by level, outermost first.
        for parent in opened:
            new: list[int] = []
            for box in self._inside(parent):
                number = self._structure.of(BoxItem("box", box))
                (others if number in self._seen else new).append(box)
                self._seen.add(number)
            opened += self._open_fitting(new)
        for parent in others:
            if self._visible < MAX_VISIBLE // 2:
                others += [box for taken in self._open_fitting([parent]) for box in self._inside(taken)]

    def _inside(self, parent: int) -> list[int]:
        return [index for table, index in self._boxes[parent].items if table == "box" and self._may_open(index)]

    def _open_fitting(self, boxes: list[int]) -> list[int]:
        """Open all boxes if they fit or, if little is visible, those that fit; return the opened boxes."""
        sizes = {box: self._sizes[box] for box in boxes}
        together = self._visible + sum(sizes.values()) - len(sizes) <= MAX_VISIBLE
        for box in sorted(boxes, key=sizes.__getitem__) if together or self._visible < _MIN_VISIBLE else ():
            # A picture of three boxes is useless; one twice as large as the limit is better.
            if self._visible + sizes[box] - 1 <= (MAX_VISIBLE if self._visible >= _MIN_VISIBLE else 2 * MAX_VISIBLE):
                self._visible += sizes[box] - 1
                self._boxes[box].open = True
        return [box for box in boxes if self._boxes[box].open]

    def _may_open(self, index: int) -> bool:
        """Return whether a box may initially be open: a user-defined box, or one around the first of equal boxes.

        A recurrent layer is closed, because what it computes in each step hides its place in the model.
        """
        box = self._boxes[index]
        if box.steps or (box.is_operator and self._operators_closed):
            return False
        if box.kind == "gradient" and any(
            table == "box" and self._boxes[inner].layer >= 0 for table, inner in box.items
        ):
            return True
        shows_first = box.kind in ("repeat", "stack") and box.items[0].table == "box"
        return box.kind in _OPENABLE or (shows_first and self._boxes[box.items[0].number].kind in _OPENABLE)
