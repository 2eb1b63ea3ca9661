"""User-defined numbers over the graph: colours, legend and panel."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.model.heat import overlay
from tests.browser.player import node

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-10")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_negative_numbers_have_a_colour_of_their_own(show, theme):
    """An overlay initially colours the graph; positive and negative numbers differ in colour, legend and panel."""
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.sum(ex.exp(ex.tanh(x))))
    recording = plan.prepare().recording
    labels = recording.nodes.label
    metric = overlay(recording, {labels.index("tanh"): 4.0, labels.index("exp"): -2.0}, "mine", "%", "of a reader")
    view = show(recording, theme=theme, overlays=[metric])
    fill = "node => getComputedStyle(node.querySelector('.ex-shape')).fill"
    expect(view.locator(".ex-heat-choice")).to_have_value("mine")
    hot, cold = (node(view, name).evaluate(fill) for name in ("tanh", "exp"))
    view.locator(".ex-heat-choice").select_option("")
    plain = node(view, "tanh").evaluate(fill)
    assert len({plain, hot, cold}) == 3
    view.locator(".ex-heat-choice").select_option("mine")
    expect(view.locator(".ex-legend")).to_contain_text("−4 %")
    expect(view.locator(".ex-legend")).to_contain_text("4 %")
    node(view, "exp").click()
    expect(view.locator(".ex-why .ex-facts dd").filter(has_text="−2 %")).to_have_count(1)


@pytest.mark.spec("V-10")
def test_the_name_of_a_heat_has_room_beside_its_arrow(show):
    """The toolbar shows the whole names of costs and of the difference of two runs."""
    plans = [ex.EvalPlan(), ex.EvalPlan()]
    for plan in plans:
        plan.register(ex.sum(ex.tanh(ex.tensor(np.ones((4, 4), np.float32)))))
        plan.eval()
    recording = plans[0].recording
    view = show(recording, overlays=[overlay(recording, {0: 1.0}, "Δ time", "µs", "of two runs")])
    needed = """select => {
        const pen = document.createElement("canvas").getContext("2d");
        pen.font = getComputedStyle(select).font;
        const costs = [...select.options].filter(({ text }) => text.startsWith("heat"));
        return costs.map((option) => pen.measureText(option.text).width);
    }"""
    select = view.locator(".ex-heat-choice")
    names = select.evaluate(needed)
    assert len(names) > 4
    assert max(names) + 24 <= select.evaluate("select => select.clientWidth")


@pytest.mark.spec("V-10")
def test_the_difference_of_two_runs_says_which_is_subtracted(show):
    """The legend and the costs show which run was slower."""
    plans = [ex.EvalPlan(), ex.EvalPlan()]
    for plan in plans:
        plan.register(ex.sum(ex.tanh(ex.tensor(np.ones((4, 4), np.float32)))))
        plan.eval()
    compared = plans[1].explore()
    compared.overlay_times(plans[0])
    view = show(compared.recording, overlays=list(compared._overlays.values()))
    expect(view.locator(".ex-heat-choice")).to_have_value("Δ time")
    expect(view.locator(".ex-legend b")).to_have_text("Δ time, this run − the other")
    expect(view.locator(".ex-legend")).to_have_attribute("title", re.compile("negative where this run is faster"))
    expect(view.locator(".ex-costs dt", has_text="Δ time, this run − the other")).to_have_count(1)
    node(view, "sum").click()
    expect(view.locator(".ex-why .ex-facts dt", has_text="Δ time, this run − the other")).to_have_count(1)


@pytest.mark.spec("V-10", "Q-6")
def test_a_closed_box_has_the_largest_number_in_it(show):
    """With `boxes="max"`, the colour, the legend and the panel show the largest number in a box, not the sum."""
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    with ex.scope("block"):
        y = ex.exp(ex.tanh(x))
    plan = ex.EvalPlan()
    plan.register(ex.sum(y))
    recording = plan.prepare().recording
    labels = recording.nodes.label
    values = {labels.index("tanh"): 4.0, labels.index("exp"): 3.0, labels.index("sum"): 2.0}
    view = show(recording, overlays=[overlay(recording, values, "mine", "%", "", boxes="max")])
    view.page.keyboard.press("Home")
    expect(view.locator(".ex-legend")).to_contain_text("4 %")
    rows = dict(zip(*[view.locator(f".ex-costs {tag}").all_text_contents() for tag in ("dt", "dd")], strict=True))
    assert rows["mine"] == "4 % · mean 3 %"
