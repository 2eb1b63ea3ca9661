"""Labels of edges: near, where no node tells the type of the value."""

from __future__ import annotations

import pytest
from onnx.helper import make_node
from playwright.sync_api import expect

from tests.browser.player import node, press
from tests.formats.onnx.models import FLOAT, model, opened
from tests.golden.programs import recorded

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-7", "V-13")
def test_edges_tell_types_near_where_nodes_tell_something_else(show):
    """At the recorded graph every node tells its type; later some tell their memory, and then their edges do."""
    view = show(recorded("perceptron"))
    labels = view.locator(".ex-layer-labels .ex-label")
    expect(labels).to_have_count(0)
    press(view, "End", "f")
    expect(labels.first).to_be_attached()
    for text in labels.all_text_contents():
        assert text.endswith(" f32"), text
    expect(labels.first).to_be_hidden()
    wheel = {"deltaY": -700, "ctrlKey": True, "bubbles": True, "cancelable": True}
    view.locator(".ex-stage").dispatch_event("wheel", wheel)
    expect(labels.first).to_be_visible()


@pytest.mark.spec("V-7", "V-2")
def test_names_of_dimensions_are_on_nodes_edges_and_in_the_panel(show, tmp_path):
    """A file's names stand with their lengths; the panel says which declaration has them, and search finds both."""
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Tanh", ["a"], ["b"]), make_node("Exp", ["b"], ["y"])]
    net = opened(model(nodes, {"x": (FLOAT, ["batch", "seq", 64])}, ["y"]), tmp_path)
    view = show(net.plan((2, 16, 64)).recording, position=0)
    expect(node(view, "x")).to_contain_text("batch=2×seq=16×64 f32")
    node(view, "x").click()
    expect(view.locator(".ex-why")).to_contain_text("batch=2×seq=16×64 float32")
    expect(view.locator(".ex-why")).to_contain_text("declared as batch×seq×64: input 'x' of m.onnx")
    node(view, "relu").click()
    for text in ("declared as", "undefined"):
        expect(view.locator(".ex-why")).not_to_contain_text(text)
    for query, count in (("shape:batch=2", 1), ("shape:2x16x64", 4)):
        press(view, "/")
        view.page.keyboard.type(query)
        expect(view.locator(".ex-search [role=status]")).to_contain_text(f"{count} node")
        view.page.keyboard.press("Escape")
