import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from explorer import relu, train
from explorer.view.layout.box_layout import Layouts
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
