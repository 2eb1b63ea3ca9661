"""Which open boxes are drawn open at a position: one that holds next to nothing yet, or any more, takes no room."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from explorer.record import Recording
from explorer.view.model.model import Model
from explorer.view.picture.state import State
from explorer.view.tree.box_tree import Tree


def settled(recording: Recording, tree: Tree, state: State, position: int, is_open: Collection[int]) -> set[int]:
    """Return the open boxes in which something stands; of a block, an operation that is no row of a batch's result.

    So it is with the first of the equal boxes of a stack, and a stack is not drawn open where that is not. The box of
    a batch is drawn open when all of it is there and no call is left that stands for what is inside.
    """
    nodes, rows = recording.nodes, batched(recording)
    first = {box: inner for box in is_open if (inner := _first_member(tree, box)) >= 0}
    members = {*first.values(), *(box for box in is_open if tree.boxes[box].kind == "block")}
    wanted, full = {*is_open, *members}, {*tree.bodies}
    waiting = {box for box in is_open if any(decision >= position for decision in tree.boxes[box].batches)}
    passed: dict[int, int] = {}
    """what came through each box: something, what works, a call; around it, it need not be told again"""
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
    """The first of many equal boxes that a box stands for; −1 for any other box."""
    if tree.boxes[box].kind not in ("stack", "repeat"):
        return -1
    kind, index = tree.boxes[box].items[0]
    return index if kind == "box" else -1


def holding(model: Model, position: int) -> set[int]:
    """Return the boxes of which a node has been recorded, or produced before a position."""
    born = model.recording.nodes.born
    return _around(model, [slot for slot, nodes in enumerate(model.slots.nodes) if born[nodes[0]] < position])


def missed(model: Model) -> set[int]:
    """Return the boxes of which the program wrote something that is gone in the end and that no batch stands for."""
    nodes, known = model.recording.nodes, batched(model.recording) | {-1}
    rows = enumerate(model.slots.nodes)
    return _around(model, [slot for slot, row in rows if nodes.born[row[0]] < 0 and nodes.gone[row[-1]] not in known])


def batched(recording: Recording) -> set[int]:
    """Return the decisions that made one of many: of what they made, and of what stands in the members' places."""
    return {group.decision for group in recording.groups if group.kind == "batch"}


def _around(model: Model, slots: Iterable[int]) -> set[int]:
    """The boxes around some slots."""
    found = set[int]()
    for slot in slots:
        box = model.tree.box_of[slot]
        while box >= 0 and box not in found:
            found.add(box)
            box = model.tree.boxes[box].parent
    return found
