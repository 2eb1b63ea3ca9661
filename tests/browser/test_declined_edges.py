"""Declined pairs: the edge is marked with a ✗ on the page and in the static picture, and both ends are links."""

from collections import Counter

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Recording
from explorer.view.picture.edges import cross
from explorer.view.picture.svg import svg
from tests.browser.player import heading, press

pytestmark = pytest.mark.browser


BOUNDS = """(element) => {
    const { x, y, width, height } = element.getBBox();
    return { left: x, top: y, right: x + width, bottom: y + height };
}"""


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Return a plan that fuses the last product with neither softmax nor sum, nor these with their operand."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    both = ex.tanh(x) + x
    handle = plan.register(ex.softmax(both) * ex.sum(both))
    plan.prepare()
    assert handle is not None
    return plan.recording


@pytest.mark.spec("V-1", "V-2", "V-13")
def test_a_declined_pair_is_marked_on_its_edge_and_named_in_its_labels(show, recording):
    """At the decision one edge has a ✗, and in the whole stage all declined edges; labels name the other end."""
    edges = recording.declined_edges
    fuse = next(stage for stage in recording.stages if stage.name == "fuse")
    first, operand, reader = edges[0]
    view = show(recording, position=0)
    view.page.evaluate("location.hash = 'stage=fuse'")
    at = sum(edge[0] == first for edge in edges)
    marked = view.locator(".ex-graph :is(.ex-layer-edges, .ex-layer-changed) .ex-edge-declined")
    expect(marked).to_have_count(len({edge[1:] for edge in edges}))
    assert len(edges) > 1
    press(view, *"." * (first - fuse.first + 1))
    expect(marked).to_have_count(at)
    expect(view.locator(".ex-graph .ex-cross")).to_have_count(at)
    expect(view.locator(".ex-graph [aria-label*='not fused with']")).to_have_count(at + 1)
    expect(view.locator(f"[aria-label*='not fused with {recording.label(reader)}']")).to_have_count(1)
    link = view.locator(".ex-why .ex-facts dd .ex-link").filter(has_text=recording.label(operand)).first
    link.click()
    expect(view.locator(".ex-why h4")).to_have_text(recording.named_label(operand))
    expect(heading(view, "read by")).to_be_visible()


@pytest.mark.spec("Q-4", "V-2")
def test_the_cross_of_an_edge_is_clear_of_kernel_titles_and_opens_the_answer_about_its_ends(show):
    """A click on a ✗ selects both ends; no kernel title covers a ✗, not even on a short edge."""
    x = ex.tensor(np.ones((32, 64), np.float32), name="x")
    weights = ex.tensor(np.ones((64, 48), np.float32), name="W")
    plan = ex.EvalPlan()
    handle = plan.register(ex.tanh(x @ weights + ex.tensor(np.zeros(48, np.float32))) + 2 * (x @ weights))
    view = show(plan.prepare().recording)
    assert handle is not None
    view.page.evaluate("location.hash = 'stage=fuse'")
    crosses = view.locator(".ex-graph .ex-cross")
    expect(crosses).to_have_count(2)
    title = view.locator(".ex-frame-title").evaluate(BOUNDS)
    for marked in crosses.all():
        mark = marked.locator("path").evaluate(BOUNDS)
        assert mark["bottom"] <= title["top"] or mark["left"] >= title["right"]
        area = marked.bounding_box()
        assert min(area["width"], area["height"]) >= 12
        assert marked.evaluate("(mark) => getComputedStyle(mark).cursor") == "pointer"
    texts = [marked.locator("title").text_content() for marked in crosses.all()]
    assert texts == ["why are matmul and add not one kernel?", "why are matmul and multiply 2 not one kernel?"]
    crosses.first.click()
    expect(view.locator(".ex-why h4")).to_have_text("matmul and add")
    expect(view.locator(".ex-why .ex-card-declined")).to_have_count(1)


def test_the_cross_of_a_short_edge_is_near_its_start():
    """It is 1/5 along an edge over less than 58 px of height, and in the middle of a higher one."""
    assert cross([0, 0, 0, 17, 0, 33, 0, 50]) == "M-5 5l10 10m0-10l-10 10"
    assert cross([0, 0, 0, 30, 0, 60, 0, 90]) == "M-5 40l10 10m0-10l-10 10"


@pytest.mark.spec("V-15")
def test_a_static_picture_marks_the_edge_of_its_decision(recording):
    """A picture at a declined decision has the ✗; the picture of the whole plan has none."""
    counts = Counter(decision for decision, *_ in recording.declined_edges)
    for decision, count in counts.items():
        assert svg(recording, decision + 1).count('class="declined"') == 2 * count
    assert 'class="declined"' not in svg(recording)
    before = next(stage for stage in recording.stages if stage.name == "fuse").first
    assert 'class="declined"' not in svg(recording, before)
