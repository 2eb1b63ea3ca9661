import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.record.escape import visible
from explorer.view.base import font
from explorer.view.model.labels import TITLE
from explorer.view.picture.svg import svg
from explorer.view.tree.slots import first_change
from tests.golden.programs import PROGRAMS, recorded
from tests.support.cells import MODELS
from tests.view import sample

DESCENT = 2.5
"""px by which letters of a type extend below their baseline"""
NAMESPACE = "{http://www.w3.org/2000/svg}"
WRITE = (
    "from explorer.view.picture.svg import svg; from tests.view import sample; print(svg(sample.transformer()), end='')"
)


def texts(picture):
    return [text.text for text in ElementTree.fromstring(picture).iter(NAMESPACE + "text")]


def tooltips(picture):
    """Return the tooltips of texts."""
    result = ElementTree.fromstring(picture).iter(NAMESPACE + "text")
    return [text.find(NAMESPACE + "title").text for text in result if text.find(NAMESPACE + "title") is not None]


def classes(picture):
    return [g.get("class", "") for g in ElementTree.fromstring(picture).iter(NAMESPACE + "g")]


@pytest.mark.spec("V-14", "V-15")
def test_the_same_bytes_in_every_process():
    runs = [
        subprocess.run(
            [sys.executable, "-c", WRITE],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        ).stdout.decode()
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == svg(sample.transformer())


@pytest.mark.spec("V-15")
def test_it_shows_the_final_graph():
    picture = svg(sample.mlp())
    assert {"x", "W", "b", "t", "log-softmax", "multiply 2", "×2", "same as line 1"} <= set(texts(picture))
    assert {"kernel 2 · 2 operations", "kernel 4"} <= set(texts(picture))
    assert {"matmul + b → 32×48 f32", "2·matmul → 32×48 f32"} <= set(texts(picture))
    assert {"2 operations · −6 KB", "log-softmax + nll · −12 KB"} <= set(tooltips(picture))
    assert {"1", "2", "3", "4"} <= set(texts(picture))
    assert sum(name.startswith("ghost") for name in classes(picture)) == 1
    assert sum(name.startswith("leaf") for name in classes(picture)) == 4
    assert sum("member" in name for name in classes(picture)) == 5


@pytest.mark.spec("V-1")
def test_nodes_keep_their_coordinates_after_the_first_change():
    recording = sample.mlp()

    def rects(position):
        results = {}
        for group in ElementTree.fromstring(svg(recording, position)).iter(NAMESPACE + "g"):
            rect, label = group.find(NAMESPACE + "rect"), group.find(NAMESPACE + "text")
            if label is not None and not group.get("class", "").startswith("ghost"):
                centre = float(rect.get("x")) + float(rect.get("width")) / 2, float(rect.get("y"))
                results.setdefault(label.text, set()).add(centre)
        return results

    start, end = rects(first_change(recording) + 1), rects(recording.end)
    for name in ("x", "W", "b", "t", "tanh", "multiply 2", "nll"):
        assert start[name] == end[name]
    assert start["log"] == end["log-softmax"]
    assert end["matmul"] < start["matmul"]


@pytest.mark.spec("V-1")
def test_a_ghost_stays_for_its_stage_and_is_gone_in_the_next():
    recording = sample.mlp()
    merged = next(stage for stage in recording.stages if stage.name == "dedup")
    assert sum(name == "ghost" for name in classes(svg(recording, merged.last))) == 1
    assert sum(name == "ghost" for name in classes(svg(recording, merged.last + 1))) == 0


@pytest.mark.spec("V-14")
def test_hostile_names_are_text():
    picture = svg(sample.hostile())
    root = ElementTree.fromstring(picture)
    tags = {element.tag.removeprefix(NAMESPACE) for element in root.iter()}
    assert tags <= {"svg", "title", "style", "defs", "marker", "path", "rect", "g", "text"}
    assert not any(name.startswith("on") for element in root.iter() for name in element.attrib)
    assert {sample.HOSTILE[0], sample.HOSTILE[1], visible(sample.HOSTILE[3])} <= set(texts(picture))


@pytest.mark.spec("V-13")
def test_it_has_a_name_for_screen_readers():
    root = ElementTree.fromstring(svg(sample.mlp()))
    assert root.get("role") == "img"
    assert root.get("aria-label") == root.find(NAMESPACE + "title").text == "loss: 11 nodes, 2 fused kernels"


@pytest.mark.spec("V-13")
def test_themes():
    auto, light, dark = (svg(sample.mlp(), theme=theme) for theme in ("auto", "light", "dark"))
    assert "prefers-color-scheme:dark" in auto
    assert "prefers-color-scheme" not in light + dark
    assert "--bg:#ffffff" in light
    assert "--bg:#11151d" in dark
    assert "--bg:#ffffff" not in dark


def test_ids_differ_between_pictures_on_one_page():
    ids = {ElementTree.fromstring(svg(sample.mlp(), position)).get("id") for position in (0, 3, None)}
    assert len(ids) == 3


@pytest.mark.spec("V-7")
def test_open_boxes_have_titles_and_closed_ones_counts():
    shown = texts(svg(sample.transformer()))
    assert "model ×12 · 245,760 parameters · 11.3 M flops" in shown
    assert "block0 · 20,480 parameters · 938 K flops" in shown
    assert "feed · 8,192 parameters · 271 K flops" in shown
    assert {"11 more: block1 … block11", "attention → add → feed → add", "225,280 parameters · 10.3 M flops"} <= set(
        shown
    )


@pytest.mark.parametrize("position", [-1, 9])
def test_a_position_outside_the_recording_is_rejected(position):
    with pytest.raises(ValueError, match="it has positions 0 to 8"):
        svg(sample.mlp(), position)


def test_an_unknown_theme_is_refused():
    with pytest.raises(ValueError, match="not one of auto, light, dark"):
        svg(sample.mlp(), theme="blue")


def output_names(picture):
    """Return the names of the nodes and closed boxes with the mark of an output."""
    groups = [
        [text.text for text in g.iter(NAMESPACE + "text")]
        for g in ElementTree.fromstring(picture).iter(NAMESPACE + "g")
    ]
    return [names[0] for names in groups if "output" in names]


@pytest.mark.spec("V-4", "V-14")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_outputs_have_a_label_and_an_outline(theme):
    """Outputs have the label "output" and a strong outline at all steps, in light and dark themes."""
    recording = sample.mlp()
    log = recording.nodes.label.index("log")
    recording.bodies[0] = sample.Body("", (), (*recording.bodies[0].outputs, log))
    steps = [output_names(svg(recording, position, theme=theme)) for position in (0, 2, recording.end)]
    assert [sorted(names) for names in steps] == [["log", "nll"], ["log", "nll"], ["log-softmax", "nll"]]
    assert sum("output" in each.split() for each in classes(svg(recording, theme=theme))) == 2
    assert ".output rect{stroke:var(--ink)" in svg(recording, theme=theme)


@pytest.mark.spec("V-4")
def test_the_mark_of_an_output_covers_no_type():
    """The label "output" is below the type of a value, also for leaves, whose nodes are lower."""
    x = ex.tensor(np.ones((2, 3), np.float32), name="x")
    plan = ex.EvalPlan()
    for each in (x, ex.tanh(x)):
        plan.register(each)
    groups = ElementTree.fromstring(svg(plan.prepare().recording)).findall(".//{*}g")
    marked = [group for group in groups if group.find("{*}rect[@class='mark']") is not None]
    assert len(marked) == 2
    for group in marked:
        top = float(group.find("{*}rect[@class='mark']").get("y"))
        assert top >= float(group.find("{*}text[@class='type']").get("y")) + DESCENT


@pytest.mark.spec("V-4", "V-7")
def test_the_mark_of_a_difference_lies_clear_of_that_of_an_output():
    recording = sample.mlp()
    marks = dict.fromkeys(range(len(recording.nodes.kind)), "changed")
    groups = ElementTree.fromstring(svg(recording, recording.end, marks=marks)).findall(".//{*}g")
    result = next(group for group in groups if {"operation", "output"} <= set(group.get("class", "").split()))
    tops = {part.get("class"): float(part.get("y")) for part in result.findall("{*}rect")}
    assert tops["apart"] >= tops["mark"] + 14


def test_a_closed_box_around_an_output_is_marked():
    recording = sample.chain(20)
    recording.bodies[0] = sample.Body("", (), (20,))
    assert output_names(svg(recording)) == ["tanh ×20"]


def test_only_the_selected_function_body_is_drawn():
    recording = sample.mlp()
    kind = recording.nodes.type[0]
    make = sample.Builder()
    make.recording = recording
    inside = make.node("input", kind="input", label="a", type=kind, body=1)
    out = make.node("tanh", inside, type=kind, body=1)
    recording.bodies.append(sample.Body("f", (inside,), (out,)))
    assert set(texts(svg(recording, body=1))) == {"a", "tanh", "32×64 f32", "output"}


@pytest.mark.spec("V-1", "V-7")
def test_a_closed_box_with_one_remaining_node_is_drawn_as_the_node():
    recording = sample.chain(20)
    make = sample.Builder()
    make.recording = recording
    make.stage("simplify", "rewrite")
    short = make.node("tanh20", 0, type=recording.nodes.type[0], born=0)
    make.decide("Chain", "short", "at once", (20,), (short,), replace=[(20, short)], gone=range(1, 20))
    recording.bodies[0] = sample.Body("", (), (20,))
    assert "tanh ×20" in texts(svg(recording, 0))
    assert set(texts(svg(recording))) == {"x", "8 f32", "tanh20", "output"}


@pytest.mark.spec("V-1", "V-7")
def test_an_empty_closed_box_is_a_ghost():
    recording = sample.chain(20)
    make = sample.Builder()
    make.recording = recording
    make.stage("simplify", "rewrite")
    make.decide("Chain", "nothing", "it is x", (20,), replace=[(20, 0)], gone=range(1, 20))
    assert "closed ghost" in classes(svg(recording))
    assert {"tanh ×20", "removed"} <= set(texts(svg(recording)))


def outlines(picture):
    """Return the rectangles of each kernel's outline."""
    groups = [list(g) for g in ElementTree.fromstring(picture).iter(NAMESPACE + "g")]
    results = [[rect for rect in group if rect.get("class") == "kernel"] for group in groups]
    return [[tuple(int(rect.get(name)) for name in ("x", "y", "width", "height")) for rect in f] for f in results if f]


@pytest.mark.spec("V-4")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_title_of_a_kernel_is_no_wider_than_its_outline(name):
    recording = recorded(name)
    for position in (*range(0, recording.end, 5), recording.end):
        picture = svg(recording, position)
        titles = [t for t in ElementTree.fromstring(picture).iter(NAMESPACE + "text") if t.get("class") == "fused"]
        assert len(titles) == len(outlines(picture))
        for title, shapes in zip(titles, outlines(picture), strict=True):
            left, _, wide, _ = shapes[0]
            start = float(title.get("x"))
            assert left <= start
            assert start + font.width(title.text, TITLE, True) <= left + wide


LABELS = {"title": (11, True), "fused": (11, True), "number": (9.5, False)}


def label_rects(root):
    """Return left, top, right, bottom of each title and number."""
    for text in root.iter(NAMESPACE + "text"):
        if text.get("class") in LABELS:
            size, is_bold = LABELS[text.get("class")]
            wide, x, y = font.width(text.text, size, is_bold), float(text.get("x")), float(text.get("y"))
            left = x - wide if text.get("class") == "number" else x
            yield text, (left, y - 0.73 * size, left + wide, y)


@pytest.mark.spec("V-4")
@pytest.mark.parametrize("direction", ["down", "right"])
def test_titles_and_numbers_cover_edges_but_no_other_text(direction):
    """Edges and borders behind a title or number are hidden by its halo."""
    picture = svg(sample.resnet(), direction=direction, depth=9)
    root = ElementTree.fromstring(picture)
    parts = list(root.iter())
    edges = [index for index, part in enumerate(parts) if part.get("class") == "edge"]
    labels = list(label_rects(root))
    assert {text.get("class") for text, _ in labels} == {*LABELS}
    assert all(parts.index(text) > max(edges) for text, _ in labels)
    assert all(f".{name}{{paint-order:stroke;stroke:" in picture for name in LABELS)
    for place, (text, (left, top, right, bottom)) in enumerate(labels):
        for other, (x, y, end, low) in labels[place + 1 :]:
            assert right <= x or end <= left or bottom <= y or low <= top, (text.text, other.text)


@pytest.mark.spec("V-4")
def test_a_one_digit_number_is_inside_the_border_of_its_box():
    """Numbers of convolutions are between their kernels or nodes and the box around them."""
    root = ElementTree.fromstring(svg(sample.resnet()))
    borders = [r for r in root.iter(NAMESPACE + "rect") if r.get("class") == "open"]
    sides = [(int(r.get("x")), int(r.get("y")), int(r.get("height"))) for r in borders]
    numbers = [rect for text, rect in label_rects(root) if text.get("class") == "number" and len(text.text) == 1]
    assert sides
    assert numbers
    for left, top, right, _ in numbers:
        assert not any(left < x < right and y < top < y + high for x, y, high in sides)


@pytest.mark.spec("V-1", "V-4")
def test_a_kernel_around_other_nodes_is_outlined_node_by_node():
    picture = svg(sample.network())
    assert [len(shapes) for shapes in outlines(picture)] == [3, 3]
    assert texts(picture).count("3 operations") == tooltips(picture).count("conv2d · add · relu") == 2
    shapes = [shape for kernel in outlines(picture) for shape in kernel]
    for group in ElementTree.fromstring(picture).iter(NAMESPACE + "g"):
        if group.get("class") in ("operation", "leaf"):
            x, y = (int(group.find(NAMESPACE + "rect").get(name)) for name in ("x", "y"))
            assert not any(left <= x < left + wide and top <= y < top + high for left, top, wide, high in shapes)


@pytest.mark.spec("V-1", "V-4")
def test_a_kernel_around_only_its_members_is_one_rectangle():
    assert [len(shapes) for shapes in outlines(svg(sample.mlp()))] == [1, 1]


@pytest.mark.spec("V-4", "V-7")
def test_closed_operators_have_the_outline_of_their_kernel():
    picture = svg(sample.network(6))
    assert [len(shapes) for shapes in outlines(picture)] == [1] * 6
    assert texts(picture).count("conv2d · add · relu") == 6
    assert classes(picture).count("closed member") == 6
    assert "conv3.weight" not in texts(picture)


@pytest.mark.spec("V-13")
def test_counts_of_one_are_singular():
    value = ex.tensor(np.ones(3, np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.exp(value)))
    label = ElementTree.fromstring(svg(plan.prepare().recording)).get("aria-label")
    assert label.endswith("3 nodes, 1 fused kernel")


@pytest.mark.spec("M-L10", "V-15")
@pytest.mark.parametrize("direction", ["down", "right"])
def test_port_names_do_not_overlap(direction):
    """An edge to the right that is shorter than both names has the name at its end, or none."""
    float32 = np.dtype(np.float32)
    types = {"input": ex.TensorType((1, 1), float32), "previous": ex.TensorType((1, 4), float32)}
    recording = layers.GRUStep("step", 1, 4).explore(types).recording
    drawn = ElementTree.fromstring(svg(recording, 0, direction=direction, depth=2)).findall(".//{*}text[@class='port']")
    assert {text.text for text in drawn} >= {"input", "left", "right", "output"}
    rects = []
    for text in drawn:
        x, y, wide = float(text.get("x", "")), float(text.get("y", "")), font.width(text.text or "", 8)
        rects.append((x - wide if text.get("style") else x, y, wide, text.text))
    for place, (x, y, wide, name) in enumerate(rects):
        for left, top, width, other in rects[place + 1 :]:
            is_over = abs(y - top) < 8 and x < left + width - 1 and left < x + wide - 1
            assert not is_over, f"{name} over {other} at {x}, {y}"


def test_nodes_have_the_bar_of_their_family() -> None:
    """A bar at the left side of a node shows what kind of operation it is; inputs and ghosts have none."""
    x, weight = ex.tensor([[1.0, 2.0]], name="x"), ex.tensor([[1.0], [2.0]], name="w")
    recording = ex.explore(ex.softmax(ex.sum(ex.tanh(x @ weight), axis=0)).reshape(1, 1), run=False).recording
    drawn = ElementTree.fromstring(svg(recording, 0)).iterfind(".//{*}g")
    bars = {
        group.findtext("{*}text"): path.get("class")
        for group in drawn
        for path in group.iterfind("{*}path")
        if path.get("class", "").startswith("family")
    }
    assert bars == {
        "matmul": "family product",
        "tanh": "family elementwise",
        "sum": "family reduction",
        "softmax": "family normalization",
        "reshape": "family movement",
    }


def test_a_closed_operator_has_the_family_of_its_costliest_operation() -> None:
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    drawn = ElementTree.fromstring(svg(recording, 0, depth=0)).iterfind(".//{*}g[@class='closed']")
    families = {group.findtext("{*}text"): [path.get("class") for path in group.iterfind("{*}path")] for group in drawn}
    assert families["bn1 / Conv"] == ["family product"]
    assert families["layer2"] == []


@pytest.mark.spec("Q-10")
@pytest.mark.parametrize(("name", "depth"), [("digits.onnx", 0), ("digits.onnx", 1), ("models/encoder.onnx", 1)])
@pytest.mark.parametrize("wrap", [850, 1200])
def test_a_picture_to_the_right_is_cut_into_rows(name: str, depth: int, wrap: int) -> None:
    """No row is wider than the limit, each node and title is in one row, and rows follow one another without gaps."""
    recording = ex.open(MODELS.parent / name).preview_plan().recording
    drawing = ElementTree.fromstring(svg(recording, direction="right", depth=depth, wrap=wrap))
    windows = [[int(side) for side in each.get("viewBox").split()] for each in drawing.findall(f"{NAMESPACE}svg")]
    assert len(windows) > 1
    assert [x for x, *_ in windows[1:]] == [x + wide for x, _, wide, _ in windows[:-1]]
    assert max(wide for *_, wide, _ in windows) == int(drawing.get("width")) <= wrap
    assert sum(high for *_, high in windows) == int(drawing.get("height"))
    shown = [
        int(each.get("y")) - int(drawing.find(f"{NAMESPACE}svg").get("y"))
        for each in drawing.findall(f"{NAMESPACE}svg")
    ]
    assert shown == [sum(high for *_, high in windows[:row]) for row in range(len(windows))]
    rects = [rect for rect in drawing.find(f"{NAMESPACE}defs").iter(f"{NAMESPACE}rect") if rect.get("class") != "open"]
    assert len(rects) > 4
    for rect in rects:
        x, y, wide, high = (float(rect.get(side)) for side in ("x", "y", "width", "height"))
        held = [
            left <= x and x + wide <= left + width and top <= y and y + high <= top + height
            for left, top, width, height in windows
        ]
        assert sum(held) == 1
    one = ElementTree.fromstring(svg(recording, direction="right", depth=depth, wrap=10**6))
    assert one.find(f"{NAMESPACE}svg") is None
    assert int(one.get("width")) > wrap
