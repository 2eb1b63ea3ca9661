"""Labels of edges: near, where no node tells the type of the value."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.player import press
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
