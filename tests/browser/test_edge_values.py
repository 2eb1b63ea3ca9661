"""Values of edges: a click on an edge selects the value that it carries; names of operands are those of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

import explorer as ex
from explorer.record import Recording
from tests.browser.player import drawn, heading, node, on_edge, press

pytestmark = pytest.mark.browser

DIGITS = Path(__file__).parents[2] / "assets" / "digits.onnx"
HIGHLIGHTED = ".ex-graph .ex-edge.ex-along"


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Return a run in which tanh is read by two operations, one of which also reads the sum."""
    x = ex.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), name="x")
    plan = ex.EvalPlan(record="values")
    y = ex.tanh(x)
    handle = plan.register(ex.softmax(y @ ex.tensor(np.eye(4, dtype=np.float32), name="W")) * ex.sum(y))
    plan.eval()
    assert handle is not None
    return plan.recording


def title(view: Locator) -> Locator:
    return view.locator(".ex-why h4")


@pytest.mark.spec("V-6", "V-9")
def test_a_click_on_an_edge_selects_its_value(show, recording):
    """The panel shows the value's type, producer, readers and statistics, and all its edges are highlighted."""
    view = show(recording)
    left, top = on_edge(view, "tanh", "matmul")
    view.page.mouse.click(left, top)
    expect(title(view)).to_have_text("y")
    why = view.locator(".ex-why")
    expect(why).to_contain_text("the value of an edge · 3×4 float32")
    for text in ("computed by", "read by 2", "value in the run"):
        expect(heading(view, text)).to_be_visible()
    expect(why.locator(".ex-statistics")).to_contain_text("0.762")
    expect(view.locator(HIGHLIGHTED)).to_have_count(2)
    expect(node(view, "tanh")).to_have_attribute("aria-label", "y = tanh, 3×4 f32, computes the selected value")
    expect(view.locator(".ex-node[aria-label*='reads the selected value']")).to_have_count(2)
    expect(view.locator(".ex-heard")).to_have_text("selected the value y: 1 decision, 1 declined")
    press(view, "Escape")
    expect(view.locator(HIGHLIGHTED)).to_have_count(0)


@pytest.mark.spec("V-9")
def test_an_edge_can_be_hit_8_px_beside_it_but_not_over_a_node(show, recording):
    """Nodes are over edges: a click on a node's border selects the node, although an edge ends there."""
    view = show(recording)
    left, top = on_edge(view, "x", "tanh")
    for aside in (-8, 8):
        view.page.mouse.move(left + aside, top)
        expect(view.locator(".ex-stage.ex-on-edge")).to_have_count(1)
        view.page.mouse.click(left + aside, top)
        expect(title(view)).to_have_text("x")
        expect(view.locator(HIGHLIGHTED)).to_have_count(1)
        press(view, "Escape")
    view.page.mouse.click(left + 14, top)
    expect(view.locator(HIGHLIGHTED)).to_have_count(0)
    area = node(view, "tanh").locator(".ex-shape").bounding_box()
    view.page.mouse.click(left, area["y"] + 2)
    expect(title(view)).to_have_text("y = tanh")
    expect(node(view, "tanh")).to_have_attribute("aria-pressed", "true")
    expect(view.locator(HIGHLIGHTED)).to_have_count(0)


@pytest.mark.spec("V-13")
def test_the_value_of_a_node_can_be_selected_with_the_keyboard(show, recording):
    """The key v, and the link "its value", select the value of the selected node, and again the node."""
    view = show(recording)
    press(view, "v")
    expect(view.locator(".ex-say")).to_contain_text("Select a node to select its value")
    node(view, "tanh").click()
    press(view, "v")
    expect(view.locator(HIGHLIGHTED)).to_have_count(2)
    press(view, "v")
    expect(view.locator(HIGHLIGHTED)).to_have_count(0)
    expect(title(view)).to_have_text("y = tanh")
    view.get_by_role("button", name="its value (v)").click()
    expect(view.locator(HIGHLIGHTED)).to_have_count(2)
    # The selection follows a value through the stages.
    press(view, "End")
    expect(view.locator(".ex-why .ex-sub").first).to_contain_text("the value of an edge")
    drawn(view.page)
    expect(view.locator(HIGHLIGHTED)).to_have_count(2)


@pytest.mark.spec("I-5", "V-9")
def test_operands_of_an_operator_have_the_names_of_its_type_and_of_the_file(show):
    """The panel of a Conv lists X, W, B and Y with the file's names and types; a name selects the value."""
    recording = ex.open(DIGITS).preview_plan().recording
    row = next(row for row in recording.operators if recording.scopes[row.scope].type == "Conv")
    view = show(recording, whole=True)
    press(view, "/")
    view.page.keyboard.type("type:Conv")
    view.page.keyboard.press("Enter")
    inputs, outputs = (heading(view, side).first.locator("+ dl") for side in ("inputs", "outputs"))
    expect(inputs.locator("dt")).to_have_text(["X", "W", "B"])
    weights = dict(row.weights)
    expect(inputs.locator("dd").nth(0)).to_contain_text(row.inputs[0])
    for place, formal in enumerate(("W", "B"), 1):
        expect(inputs.locator("dd").nth(place)).to_have_text(weights[formal].replace(" · ", " "))
    expect(outputs.locator("dt")).to_have_text(["Y"])
    outputs.get_by_role("button", name=row.outputs[0]).click()
    expect(title(view)).to_have_text(row.outputs[0])
    expect(view.locator(".ex-why")).to_contain_text("as Y of")
    expect(view.locator(".ex-why")).to_contain_text("as X of")
    expect(view.locator(HIGHLIGHTED)).not_to_have_count(0)
