"""Pictures of batches: the samples of a loop before, one box after, however the loop was written."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import explorer as ex
from explorer.record.reasons import micros_text
from explorer.view.layout.placed_model import draw
from explorer.view.model.picture_model import build_model
from explorer.view.picture.svg import svg
from explorer.view.replay.contents import drawn_open, instant_at, open_spans
from tests.support.cells import MODELS, cell
from tests.support.loops import recorded
from tests.support.scenes import check

NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(recording, position=None, whole=False):
    """Return the texts of a picture; if ``whole``, with all boxes open that a picture of any size may open."""
    drawing = draw(recording)
    opened = drawing.layouts.opened() if whole else None
    picture = ElementTree.fromstring(svg(recording, position, drawing=drawing, open_boxes=opened))
    return [text.text for text in picture.iter(NAMESPACE + "text") if text.text]


def after(recording, stage):
    """Return the position at the end of a stage."""
    return next(row.last for row in recording.stages if row.name == stage)


def size(recording, position=None):
    match = re.search(r'width="(\d+)" height="(\d+)" style', svg(recording, position))
    return int(match[1]), int(match[2])


@pytest.mark.spec("P-4", "V-4", "V-7")
def test_samples_in_plain_operations_are_one_stack_with_an_open_body():
    """A loop of a thousand samples without a function is drawn as one stack ×1,000, its first body open."""
    shown = texts(recorded("plain"), 0, whole=True)
    assert "tensor ×1,000" in shown
    assert sum(text.startswith("matmul … tanh ×1,000 · 9,000 nodes") for text in shown) == 1
    operations = [text.rpartition(" = ")[2] for text in shown]  # behind the variables
    assert [text for text in operations if text in ("matmul", "add", "tanh")] == ["matmul", "add", "tanh"] * 3
    assert {"999 more", "2,997 matmul, 2,997 add, 2,997 tanh"} <= set(shown)
    assert not any(text.startswith("nodes ") for text in shown)


@pytest.mark.spec("P-4", "V-4", "V-7")
@pytest.mark.parametrize("options", [{}, {"without": ("batch",)}])
def test_the_recorded_picture_does_not_depend_on_the_plan(options):
    """Repetition is found in the recorded graph, whether anything was grouped or not."""
    drawn = build_model(recorded("plain", **options))
    check(drawn)
    top = drawn.tree.boxes[0]
    written = [
        drawn.tree.boxes[index] for kind, index in top.items if kind == "box" and not drawn.tree.boxes[index].batches
    ]
    assert sorted((box.label, box.kind, box.count) for box in written) == [
        ("matmul … tanh", "stack", 1000),
        ("tensor", "stack", 1000),
    ]


@pytest.mark.spec("P-4", "V-4", "V-7")
@pytest.mark.parametrize("name", ["calls", "plain"])
def test_at_the_end_one_box_contains_the_batch(name):
    """After planning one box contains stacked operands and the batched body, next to the rows for its members."""
    recording = recorded(name)
    shown = texts(recording)
    label = {"calls": "mlp", "plain": "matmul … tanh"}[name]
    (title,) = [text for text in shown if text.startswith(f"{label} ×1000 · ")]
    assert title.endswith(" instead of " + title.rpartition(" instead of ")[2])
    assert title.endswith(", estimated")
    assert [text for text in shown if text in ("stack", "matmul", "add", "tanh")].count("stack") == 1
    assert sum(text.startswith("kernel ") for text in shown) == 3
    assert f"{label} ×1,000" in shown
    assert "now 1,000 × index0" in shown
    assert "removed" not in shown


@pytest.mark.spec("P-4", "V-4")
def test_a_batched_call_is_a_small_box_with_a_summary():
    """A batch is initially a closed box with its steps, the types of its members and of the batch, and its gain."""
    recording = recorded("calls")
    (batched,) = [decision for decision in recording.decisions if decision.code == "batched"]
    shown = texts(recording, after(recording, "batch"))
    assert {"mlp ×1,000", "mlp ×1000"} <= set(shown)
    assert "stack → matmul → add → … → matmul → add → tanh" in shown
    assert "1,000 × 4 f32 → 1000×4 f32" in shown
    prices = [micros_text(batched.facts[price]) for price in ("together_us", "separate_us")]
    assert any(all(price in line for price in prices) for line in shown)
    assert size(recording, after(recording, "batch"))[1] < size(recording)[1] / 2


@pytest.mark.spec("V-4", "V-7")
def test_absent_nodes_take_no_space():
    """Stacks close once their members are rows of a batch; boxes of later stages take no space earlier."""
    recording = recorded("plain")
    model = build_model(recording)
    is_open = {index for index, box in enumerate(model.tree.boxes) if box.open}
    spans = open_spans(recording, model.slots, model.tree)
    kinds = {}
    grouped = after(recording, "batch")
    for name, position in (("before", 0), ("first", 1), ("grouped", grouped), ("then", grouped + 1)):
        result = drawn_open(spans, is_open, instant_at(recording, position))
        kinds[name] = sorted(model.tree.boxes[box].kind for box in result)
    assert kinds == {
        "before": ["block", "stack", "top"],
        "first": ["block", "stack", "top"],
        "grouped": ["batch", "block", "stack", "top"],  # what the stage replaced is still shown
        "then": ["batch", "top"],
    }


@pytest.mark.spec("P-4", "V-7")
@pytest.mark.parametrize("name", ["calls", "plain"])
def test_the_cell_of_a_batch_is_small(name):
    """Picture, text and stored view of a thousand samples, planned, grouped and run, take at most 150 KB."""
    recording = recorded(name, run=True)
    assert sum(cell(ex.explore(recording)).values()) <= 150_000


@pytest.mark.spec("P-4", "V-4", "V-7")
def test_trees_of_calls_are_levels():
    """Trees of different sizes are drawn level by level, each as a stack of calls and later as a batch."""
    recording = recorded("trees of calls")
    batches = [decision.facts["count"] for decision in recording.decisions if decision.code == "batched"]
    assert len(batches) > 4
    model = build_model(recording)
    check(model)
    tops = [model.tree.boxes[index] for kind, index in model.tree.boxes[0].items if kind == "box"]
    assert [len(recording.decisions[box.batches[0]].subjects) for box in tops if box.batches] == batches
    stacks = [box.count for box in tops if box.kind == "stack" and box.label == "compose"]
    assert stacks == [count for count in batches if count > 2]
    assert len(model.tree.boxes[0].items) < 40


@pytest.mark.spec("P-4", "V-7")
def test_trees_in_plain_operations_are_levels_too():
    model = build_model(recorded("trees"))
    check(model)
    top = model.tree.boxes[0]
    stacks = [model.tree.boxes[index] for kind, index in top.items if kind == "box"]
    assert {"matmul", "add … tanh"} <= {box.label for box in stacks if box.kind == "stack"}
    assert not any(box.kind == "part" for box in stacks)
    words = next(box for box in stacks if box.label == "tensor")
    assert words.count > 30
    slots = [model.slots.nodes[index][0] for kind, index in top.items if kind == "slot"]
    assert {"l", "r"} <= {model.recording.nodes.label[node] for node in slots}


@pytest.mark.spec("P-4", "V-7")
def test_samples_in_scopes_are_one_stack():
    """If members are in separate boxes, the batch is outside all of them."""
    recording = recorded("scopes")
    model = build_model(recording)
    check(model)
    tops = [model.tree.boxes[index] for kind, index in model.tree.boxes[0].items if kind == "box"]
    assert sorted((box.kind, box.label, box.count) for box in tops) == [
        ("batch", "matmul … tanh ×40", 1),
        ("stack", "sample 0 … sample 39", 40),
    ]


@pytest.mark.spec("V-7")
def test_a_few_samples_are_blocks_that_can_be_opened():
    """Each of up to forty samples can be opened; of more, all but the first are stacked by operation."""
    model = build_model(recorded("few"))
    stack = next(box for box in model.tree.boxes if box.label == "matmul … tanh" and box.kind == "stack")
    first, rest = (model.tree.boxes[index] for _, index in stack.items)
    assert (first.label, first.open, rest.label) == ("block 1", True, "39 more")
    assert [model.tree.boxes[index].label for _, index in rest.items] == [f"block {n}" for n in range(2, 41)]


@pytest.mark.spec("V-4")
def test_a_simplified_operator_keeps_its_type_and_shape():
    """Only rows of batches replace the text of a closed box; an operator of a file keeps its type and shape."""
    shown = texts(ex.open(MODELS / "encoder.pnnx.param").explore().recording, whole=True)
    assert any(text.startswith("div(") for text in shown)
    assert not any(text.startswith("now ") for text in shown)


@pytest.mark.spec("P-14", "V-22")
def test_the_pictures_of_batches_are_the_same_each_time():
    recording = recorded("plain")
    pictures = {svg(recording, position) for _ in range(2) for position in (0, recording.end)}
    assert len(pictures) == 2


@pytest.mark.spec("P-4", "V-4")
def test_equal_operations_from_different_lines_are_not_a_repetition():
    """Operations from different lines that happen to be equal are drawn one by one."""
    x = ex.tensor(np.ones(4, np.float32), name="x")
    values = [ex.exp(x), ex.exp(x), ex.exp(x)]
    many = [ex.log(ex.tensor(np.full(4, n, np.float32))) for n in range(1, 30)]
    plan = ex.EvalPlan(without=["batch", "dedup"])
    for value in (*values, *many):
        plan.register(value)
    model = build_model(plan.prepare().recording)
    top = [model.tree.boxes[0].items]
    stacks = {model.tree.boxes[index].label: model.tree.boxes[index].count for kind, index in top[0] if kind == "box"}
    assert stacks == {"log": 29, "tensor": 29}
