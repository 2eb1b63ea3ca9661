import itertools
import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.view.base import font
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.edge_labels import label_rect, label_width
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model
from explorer.view.picture.svg import svg
from tests.golden.programs import recorded
from tests.view import sample

MODELS = [build_model(sample.transformer(3)), build_model(sample.network()), build_model(recorded("perceptron"))]


@cache
def layouts(number, direction):
    return Layouts(MODELS[number], direction=direction)


def crosses(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.spec("V-7")
@given(st.data(), st.sampled_from(range(len(MODELS))), st.sampled_from(["down", "right"]))
def test_no_label_crosses_a_node_a_closed_box_or_another_label(data, number, direction):
    """No label overlaps with any boxes open, although space is found with all boxes closed."""
    model = MODELS[number]
    is_open = {0, *data.draw(st.sets(st.sampled_from(range(len(model.tree.boxes)))))}
    scene = compose(model, layouts(number, direction), is_open)
    items = [*scene.slots.values(), *(rect for box, rect in scene.boxes.items() if box not in is_open)]
    rects = [(x, y, x + wide, y + high) for x, y, wide, high in items]
    labels = [label_rect(*label.point, label.side, label_width(model, label.slot), direction) for label in scene.labels]
    assert not any(crosses(label, rect) for label, rect in itertools.product(labels, rects))
    assert not any(crosses(*pair) for pair in itertools.combinations(labels, 2))


@pytest.mark.spec("V-7")
def test_most_values_of_a_network_have_a_label():
    """A value that leaves its box has its label outside, and a value with crowded edges has none."""
    model = MODELS[1]
    labelled = sum(len(layout.labels) for layout in layouts(1, "down"))
    tails = {(box, tail) for box, rows in enumerate(model.edges) for tail, head in rows if min(tail, head) >= 0}
    assert labelled > 0.7 * len(tails) > 7


def test_a_label_is_as_wide_as_its_widest_type():
    model = MODELS[2]
    for slot, rows in enumerate(model.slot_texts):
        assert all(font.width(model.texts[row][1], 9) <= label_width(model, slot) for row in rows)


@pytest.mark.spec("V-15")
@pytest.mark.parametrize("direction", ["down", "right"])
def test_a_picture_shows_types_next_to_edges_if_requested(direction):
    recording = recorded("perceptron")
    for position in (0, recording.end):
        labels = re.findall(r'class="label">([^<]+)<', svg(recording, position, direction=direction, edge_types=True))
        assert len(labels) > 3
        assert all(re.fullmatch(r"(\d+(×\d+)*|scalar) f32", label) for label in labels)
        assert 'class="label"' not in svg(recording, position, direction=direction)
