"""The panel of a whole program: equal parts are listed once, and nothing is cut that would fit."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from tests.browser.player import node, press
from tests.golden.programs import PROGRAMS, recorded
from tests.support import runtime_models
from tests.support.cells import MODELS
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-17")]


def rows(view, name):
    """Return the lines of a fact of the summary."""
    return view.locator(f".ex-summary dt:text-is('{name}') + dd > *").all_inner_texts()


def leaf(shape, **options):
    return ex.tensor(np.ones(shape, np.float32), **options)


def explored(*values):
    plan = ex.EvalPlan()
    for value in values:
        plan.register(value)
    return plan.prepare().recording


def test_inputs_and_outputs_that_read_alike_are_said_once(show):
    shared = leaf((3,), name="x")
    view = show(explored(*(ex.sum(ex.tanh(shared + leaf((3,)) * k)) for k in range(2, 8))))
    assert rows(view, "outputs") == ["sum scalar float32 ×6"]
    assert rows(view, "inputs")[0] == "x 3 float32"
    assert "3 float32 ×6" in rows(view, "inputs")
    expect(view.locator(".ex-say")).to_contain_text("→ scalar f32 ×6")
    expect(view.locator(".ex-say")).not_to_contain_text("tensor")


@pytest.mark.parametrize(
    ("depth", "said"), [(1, "2 nodes, 1 of them an operation"), (2, "3 nodes, 2 of them operations")]
)
def test_one_operation_is_said_in_the_singular(show, depth, said):
    value = leaf((3,), name="x")
    for _ in range(depth):
        value = ex.tanh(value)
    expect(show(explored(value)).locator(".ex-say")).to_contain_text(said)


@pytest.mark.parametrize(("count", "last"), [(3, "c"), (4, "d"), (5, "and 2 more")])
def test_a_line_that_says_one_more_is_the_one_more(show, count, last):
    values = [leaf((size,), name=name) for size, name in zip(range(2, 7), "abcde", strict=True)]
    view = show(explored(*(ex.tanh(value) for value in values[:count])))
    assert len(rows(view, "inputs")) == min(count, 4)
    assert rows(view, "inputs")[-1].startswith(last)


def test_nothing_is_said_twice_and_nothing_was_measured_before_the_run(show):
    """The sentence above the canvas is not repeated in the panel; only stages of the final plan have a time."""
    recording = sample.mlp()
    view = show(recording)
    for stage in recording.stages:
        sentence = view.locator(".ex-say .ex-sentence").inner_text()
        expect(view.locator(".ex-why")).not_to_contain_text(sentence)
        assert view.locator(".ex-why dt:text-is('measured time')").count() == (stage.kind not in ("record", "rewrite"))
        press(view, "]")


@pytest.mark.parametrize("name", representatives(sorted(PROGRAMS), ["batch", "declined", "structured"]))
def test_facts_are_a_grid_of_names_and_values(show, name):
    """A note is below the facts, never between their columns."""
    recording = recorded(name)
    view = show(recording)
    for _ in recording.decisions:
        press(view, ".")
        kinds = view.locator(".ex-why .ex-facts").evaluate_all(
            "tables => tables.map((table) => [...table.children].map(({ localName }) => localName).join(' '))"
        )
        assert [kind for kind in kinds if kind.replace("dt dd", "").strip()] == []


def test_a_models_inputs_and_outputs_are_those_of_its_file(show):
    """Inputs and outputs have the file's order and names, not the order of first use and the operations' names."""
    net = ex.Net("exchanged")
    first, second = net.input("first", (2,)), net.input("second", (2,))
    net.output(net.Add([net.Relu(second, "relu"), first], name="total"))
    (output,) = net.outputs
    view = show(net.preview_plan().recording)
    assert rows(view, "inputs") == ["first 2 float32", "second 2 float32"]
    assert rows(view, "outputs") == [f"{output} 2 float32 · Add"]
    expect(view.locator(".ex-say")).to_contain_text("first 2 f32, second 2 f32 → 2 f32")
    press(view, "/")
    view.locator(".ex-search input").fill(f"name:{output}")
    view.locator(".ex-results button").click()
    expect(view.locator(".ex-why")).to_contain_text(f"output of the model: {output}")


def test_one_is_one(show):
    """One node, one kernel: no plural."""
    recording = explored(ex.tanh(leaf((3,), name="x")))
    view = show(recording)
    expect(view.locator(".ex-rail")).to_contain_text("1 kernel")
    expect(view.locator(".ex-rail")).not_to_contain_text("1 kernels")


def test_reason_rule_and_fix_of_an_operator_that_cannot_run_have_lines_of_their_own(show, tmp_path):
    """Reason, rule and fix are sentences, so they follow the line of the operator's short attributes."""
    lines = ["pnnx.Input i 0 1 a #a=(2,5)f32", "pnnx.Input j 0 1 b #b=(4,3)f32"]
    lines += ["torch.matmul mm 2 1 a b y #y=(2,3)f32", "pnnx.Output o 1 0 y"]
    file = tmp_path / "n.param"
    file.write_text("\n".join(["7767517", "4 3", *lines]) + "\n")
    view = show(ex.open(file).preview_plan().recording)
    node(view, "torch.matmul (cannot run)").click()
    text = view.locator(".ex-why .ex-sub").all_inner_texts()
    assert "reason: matmul of 2×5 float32, 4×3 float32 (a, b)" in text
    assert "rule: the last axis of a (5) and the second last axis of b (4) must be equal" in text
    assert "fix: b must have 5 rows, or a 4 columns" in text
    assert "· kind torch.matmul ·" in text[0]


@pytest.mark.spec("Q-5")
def test_outputs_have_the_name_in_the_file_and_the_operator_that_computes_them(show):
    """Not "probability = multiply 0.00392157", the last operation of a DequantizeLinear."""
    view = show(ex.open(MODELS.parent / "digits_int8.onnx").preview_plan().recording)
    assert rows(view, "outputs") == ["probability batch=1×10 float32 · DequantizeLinear"]


@pytest.mark.spec("Q-5")
def test_rows_of_the_cost_table_with_equal_titles_have_their_names(show, tmp_path):
    view = show(ex.open(runtime_models.model("yolo-like", tmp_path)[0]).preview_plan().recording)
    table = view.locator(".ex-inside tbody tr")
    expect(table.first).to_contain_text("conv_0")
    texts = [row.locator("th").inner_text().splitlines() for row in table.all()]
    assert len({tuple(lines[:2]) for lines in texts}) == len(texts)
    assert texts[0][:2] == ["Conv", "conv_0"]


@pytest.mark.spec("V-17")
def test_names_in_the_cost_table_break_between_words(show):
    view = show(ex.open(MODELS.parent / "digits_int8.onnx").preview_plan().recording)
    link = view.locator(".ex-inside .ex-link").first
    expect(link).to_have_text("image_QuantizeLinear")
    # each part of the name is on one line
    heights = link.evaluate("""(link) => [...link.childNodes].filter(({ length }) => length).map((part) => {
        const range = document.createRange();
        range.selectNode(part);
        return [part.data, range.getClientRects().length];
    })""")
    assert heights == [["image_", 1], ["Quantize", 1], ["Linear", 1]]


@pytest.mark.spec("V-26")
def test_the_headline_of_a_file_with_named_lengths_is_one_line(show):
    """The title states the lengths by name, so the types do not repeat the names."""
    view = show(ex.open(MODELS.parent / "digits_int8.onnx").preview_plan().recording, position=0)
    view.page.set_viewport_size({"width": 1280, "height": 720})
    said = view.locator(".ex-say")
    expect(said).to_contain_text("digits_int8 (batch = 1): 1×1×8×8 f32 → 1×10 f32, 8,667 parameters")
    expect(said).not_to_have_class(re.compile("ex-over"))
