"""Layout of each box with its child boxes closed, so that layouts are small and equal boxes are laid out once.

Pictures and payloads request the boxes that they show; others are never laid out. Laying out the whole graph at once
would take more than linear time, and would have to be repeated for each box that is opened.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TypeAlias, overload

from explorer.record.fork_locks import renew_in_children
from explorer.record.view_choices import Direction
from explorer.view.base import font
from explorer.view.layout.direction import exchanged
from explorer.view.layout.edge_labels import edge_labels
from explorer.view.layout.layout_engine import (
    COMPACT,
    GAP,
    RANK_GAP,
    Layered,
    LayoutEngine,
    LayoutGraph,
    Order,
    Placed,
    Side,
    cost,
    trunk,
)
from explorer.view.layout.positions import BoxLayout
from explorer.view.layout.recorded_parts import RecordedParts, ends
from explorer.view.model.labels import TITLE as TITLE_SIZE
from explorer.view.model.picture_model import Model
from explorer.view.tree.slots import source

TITLE, PADDING = 26, 14
"""px above and around the items of an open box"""
GROUP_TITLE = 8
"""additional px above the items of an open box whose values flow to the right, for group titles"""
SIGN = 16
"""width in px of the icon to the left of the title of an open box"""
_BUDGET, _DENSE, _PARTS = 5000, 2000, 1500
"""limits for dot's cost (items plus levels spanned by edges) per recording, per box, and per recording for parts made
by cutting; beyond them, the plain layout is used. At the limit the worst measured box took 0.2 s; beyond it, minutes.
The limits count work instead of measuring time, so that every machine draws the same picture."""
_WHOLE, _AT_ONCE = 3000, 500
"""maximum number of items of a graph that is initially laid out completely, and of items of a larger graph laid out"""


SpecialEdge: TypeAlias = tuple[tuple[int, int], list[int], tuple[int, int], tuple[str, str]]
"""(from item, to item), route, ports at both ends, port names"""


def special_edges(model: Model, box: int, layout: BoxLayout) -> Iterator[SpecialEdge]:
    """Yield the edges of a box that have a route or port names."""
    none = ("", "")
    outside = {item for item, (_, _, wide, _) in enumerate(layout.rects) if not wide}
    for (tail, head, out, into), route in zip(model.ports.edges[box], layout.routes, strict=True):
        names = model.port_names.get((box, tail, head, out, into), none) if model.port_names else none
        if tail in outside or head in outside:
            continue
        if route or names != none:
            yield (tail, head), route, (out, into), names


def _best_engine() -> LayoutEngine:
    """Return the layout engine dot, or with a warning the plain one where WebAssembly does not run."""
    try:  # imported only here, because text and plans need no layout
        from explorer.view.layout.graphviz_engine import dot
    except (ImportError, OSError, RuntimeError) as error:  # not installed, not loadable, or not for this machine
        warnings.warn(f"pictures have a plainer layout, since dot cannot run: {error}", stacklevel=2)
        return Layered()
    return dot()


class Layouts(Sequence[BoxLayout]):
    """Layouts of a model's boxes, each computed on first access and then cached.

    With ``recorded``, only what the program recorded has space; other items have no size and other edges no route.
    The boxes of a layout for all steps that has the recorded layouts ``before`` it are mirrored where that agrees more
    with their order from left to right.
    """

    def __init__(
        self,
        model: Model,
        engine: LayoutEngine | None = None,
        direction: Direction = "down",
        recorded: RecordedParts | None = None,
        before: Layouts | None = None,
    ) -> None:
        self.direction = direction
        self._model, self._first, self._plain = model, engine or _best_engine(), Layered()
        self._passing = PassingEdges(model)
        self._recorded, self._before = recorded, before
        self._known: dict[LayoutGraph, Placed] = {}
        self._placed: dict[int, BoxLayout] = {}
        self._graphs: dict[int, LayoutGraph] = {}
        self._orders: dict[int, dict[int, Order]] = {}
        self._ranked = _by_importance(model)
        self._choosing = self._choices()
        self._simple: dict[int, bool] = {}
        # Browser messages may arrive on another thread.
        self._lock = threading.RLock()
        renew_in_children(self)

    def renew(self) -> None:
        """Recreate the state that another thread of the parent process may have been changing during a fork."""
        # A generator that another thread was executing cannot be resumed.
        self._choosing, self._simple = self._choices(), {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._model.tree.boxes)

    @overload
    def __getitem__(self, box: int) -> BoxLayout: ...

    @overload
    def __getitem__(self, box: slice) -> Sequence[BoxLayout]: ...

    def __getitem__(self, box: int | slice) -> BoxLayout | Sequence[BoxLayout]:
        if isinstance(box, slice):
            return [self[index] for index in range(*box.indices(len(self)))]
        with self._lock:
            number = outer = range(len(self))[box]
            path = []
            while outer >= 0 and outer not in self._placed:  # the ancestors of a placed box are also placed
                path.append(outer)
                outer = self._model.tree.boxes[outer].parent
            for outer in reversed(path):
                self._placed[outer] = self._place(outer)
            return self._placed[number]

    def opened(self) -> set[int]:
        """Return the boxes that are initially open, with their ancestors."""
        boxes = self._model.tree.boxes
        chosen: set[int] = set()
        for index, box in enumerate(boxes):
            outer = index if box.open else -1
            while outer >= 0 and outer not in chosen:
                chosen.add(outer)
                outer = boxes[outer].parent
        return chosen

    def at_once(self) -> set[int]:
        """Return the boxes that are initially laid out: all boxes, or the most important boxes of a large graph."""
        sizes = [len(box.items) for box in self._model.tree.boxes]
        if sum(sizes) <= _WHOLE:
            return set(range(len(sizes)))
        spent = accumulate(sizes[box] for box in self._ranked)
        return {
            box
            for box, items in zip(self._ranked, spent, strict=True)
            if items <= _AT_ONCE or self._model.tree.boxes[box].open
        }

    def next_to_open(self) -> list[int]:
        """Return the closed boxes nearest the top, from the top down, up to the initial layout's item limit."""
        boxes, opened = self._model.tree.boxes, self.opened()
        closed = sorted(
            (rank, index)
            for outer in opened
            for (table, index), rank in zip(boxes[outer].items, self[outer].ranks, strict=True)
            if table == "box" and index not in opened
        )
        spent = accumulate(len(boxes[index].items) for _, index in closed)
        return [index for (_, index), items in zip(closed, spent, strict=True) if items <= _AT_ONCE]

    def _place(self, box: int) -> BoxLayout:
        part = self._recorded.of(box) if self._recorded else None
        order = self._order(box)
        graph = replace(self._graph(box), order=part.order(order) if part else order)
        if graph not in self._known:
            while box not in self._simple:
                next(self._choosing)
            engine = self._plain if self._simple[box] else self._first
            self._known[graph] = engine.place(graph)
        placed = self._known[graph]
        # Mirrored ports would cross the edges outside the box.
        is_outermost = box in self._model.tree.bodies
        if self._before and placed.has_rows and (is_outermost or all(side == ((0,),) for side in graph.order)):
            placed = _in_order(placed, self._before[box])
        layout = _frame(graph, placed, is_outermost, self.direction)
        routes = layout.routes
        edges = self._model.ports.edges[box]
        if part:
            layout = part.expanded(layout, graph, self._model, box)
            routes = layout.routes
        elif len(graph.edges) < len(edges):
            # Edges between the same items share a route; edges that pass through items have none.
            known = dict(zip(graph.edges, routes, strict=True))
            routes = [known.get(ends(edge), []) for edge in edges]
        top = 0 if box in self._model.tree.bodies else TITLE
        wide, high = exchanged(layout.size, self.direction)
        labels = edge_labels(self._model, box, self.direction, layout.rects, routes, (2, top, wide - 2, high))
        return replace(layout, routes=routes, labels=labels)

    def _order(self, box: int) -> Order:
        """Return the port order of a box whose parent is placed."""
        counts, parent = self._model.ports.counts[box], self._model.tree.boxes[box].parent
        if parent < 0 or counts == (1, 1):
            return _one_by_one(counts[0]), _one_by_one(counts[1])
        if parent not in self._orders:
            self._orders[parent] = _orders(self._model, parent, self._placed[parent])
        return self._orders[parent][box]

    def _graph(self, box: int) -> LayoutGraph:
        if box not in self._graphs:
            part = self._recorded.of(box) if self._recorded else None
            passing = () if part else self._passing.of(box)
            whole = _graph(self._model, box, passing, self.direction, part is not None)
            self._graphs[box] = part.graph(whole) if part else whole
        return self._graphs[box]

    def _choices(self) -> Iterator[None]:
        """Determine for each box whether dot is too slow; important boxes come first, and equal boxes count once."""
        simple: dict[LayoutGraph, bool] = {}
        spent = 0
        for box in self._ranked:
            graph = self._graph(box)
            if graph not in simple and spent + len(graph.sizes) + len(graph.edges) > _BUDGET:
                simple[graph] = True  # its minimum cost
            if graph not in simple:
                price = cost(graph)
                path = self._model.tree.boxes[box].kind == "chain" and len(graph.edges) <= len(graph.sizes) + 1
                simple[graph] = path or price > _DENSE or spent + price > _BUDGET
                spent += 0 if simple[graph] else price
            self._simple[box] = simple[graph]
            yield


def _orders(model: Model, parent: int, layout: BoxLayout) -> dict[int, Order]:
    """Order the ports of boxes inside a box by the x of their edges' other ends, so that edges do not cross.

    Boxes with one port on each side are omitted.
    """
    arriving: dict[int, tuple[list[_Ends], list[_Ends]]] = {}
    """item → other ends of the edges at each top port, and at each bottom port"""
    boxes: dict[int, int] = {}
    for item, (table, index) in enumerate(model.tree.boxes[parent].items):
        if table == "box" and (counts := model.ports.counts[index]) != (1, 1):
            boxes[item] = index
            arriving[item] = [[] for _ in range(counts[0])], [[] for _ in range(counts[1])]
    rows = zip(model.ports.edges[parent], layout.routes, strict=True)
    for (tail, head, out, into), route in rows if arriving else ():
        if head in arriving:
            arriving[head][0][into].append((route[-8] if route else layout.x(tail, 0, out), tail))
        if tail in arriving:
            arriving[tail][1][out].append((route[6] if route else layout.x(head, 1, into), head))
    return {boxes[item]: (_by_mean(tops), _by_mean(bottoms)) for item, (tops, bottoms) in arriving.items()}


_Ends: TypeAlias = list[tuple[int, int]]
"""(x, item) of the other ends of edges at a port"""


def _one_by_one(count: int) -> Side:
    return tuple((port,) for port in range(count))


def _by_mean(ports: list[_Ends]) -> Side:
    """Group ports whose edges have the same other ends, at which these edges do not cross, and sort the groups."""
    groups: dict[tuple[float, frozenset[int]], list[int]] = {}
    for port, others in enumerate(ports):
        mean = sum(x for x, _ in others) / max(1, len(others))
        groups.setdefault((mean, frozenset(item for _, item in others)), []).append(port)
    return tuple(tuple(groups[key]) for key in sorted(groups, key=lambda key: (key[0], groups[key])))


def _by_importance(model: Model) -> list[int]:
    """Order the boxes: open boxes first, then from the outermost to the innermost."""
    order = model.tree.postorder()[::-1]
    depth: dict[int, int] = {-1: -1}
    for box in order:
        depth[box] = depth[model.tree.boxes[box].parent] + 1
    return sorted(order, key=lambda box: (not model.tree.boxes[box].open, depth[box], box))


def _graph(
    model: Model, box: int, passing: Collection[tuple[int, int]], direction: Direction, is_recorded: bool
) -> LayoutGraph:
    items = model.tree.boxes[box].items
    sizes = [
        model.box_sizes[index]
        if table == "box"
        else model.slot_sizes[index][0]
        if is_recorded
        else model.extents[index]
        for table, index in items
    ]
    return LayoutGraph(
        tuple((wide, high) if direction == "down" else (high, wide) for wide, high in sizes),
        frozenset(item for item, (table, _) in enumerate(items) if table == "box"),
        tuple(dict.fromkeys(ends(edge) for edge in model.ports.edges[box] if edge[:2] not in passing)),
        tuple(map(tuple, model.groups[box])),
        growing=frozenset(
            item
            for item, (table, index) in enumerate(items)
            if table == "box" and not model.tree.boxes[index].is_operator
        ),
        title=_title(model, box),
        gaps=_gaps(direction) if is_recorded or model.first_change < 0 else (GAP, RANK_GAP),
    )


def _gaps(direction: Direction) -> tuple[int, int]:
    """Return the gaps of a graph that no pass has changed, so that it has no numbers and no titles of groups."""
    return COMPACT, COMPACT if direction == "down" else RANK_GAP


def _title(model: Model, box: int) -> int:
    """Return the width in px of the title of an open box; the title of a batch includes its gain."""
    if box in model.tree.bodies:
        return 0
    name, *_, last = model.box_texts[box]
    title = f"{name} · {last}" if model.tree.boxes[box].batches else name
    return round(font.width(title, TITLE_SIZE, True)) + SIGN


def _in_order(placed: Placed, before: BoxLayout) -> Placed:
    """Return a layout, or its mirror image if whose rows agree more with the order of an earlier layout.

    Otherwise, items would change sides at the first step that changes the graph.
    """
    rows: dict[int, list[tuple[int, int]]] = {}
    for (x, y), (left, _, wide, _) in zip(placed.centres, before.rects, strict=True):
        if wide:
            rows.setdefault(y, []).append((x, 2 * left + wide))
    agreement = 0  # the sum of the rows' rank correlations, up to factors
    for row in rows.values():
        earlier = {middle: rank for rank, middle in enumerate(sorted(middle for _, middle in row))}
        agreement += sum((2 * rank - len(row) + 1) * earlier[middle] for rank, (_, middle) in enumerate(sorted(row)))
    return placed.mirrored() if agreement < 0 else placed


def _frame(graph: LayoutGraph, placed: Placed, outermost: bool, direction: Direction) -> BoxLayout:
    """Move the engine's result into the frame of the open box, with padding around it and the title above."""
    (wide, high), strip = placed.size, 0 if outermost else TITLE
    if direction == "down":
        dx, dy = PADDING + max(0, graph.title - wide) // 2, PADDING + strip
        size = (wide + 2 * dx, high + PADDING + dy)
    else:
        # The engine reserves space for group titles to the left of the groups.
        dx = PADDING + strip + GROUP_TITLE * (not outermost)
        dy = PADDING + max(0, graph.title - high) // 2
        size = (wide + PADDING + dx, high + 2 * dy)
    rects = [
        [x - wide // 2 + dx, y - high // 2 + dy, wide, high]
        for (x, y), (wide, high) in zip(placed.centres, graph.sizes, strict=True)
    ]
    routes = []
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True):
        if not route:
            routes.append(route)
            continue
        points = [value + (dy if index % 2 else dx) for index, value in enumerate(route)]
        if tail < 0:
            points[1] = 0
        if head < 0:
            points[-1] = size[1]
        routes.append(points)
    rows = {y: rank for rank, y in enumerate(sorted({y for _, y in placed.centres}))}
    top, bottom = (tuple(x + dx for x in side) for side in placed.ports)
    return BoxLayout(size, (top, bottom), rects, [rows[y] for _, y in placed.centres], routes)


_Span: TypeAlias = tuple[int, float]
"""interval of positions: after the first number, up to and including the second"""
_ALWAYS = float("inf")


class PassingEdges:
    """Search for edges of a model's boxes that pass through items."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def _replaced(self) -> dict[int, tuple[int, int]]:
        return {old: (decision, new) for decision, old, new in self._model.recording.substitutions}

    def of(self, box: int) -> set[tuple[int, int]]:
        """Return the edges of a box parallel to a trunk whose inner items never exist at the same time as the edge."""
        edges = self._model.edges[box]
        straight = trunk(len(self._model.tree.boxes[box].items), edges)
        next_item = dict(straight)
        readers = Counter(tail for tail, _ in edges)
        passing = set()
        for tail, head in edges:
            if tail not in next_item or tail < 0 or head < 0 or (tail, head) in straight:
                continue
            path = [tail, next_item[tail]]
            # An item has one producer in a trunk, so the path ends, at the latest where it began.
            while path[-1] not in (head, tail) and readers[path[-1]] == 1 and path[-1] in next_item:
                path.append(next_item[path[-1]])
            if path[-1] == head and not self._coexist(box, path):
                passing.add((tail, head))
        return passing

    def _coexist(self, box: int, path: list[int]) -> bool:
        """Return whether an inner item of a path exists while an edge connects its ends; True if unknown."""
        inside = [self._slots(box, item) for item in path]
        if not all(inside):
            return True
        joined = list(self._edge_spans(inside[0], inside[-1]))
        return any(
            max(after, begin) < min(until, end)
            for slots, readers in pairwise(inside[1:])
            for begin, end in self._used(slots, readers)
            for after, until in joined
        )

    def _used(self, slots: list[int], readers: list[int]) -> Iterator[_Span]:
        """Yield the intervals in which the nodes of some slots exist; removed nodes exist while they are read."""
        last = max((until for _, until in self._edge_spans(slots, readers)), default=-1)
        nodes = self._model.recording.nodes
        for node in [node for slot in slots for node in self._model.slots.nodes[slot]]:
            begin, end = self._span(node)
            yield begin, end if nodes.gone[node] < 0 else min(end, last)

    def _slots(self, box: int, item: int) -> list[int]:
        """Return the slots in an item; empty for the border, and for a box that contains boxes."""
        if item < 0:
            return []
        table, index = self._model.tree.boxes[box].items[item]
        if table == "slot":
            return [index]
        inside = self._model.tree.boxes[index].items
        return [number for table, number in inside] if all(table == "slot" for table, _ in inside) else []

    def _edge_spans(self, producers: Collection[int], consumers: list[int]) -> Iterator[_Span]:
        """Yield the intervals in which nodes in ``consumers`` read nodes in ``producers``."""
        slots, recording = self._model.slots, self._model.recording
        for node in [node for slot in consumers for node in slots.nodes[slot]]:
            after, until = self._span(node)
            for operand in recording.nodes.operands[node]:
                begin, read = float(after), operand
                # An operand may be replaced several times while its reader exists, so each interval between two
                # replacements is checked separately.
                while begin < until:
                    decision, successor = self._replaced.get(read, (_ALWAYS, read))
                    if slots.of[source(recording, read)] in producers:
                        yield int(begin), min(until, decision)
                    begin, read = max(begin, decision), successor

    def _span(self, node: int) -> _Span:
        nodes = self._model.recording.nodes
        return nodes.born[node], _ALWAYS if nodes.gone[node] < 0 else nodes.gone[node]
