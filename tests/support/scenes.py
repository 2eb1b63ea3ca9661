"""Size and invariants of a view's model."""

from __future__ import annotations

from explorer.view.folding.fold import MAX_ITEMS
from explorer.view.model.picture_model import Model
from explorer.view.tree.box_tree import Paths


def scene_size(model: Model) -> int:
    """Return the number of initially visible boxes and nodes of the program, without those that passes added."""
    seen, open_boxes, born = 0, [0], model.recording.nodes.born
    for box in open_boxes:
        for kind, number in model.tree.boxes[box].items:
            if kind == "box" and model.tree.boxes[number].open:
                open_boxes.append(number)
            else:
                seen += kind == "box" or born[model.slots.nodes[number][0]] < 0
    return seen


def check(model: Model) -> None:
    """Check that every slot and box has exactly one parent, and that every edge connects its slots."""
    held = [item for box in model.tree.boxes for item in box.items]
    assert len(held) == len(set(held)) == len(model.slots.nodes) + len(model.tree.boxes) - len(model.tree.bodies)
    for index, box in enumerate(model.tree.boxes):
        assert all(model.tree.box_of[n] == index for kind, n in box.items if kind == "slot")
        assert all(model.tree.boxes[n].parent == index for kind, n in box.items if kind == "box")
        assert len(box.items) <= MAX_ITEMS
    paths = Paths(model.tree, model.ports.number)
    for producer, consumer in model.slots.edges:
        segments = list(paths.segments(producer, consumer))
        assert all((tail, head) in model.edges[box] for box, tail, head, *_ in segments)
        assert all(tuple(edge) in model.ports.edges[box] for box, *edge in segments)
        assert len([1 for _, tail, head, *_ in segments if min(tail, head) >= 0]) == 1
