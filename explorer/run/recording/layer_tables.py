"""What a recording tells of the boxes of layers: their facts, and the values at their ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.core.ir.expr import Scope
from explorer.layers.framework.describe import Describable
from explorer.record import Layer, Port


def layers(boxes: Sequence[Scope | None]) -> list[Layer]:
    """The rows of all layers that boxes stand for; ``boxes`` are the scopes by row.

    Boxes inside that of a layer are those of its sublayers: what layers share does not know whose it is.
    """
    known: dict[int, Describable | None] = {}
    found: dict[int, tuple[Describable, list[int]]] = {}
    for row, box in enumerate(boxes):
        layer = _layer(box, known)
        if layer is not None:
            found.setdefault(id(layer), (layer, []))[1].append(row)
    made: list[Layer] = []
    for layer, rows in found.values():
        made.append(replace(layer.to_row(), scopes=tuple(rows)))
    return sorted(made, key=lambda each: each.scopes[0])


def _layer(box: Scope | None, known: dict[int, Describable | None]) -> Describable | None:
    path = []
    while box is not None and id(box) not in known:
        path.append(box)
        box = box.parent
    found = known[id(box)] if box is not None else None
    for inner in reversed(path):
        if inner.kind == "layer":
            found = inner.payload if isinstance(inner.payload, Describable) else found and found.sublayer(inner.name)
        elif inner.kind != "twin":
            found = None
        known[id(inner)] = found
    return known[id(path[0])] if path else found


def ports(boxes: Sequence[Scope | None], ids: Mapping[int, int]) -> list[Port]:
    """The values at the ports of layers' boxes, as far as they are recorded."""
    made: list[Port] = []
    for row, box in enumerate(boxes):
        if box is not None and box.ports is not None:
            inputs, outputs = box.ports
            made += [Port(row, "input", name, ids[uid]) for name, uid in inputs.items() if uid in ids]
            made += [Port(row, "output", name, ids[uid]) for name, uid in outputs.items() if uid in ids]
    return made
