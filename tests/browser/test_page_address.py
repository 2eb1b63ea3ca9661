"""The address of a page: links restore a state, and the address follows the reader's actions."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from tests.browser.player import node, press, stage, tool
from tests.view import sample

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-14")
def test_a_link_leads_to_a_stage_and_a_node(show, page):
    """A URL fragment such as `#stage=fuse&node=tanh` leads to a decision."""
    view = show(sample.mlp())
    page.goto(page.url + "#stage=fuse&node=tanh")
    expect(stage(view)).to_contain_text("fuse")
    expect(node(view, "tanh")).to_have_class(re.compile(r"\bex-selected\b"))


def test_a_name_in_an_address_is_the_node_that_focus_takes(show, page):
    """A link leads to the last of several nodes with a name, as `view.focus` does; a part of a path is enough."""
    x = ex.tensor(np.ones((2, 3), np.float32), name="x")
    with ex.scope("block"), ex.scope("inner"):
        first = ex.tanh(x)
    second = ex.tanh(ex.exp(first) * 2)
    widget = ex.explore(second + 1, run=False)
    view = show(widget.recording)
    for name in ("tanh", "inner", "second", "block / inner", "x", "block.inner", "multiply 2"):
        widget.focus(name)
        page.goto(page.url.split("#")[0] + "#" + urlencode({"stage": "recorded", "node": name}))
        page.wait_for_url(re.compile(rf"&node={widget.selected}(&|$)"), timeout=15_000)
        expect(view.locator(".ex-selected")).to_have_count(1)


def test_what_a_reader_does_stands_in_the_address(show, page):
    view = show(sample.mlp())
    press(view, ".", ".")
    page.wait_for_url("**#stage=*&step=2")
    node(view, "tanh").click()
    page.wait_for_url("**#stage=*&step=2&node=*")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(view.locator(".ex-say")).to_contain_text(sample.mlp().reason(sample.mlp().decisions[1]))
    expect(node(view, "tanh")).to_have_class(re.compile(r"\bex-selected\b"))


@pytest.mark.parametrize(
    "fragment",
    ["stage=none&step=99999999&node=99999&open=99999,-1,x", "node=<img src=x onerror=alert(1)>", "step=1e9", "%"],
)
def test_an_address_that_names_nothing_leaves_the_view_alone(show, page, fragment):
    view = show(sample.mlp())
    page.goto(page.url + "#" + fragment)
    expect(node(view, "tanh")).to_be_visible()
    press(view, "Home", ".")
    expect(view.locator(".ex-say")).to_contain_text(sample.mlp().reason(sample.mlp().decisions[0]))


@pytest.mark.spec("V-14")
@pytest.mark.parametrize(
    ("fragment", "missing"),
    [
        ("node=nothing", 'node "nothing"'),
        ("stage=none&node=tanh", 'stage "none"'),
        ("stage=fuse&decision=NoRule&node=<b>", 'node "<b>", decision "NoRule"'),
        ("stage=order&kernel=99", 'kernel "99"'),
    ],
)
def test_a_link_to_something_that_is_not_there_is_reported(show, page, fragment, missing):
    """The line above the canvas names the unknown parts of a link until the next key."""
    view = show(sample.mlp())
    for _ in range(2):
        page.goto(page.url.split("#")[0] + "#" + fragment)
        expect(view.locator(".ex-say")).to_have_text(
            f"The link names what this graph does not have: {missing}.", use_inner_text=True
        )
        page.reload()
    press(view, ".")
    expect(view.locator(".ex-say")).not_to_contain_text("The link")


def test_a_page_opens_at_the_state_it_was_saved_with(show):
    view = show(sample.mlp(), start="step=2&node=1")
    expect(view.locator(".ex-say")).to_contain_text(sample.mlp().reason(sample.mlp().decisions[1]))
    expect(view.locator(".ex-selected")).to_have_count(1)


def test_a_link_leads_to_a_stage_as_a_whole(show, page):
    view = show(sample.mlp())
    view.locator(".ex-rail button", has_text="fuse").click()
    said = view.locator(".ex-say").inner_text()
    page.wait_for_url("**#stage=fuse&step=*")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(view.locator(".ex-say")).to_have_text(said, use_inner_text=True)


@pytest.mark.spec("V-13", "V-14")
def test_a_key_turns_the_graph_and_the_address_keeps_it(show, page):
    """ "d" switches a page's flow direction without a kernel, and the address stores it."""
    view = show(sample.mlp())
    width = """(view) => {
        const shapes = [...view.querySelectorAll(".ex-node > .ex-shape")].map((shape) => shape.getBBox());
        return Math.max(...shapes.map(({ x, width }) => x + width)) - Math.min(...shapes.map(({ x }) => x));
    }"""
    flows = "() => window.location.hash.includes('direction=right')"
    narrow = view.evaluate(width)
    press(view, "d")
    page.wait_for_function(flows)
    wide = view.evaluate(width)
    assert wide > 1.5 * narrow
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    expect(node(view, "tanh")).to_be_visible()
    assert view.evaluate(width) == wide
    tool(view, "flow to the right, or down").click()
    page.wait_for_function(f"() => !({flows})()")
    assert view.evaluate(width) == narrow


@pytest.mark.spec("V-13")
def test_in_a_graph_that_flows_to_the_right_the_right_arrow_goes_to_a_reader(show):
    view = show(sample.mlp(), position=0, direction="right")
    node(view, "x").focus()
    view.page.keyboard.press("ArrowRight")
    expect(view.locator(":focus")).to_have_attribute("aria-label", re.compile("^matmul,"))
    view.page.keyboard.press("ArrowLeft")
    expect(view.locator(":focus")).to_have_attribute("aria-label", re.compile("^(x|W),"))


@pytest.fixture
def held(page):
    """Return a page in which the address delay ends when the test calls ``due``; other tests do not reuse it."""
    page.add_init_script(
        """{
            const later = setTimeout;
            window.setTimeout = (call, wait, ...values) => later(wait === 300 ? () => {} : call, wait, ...values,
                wait === 300 && (window.due = call));
        }"""
    )
    yield page
    page.close()


@pytest.mark.spec("V-14")
def test_an_address_that_is_entered_is_not_written_over(show, held):
    """The view writes its address shortly after a step, but goes to an address entered in between."""
    view = show(sample.mlp(), position=0)
    press(view, ".")
    held.evaluate("() => { location.hash = 'stage=order'; due(); }")
    expect(view.locator(".ex-rail [aria-current] b")).to_have_text("order")
    held.evaluate("() => due()")
    held.wait_for_url("**#stage=order&step=*")
