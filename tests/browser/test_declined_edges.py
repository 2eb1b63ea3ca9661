"""Declined pairs: the edge is marked with a ✗ on the page and in the static picture, and both ends are links."""

import re
from collections import Counter

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Recording
from explorer.view.picture.svg import svg
from tests.browser.player import heading, press

pytestmark = pytest.mark.browser


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
    marked = view.locator(".ex-graph .ex-edge-declined")
    expect(marked).to_have_count(len({edge[1:] for edge in edges}))
    assert len(edges) > 1
    press(view, *"." * (first - fuse.first + 1))
    expect(marked).to_have_count(at)
    assert re.search(r"l10 10m0-10l-10 10$", marked.first.get_attribute("d") or "")
    expect(view.locator(".ex-graph [aria-label*='not fused with']")).to_have_count(at + 1)
    expect(view.locator(f"[aria-label*='not fused with {recording.label(reader)}']")).to_have_count(1)
    link = view.locator(".ex-why .ex-facts dd .ex-link").filter(has_text=recording.label(operand)).first
    link.click()
    expect(view.locator(".ex-why h4")).to_have_text(recording.named_label(operand))
    expect(heading(view, "read by")).to_be_visible()


@pytest.mark.spec("V-15")
def test_a_static_picture_marks_the_edge_of_its_decision(recording):
    """A picture at a declined decision has the ✗; the picture of the whole plan has none."""
    counts = Counter(decision for decision, *_ in recording.declined_edges)
    for decision, count in counts.items():
        assert svg(recording, decision + 1).count('class="declined"') == 2 * count
    assert 'class="declined"' not in svg(recording)
    before = next(stage for stage in recording.stages if stage.name == "fuse").first
    assert 'class="declined"' not in svg(recording, before)
