import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.errors import UnknownNameError
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.direction import exchanged
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model
from explorer.view.payload.view_payload import layout_json, payload, turned
from explorer.view.picture.svg import svg
from tests.support.unpacked import unpack
from tests.view import sample

MODEL = build_model(sample.transformer(3))
LAYOUTS = Layouts(MODEL, direction="right")


@pytest.mark.spec("V-7")
@given(st.sets(st.sampled_from(range(len(MODEL.tree.boxes)))))
def test_items_are_to_the_right_of_their_operands_without_overlap(chosen):
    scene = compose(MODEL, LAYOUTS, {0, *chosen})
    for box in [box for box in scene.boxes if box == 0 or box in chosen]:
        rects = [
            scene.slots[item.number] if item.table == "slot" else scene.boxes[item.number]
            for item in MODEL.tree.boxes[box].items
        ]
        for (x, y, wide, high), (left, top, wide2, high2) in itertools.combinations(rects, 2):
            assert x + wide <= left + 1 or left + wide2 <= x + 1 or y + high <= top + 1 or top + high2 <= y + 1
        around = scene.boxes[box]
        assert all(around[1] + (0 if box == 0 else 26) <= y for _, y, _, _ in rects)  # below the title
        for tail, head in MODEL.edges[box]:
            if min(tail, head) >= 0:
                assert rects[tail][0] + rects[tail][2] <= rects[head][0] + 1


def test_nodes_keep_their_sizes_in_both_directions():
    down, right = (compose(MODEL, Layouts(MODEL, direction=way), {0}) for way in ("down", "right"))
    assert {slot: rect[2:] for slot, rect in down.slots.items()} == {slot: r[2:] for slot, r in right.slots.items()}
    assert right.size[0] > right.size[1]


@given(st.lists(st.tuples(st.integers(), st.integers())))
def test_exchanging_twice_changes_nothing(points):
    values = [value for point in points for value in point]
    assert exchanged(exchanged(values, "right"), "right") == exchanged(values, "down") == values


def test_a_page_contains_the_other_direction():
    recording = sample.mlp()
    placed, other = (payload(recording)["layout"], layout_json(recording))
    assert placed["direction"] == other["direction"] == "down"
    from explorer.view.layout.placed_model import draw

    down = draw(recording)
    there = unpack(turned(down.turned("right")))
    back = [{key: box[key] for key in there[0]} for box in layout_json(recording, down)["boxes"]]
    assert there == back


@pytest.mark.spec("V-9")
def test_the_direction_of_a_view_is_a_trait():
    view = ex.explore(ex.tanh(ex.tensor([1.0]) @ ex.tensor([[2.0]])), direction="right")
    assert view.payload["layout"]["direction"] == "right"
    view.direction = "down"
    assert view.payload["layout"]["direction"] == "down"
    view.direction = "right"
    assert view._repr_mimebundle_()[0]["image/svg+xml"] == svg(view.recording, direction="right")


def test_an_unknown_direction_is_rejected_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="down"):
        ex.explore(ex.tensor([1.0]), direction="left")
    with pytest.raises(ValueError, match="down, right"):
        svg(sample.mlp(), direction="up")
