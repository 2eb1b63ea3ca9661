import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer import relu, train
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.graphviz_engine import finished
from explorer.view.layout.layout_engine import LayoutGraph
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model


def training_step():
    """Return a training step with boxes with many ports, which long edges to the updates pass."""
    module = train.Module("digits", loss=train.CrossEntropy(), optimizer=train.Adam(rate=0.003))
    for layer in (train.Linear("hidden", 64, 128), relu, train.Linear("scores", 128, 10)):
        module.add_node(layer)
    module.attach(seed=0)
    return module.plan(np.zeros((64, 64), np.float32), np.arange(64) % 10).recording


MODEL = build_model(training_step())
LAYOUTS = Layouts(MODEL)
SLANTED = [100, 20, 100, 30, 500, 150, 500, 160]
"""route of an edge between two nodes, which dot draws as a nearly straight line"""


def route_past(*items):
    """Return the route of an edge between two nodes, past items (x, y, width, height)."""
    sizes = ((40, 40), (40, 40), *((wide, high) for _, _, wide, high in items))
    graph = LayoutGraph(sizes, frozenset(), ((0, 1),))
    centres = [(100, 0), (500, 180), *((x, y) for x, y, _, _ in items)]
    return finished(graph, centres, [list(SLANTED)])[0]


def test_a_wide_curve_leaves_and_arrives_along_the_flow():
    assert route_past() == [100, 20, 100, 90, 500, 90, 500, 160]


def test_a_curve_keeps_its_route_between_items():
    assert route_past((180, 100, 40, 40)) == route_past()
    assert route_past((200, 60, 40, 40)) == SLANTED


def leaving_route_past(*items):
    """Return the route from a node to a port at the bottom of its box, past items (x, y, width, height)."""
    sizes = ((110, 34), *((wide, high) for _, _, wide, high in items))
    graph = LayoutGraph(sizes, frozenset(), ((0, -1),))
    centres = [(439, 643), *((x, y) for x, y, _, _ in items)]
    return finished(graph, centres, [[439, 661, 439, 755, 165, 755, 165, 755]])[0]


def test_a_curve_leaves_its_box_vertically_if_no_item_is_in_the_way():
    assert leaving_route_past() == [439, 661, 439, 755, 165, 731, 165, 755]
    assert leaving_route_past((164, 600, 220, 40)) == leaving_route_past()
    assert leaving_route_past((164, 725, 220, 40)) == [439, 661, 439, 755, 165, 755, 165, 755]


@given(st.sets(st.sampled_from(range(len(MODEL.tree.boxes)))))
def test_vertical_parts_of_routes_stay_vertical_whichever_boxes_are_open(chosen):
    passed = 0
    for segment in compose(MODEL, LAYOUTS, {0, *chosen}).segments:
        edges = MODEL.edges[segment.box]
        route = LAYOUTS[segment.box].routes[edges.index((segment.start, segment.end))]
        if len(route) != len(segment.points):
            continue
        for joint in range(6, len(route) - 2, 6):
            if route[joint - 2] == route[joint] == route[joint + 2]:
                passed += 1
                before, at, after = segment.points[joint - 2 : joint + 4 : 2]
                assert abs(before - at) <= 1
                assert abs(after - at) <= 1
    assert passed
