"""Two plans side by side in a real notebook: the second view follows the first."""

import pytest
from playwright.sync_api import expect

from tests.browser.player import node, press

pytestmark = pytest.mark.browser

PLANS = """
import numpy as np, explorer as ex
x = ex.tensor(np.ones((3, 4), np.float32), name="x")
root = ex.log(ex.softmax(ex.tanh(x + 1.0) * 2.0))
plans = [ex.EvalPlan(), ex.EvalPlan(without=["fuse"])]
for plan in plans:
    plan.register(root)
    plan.prepare()
both = plans[0].compare(plans[1]).explore()
both
"""


@pytest.mark.spec("V-3")
def test_a_step_in_one_view_is_taken_in_the_other(notebook):
    """Before and after stand side by side; stepping and selecting in the first view moves the second one too."""
    book = notebook(PLANS)
    first, second = book.view(0), book.view(1)
    left, right = first.bounding_box(), second.bounding_box()
    assert left["x"] + left["width"] <= right["x"] + 1
    assert abs(left["y"] - right["y"]) < 2
    assert abs(left["width"] - right["width"]) < 4
    press(first, "Home", ".")
    expect(first.locator(".ex-say")).to_contain_text("log of softmax is one log-softmax")
    expect(second.locator(".ex-say")).to_contain_text("log of softmax is one log-softmax")
    node(first, "tanh").click()
    expect(second.locator(".ex-why h4")).to_have_text("tanh")
    node(second, "multiply 2").click()
    expect(first.locator(".ex-why h4")).to_have_text("multiply 2")
    book.says("print(both.before.stage, both.after.stage)", "simplify simplify\n")
