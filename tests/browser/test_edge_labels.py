"""Edge labels, shown when zoomed in if no node shows the value's type."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node
from playwright.sync_api import expect

import explorer as ex
from explorer.view.payload.view_payload import payload
from tests.browser.player import mount, node, press
from tests.formats.onnx.models import FLOAT, model, opened
from tests.golden.programs import recorded

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-7", "V-13")
def test_edges_tell_types_near_where_nodes_tell_something_else(show):
    """In the recorded graph every node shows its type; later some show their memory, and their edges show the type."""
    view = show(recorded("perceptron"), whole=True)
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
    """A file's dimension names appear with their lengths, the panel shows the declaration, and search finds both."""
    nodes = [make_node("Relu", ["x"], ["a"]), make_node("Tanh", ["a"], ["b"]), make_node("Exp", ["b"], ["y"])]
    net = opened(model(nodes, {"x": (FLOAT, ["batch", "seq", 64])}, ["y"]), tmp_path)
    view = show(net.plan((2, 16, 64)).recording, position=0)
    expect(node(view, "x")).to_contain_text("batch=2×seq=16×64 f32")
    node(view, "x").click()
    expect(view.locator(".ex-why")).to_contain_text("batch=2×seq=16×64 float32")
    expect(view.locator(".ex-why")).to_contain_text("declared as batch×seq×64: input 'x' of m.onnx")
    node(view, "Relu").click()
    for text in ("declared as", "undefined"):
        expect(view.locator(".ex-why")).not_to_contain_text(text)
    for query, count in (("shape:batch=2", 1), ("shape:2x16x64", 4)):
        press(view, "/")
        view.page.keyboard.type(query)
        expect(view.locator(".ex-search [role=status]")).to_contain_text(f"{count} node")
        view.page.keyboard.press("Escape")


@pytest.mark.spec("V-7")
def test_a_declined_edge_has_its_mark_and_no_label(page):
    """If a pair is declined, the type next to its edge gives way to the ✗; at other stages the type is shown."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    with ex.scope("first"):
        first = ex.tanh(ex.softmax(x))
    with ex.scope("second"):
        total = ex.sum(first) + ex.softmax(first * 2)
    plan = ex.EvalPlan()
    plan.register(total)
    mount(page, payload(plan.prepare().recording, position=0))
    drawn = """stage => {
        const { view } = window;
        view.goStage(stage);
        view.opening.all(false);
        view.fit();
        const { edges } = view.scene;
        const isDrawn = (key) => Boolean(view.canvas.labels.texts.get(key)?.isConnected);
        const keys = [...view.placement.labels.keys()];
        return Object.fromEntries(keys.map((key) => [key, [edges.get(key)?.state === "declined", isDrawn(key)]]));
    }"""
    fused, ordered = page.evaluate(drawn, "fuse"), page.evaluate(drawn, "order")
    declined = [key for key, (is_declined, _) in fused.items() if is_declined]
    assert declined
    assert not any(fused[key][1] for key in declined)
    assert [ordered[key] for key in declined] == [[False, True]] * len(declined)
