"""Payload of the front end, which suffices for stepping: a recording, its layout, replay rules, heat and options.

Its long tables are packed (columns.py); shapes.py describes them unpacked. The following rules hold for the layout and
the replay.

A *slot* is the position, at all steps, of one node or of nodes that replace each other (a subject and the node produced
for it). Once passes change the graph, a slot is as large as its largest node, so that nothing jumps. Constants, which
are shown inside their consumers, and ports (kind "item") have no slot; an edge from an item begins at its operand. The
texts of a node are its name, its type, its second line as a ghost ("" if it never is one), its second line with the
formula (if "", the type is the second line), the full formula, and the full title of the operator of a file that the
node represents ("" if there is none).

A *box* is a container: box 0 is the whole graph, and every other box can be opened and closed. A function's body is
shown on a separate canvas, and its box has parent −1. Each box is laid out once, with its child boxes closed.

Coordinates are integers in CSS pixels, x to the right, y down, in the frame of the containing box (when open, from its
top left corner, including the title strip of 26 px and padding). The inside of a box ("size", "ports", "items" and
"edges") is stored and composed as if values flowed down. If the "direction" is "right", x and y are exchanged after
composition, so that "top" means left and "bottom" right. A page also contains the insides of all boxes in the other
direction, as "turned", unless the graph is very large. Its "page" has the boxes that are also open at first in a large
window.

For a large graph the first payload contains the insides of the open boxes and their ancestors. Other boxes are not
"placed": their items are ``{"slot": k}`` and ``{"box": k}`` without a position, and they have no edges. Slots, texts
and the recording are complete, so that stepping needs nothing more. Such a box cannot be open. The front end sends
``{"kind": "place", "boxes": [box, …]}`` to the kernel, and receives ``{"kind": "placed", "boxes": [[box, inside],
…]}``, packed: the box's "placed", "size", "ports", "items" and "edges". A layout written to a file is completely
placed.

*Edges* are drawn box by box. Item −1 represents the box's border: ``[-1, i, …]`` enters through a port at the top,
``[i, -1, …]`` leaves through a port at the bottom. The last two values are ports: for an end at item −1 a port of the
box, for an end at a box a port of that box, and 0 otherwise. Each value has its own port, unless very many cross one
border, so there may be several edges between two items. If an end is at a layer's port, two more values are the port
names, "" for an end without one. An edge from node u to node v consists of the segments u → … → −1 in each box that
contains only u, one segment in the innermost box that contains both, and −1 → … → v in each box that contains only v. A
segment is drawn once for all edges that share it, if its box is open and one of these edges is alive. A *label* belongs
to the segment between its items. Its space is next to a point of the segment, which moves only by (X, Y): to the right,
or for ``side`` −1 to the left of the point; if values flow to the right, above or below it. A segment without a route,
or one that is not in ``edges`` (in a box with the plain layout, such as one with very many edges, or one that existed
only between two passes), is a plain curve between the middles of its ends, or their ports. Only a segment that ends at
a slot or a closed box has an arrow head.

*Before the first change*, at positions up to the replay's "change", the graph is drawn with the positions in
"recorded", which have no space for what passes add (None if a box has the same in both). Items without width are not
part of it. The front end moves the nodes when the layout changes.

*Opening a box* never reorders anything. In the frame of the parent, each opened item has a desired size W × H (the
composed size of the child) instead of its closed size w × h. Values enter the child at its *entry* E: the composed x of
its top port, or W / 2 if it has several. The x axis is stretched by a monotone map X with X(0) = 0, whose slope is the
maximum of 1 and, for each opened item that covers x, E / (w / 2) in its left half and (W − E) / (w / 2) in its right
half; the y axis likewise by Y, with H / h. The middle of an item at x moves to X(x), where an opened item has its
entry, so that a straight line stays straight; its middle at y moves to Y(y), and an opened item's to the middle of its
mapped interval. An item that is not opened keeps its size. The parent's composed size is (X(w), Y(h)) of its ``size``.
Every edge point is mapped by (X, Y). Then the first point moves to the edge's start (for an item that is not opened,
its centre plus the same offset as before; for an opened item, its top or bottom at the child's composed port), and the
last point likewise to its end. The adjacent points move with them, so that edges keep their directions at both ends. If
an end of several curves moves sideways by more than 16 px, the joint next to it is placed between it and the next
joint; where two curves meet at more than 11°, their handles become one line (layout/placement.py). Ports −1 are mapped
by X; all coordinates are rounded at the end, halves up.

An *instant* is 2 · position, plus 1 if the stage has taken no decision yet. An open box without rows in ``opens`` is
always drawn open. A box with rows is drawn closed at all other instants, until a reader opens it, so that later and
removed nodes take no space (contents.py); a row from 0 to −1 means that it is always closed.

A closed box without nodes at a position is drawn as a ghost; a closed box with a single node is drawn as that node,
centred in the box's rectangle. A box without nodes recorded or produced so far is not drawn.

A box with a "type" that contains only slots is one operator of a file, or a layer without sublayers. When closed, it
represents its nodes in the outline of a fused kernel with several members, and has no second sheet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.gc_pause import gc_paused
from explorer.record.view_choices import THEMES
from explorer.view.layout.box_layout import special_edges
from explorer.view.layout.direction import other
from explorer.view.layout.placed_model import PAGE, PlacedModel, draw
from explorer.view.layout.positions import BoxLayout
from explorer.view.model.heat import HeatMetric, heat_json
from explorer.view.model.picture_model import Model, box_title, family_of_box
from explorer.view.payload.columns import pack
from explorer.view.payload.recording_tables import recording_tables, shown
from explorer.view.replay.batch_rows import row_texts
from explorer.view.replay.contents import open_spans
from explorer.view.replay.state import merges, outlined
from explorer.view.replay.steps import stage_ends, stage_kernels


def payload(
    recording: Recording,
    *,
    theme: str = "auto",
    position: int | None = None,
    height: int = 560,
    drawing: PlacedModel | None = None,
    boxes: Collection[int] | None = None,
    overlays: Iterable[HeatMetric] = (),
) -> dict[str, Any]:
    """Return all data of a recording that the front end needs, as JSON data; ``position`` None means the end.

    ``drawing`` is the recording's drawing, if it exists already. Boxes outside ``boxes`` (None: all) are sent without
    their layout; as many levels of boxes are open as fit into a cell. Raise ValueError for an unknown theme, or for
    a position outside 0 … ``recording.end``.
    """
    if theme not in THEMES:
        raise ValueError(f"theme {theme!r} is not one of {', '.join(THEMES)}")
    overlays = tuple(overlays)
    where = recording.end if position is None else position
    if not 0 <= where <= recording.end:
        raise ValueError(f"position {where} is outside this recording: it has positions 0 to {recording.end}")
    placed = drawing or draw(recording)
    with gc_paused():
        return {
            "recording": shown(pack(recording_tables(recording))),
            "layout": pack(layout_json(recording, placed, boxes)),
            "replay": pack(replay_json(recording, placed.model)),
            "heat": shown(pack(heat_json(recording, overlays))),
            "options": {
                "theme": theme,
                "position": where,
                "height": height,
                "heat": overlays[-1].name if overlays else "",
            },
        }


def layout_json(
    recording: Recording,
    drawing: PlacedModel | None = None,
    boxes: Collection[int] | None = None,
) -> dict[str, Any]:
    """Return the "layout" part of the payload, unpacked."""
    placed = drawing or draw(recording)
    model = placed.model
    known = range(len(model.tree.boxes)) if boxes is None else boxes
    opened = placed.open_boxes()
    operators = {operator.scope: row for row, operator in enumerate(recording.operators)}
    crossings: dict[int, list[tuple[int, int, int]]] = {}
    for (box, side, slot), port in model.ports.number.items():
        crossings.setdefault(box, []).append((side, slot, port))
    return {
        "boxes": [
            {
                **_box(model, box, operators, crossings.get(box, ())),
                "open": box in opened,
                **(_inside(placed, box) if box in known else _unplaced(model, box)),
            }
            for box in range(len(model.tree.boxes))
        ],
        "slots": [_slot(model, slot) for slot in range(len(model.slots.nodes))],
        "texts": [list(row) for row in model.texts],
        "bodies": model.tree.bodies,
        "direction": placed.layouts.direction,
    }


def replay_json(recording: Recording, model: Model) -> dict[str, Any]:
    """Return the "replay" part of the payload, unpacked."""
    opens = open_spans(recording, model.slots, model.tree)
    return {
        "ends": stage_ends(recording),
        "change": model.first_change,
        "kernels": stage_kernels(recording),
        "merges": merges(recording, model.slots),
        "outlined": outlined(recording),
        "opens": [[box, *span] for box, spans in opens.items() for span in spans or [(0, -1)]],
        "rows": [
            [box, position, text]
            for box, texts in row_texts(recording, model.slots, model.tree).items()
            for position, text in texts
        ],
    }


def answer(drawing: PlacedModel, boxes: Sequence[int]) -> dict[str, Any]:
    """Return the reply to a request for the layout of some boxes: packed ``[[box, inside], …]``.

    Raise ValueError for an index that is not a box of the drawing.
    """
    count = len(drawing.layouts)
    wrong = [box for box in boxes if type(box) is not int or not 0 <= box < count]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is not a box of this layout, which has boxes 0 to {count - 1}")
    with gc_paused():
        layouts = [[box, _inside(drawing, box)] for box in boxes]
        return {"kind": "placed", "boxes": pack(layouts)}


def page_boxes(drawing: PlacedModel) -> dict[str, Any]:
    """Return the boxes that are also open at first in a canvas with room for a page's frame: width, height in px."""
    return {"room": list(PAGE[:2]), "boxes": sorted(drawing.open_boxes(PAGE) - drawing.open_boxes())}


def turned(drawing: PlacedModel) -> Any:
    """Return the layout of all boxes in the other direction, packed ``[inside, …]``."""
    placed = drawing.turned(other(drawing.layouts.direction))
    return pack([_inside(placed, box) for box in range(len(placed.layouts))])


def _box(
    model: Model, index: int, operators: Mapping[int, int], crossings: Sequence[tuple[int, int, int]]
) -> dict[str, Any]:
    box = model.tree.boxes[index]
    return {
        "kind": box.kind,
        "label": visible(box.label),
        "title": visible(box_title(box)),
        "text": list(model.box_texts[index]),
        "type": visible(box.type),
        "count": box.count,
        "parent": box.parent,
        "layer": box.layer,
        "family": family_of_box(model, index),
        "operator": operators.get(box.scope, -1),
        "batches": list(box.batches),
        "closed": list(model.box_sizes[index]),
        "crossings": list(crossings),
    }


def _inside(placed: PlacedModel, index: int) -> dict[str, Any]:
    layout, recorded = placed.layouts[index], placed.recorded[index]
    return {
        "placed": True,
        **_positions(placed.model, index, layout),
        "recorded": None if recorded == layout else _positions(placed.model, index, recorded),
    }


def _positions(model: Model, index: int, layout: BoxLayout) -> dict[str, Any]:
    return {
        "size": list(layout.size),
        "ports": [list(side) for side in layout.ports],
        "items": [
            {table: inner, "at": rect, "rank": rank}
            for (table, inner), rect, rank in zip(
                model.tree.boxes[index].items, layout.rects, layout.ranks, strict=True
            )
        ],
        "edges": [
            [*edge, route, *ports, *(names if any(names) else ())]
            for edge, route, ports, names in special_edges(model, index, layout)
        ],
        "labels": [
            [label.start, label.end, *label.ports, *label.point, label.side, label.slot] for label in layout.labels
        ],
    }


def _unplaced(model: Model, index: int) -> dict[str, Any]:
    items = [{table: inner} for table, inner in model.tree.boxes[index].items]
    inside = {"size": [0, 0], "ports": [[], []], "items": items, "edges": [], "labels": []}
    return {"placed": False, **inside, "recorded": None}


def _slot(model: Model, slot: int) -> dict[str, Any]:
    return {
        "nodes": model.slots.nodes[slot],
        "text": model.slot_texts[slot],
        "sizes": [list(size) for size in model.slot_sizes[slot]],
    }
