"""Layers on the page: boxes, ports, the panel, and the gradient that a selection highlights."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer import layers
from tests.browser.player import box, heading, node, press, resize

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def perceptron():
    """Return a training perceptron whose weight does not update."""
    chosen = [
        layers.PUpdate,
        layers.Sub("linear", layers.Sub("weight", layers.PNoUpdate)),
        layers.PerceptronPolicy.activation(layers.Sigmoid),
    ]
    type_ = ex.TensorType((4, 2), np.dtype(np.float32))
    return layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, inputs={"input": type_}).explore().recording


@pytest.mark.spec("M-L10", "M-L12", "M-L13")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_of_a_layer_tells_how_it_was_made(show, perceptron, theme):
    """The panel of a layer shows its clauses, order, policies with their sources, and gradients with reasons."""
    view = show(perceptron, theme=theme)
    box(view, "linear · Linear").click(position={"x": 60, "y": 12})
    panel = view.locator(".ex-why")
    expect(panel.locator(".ex-order")).to_have_text("weight → bias")
    expect(panel.locator(".ex-clauses li")).to_have_count(5)
    expect(panel.locator(".ex-clauses")).to_contain_text("InternalConnect('weight', 'output', 'bias', 'input')")
    expect(panel.locator(".ex-policies")).to_contain_text("GradPolicy.update = True given by root")
    expect(panel.locator(".ex-feedback .ex-unbuilt").first).to_contain_text("weight")
    facts = dict(
        zip(*(panel.locator(f".ex-layer-facts {tag}").all_text_contents() for tag in ("dt", "dd")), strict=True)
    )
    assert facts == {"name": "root/linear", "class": "Linear", "ports": "input → output", "built for": "training"}


@pytest.mark.spec("M-L12", "M-L13")
def test_a_parameter_tells_why_it_has_no_gradient(show, perceptron):
    """The panel of a parameter shows its layer's policies and the reason why its gradient is not built."""
    view = show(perceptron, whole=True)
    view.locator('.ex-node[aria-label^="linear/weight/parameter,"]').click()
    expect(view.locator(".ex-why .ex-policies")).to_contain_text("GradPolicy.update = False")
    expect(view.locator(".ex-why .ex-unbuilt")).to_contain_text("GradPolicy.update = False")


@pytest.mark.spec("V-11", headline=True)
def test_a_selection_lights_its_gradient_and_what_was_saved(show, perceptron):
    """Highlight the gradient of a selected layer or node and the values saved for it, with links in both directions."""
    view = show(perceptron, whole=True)
    box(view, "activation · Sigmoid").click()
    lit = view.locator(".ex-lit-backward")
    expect(lit).to_have_count(1)
    expect(lit).to_contain_text("activation · Sigmoid")
    expect(lit.locator(".ex-tag")).to_have_text("gradient")
    expect(heading(view, "its gradient is computed by")).to_be_visible()
    view.locator(".ex-twins .ex-link", has_text="sigmoid_gradient").click()
    expect(heading(view, "part of the gradient of")).to_be_visible()
    expect(view.locator(".ex-lit-forward")).to_have_count(1)
    view.page.keyboard.press("Escape")
    x, w = ex.tensor(np.ones((2, 3), np.float32), name="x"), ex.tensor(np.ones((3, 4), np.float32), name="w")
    loss = ex.tanh(x @ w).sum()
    view = show(ex.explore([loss, ex.grad(loss, w)], run=False).recording, position=0)
    node(view, "matmul").click()
    expect(view.locator(".ex-lit-saved")).to_have_count(1)
    expect(view.locator(".ex-lit-saved")).to_contain_text("x")


@pytest.mark.spec("V-11", "V-13")
def test_what_is_lit_is_said_aloud(show):
    """Highlighting is also a word on the node and in its accessible name, not only a colour."""
    x, w = ex.tensor(np.ones((2, 2), np.float32), name="x"), ex.tensor(np.ones((2, 2), np.float32), name="w")
    loss = ex.tanh(x @ w).sum()
    view = show(ex.explore([loss, ex.grad(loss, w)], run=False).recording)
    view.locator(".ex-box.ex-closed", has_text="gradient").first.dblclick()
    view.locator('.ex-node:is([aria-label^="tanh,"], [aria-label*=" = tanh,"])').first.click()
    expect(view.locator(".ex-node.ex-lit-backward").first).to_be_visible()
    spoken = view.locator(".ex-node.ex-lit-backward").first.get_attribute("aria-label")
    assert spoken.endswith("part of the gradient of the selection")


@pytest.mark.spec("M-L10", "V-7")
def test_ports_are_named_where_edges_meet_a_layer(show, perceptron):
    """Port names appear at layer boxes, and move when a box is closed."""
    view = show(perceptron, whole=True)
    ports = view.locator(".ex-port")
    left, right = (ports.filter(has_text=re.compile(f"^{name}$")).first for name in ("left", "right"))
    boxes = [place.bounding_box() for place in (right, left)]  # the weight is an edge from the left, to the port right
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    assert boxes[0]["y"] == boxes[1]["y"]
    before = ports.count()
    title = box(view, "linear · Linear")
    title.dblclick(position={"x": 60, "y": 12})
    expect(view.locator(".ex-closed", has_text="linear · Linear").first).to_be_visible()
    assert 0 < ports.count() < before


@pytest.mark.spec("M-L10", "V-13")
@pytest.mark.parametrize("keys", [[], ["d"]], ids=["down", "right"])
def test_names_of_ports_lie_clear_of_boxes_and_marks(show, keys):
    """A box, its second sheet or an output mark covers no port name, in both flow directions."""
    module = ex.train.Module("digits", loss=ex.train.CrossEntropy(), optimizer=ex.train.Adam(rate=0.003))
    for layer in (ex.train.Linear("hidden", 64, 128), ex.relu, ex.train.Linear("scores", 128, 10)):
        module.add_node(layer)
    module.attach()
    view = show(module.explore(np.ones((4, 8, 8), np.float32), np.arange(4)).recording)
    resize(view.page, 2600)
    press(view, *keys, "c", "f")
    expect(view.locator(".ex-port").first).to_be_visible()
    assert view.evaluate(CUT) == []


@pytest.mark.spec("M-L10", "V-13")
@pytest.mark.parametrize("keys", [[], ["d"]], ids=["down", "right"])
def test_no_name_of_a_port_lies_over_another(show, keys):
    """Port names do not overlap if two layers are close together or two edges meet at one."""
    float32 = np.dtype(np.float32)
    types = {"input": ex.TensorType((1, 1), float32), "previous": ex.TensorType((1, 4), float32)}
    view = show(layers.GRUStep("step", 1, 4).explore(types).recording)
    resize(view.page, 3000, 1400)
    press(view, "e", *keys, "f")
    expect(view.locator(".ex-port").first).to_be_visible()
    assert view.evaluate(OVER) == []


OVER = """view => {
    const shown = [...view.querySelectorAll(".ex-port")];
    const names = shown.map((name) => [name.textContent, name.getBoundingClientRect()]);
    return names.flatMap(([text, a], index) => names.slice(index + 1)
        .filter(([, b]) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        .map(([other]) => `${text} over ${other}`));
}"""
CUT = """view => {
    const of = (selector) => [...view.querySelectorAll(selector)].filter((part) => part.checkVisibility());
    const shapes = of(".ex-node > .ex-shape, .ex-closed > .ex-shape, .ex-under, .ex-asked rect").map((shape) => shape.getBoundingClientRect());
    return of(".ex-port").filter((name) => {
        const { left, right, top, bottom } = name.getBoundingClientRect();
        const middle = (top + bottom) / 2; // of a line that has room for accents and descenders, too
        return shapes.some((shape) => left < shape.right && shape.left < right && middle - 2 < shape.bottom && shape.top < middle + 2);
    }).map((name) => name.textContent);
}"""  # noqa: E501
