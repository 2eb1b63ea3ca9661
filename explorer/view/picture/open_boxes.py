"""Open boxes at a position: boxes with almost no content yet, or no content any more, are drawn closed."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from explorer.record import Recording
from explorer.view.model.model import Model
from explorer.view.picture.state import State
from explorer.view.tree.box_tree import Tree


def settled(recording: Recording, tree: Tree, state: State, position: int, is_open: Collection[int]) -> set[int]:
    """Return the open boxes that are drawn open: a node is there; in a block, an operation that is no row of a batch.

    The first of the equal boxes of a stack follows the same rule, and the stack is open only if that box is. The box of
    a batch is open once the batch is complete and no call is left that stands for its contents.
    """
    nodes, rows = recording.nodes, batched(recording)
    first = {box: inner for box in is_open if (inner := _first_member(tree, box)) >= 0}
    members = {*first.values(), *(box for box in is_open if tree.boxes[box].kind == "block")}
    wanted, full = {*is_open, *members}, {*tree.bodies}
    waiting = {box for box in is_open if any(decision >= position for decision in tree.boxes[box].batches)}
    passed: dict[int, int] = {}
    """for each box, the flags already passed to its ancestors: any node, an operation, a call"""
    for slot, node in (*state.shown.items(), *state.ghosts.items()):
        works = nodes.kind[node] in ("operation", "call") and nodes.born[node] not in rows
        is_call = nodes.kind[node] == "call" and slot in state.shown
        box, marks = tree.box_of[slot], 1 + 2 * works + 4 * is_call
        while box >= 0 and passed.get(box, 0) & marks != marks:
            passed[box] = passed.get(box, 0) | marks
            if box in wanted and (works or box not in members):
                full.add(box)
            if is_call and tree.boxes[box].batches:
                waiting.add(box)
            box = tree.boxes[box].parent
    return {box for box in is_open if box in full and first.get(box, box) in full and box not in waiting}


def _first_member(tree: Tree, box: int) -> int:
    """Return the first of the equal boxes that a box stands for, or −1."""
    if tree.boxes[box].kind not in ("stack", "repeat"):
        return -1
    kind, index = tree.boxes[box].items[0]
    return index if kind == "box" else -1


def holding(model: Model, position: int) -> set[int]:
    """Return the boxes that contain a node recorded, or produced before a position."""
    born = model.recording.nodes.born
    return _around(model, [slot for slot, nodes in enumerate(model.slots.nodes) if born[nodes[0]] < position])


def missed(model: Model) -> set[int]:
    """Return the boxes with recorded nodes that are gone at the end and that no batch replaces."""
    nodes, known = model.recording.nodes, batched(model.recording) | {-1}
    rows = enumerate(model.slots.nodes)
    return _around(model, [slot for slot, row in rows if nodes.born[row[0]] < 0 and nodes.gone[row[-1]] not in known])


def batched(recording: Recording) -> set[int]:
    """Return the decisions that created batches, and those about nodes that replace the members."""
    return {group.decision for group in recording.groups if group.kind == "batch"}


def _around(model: Model, slots: Iterable[int]) -> set[int]:
    """Return the boxes around some slots."""
    boxes_around = set[int]()
    for slot in slots:
        box = model.tree.box_of[slot]
        while box >= 0 and box not in boxes_around:
            boxes_around.add(box)
            box = model.tree.boxes[box].parent
    return boxes_around
