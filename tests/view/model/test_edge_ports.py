"""Edges of values that have nothing to do with each other cross a box's border apart."""

import pytest

from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.compose import compose
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.layered import Layered
from explorer.view.layout.layout_graph import LayoutGraph
from explorer.view.model.model import build_model
from tests.view import sample


def story(reads: list[list[int]]):
    """Leaves outside a box, and in it a node for each list of leaves that it reads, all of them added up outside."""
    make = sample.Builder("ports", "90a7")
    kind = make.type(4, 4)
    block = make.scope("block", "layer")
    leaves = [make.leaf(f"x{number}", kind) for number in range(1 + max(map(max, reads)))]
    inside = [make.node("add", *(leaves[leaf] for leaf in row), type=kind, scope=block) for row in reads]
    total = make.node("sum", *inside, type=kind)
    make.stage("recorded", "record", nodes=len(leaves) + len(inside) + 1)
    return make.roots(total)


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(
    ("reads", "top"),
    [
        ([[0], [1]], 2),
        ([[0], [0]], 1),
        ([[0, 1], [1]], 1),
        ([[0, 1], [2], [3, 4]], 3),
        ([[0], [1], [2], [3], [4]], 1),
    ],
)
def test_independent_inputs_have_ports_of_their_own(reads, top):
    """A box has a port for each set of inputs that meet inside it, up to four; more than four share one."""
    model = build_model(story(reads))
    (block,) = [index for index, box in enumerate(model.tree.boxes) if box.label == "block"]
    layouts = Layouts(model)
    assert len(layouts[block].ports[0]) == top
    assert len(set(layouts[block].ports[0])) == top
    assert len(layouts[block].ports[1]) == 1


@pytest.mark.spec("V-7")
def test_an_edge_goes_on_inside_where_it_came_in():
    """What arrives at an open box from outside ends at the point where its continuation inside begins."""
    model = build_model(story([[0], [1]]))
    (block,) = [index for index, box in enumerate(model.tree.boxes) if box.label == "block"]
    scene = compose(model, Layouts(model), {0, block})
    place = {item: number for number, item in enumerate(model.tree.boxes[0].items)}
    arriving = {tuple(s.points[-2:]) for s in scene.segments if s.box == 0 and s.end == place["box", block]}
    starting = {tuple(s.points[:2]) for s in scene.segments if s.box == block and s.start < 0}
    assert arriving == starting
    assert len(arriving) == 2


@pytest.mark.parametrize("engine", [dot(), Layered()], ids=["dot", "layered"])
@pytest.mark.parametrize("order", [((0, 1, 2), (0, 1)), ((2, 0, 1), (1, 0))])
def test_engines_place_every_port(engine, order):
    """Both engines put the ports from the left to the right as they were told, and start their edges there."""
    graph = LayoutGraph(
        ((100, 40), (80, 34), (90, 40)), frozenset(), ((-2, 0), (-1, 1), (-3, 2), (0, -1), (2, -2)), (), order
    )
    placed = engine.place(graph)
    for side, wanted in zip(placed.ports, order, strict=True):
        assert sorted(range(len(side)), key=side.__getitem__) == list(wanted)
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True) if any(placed.routes) else ():
        assert tail >= 0 or abs(route[0] - placed.ports[0][-1 - tail]) <= 1
        assert head >= 0 or abs(route[-2] - placed.ports[1][-1 - head]) <= 1


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("swapped", [False, True])
def test_ports_stand_in_the_order_in_which_edges_come(swapped):
    """A box is laid out so that the edge that comes from the left comes in on the left."""
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
        for (_, head), route, (_, into) in zip(model.edges[0], layouts[0].routes, model.ports.ends[0], strict=True)
        if head == item
    )
    assert len(arriving) == 2
    assert arriving[0][1] < arriving[1][1]
