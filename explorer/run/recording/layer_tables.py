"""Layer tables: facts about the layers whose boxes a recording has, and the values at their ports.

A layer describes itself (`Describable`): its class, settings and parameters. Rows are made for layers, not for calls:
one that is used three times has one row, and three boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.core.ir.recording_context import Scope
from explorer.layers.framework.describe import Describable
from explorer.record import Layer, Port


def layers(boxes: Sequence[Scope | None]) -> list[Layer]:
    """Return a row for each layer; ``boxes`` are the scopes by row.

    Boxes inside a layer's box are found by name as its sublayers: code shared by several layers does not know its
    owner.
    """
    known: dict[int, Describable | None] = {}
    rows_of: dict[int, tuple[Describable, list[int]]] = {}
    for row, box in enumerate(boxes):
        layer = _layer(box, known)
        if layer is not None:
            rows_of.setdefault(id(layer), (layer, []))[1].append(row)
    tables: list[Layer] = []
    for layer, rows in rows_of.values():
        tables.append(replace(layer.to_row(), scopes=tuple(rows)))
    return sorted(tables, key=lambda layer: layer.scopes[0])


def _layer(box: Scope | None, known: dict[int, Describable | None]) -> Describable | None:
    """Return the layer of a box, or None; ``known`` remembers the answers for all boxes on its path."""
    path = []
    while box is not None and id(box) not in known:
        path.append(box)
        box = box.parent
    layer = known[id(box)] if box is not None else None
    for inner in reversed(path):
        if inner.kind == "layer":
            layer = inner.payload if isinstance(inner.payload, Describable) else layer and layer.sublayer(inner.name)
        elif inner.kind != "twin":
            layer = None
        known[id(inner)] = layer
    return known[id(path[0])] if path else layer


def ports(boxes: Sequence[Scope | None], ids: Mapping[int, int]) -> list[Port]:
    """Return the values at the ports of layers' boxes, if they are recorded."""
    rows: list[Port] = []
    for row, box in enumerate(boxes):
        if box is not None and box.ports is not None:
            inputs, outputs = box.ports
            rows += [Port(row, "input", name, ids[uid]) for name, uid in inputs.items() if uid in ids]
            rows += [Port(row, "output", name, ids[uid]) for name, uid in outputs.items() if uid in ids]
    return rows
