"""Variables of the user's program on nodes, in lists and in the search."""

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from tests.browser.player import heading, press

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-2", "V-8", "V-9")
def test_a_reader_finds_where_a_variable_stands(show):
    """A value has its variable's name on its node, in the panel, among readers and outputs, and in the search."""
    x = ex.tensor(np.ones((2, 2), "float32"), name="x")
    hidden = ex.tanh(x @ x)
    loss = (hidden + 1).sum()
    plan = ex.EvalPlan()
    plan.register(loss)
    view = show(plan.prepare().recording, position=0)
    expect(view.locator(".ex-why .ex-summary")).to_contain_text("loss = sum")
    stands = view.locator('.ex-node[aria-label^="hidden = tanh,"]')
    expect(stands).to_contain_text("hidden = tanh")
    press(view, "/")
    view.page.keyboard.type("name:hidden")
    expect(view.locator(".ex-results li")).to_have_count(1)
    expect(view.locator(".ex-results li")).to_contain_text("hidden = tanh")
    view.page.keyboard.press("Escape")
    stands.click()
    expect(view.locator(".ex-why h4")).to_have_text("hidden = tanh")
    view.locator('.ex-node[aria-label^="matmul,"]').click()
    expect(heading(view, "read by 1")).to_be_visible()
    expect(view.locator(".ex-why .ex-nodes").filter(has_text="hidden = tanh")).to_have_count(1)


@pytest.mark.spec("V-2")
def test_a_variable_of_several_values_says_so(show):
    """A loop variable names each of its values, and the panel shows their number."""
    y = ex.tensor([1.0, 2.0], name="x")
    for _ in range(3):
        y = ex.tanh(y)
    plan = ex.EvalPlan()
    plan.register(y)
    view = show(plan.prepare().recording, position=0)
    view.locator('.ex-node[aria-label^="y = tanh,"]').first.click()
    expect(view.locator(".ex-why")).to_contain_text("3 values were assigned to a variable y; this is one of them")
