"""Numbers of a reader's own over the graph: their colours, the legend, the panel."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.model.overlay import overlay
from tests.browser.player import node

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-10")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_negative_numbers_have_a_colour_of_their_own(show, theme):
    """Positive and negative numbers of an overlay are told apart by colour, in the legend and in the panel."""
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.sum(ex.exp(ex.tanh(x))))
    recording = plan.prepare().recording
    labels = recording.nodes.label
    metric = overlay(recording, {labels.index("tanh"): 4.0, labels.index("exp"): -2.0}, "mine", "%", "of a reader")
    view = show(recording, theme=theme, overlays=[metric])
    fill = "node => getComputedStyle(node.querySelector('.ex-shape')).fill"
    plain = node(view, "tanh").evaluate(fill)
    view.locator(".ex-heat-choice").select_option("mine")
    hot, cold = (node(view, name).evaluate(fill) for name in ("tanh", "exp"))
    assert len({plain, hot, cold}) == 3
    expect(view.locator(".ex-legend")).to_contain_text("−4 %")
    expect(view.locator(".ex-legend")).to_contain_text("4 %")
    node(view, "exp").click()
    expect(view.locator(".ex-why .ex-facts dd").filter(has_text="−2 %")).to_have_count(1)
