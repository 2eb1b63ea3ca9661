"""Ports of boxes: edges of unrelated values cross a border at different points."""

from collections import Counter
from itertools import pairwise

import pytest

from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.layout_engine import Layered, LayoutGraph
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model
from explorer.view.tree.box_tree import Paths
from tests.support.scenes import check
from tests.view import sample


def reading_box(reads: list[list[int]], folded: bool = True):
    """Return a box with a node for each list of leaves that it reads, and the sum of all nodes outside."""
    make = sample.Builder("ports", "90a7")
    kind = make.type(4, 4)
    block = make.scope("block", "layer")
    # Very many leaves of one type are drawn as one stack.
    sizes = [4 if folded else 4 + number for number in range(1 + max(map(max, reads)))]
    leaves = [make.leaf(f"x{number}", make.type(4, size)) for number, size in enumerate(sizes)]
    inside = [make.node("add", *(leaves[leaf] for leaf in row), type=kind, scope=block) for row in reads]
    total = make.node("sum", *inside, type=kind)
    make.stage("recorded", "record", nodes=len(leaves) + len(inside) + 1)
    return make.roots(total)


MANY = range(14)


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(
    ("reads", "folded", "top", "bottom"),
    [
        ([[0], [0]], True, 1, 2),
        ([[0, 1], [0, 2], [0, 3]], True, 4, 3),
        ([[0, 1], [2], [3, 4]], True, 5, 3),
        ([[*MANY], [0]], True, 1, 2),
        ([[*MANY], [15]], False, 2, 2),
        ([*([number, number + 1] for number in range(12)), [13, 14]], False, 2, 1),
        ([[number] for number in MANY], False, 1, 1),
    ],
    ids=["one", "products of one", "apart", "one stack", "many read alike", "two connected sets", "many apart"],
)
def test_each_value_has_its_own_port(reads, folded, top, bottom):
    """Values cross a border side by side; many values share ports if they are in one stack, read alike or connected."""
    model = build_model(reading_box(reads, folded))
    (block,) = [index for index, box in enumerate(model.tree.boxes) if box.label == "block"]
    layouts = Layouts(model)
    for ports, count in zip(layouts[block].ports, (top, bottom), strict=True):
        assert len(set(ports)) == len(ports) == count


@pytest.mark.spec("V-7")
def test_an_operation_has_an_edge_for_each_value_that_it_reads_from_outside():
    """Two edges arrive at each of three products of one input with a weight; the edges of the input have one port."""
    model = build_model(reading_box([[0, 1], [0, 2], [0, 3]]))
    (block,) = [index for index, box in enumerate(model.tree.boxes) if box.label == "block"]
    scene = compose(model, Layouts(model), {0, block})
    arriving = [segment for segment in scene.segments if segment.box == block and segment.start < 0]
    assert len(arriving) == 6
    assert sorted(Counter(segment.points[0] for segment in arriving).values()) == [1, 1, 1, 3]
    assert set(Counter(segment.end for segment in arriving).values()) == {2}


@pytest.mark.spec("V-7")
def test_values_stay_separate_through_nested_boxes():
    """Edges of two values are side by side in every box on the way to an operation two boxes deep."""
    make = sample.Builder("ports", "90a9")
    kind = make.type(4, 4)
    first, outer = make.scope("first"), make.scope("outer")
    inner = make.scope("inner", parent=outer)
    x = make.leaf("x", kind)
    one, two = (make.node(name, x, type=kind, scope=first) for name in ("tanh", "exp"))
    total = make.node("add", one, two, type=kind, scope=inner)
    total = make.node("neg", total, type=kind, scope=inner)
    total = make.node("relu", total, type=kind, scope=outer)
    make.stage("recorded", "record", nodes=6)
    model = build_model(make.roots(total))
    check(model)
    scene = compose(model, Layouts(model), range(len(model.tree.boxes)))
    drawn = {segment.key: segment for segment in scene.segments}
    paths = Paths(model.tree, model.ports.number)
    ways = [[drawn[key] for key in paths.segments(model.slots.of[start], model.slots.of[3])] for start in (one, two)]
    for way in ways:
        assert len(way) == 4
        # In the order of the walk, which goes up from the deeper end.
        entering_inner, leaving, entering_outer, between = way
        for before, after in pairwise([leaving, between, entering_outer, entering_inner]):
            assert before.points[-2:] == after.points[:2]
    assert not {segment.key for segment in ways[0]} & {segment.key for segment in ways[1]}


@pytest.mark.spec("V-7")
def test_an_edge_continues_inside_at_its_port():
    """An edge that arrives at an open box ends at the point where its continuation inside begins."""
    model = build_model(reading_box([[0], [1]]))
    (block,) = [index for index, box in enumerate(model.tree.boxes) if box.label == "block"]
    scene = compose(model, Layouts(model), {0, block})
    item_of = {item: number for number, item in enumerate(model.tree.boxes[0].items)}
    arriving = {tuple(s.points[-2:]) for s in scene.segments if s.box == 0 and s.end == item_of["box", block]}
    starting = {tuple(s.points[:2]) for s in scene.segments if s.box == block and s.start < 0}
    assert arriving == starting
    assert len(arriving) == 2


@pytest.mark.parametrize("engine", [dot(), Layered()], ids=["dot", "layered"])
@pytest.mark.parametrize("order", [(((0,), (1,), (2,)), ((0,), (1,))), (((2,), (0,), (1,)), ((1,), (0,)))])
def test_engines_place_every_port(engine, order):
    """Both engines place the ports in the given order from left to right, and start their edges there."""
    graph = LayoutGraph(
        ((100, 40), (80, 34), (90, 40)), frozenset(), ((-2, 0), (-1, 1), (-3, 2), (0, -1), (2, -2)), (), order
    )
    placed = engine.place(graph)
    for side, wanted in zip(placed.ports, order, strict=True):
        assert [(port,) for port in sorted(range(len(side)), key=side.__getitem__)] == list(wanted)
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True) if any(placed.routes) else ():
        assert tail >= 0 or abs(route[0] - placed.ports[0][-1 - tail]) <= 1
        assert head >= 0 or abs(route[-2] - placed.ports[1][-1 - head]) <= 1


@pytest.mark.spec("V-7")
def test_edges_to_one_item_outside_do_not_cross_inside():
    """Ports whose edges have the same item outside have the order of the items inside."""
    make = sample.Builder("ports", "90a9")
    kind = make.type(4, 4)
    block, reader = make.scope("block", "layer"), make.scope("reader", "layer")
    x = make.leaf("x", kind)
    first = make.node("exp", x, type=kind, scope=block)
    second = make.node("tanh", x, type=kind, scope=block)
    inside = [make.node("relu", node, type=kind, scope=block) for node in (first, second, first)]
    read = make.node("add", inside[0], inside[1], type=kind, scope=reader)
    last = make.node("add", make.node("neg", read, type=kind, scope=reader), inside[2], type=kind, scope=reader)
    make.stage("recorded", "record", nodes=8)
    model = build_model(make.roots(last))
    index = next(index for index, box in enumerate(model.tree.boxes) if box.label == "block")
    layout = Layouts(model)[index]
    ends = {tail: layout.ports[1][into] for tail, head, _, into in model.ports.edges[index] if head < 0}
    assert len(ends) == model.ports.counts[index][1] == 3
    assert sorted(ends, key=ends.__getitem__) == sorted(ends, key=lambda item: layout.rects[item][0])


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("swapped", [False, True])
def test_ports_are_in_the_order_of_arriving_edges(swapped):
    """An edge that arrives from the left enters a box on the left."""
    make = sample.Builder("ports", "90a8")
    kind = make.type(4, 4)
    block = make.scope("block", "layer")
    x = make.leaf("x", kind)
    far, near = make.node("exp", make.node("exp", x, type=kind), type=kind), make.node("tanh", x, type=kind)
    one, two = (near, far) if swapped else (far, near)
    first = make.node("relu", one, type=kind, scope=block)
    last = make.node("add", make.node("neg", first, type=kind, scope=block), two, type=kind, scope=block)
    make.stage("recorded", "record", nodes=7)
    model = build_model(make.roots(last))
    index = next(index for index, box in enumerate(model.tree.boxes) if box.label == "block")
    item = model.tree.boxes[0].items.index(("box", index))
    layouts = Layouts(model)
    arriving = sorted(
        (route[-8], layouts[index].ports[0][into])
        for (_, head, _, into), route in zip(model.ports.edges[0], layouts[0].routes, strict=True)
        if head == item
    )
    assert len(arriving) == 2
    assert arriving[0][1] < arriving[1][1]
