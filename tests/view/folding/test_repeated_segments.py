"""Repeated blocks without scopes are found by their structure and become boxes."""

import pytest

from explorer.view.model.picture_model import build_model
from tests.support.scenes import check, scene_size
from tests.view.sample import Builder


def residual_net(blocks, *, shared=False, odd=-1, shortcut=True):
    """Return a residual net without scopes: a stem, blocks of two products with a sum, and a head."""
    make = Builder("flat", "f1a7")
    kind, square = make.type(16, 64), make.type(64, 64)
    common = make.leaf("W", square) if shared else -1
    value = make.node("tanh", make.leaf("x", kind), type=kind)
    for block in range(blocks):
        before = value
        for _ in range(2):
            value = make.node("matmul", value, common if shared else make.leaf("W", square), type=kind)
            value = make.node("gelu" if block == odd else "relu", value, type=kind)
        if shortcut:
            value = make.node("add", value, before, type=kind)
    value = make.node("softmax", value, type=kind)
    make.stage("recorded", "record", nodes=len(make.recording.nodes))
    return make.roots(value)


def outer_contents(model):
    """Return the contents of the outermost box: labels of nodes, and labels of boxes with their counts."""
    nodes, boxes = model.recording.nodes, model.tree.boxes
    return [
        (boxes[n].label, boxes[n].count) if kind == "box" else nodes.label[model.slots.nodes[n][0]]
        for kind, n in boxes[0].items
    ]


@pytest.mark.spec("V-7")
def test_equal_segments_of_a_graph_without_scopes_fold_to_one_stack():
    """A net of 40 blocks without scopes is drawn as its stem, one stack ×40 with the first block open, and its head."""
    model = build_model(residual_net(40))
    check(model)
    assert outer_contents(model) == ["x", "tanh", ("block 1 … block 40", 40), "softmax"]
    stack = next(box for box in model.tree.boxes if box.count == 40)
    first, rest = (model.tree.boxes[number] for _, number in stack.items)
    assert (first.label, first.kind, first.open, len(first.items)) == ("block 1", "block", True, 7)
    assert (rest.label, rest.count, rest.open) == ("39 more: block 2 … block 40", 39, False)
    assert "matmul → relu → matmul → relu → add" in model.box_texts[model.tree.boxes.index(rest)]


@pytest.mark.spec("V-7")
def test_blocks_of_a_plain_sequence_are_found_too():
    model = build_model(residual_net(30, shortcut=False))
    check(model)
    assert ("block 1 … block 60", 60) not in outer_contents(model)
    assert sum(box.kind == "block" for box in model.tree.boxes) >= 20


@pytest.mark.spec("V-7")
def test_weights_shared_by_blocks_are_outside():
    model = build_model(residual_net(10, shared=True))
    check(model)
    assert outer_contents(model) == ["W", "x", "tanh", ("block 1 … block 10", 10), "softmax"]


@pytest.mark.spec("V-7")
def test_a_different_block_divides_the_stack():
    model = build_model(residual_net(12, odd=5))
    check(model)
    folded = [item for item in outer_contents(model) if isinstance(item, tuple)]
    assert folded == [("block 1 … block 5", 5), ("block 6 … block 11", 6)]


@pytest.mark.spec("V-7")
def test_without_repetition_there_are_no_blocks():
    make = Builder("odd", "0dd")
    value = make.leaf("x", make.type(2))
    for number in range(60):
        value = make.node(f"operation{number}", value, type=0)
    make.stage("recorded", "record")
    model = build_model(make.roots(value))
    check(model)
    assert "block" not in {box.kind for box in model.tree.boxes}


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("count", [3, 40, 1000])
def test_a_deep_net_opens_on_few_boxes(count):
    assert 4 <= scene_size(build_model(residual_net(count))) <= 60
