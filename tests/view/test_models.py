"""Models from files: the initially open boxes show the structure of each."""

import json
from pathlib import Path

import pytest

import explorer as ex
from explorer.view.export.text import text
from explorer.view.layout.placed_model import draw
from explorer.view.model.picture_model import MAX_VISIBLE
from explorer.view.payload.view_payload import payload
from explorer.view.picture.svg import svg
from tests.support.scenes import check, scene_size

MODELS = Path(__file__).parents[2] / "assets" / "models"


@pytest.fixture(scope="module", params=["resnet18", "mobilenet_v2", "encoder"])
def drawn(request):
    recording = ex.open(MODELS / f"{request.param}.pnnx.param").preview_plan().recording
    return request.param, recording, draw(recording)


def box(model, label):
    return next(result for result in model.tree.boxes if result.label == label)


def box_texts(model, label):
    return model.box_texts[model.tree.boxes.index(box(model, label))]


@pytest.mark.spec("V-7")
def test_a_model_opens_on_about_forty_boxes(drawn):
    """ResNet-18, MobileNetV2 and a transformer encoder initially show 20 to 40 items, and each node once."""
    _, _, drawing = drawn
    check(drawing.model)
    assert MAX_VISIBLE // 2 <= scene_size(drawing.model) <= MAX_VISIBLE


@pytest.mark.spec("V-7", "V-19")
def test_blocks_of_a_residual_net_are_complete_and_show_repetition():
    model = draw(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording).model
    outer = [model.tree.boxes[n].label for kind, n in model.tree.boxes[0].items if kind == "box"]
    assert outer == ["convbn2d_0", "maxpool", "layer1", "layer2", "layer3", "layer4", "fc"]
    name, steps, totals = box_texts(model, "layer1")
    assert (name, steps) == ("layer1 ×2", "Conv2d → ReLU → Conv2d → add → ReLU")
    assert totals.startswith("147,712 parameters · ")
    assert box(model, "layer1.0").open
    assert not box(model, "layer1.1").open
    assert box_texts(model, "layer2.0")[1] == "Conv2d → ReLU → Conv2d → Conv2d → add → ReLU"
    assert box_texts(model, "layer4")[1] == "layer4.0 → layer4.1"


@pytest.mark.spec("V-7")
def test_equal_blocks_of_a_stage_fold_to_one_stack():
    model = draw(ex.open(MODELS / "mobilenet_v2.pnnx.param").preview_plan().recording).model
    repeats = {result.label: result.count for result in model.tree.boxes if result.kind == "repeat"}
    assert repeats == {
        "features.5 … 6": 2, "features.8 … 10": 3, "features.12 … 13": 2, "features.15 … 16": 2,
    }  # fmt: skip
    assert box_texts(model, "features.8 … 10")[1] == "Conv2d → ReLU6 → Conv2d → ReLU6 → Conv2d → add"


@pytest.mark.spec("V-7")
def test_the_layers_of_an_encoder_fold_and_the_first_is_open_with_its_attention():
    model = draw(ex.open(MODELS / "encoder.pnnx.param").preview_plan().recording).model
    assert box_texts(model, "ls")[0] == "ls ×2"
    assert (box(model, "ls.0").open, box(model, "ls.1").open) == (True, False)
    attention = [n for n, result in enumerate(model.tree.boxes) if result.label == "at" and result.open]
    assert len(attention) == 1
    inside = {model.tree.boxes[n].label for kind, n in model.tree.boxes[attention[0]].items if kind == "box"}
    assert {"q", "k", "v", "o"} <= inside


@pytest.mark.spec("V-7")
def test_parallel_projections_are_one_stack():
    """Queries, keys and values of an ONNX encoder are one stack ×3 with q, k and v side by side."""
    model = draw(ex.open(MODELS / "encoder.onnx").preview_plan().recording).model
    stack = box(model, "q … v")
    assert (stack.kind, stack.count) == ("stack", 3)
    assert [model.tree.boxes[number].label for _, number in stack.items] == ["q", "k", "v"]


@pytest.mark.spec("V-7", "V-15")
def test_the_output_of_a_cell_is_small(drawn):
    """Picture, text and payload of ResNet-18 with its decisions take less than 150 KB."""
    name, recording, drawing = drawn
    data = json.dumps(payload(recording, drawing=drawing), separators=(",", ":"))
    size = len(data.encode()) + len(svg(recording, drawing=drawing).encode()) + len(text(recording).encode())
    assert size < {"resnet18": 150_000, "mobilenet_v2": 200_000, "encoder": 160_000}[name]


@pytest.mark.spec("Q-5")
def test_an_operand_of_a_file_names_the_node_of_its_operator():
    view = ex.open(MODELS / "resnet18.onnx").explore()
    view.focus("getitem_3")
    assert view.selected_scope == "layer1 / 0 / bn1 / node_Conv_298"
