import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model
from tests.support.cells import MODELS
from tests.view import sample

MODEL = build_model(sample.transformer(4))
LAYOUTS = Layouts(MODEL)


def is_inside(rect, around):
    return (
        rect[0] >= around[0] - 1
        and rect[1] >= around[1] - 1
        and rect[0] + rect[2] <= around[0] + around[2] + 1
        and rect[1] + rect[3] <= around[1] + around[3] + 1
    )


def are_apart(one, other):
    return (
        one[0] + one[2] <= other[0] + 1
        or other[0] + other[2] <= one[0] + 1
        or one[1] + one[3] <= other[1] + 1
        or other[1] + other[3] <= one[1] + 1
    )


def rect(scene, item):
    return scene.slots[item.number] if item.table == "slot" else scene.boxes[item.number]


def test_with_all_boxes_closed_the_scene_is_the_layout():
    scene = compose(MODEL, LAYOUTS, {0})
    assert scene.size == LAYOUTS[0].size
    for item, place in zip(MODEL.tree.boxes[0].items, LAYOUTS[0].rects, strict=True):
        assert rect(scene, item) == tuple(place)
    assert [segment.points for segment in scene.segments] == LAYOUTS[0].routes


@pytest.mark.spec("V-7")
@given(st.sets(st.sampled_from(range(len(MODEL.tree.boxes)))))
def test_items_never_overlap_whichever_boxes_are_open(chosen):
    scene = compose(MODEL, LAYOUTS, chosen)
    for box in [box for box in scene.boxes if box == 0 or box in chosen]:
        rects = [rect(scene, item) for item in MODEL.tree.boxes[box].items]
        assert all(is_inside(place, scene.boxes[box]) for place in rects)
        assert all(are_apart(*pair) for pair in itertools.combinations(rects, 2))


@pytest.mark.spec("V-7")
@given(st.sets(st.sampled_from(range(1, len(MODEL.tree.boxes)))))
def test_opening_keeps_the_order_of_everything(chosen):
    closed, opened = compose(MODEL, LAYOUTS, {0}), compose(MODEL, LAYOUTS, {0, *chosen})
    items = MODEL.tree.boxes[0].items
    for one, other in itertools.permutations(items, 2):
        if rect(closed, one)[1] + rect(closed, one)[3] <= rect(closed, other)[1]:
            assert rect(opened, one)[1] + rect(opened, one)[3] <= rect(opened, other)[1] + 1


def test_edges_end_at_the_borders_of_their_items():
    everything = set(range(len(MODEL.tree.boxes)))
    scene = compose(MODEL, LAYOUTS, everything)
    assert len(scene.slots) == len(MODEL.slots.nodes)
    for segment in scene.segments:
        x, y = segment.points[:2]
        items = MODEL.tree.boxes[segment.box].items
        left, top, wide, high = scene.boxes[segment.box] if segment.start < 0 else rect(scene, items[segment.start])
        assert left - 1 <= x <= left + wide + 1
        assert abs(y - (top if segment.start < 0 else top + high)) <= 2
    assert not any(segment.arrow for segment in scene.segments if segment.end < 0)


def test_an_edge_continues_inside_at_the_point_of_entry():
    scene = compose(MODEL, LAYOUTS, set(range(len(MODEL.tree.boxes))))
    entering = {
        (MODEL.tree.boxes[s.box].items[s.end].number): tuple(s.points[-2:])
        for s in scene.segments
        if s.end >= 0 and MODEL.tree.boxes[s.box].items[s.end].table == "box"
    }
    inner = [s for s in scene.segments if s.start < 0 and s.box in entering]
    assert inner
    for segment in inner:
        assert abs(segment.points[0] - entering[segment.box][0]) <= 1
        assert abs(segment.points[1] - entering[segment.box][1]) <= 1


def joint_cosines(points):
    """Yield the cosines of the angles between an edge's curves, if both handles have a visible length."""
    for joint in range(6, len(points) - 2, 6):
        x, y = points[joint : joint + 2]
        before = x - points[joint - 2], y - points[joint - 1]
        after = points[joint + 2] - x, points[joint + 3] - y
        lengths = math.hypot(*before) * math.hypot(*after)
        if math.hypot(*before) > 4 and math.hypot(*after) > 4:
            yield (before[0] * after[0] + before[1] * after[1]) / lengths


@pytest.fixture(scope="module")
def encoder():
    model = build_model(ex.open(MODELS / "encoder.pnnx.param").preview_plan().recording)
    return model, Layouts(model)


@pytest.mark.spec("V-7")
def test_edges_have_no_kinks_at_open_boxes(encoder):
    """Two curves of an edge meet smoothly, however the axes are stretched between them."""
    model, layouts = encoder
    open_boxes = {index for index, box in enumerate(model.tree.boxes) if box.open}
    met = [turn for segment in compose(model, layouts, open_boxes).segments for turn in joint_cosines(segment.points)]
    assert len(met) > 20
    assert min(met) > 0.9


@pytest.mark.spec("V-7")
def test_an_edge_does_not_swing_back_behind_an_open_box(encoder):
    """An edge that leaves an open box at its side continues from there, without returning to the middle of the box."""
    model, layouts = encoder
    open_boxes = {index for index, box in enumerate(model.tree.boxes) if box.open}
    scene = compose(model, layouts, open_boxes)
    leaving = [
        segment.points
        for segment in scene.segments
        if segment.start >= 0
        and model.tree.boxes[segment.box].items[segment.start].table == "box"
        and model.tree.boxes[segment.box].items[segment.start].number in open_boxes
        and len(segment.points) > 8
    ]
    assert leaving
    for points in leaving:
        assert min(points[0], points[12]) - 1 <= points[6] <= max(points[0], points[12]) + 1
