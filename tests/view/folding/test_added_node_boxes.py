"""Nodes produced by passes reserve no space between the nodes of the program."""

import pytest

import explorer as ex
from explorer.view.folding.added_node_boxes import MIN_NODES
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.layout_engine import RANK_GAP
from explorer.view.model.picture_model import Model, build_model
from explorer.view.replay.contents import drawn_open, open_spans
from tests.support.cells import MODELS
from tests.support.scenes import check
from tests.view import sample


def encoder():
    """Return the plan of a model file with two attention layers, in which products of one input are joined."""
    return ex.open(MODELS / "encoder.pnnx.param").preview_plan(numerics="fast").recording


def produced_chain(produced: int, between: bool = False):
    """Return a product followed by a chain of produced nodes, with a recorded node in the middle if ``between``."""
    make = sample.Builder("produced", "90b1")
    kind = make.type(4, 4)
    x = make.leaf("x", kind)
    old, kept = make.node("matmul", x, x, type=kind), make.node("tanh", x, type=kind)
    last = make.node("add", old, kept, type=kind)
    make.stage("recorded", "record", nodes=4)
    make.stage("join", "rewrite", nodes=4 + produced)
    values = [x]
    for number in range(produced):
        reads = [values[-1], kept if between and number == produced // 2 else x]
        values.append(make.node(("add", "multiply")[number % 2], *reads, type=kind, born=0))
    if between:
        recording = make.recording
        recording.nodes.operands[kept] = (values[produced // 2],)
    final = make.node("add", values[-1], kept, type=kind, born=0)
    make.decide("Join", "joined", "joined", [last], [*values[1:], final], replace=[(last, final)], gone=[old])
    return make.roots(last)


def joined_boxes(model: Model) -> list[int]:
    return [index for index, box in enumerate(model.tree.boxes) if box.label == "made by join"]


@pytest.mark.spec("V-1", "V-7")
def test_the_program_is_laid_out_without_gaps_for_produced_nodes():
    """The layers for queries, keys and values are side by side, and the box has only two more ranks."""
    model = build_model(encoder())
    check(model)
    born = model.recording.nodes.born
    boxes = joined_boxes(model)
    assert len(boxes) == 2
    assert all(born[model.slots.nodes[slot][0]] >= 0 for box in boxes for _, slot in model.tree.boxes[box].items)
    holder = model.tree.boxes[boxes[0]].parent
    layout = Layouts(model)[holder]
    items = zip(layout.rects, model.tree.boxes[holder].items, strict=True)
    top = {model.tree.boxes[number].label: place[1] for place, (table, number) in items if table == "box"}
    assert top["q"] == top["k"] == top["v"]
    assert layout.size[1] < 1.1 * 12 * (40 + RANK_GAP)


@pytest.mark.spec("V-1", "V-7")
def test_the_box_is_drawn_once_its_nodes_exist():
    recording = encoder()
    model = build_model(recording)
    spans = open_spans(recording, model.slots, model.tree)
    (join,) = [stage for stage in recording.stages if stage.name == "join"]
    assert not drawn_open(spans, joined_boxes(model), 0)
    assert drawn_open(spans, joined_boxes(model), 2 * join.last) == {*joined_boxes(model)}


@pytest.mark.parametrize("produced", [MIN_NODES - 1, MIN_NODES])
def test_a_few_produced_nodes_have_no_box(produced):
    model = build_model(produced_chain(produced))
    assert [box.label for box in model.tree.boxes[1:]] == ["made by join"] * (produced >= MIN_NODES)


def test_produced_nodes_around_a_recorded_node_have_no_box():
    """As one box they would read themselves through the recorded node."""
    model = build_model(produced_chain(2 * MIN_NODES, between=True))
    assert [box.label for box in model.tree.boxes[1:]] == []
    check(model)
