"""Traces of a node's inputs and outputs, and opening boxes down to a depth."""

import re

import pytest
from playwright.sync_api import expect

from explorer.view.payload.view_payload import payload
from tests.browser.player import mount, press
from tests.view import sample

pytestmark = pytest.mark.browser

SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.transformer())
view
"""
LIT = (
    """(view) => [...view.querySelectorAll(".ex-node")].map((node) => [node.dataset.key, node.getAttribute("class")])"""
)


def lit(view, way):
    return {key for key, names in view.evaluate(LIT) if f"ex-lit-{way}" in names.split()}


def select(view, name):
    view.locator(f'.ex-node:is([aria-label^="{name},"], [aria-label*=" = {name},"])').first.click()
    expect(view.locator(".ex-why h4")).to_have_text(name)


def reached(recording, node, way):
    """Return the nodes on one side of a recorded node, by iterating over all edges until nothing is added."""
    edges = [(operand, reader) for reader, operands in enumerate(recording.nodes.operands) for operand in operands]
    results, size = {node}, 0
    while size < len(results):
        size = len(results)
        for operand, reader in edges:
            start, end = (reader, operand) if way == "inputs" else (operand, reader)
            if start in results:
                results.add(end)
    return results - {node}


@pytest.mark.spec("V-9")
@pytest.mark.parametrize(("way", "key"), [("inputs", "i"), ("outputs", "r")])
def test_a_node_is_traced_and_the_rest_is_dim(show, way, key):
    recording = sample.mlp()
    view = show(recording)
    press(view, "e")
    select(view, "tanh")
    press(view, key)
    node = next(n for n, row in enumerate(recording.nodes.operation) if recording.operations[row] == "tanh")
    there = {other for other in reached(recording, node, way) if recording.nodes.born[other] < 0}
    assert len(lit(view, way)) == len(there) > 3
    button = view.get_by_role("button", name=f"trace {way}")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(view.locator(".ex-along").first).to_be_attached()
    expect(view).to_have_class(re.compile("ex-tracing"))
    press(view, "Escape")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert not lit(view, way)
    expect(view.locator(".ex-why h4")).to_have_text("tanh")


@pytest.mark.spec("V-9")
def test_what_is_traced_is_counted_and_follows_the_selection(show):
    view = show(sample.mlp())
    press(view, "e")
    select(view, "tanh")
    view.get_by_role("button", name="trace inputs").click()
    expect(view.locator(".ex-why")).to_contain_text("2 operations lead to tanh, from 3 inputs")
    select(view, "softmax")
    expect(view.locator(".ex-why")).to_contain_text("operations lead to softmax")
    view.get_by_role("button", name="trace outputs").click()
    expect(view.locator(".ex-why")).to_contain_text("are computed from softmax")
    assert not lit(view, "inputs")
    assert lit(view, "outputs")


@pytest.mark.spec("V-9")
def test_closed_boxes_that_hide_what_is_traced_are_lit(show):
    view = show(sample.transformer())
    press(view, "0")
    view.locator(".ex-closed").first.focus()
    press(view, "e")
    view.locator(".ex-node").last.click()
    press(view, "i", "0")
    expect(view.locator(".ex-closed.ex-lit-inputs").first).to_be_visible()


@pytest.mark.spec("V-9")
def test_a_trace_is_walked_again_only_where_the_node_or_the_graph_is_another(page):
    """Declined decisions, order and buffers cause no new traversal; a change by a decision causes one."""
    recording = sample.resnet()
    mount(page, payload(recording, position=0))
    view = page.locator(".explorer-view")
    page.evaluate(
        "() => (window.view.selection.select(window.view.trace.count >> 1), window.view.selection.trace('inputs'))"
    )
    walked = "() => window.view.parts.panel.parts.lineage.walked"
    changes = {decision for decision, *_ in recording.substitutions}
    changes |= {
        decision for table in (recording.nodes.born, recording.nodes.gone) for decision in table if decision >= 0
    }
    changes |= {group.decision for group in recording.groups if group.kind == "kernel"}
    assert page.evaluate(walked) == 1
    steps = int(view.locator(".ex-strip input").get_attribute("max"))
    page.evaluate("steps => { for (let step = 0; step < steps; step++) window.view.step(1); }", steps)
    assert 1 <= page.evaluate(walked) - 1 <= len(changes) < steps
    page.evaluate("() => window.view.parts.tree.show()")
    before = page.evaluate(walked)
    page.evaluate("() => { window.view.opening.all(true); window.view.show(); }")
    assert page.evaluate(walked) == before


@pytest.mark.spec("V-9")
def test_the_sentence_tells_weights_from_inputs(show):
    """Arrays of layers count as weights; all other values that exist before the run as inputs."""
    view = show(sample.transformer(2), whole=True)
    press(view, "e")
    select(view, "add")
    press(view, "i")
    expect(view.locator(".ex-why")).to_contain_text(re.compile("from 1 input and [35] weights"))
    expect(view.locator(".ex-why")).not_to_contain_text("undefined")


@pytest.mark.spec("V-8")
def test_boxes_are_open_down_to_a_depth(show):
    view = show(sample.transformer())
    opened = view.locator(".ex-box.ex-open")
    press(view, "0")
    expect(opened).to_have_count(0)
    press(view, "1")
    outermost = opened.count()
    assert outermost > 0
    press(view, "9")
    assert opened.count() > outermost
    view.get_by_role("button", name="more tools").click()
    view.get_by_label("open boxes down to a depth").select_option("depth 1")
    expect(opened).to_have_count(outermost)


@pytest.mark.spec("V-8", "V-9")
def test_python_traces_and_collapses(notebook):
    book = notebook(SHOW)
    view = book.view()
    book.execute("view.depth = 9")
    expect(view.locator(".ex-open").first).to_be_visible()
    press(view, "1")
    book.says("print(view.depth)", "1\n")
    book.execute("view.collapse()")
    expect(view.locator(".ex-open")).to_have_count(0)
    book.execute("view.trace(16)")
    expect(view.locator(".ex-why")).to_contain_text("lead to")
    book.execute("view.trace(6, 'outputs')")
    expect(view.locator(".ex-why")).to_contain_text("computed from")
