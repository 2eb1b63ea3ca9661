"""Boxes of a static picture that were used by a position, and those whose contents nothing replaces."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.view.model.model import Model
from explorer.view.replay.contents import batched


def holding(model: Model, position: int) -> set[int]:
    """Return the boxes that contain a node recorded, or produced before a position."""
    born = model.recording.nodes.born
    return _around(model, [slot for slot, nodes in enumerate(model.slots.nodes) if born[nodes[0]] < position])


def missed(model: Model) -> set[int]:
    """Return the boxes with recorded nodes that are gone at the end and that no batch replaces."""
    nodes, known = model.recording.nodes, batched(model.recording) | {-1}
    rows = enumerate(model.slots.nodes)
    return _around(model, [slot for slot, row in rows if nodes.born[row[0]] < 0 and nodes.gone[row[-1]] not in known])


def _around(model: Model, slots: Iterable[int]) -> set[int]:
    """Return the boxes around some slots."""
    boxes_around = set[int]()
    for slot in slots:
        box = model.tree.box_of[slot]
        while box >= 0 and box not in boxes_around:
            boxes_around.add(box)
            box = model.tree.boxes[box].parent
    return boxes_around
