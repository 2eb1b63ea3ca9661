"""Control flow: a branch or loop opens in its own canvas with links back; search finds its contents."""

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from tests.browser.player import node, press

pytestmark = pytest.mark.browser


@pytest.fixture
def recording():
    w = ex.tensor(np.eye(3), name="w")

    def step(h, x):
        h = ex.cond(h.sum() > 0, lambda h: ex.tanh(h @ w), lambda h: ex.sin(h), h)
        return h + x, h

    _, outputs = ex.scan(step, ex.tensor(np.ones(3), name="h"), ex.tensor(np.ones((5, 3)), name="xs"))
    plan = ex.EvalPlan()
    plan.register(outputs)
    return plan.prepare().recording


@pytest.mark.spec("V-7")
def test_loops_and_branches_are_entered_and_left_by_the_way_that_led_to_them(show, recording):
    view = show(recording, position=0)
    crumbs = view.locator(".ex-crumbs")
    expect(crumbs).to_be_hidden()
    for name, path in (
        ("scan", "top › scan"),
        ("cond", "top › scan › cond"),
        ("otherwise", "top › scan › cond › otherwise"),
    ):
        node(view, name).dblclick()
        expect(crumbs).to_have_text(path)
    expect(node(view, "sin")).to_be_visible()
    expect(node(view, "tanh")).to_have_count(0)
    crumbs.get_by_role("button", name="cond").click()
    expect(crumbs).to_have_text("top › scan › cond")
    expect(node(view, "where")).to_be_visible()
    crumbs.get_by_role("button", name="top").click()
    expect(crumbs).to_be_hidden()
    expect(node(view, "scan")).to_be_visible()


@pytest.mark.spec("V-7", "V-8")
def test_search_enters_the_canvas_of_what_it_finds(show, recording):
    view = show(recording, position=0)
    press(view, "/")
    view.page.keyboard.type("operation:tanh")
    expect(view.locator(".ex-search [role=status]")).to_contain_text("1 node")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-crumbs")).to_have_text("top › scan › cond › then")
    expect(view.locator(".ex-node.ex-selected.ex-match")).to_be_visible()


@pytest.mark.spec("V-7", "V-2")
def test_what_a_loop_captures_is_an_operand_of_its_node_and_a_parameter_inside(show, recording):
    view = show(recording, position=0)
    node(view, "scan").click()
    expect(view.locator(".ex-why")).to_contain_text("w")
    node(view, "scan").dblclick()
    for name in ("h", "x", "w"):
        expect(node(view, name)).to_be_visible()
