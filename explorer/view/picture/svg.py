"""Static picture: a recording as SVG without scripts, with the same bytes on every run and machine.

A plotting library would neither match the browser's drawing nor give the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from explorer.record import Recording, Stage, Verdict
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.view.base import font
from explorer.view.base.font import NUMBER_BESIDES
from explorer.view.base.markup import Markup, element
from explorer.view.base.palette import FAMILIES, RuleSet, stylesheet
from explorer.view.layout.direction import check_direction
from explorer.view.layout.placed_model import PICTURE, PlacedModel, draw
from explorer.view.layout.placement import Rect, Scene, Segment, compose
from explorer.view.model.labels import LINE, TITLE
from explorer.view.model.picture_model import Model, family_of, family_of_box
from explorer.view.picture.difference_marks import SIGNS, WORDS, Difference, pill, tally
from explorer.view.picture.edges import crosses, declined_keys, edge_labels, lines, port_labels, visible_segments
from explorer.view.picture.kernel_outlines import Frame, closed_around, frame_title, frames
from explorer.view.replay.batch_rows import row_text, row_texts
from explorer.view.replay.contents import batched, drawn_open, instant_at, open_spans
from explorer.view.replay.state import State, state_at

_VERDICTS: tuple[tuple[Verdict, str], ...] = (("applied", "✓"), ("declined", "✗"))
_ROOM = 22
"""margin in px, for numbers to the left of nodes and titles above groups"""
WRAP = 1200.0
"""default width in px from which a picture to the right is cut into rows"""
_SHEET = 5
"""px by which the sheet under a closed box is shifted to the right and down"""
_BEFORE, _AFTER, _MARK = 16, 2, 12
"""px to the left and right of an item in which a picture is not cut, and to the right of an output, for its mark; the
number of a kernel is to the left"""


def svg(
    recording: Recording,
    position: int | None = None,
    *,
    theme: str = "auto",
    body: int = 0,
    drawing: PlacedModel | None = None,
    marks: Mapping[int, Difference] | None = None,
    open_boxes: Collection[int] | None = None,
    direction: str = "down",
    depth: int | None = None,
    edge_types: bool = False,
    stage: Stage | None = None,
    wrap: float = WRAP,
) -> str:
    """Return a recording at a position (None: the end) as SVG; ``body`` selects one of its graphs.

    ``theme`` is "auto" (the reader's system setting), "light" or "dark"; ``drawing`` is the recording's drawing, if it
    exists already; ``marks`` are differences of nodes from another graph; ``open_boxes`` None leaves the choice of
    boxes to the layout, and ``depth`` instead opens boxes down to that depth; values flow in the ``direction`` "down"
    or "right"; ``edge_types`` writes value types next to edges, if there is space; ``stage`` is shown as a whole, so
    closed boxes have the numbers of its decisions inside. A picture to the right that is wider than ``wrap`` px is cut
    into rows. Raise ValueError for a position outside 0 … ``end``.
    """
    where = recording.end if position is None else position
    if not 0 <= where <= recording.end:
        raise ValueError(f"position {where} is outside this recording: it has positions 0 to {recording.end}")
    if theme not in ("auto", "light", "dark"):
        raise ValueError(f"theme {theme!r} is not one of auto, light, dark")
    placed = (drawing or draw(recording)).turned(check_direction(direction))
    model = placed.model
    with gc_paused():
        state = state_at(recording, model.slots, where)
        if depth is not None:
            open_boxes = model.tree.opened_to(depth)
        chosen = placed.open_boxes(PICTURE, where) if open_boxes is None else open_boxes
        wanted = {*chosen, *model.tree.bodies}
        spans = open_spans(recording, model.slots, model.tree)
        is_open = drawn_open(spans, wanted, instant_at(recording, where))
        outermost = model.tree.bodies[body]
        scene = compose(model, placed.at(where), is_open, outermost)
        return _Picture(model, scene, state, is_open, outermost, where, marks or {}, edge_types, stage).draw(
            theme, wrap
        )


def _below(output: bool) -> int:
    """Return the distance in px of a difference mark below an item, where it must not cover the mark of an output."""
    return 20 if output else 5


class _Picture:
    def __init__(
        self,
        model: Model,
        scene: Scene,
        state: State,
        is_open: set[int],
        outermost: int,
        position: int,
        marks: Mapping[int, Difference],
        edge_types: bool,
        stage: Stage | None,
    ) -> None:
        self.edge_types = edge_types
        self.marks = {slot: marks[node] for slot, node in state.shown.items() if node in marks}
        self.model, self.scene, self.state = model, scene, state
        self.is_open, self.outermost, self.position = is_open, outermost, position
        self.frames = frames(model, scene, state, is_open)
        self.fused = {slot for _, members in state.groups for slot in members}
        self.closed_around = closed_around(model, scene)
        self.live = self._live()
        self.decided = self._decided(stage)
        self.begun, self.written, self.removed = (
            boxes_with_nodes(model, position),
            boxes_with_nodes(model, 0),
            boxes_of_removed_nodes(model),
        )
        self.row_texts = row_texts(model.recording, model.slots, model.tree)
        self.rects = dict(scene.slots)
        for box, inside in self.live.items():
            if self._as_node(box):
                self.rects[inside[0]] = scene.boxes[box]

    def draw(self, theme: str, wrap: float) -> str:
        """Return the whole picture; later parts cover earlier ones."""
        recording, (wide, high) = self.model.recording, self.scene.size
        # Several pictures may be in one page, which shares ids and classes, so each has a unique name that is the same
        # on every machine.
        key = f"{recording.fingerprint}\n{self.position}\n{theme}\n{self.outermost}"
        key += f"\n{sorted(self.marks.items())}" if self.marks else ""
        key += "\ntypes" * self.edge_types
        key += f"\n{sorted(self.decided)}" if self.decided else ""
        key += f"\n{self.scene.direction}\n{wrap:g}" * (self.scene.direction != "down")
        name = "ex" + hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:10]
        arrow = element("path", d="M0 0 8 4 0 8z", class_="head")
        marker = element(
            "marker", arrow, id=f"{name}-a", viewBox="0 0 8 8", refX=7.5, refY=4, orient="auto",
            markerWidth=7, markerHeight=7,
        )  # fmt: skip
        x, y, w, h = -_ROOM, -_ROOM, wide + 2 * _ROOM, high + 2 * _ROOM
        open_boxes, groups = self._open_boxes(), self._groups()
        segments = visible_segments(self.model, self.scene, self.state, self.is_open, self.outermost)
        declined = declined_keys(self.model, self.state)
        nodes = [self._node(slot) for slot in sorted(self.rects)]
        content = [
            *(rect for rect, _ in open_boxes),
            *(rect for rect, _ in groups),
            *lines(segments, f"{name}-a", declined),
            *(title for _, title in open_boxes),
            *(title for _, title in groups),
            *crosses(segments, declined),
            *self._closed_boxes(),
            *nodes,
            *port_labels(segments, self.scene.direction),
            *(edge_labels(self.model, self.scene, self.state, segments) if self.edge_types else ()),
            *schedule_numbers(self.scene, self.state, self.frames, self.rects, self._closed()),
        ]
        rows = self._rows(x, x + w, wrap) if self.scene.direction == "right" and w > wrap else []
        windows, defined = content, [marker]
        if len(rows) > 1:
            # Each row is a window on the same drawing: an edge that leaves a row continues in the next one.
            defined.append(element("g", *content, id=f"{name}-c"))
            windows, h = [], 0
            for start, end in rows:
                top, bottom = self._height(start, end, segments)
                sides = {"width": end - start, "height": bottom - top}
                box = f"{start} {top} {end - start} {bottom - top}"
                windows.append(element("svg", element("use", href=f"#{name}-c"), x=x, y=y + h, **sides, viewBox=box))
                h += bottom - top
            w = max([end - start for start, end in rows])
        return element(
            "svg",
            element("title", self._title()),
            element(
                "style",
                Markup(stylesheet(name, theme, *self._rules())),
            ),
            element("defs", *defined),
            element("rect", x=x, y=y, width=w, height=h, rx=10, class_="canvas"),
            *windows,
            xmlns="http://www.w3.org/2000/svg",
            id=name,
            role="img",
            aria_label=self._title(),
            viewBox=f"{x} {y} {w} {h}",
            width=w,
            height=h,
            style="max-width:100%;height:auto",
        )

    def _rows(self, left: int, right: int, wrap: float) -> list[tuple[int, int]]:
        """Return the rows of a picture to the right as ranges of x, which are wider than ``wrap`` only for one item."""
        spans = [(x - _BEFORE, x + wide + _AFTER) for x, _, wide, _ in self._items()]
        rows, start, end, reached = [], left, left, left
        for first, last in [*sorted(spans), (right, right)]:
            if first > reached > left or first == right:
                if (right if first == right else reached) - start > wrap and end > start:
                    rows.append((start, end))
                    start = end
                # A long gap belongs to the row in which it fits, except for the arrow head of the next item.
                end = max(reached, min(first - _BEFORE, start + int(wrap)))
            reached = max(reached, last)
        return [*rows, (start, right)]

    def _height(self, left: int, right: int, segments: list[tuple[Segment, bool]]) -> tuple[int, int]:
        """Return the top and bottom of a row of a picture to the right, with margins."""
        drawn = [rect for box, rect in self.scene.boxes.items() if box != self.outermost]
        spans = [(y, y + high) for x, y, wide, high in [*self._items(), *drawn] if x < right and x + wide > left]
        for segment, _ in segments:
            xs, ys = segment.points[::2], segment.points[1::2]
            if min(xs) < right and max(xs) > left:
                spans.append((min(ys), max(ys)))
        tops, bottoms = zip(*spans, strict=True) if spans else ((0,), (self.scene.size[1],))
        return min(tops) - 2 * _ROOM, max(bottoms) + _ROOM

    def _items(self) -> list[Rect]:
        """Return the rectangles of nodes, closed boxes, titles and outlines, through which a picture is not cut."""
        boxes = [
            (x, y, 14 + round(font.width(self._box_title(box, wide), TITLE, True)), 0)
            if box in self.is_open
            else (x, y, wide + _SHEET, high + _SHEET)
            for box, (x, y, wide, high) in self.scene.boxes.items()
            if box != self.outermost
        ]
        shapes = [shape for frame in self.frames for shape in frame.shapes]
        outlines = [(left, top, right - left, bottom - top) for left, top, right, bottom in shapes]
        nodes = [
            (x, y, wide + _MARK * (slot in self.state.outputs), high) for slot, (x, y, wide, high) in self.rects.items()
        ]
        return [*nodes, *boxes, *outlines]

    def _rules(self) -> list[RuleSet]:
        wanted: dict[RuleSet, bool] = {
            "marks": bool(self.marks),
            "declined": bool(self.state.declined_edges),
            "decided": bool(self.decided),
            "labels": self.edge_types,
        }
        return [name for name, is_wanted in wanted.items() if is_wanted]

    def _title(self) -> str:
        shown = sum(slot in self.rects for slot in self.state.shown)
        closed = sum(len(inside) > 1 for inside in self.live.values())
        parts = [
            counted_text(shown, "node"),
            counted_text(closed, "closed box", "closed boxes") if closed else "",
            counted_text(len(self.state.groups), "fused kernel"),
        ]
        title = self.model.recording.title or "recording"
        return f"{title}: " + ", ".join(part for part in parts if part and not part.startswith("0 "))

    def _open_boxes(self) -> list[tuple[Markup, Markup]]:
        """Draw the border of each open box, and its title above the edges."""
        drawn = []
        for box, (x, y, wide, high) in self.scene.boxes.items():
            if box in self.is_open and box in self.begun and box != self.outermost:
                title = self._box_title(box, wide)
                border = element("rect", x=x, y=y, width=wide, height=high, rx=12, class_="open")
                drawn.append((border, element("text", title, x=x + 14, y=y + 18, class_="title")))
        return drawn

    def _box_title(self, box: int, wide: int) -> str:
        """Return the title of an open box of a width: its name and, if there is space, its totals."""
        name, *lines = self.model.box_texts[box]
        # The last line of an operator lists its weights, whose nodes are drawn in the open box.
        whole = f"{name} · {lines[0] if self.model.tree.boxes[box].is_operator else lines[-1]}"
        width = wide - 28
        return whole if font.width(whole, TITLE, True) <= width else font.shorten(name, width, TITLE, True)

    def _closed_boxes(self) -> list[Markup]:
        """Draw closed boxes: as a node if only one node is left inside, and as a ghost if none is."""
        drawn = []
        covered = {box for frame in self.frames for box in frame.boxes}
        for box, inside in self.live.items():
            if self._as_node(box) or box not in self.begun or (not inside and box not in self.removed):
                continue
            x, y, wide, high = self.scene.boxes[box]
            name, *lines = self.model.box_texts[box]
            details = self._left(box, inside) or lines
            output = not self.state.outputs.isdisjoint(inside)
            middle, top = x + wide // 2, y + LINE * (len(lines) - len(details)) // 2
            drawn.append(
                element(
                    "g",
                    *self._more(box, x, y, wide, high),
                    element("rect", x=x, y=y, width=wide, height=high, rx=10),
                    *(family_bar(family_of_box(self.model, box), x, y, high) if inside else ()),
                    element("text", name, x=middle, y=top + 21, class_="name"),
                    *(
                        element("text", line, x=middle, y=top + 36 + LINE * number, class_="type")
                        for number, line in enumerate(details)
                    ),
                    *(self._output_mark(x + wide, y + high) if output else ()),
                    *self._differences(inside, x, y + high + _below(output)),
                    *(self._decisions(self.decided[box], x, y) if inside and box in self.decided else ()),
                    class_=" ".join(["closed", *["ghost"] * (not inside), *["member"] * (box in covered)]),
                )
            )
        return drawn

    def _left(self, box: int, inside: list[int]) -> list[str]:
        """Return the text of a closed box whose nodes were removed, or that contains only rows of batches."""
        if not inside and box in self.written:
            return ["removed"]
        return [text] if (text := row_text(self.row_texts, box, self.position)) else []

    def _more(self, box: int, x: int, y: int, wide: int, high: int) -> list[Markup]:
        """Draw the sheet under a closed box unless it is a single operator."""
        if self.model.tree.boxes[box].is_operator:
            return []
        return [element("rect", x=x + _SHEET, y=y + _SHEET, width=wide, height=high, rx=10)]

    def _differences(self, inside: list[int], x: int, y: int) -> list[Markup]:
        """Draw the number of differing nodes inside a closed box at its lower left corner."""
        counts = tally(self.marks[slot] for slot in inside if slot in self.marks)
        return pill(counts, x - 6, y) if counts else []

    def _decided(self, stage: Stage | None) -> dict[int, Counter[Verdict]]:
        """Return the numbers of a whole stage's decisions about the nodes that closed boxes hide, by verdict."""
        counts: dict[int, Counter[Verdict]] = {}
        recording, slots = self.model.recording, self.model.slots
        if stage is None:
            return counts
        rows = {index: recording.decisions[index] for index in range(stage.first, stage.last)}
        subjects = {index: {*row.subjects, *row.produced} for index, row in rows.items()}
        for times in (recording.nodes.born, recording.nodes.gone):
            for node, index in enumerate(times):
                if index in subjects:
                    subjects[index].add(node)
        for index, nodes in subjects.items():
            drawn = [slots.of[node] for node in nodes if slots.of[node] >= 0]
            for box in {self.closed_around[self.model.tree.box_of[slot]] for slot in drawn} & self.live.keys():
                counts.setdefault(box, Counter())[rows[index].verdict] += 1
        return counts

    def _decisions(self, counts: Mapping[Verdict, int], x: int, y: int) -> list[Markup]:
        """Draw the numbers of a stage's applied and declined decisions at the upper left corner of a closed box."""
        parts = [(verdict, f"{counts[verdict]:,}{sign}") for verdict, sign in _VERDICTS if counts[verdict]]
        text = " ".join(part for _, part in parts)
        width = round(font.width(text, 10, True)) + 12
        spans = [
            element("tspan", f"{' ' * (number > 0)}{part}", class_=verdict)
            for number, (verdict, part) in enumerate(parts)
        ]
        return [
            element("rect", x=x - 6, y=y - 10, width=width, height=14, rx=7, class_="decided"),
            element("text", *spans, x=x - 6 + width / 2, y=y + 0.5, class_="decided"),
        ]

    def _closed(self) -> dict[int, list[int]]:
        """Return the slots inside the closed boxes that are drawn as boxes and are not covered by an outline."""
        covered = {box for frame in self.frames for box in frame.boxes}
        return {box: inside for box, inside in self.live.items() if not self._as_node(box) and box not in covered}

    def _as_node(self, box: int) -> bool:
        """Return whether a closed box is drawn as its only node; False for a layer, which has a name and ports."""
        return len(self.live[box]) == 1 and self.model.tree.boxes[box].layer < 0

    def _live(self) -> dict[int, list[int]]:
        live: dict[int, list[int]] = {box: [] for box in self.scene.boxes if box not in self.is_open}
        for slot in self.state.shown:
            box = self.closed_around[self.model.tree.box_of[slot]]
            if box in live:
                live[box].append(slot)
        return live

    def _groups(self) -> list[tuple[Markup, Markup]]:
        """Draw the outline of each fused kernel, and its title above the edges."""
        drawn = []
        for frame in self.frames:
            shapes = [
                element("rect", x=x, y=y, width=right - x, height=bottom - y, rx=14, class_="kernel")
                for x, y, right, bottom in frame.shapes
            ]
            is_regrouped = any(self.marks.get(slot) == "regrouped" for slot in frame.slots)
            drawn.append((element("g", *shapes), frame_title(frame, f"{SIGNS['regrouped']} " * is_regrouped)))
        return drawn

    def _node(self, slot: int) -> Markup:
        """Draw the node of a slot, or its ghost, centred in the slot."""
        node = self.state.shown.get(slot, self.state.ghosts.get(slot, -1))
        if node < 0:
            return Markup("")
        ghost = slot not in self.state.shown
        # A slot has the size of its largest node; this node is drawn at its own size, in the middle.
        index = self.model.slots.nodes[slot].index(node)
        texts = self.model.texts[self.model.slot_texts[slot][index]]
        second = (ghost and texts.ghost) or texts.second or texts.type
        wide, high = self.model.slot_sizes[slot][index]
        x, y, w, h = self.rects[slot]
        x, y = x + (w - wide) // 2, y + (h - high) // 2
        leaf = self.model.recording.nodes.kind[node] in ("leaf", "input", "constant")
        css_class = "ghost" if ghost else "leaf" if leaf else "operation"
        parts = [
            element("rect", x=x, y=y, width=wide, height=high, rx=high // 2 if leaf else 8),
            element("text", texts.name, x=x + wide // 2, y=y + high // 2 - 3, class_="name"),
            element("text", second, x=x + wide // 2, y=y + high // 2 + 11, class_="type"),
        ]
        if not ghost:
            parts += family_bar(family_of(self.model.recording, node), x, y, high)
        if slot in self.state.copies and not ghost:
            text = f"×{self.state.copies[slot]:,}"
            width = round(font.width(text, 10, True)) + 14
            parts.append(element("rect", x=x + wide - 14, y=y - 9, width=width, height=17, rx=8.5, class_="badge"))
            parts.append(element("text", text, x=x + wide - 14 + width / 2, y=y + 3, class_="copies"))
        if slot in self.state.outputs:
            parts += self._output_mark(x + wide, y + high)
            css_class += " output"
        if slot in self.marks:
            differs = self.marks[slot]
            css_class += f" {differs}"
            if differs != "regrouped" or slot not in self.fused:  # the title of a fused kernel shows it for its nodes
                parts += pill(
                    f"{SIGNS[differs]} {WORDS[differs]}", x - 6, y + high + _below(slot in self.state.outputs)
                )
        return element("g", *parts, class_=f"{css_class} member" if slot in self.fused else css_class)

    def _output_mark(self, right: int, bottom: int) -> list[Markup]:
        """Draw the mark of an output, at the lower right corner, below the type."""
        width = round(font.width("output", 9, True)) + 12
        x, y = right - width + 8, bottom - 3
        return [
            element("rect", x=x, y=y, width=width, height=14, rx=7, class_="mark"),
            element("text", "output", x=x + width / 2, y=y + 10, class_="asked"),
        ]


def family_bar(family: str, x: int, y: int, high: int) -> list[Markup]:
    """Draw the bar of a family of operations at the left side of a node or box."""
    if family not in FAMILIES:
        return []
    return [element("path", d=f"M{x + 4} {y + 10}v{high - 20}", class_=f"family {family}")]


def boxes_with_nodes(model: Model, position: int) -> set[int]:
    """Return the boxes that contain a recorded node, or a node produced before a position."""
    born = model.recording.nodes.born
    return _enclosing(model, [slot for slot, nodes in enumerate(model.slots.nodes) if born[nodes[0]] < position])


def boxes_of_removed_nodes(model: Model) -> set[int]:
    """Return the boxes with recorded nodes that are removed at the end and not replaced by a batch."""
    nodes, known = model.recording.nodes, batched(model.recording) | {-1}
    rows = enumerate(model.slots.nodes)
    return _enclosing(
        model, [slot for slot, row in rows if nodes.born[row[0]] < 0 and nodes.gone[row[-1]] not in known]
    )


def _enclosing(model: Model, slots: Iterable[int]) -> set[int]:
    """Return the boxes around some slots."""
    boxes_around = set[int]()
    for slot in slots:
        box = model.tree.box_of[slot]
        while box >= 0 and box not in boxes_around:
            boxes_around.add(box)
            box = model.tree.boxes[box].parent
    return boxes_around


def schedule_numbers(
    scene: Scene, state: State, frames: Sequence[Frame], rects: Mapping[int, Rect], closed: Mapping[int, list[int]]
) -> list[Markup]:
    """Draw the schedule position to the left of each kernel, and of each closed box with some slots inside."""
    framed = {slot for frame in frames for slot in frame.slots}
    shown, numbers = state.shown, state.numbers
    rows: list[tuple[int, int, int, int, int]] = [
        (frame.number, frame.number, left, top, bottom - top)
        for frame in frames
        if frame.number
        for left, top, _, bottom in frame.shapes[:1]
    ]
    for slot, node in shown.items():
        if slot in rects and slot not in framed and node in numbers:
            x, y, _, high = rects[slot]
            rows.append((numbers[node], numbers[node], x, y, high))
    for box, inside in closed.items():
        if ranks := [numbers[shown[slot]] for slot in inside if shown[slot] in numbers]:
            x, y, _, high = scene.boxes[box]
            rows.append((min(ranks), max(ranks), x, y, high))
    # In the middle, or above the edges that arrive from the left.
    return [
        element(
            "text",
            f"{first:,}" if first == last else f"{first:,}–{last:,}",
            x=x - NUMBER_BESIDES,
            y=y + (high // 2 + 4 if scene.direction == "down" else 1),
            class_="number",
        )
        for first, last, x, y, high in rows
    ]
