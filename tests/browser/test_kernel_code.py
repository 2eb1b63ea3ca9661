"""The code of a kernel in the panel: lines and nodes highlight each other, by pointer and keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

import explorer as ex
from tests.browser.axe import complaints, rules_of
from tests.browser.player import node, resize

pytestmark = [pytest.mark.browser, pytest.mark.spec("K-2")]


@pytest.fixture
def recording() -> ex.Recording:
    """Return the recording of a kernel of five operations."""
    x = ex.tensor(np.ones((100, 100), np.float32))
    scaled = x * 0.5
    shifted = scaled + 1
    squashed = ex.tanh(shifted)
    gated = squashed * x
    score = gated - 2
    plan = ex.EvalPlan(kernels="native")
    plan.register(score)
    return plan.prepare().recording


@pytest.fixture
def view(show: Callable[..., Locator], recording: ex.Recording) -> Locator:
    """Return a view at the stage that generates code."""
    shown = show(recording)
    shown.locator(".ex-rail").get_by_role("button", name="codegen").click()
    return shown


def line(view: Locator, code: str) -> Locator:
    """Return the line that begins with ``code``."""
    return view.locator(".ex-code-line[data-node]").filter(has_text=code).first


def lit(view: Locator) -> list[str]:
    """Return the names of the nodes that a line of code highlights."""
    names: list[str] = view.locator(".ex-node.ex-lit-code .ex-name").all_text_contents()
    return names


def test_the_stage_that_generates_code_shows_it_first(view: Locator) -> None:
    code = view.get_by_role("region", name="C code of kernel 1")
    expect(code).to_be_in_viewport()
    operations = code.locator("[data-node]")
    assert [text.split(" = ")[0].strip() for text in operations.all_text_contents()] == [
        "f32 scaled",
        "f32 shifted",
        "f32 squashed",
        "f32 gated",
        "score[i]",
    ]
    for place in range(5):
        expect(operations.nth(place)).to_be_in_viewport()


def test_a_line_and_its_node_highlight_each_other(view: Locator) -> None:
    line(view, "f32 squashed").hover()
    expect(view.locator(".ex-node.ex-lit-code")).to_have_count(1)
    assert lit(view) == ["squashed = tanh"]
    node(view, "gated = multiply").hover()
    expect(view.locator(".ex-node.ex-lit-code")).to_have_count(0)
    expect(view.locator(".ex-code-line.ex-pointed")).to_have_count(1)
    expect(line(view, "f32 gated")).to_contain_class("ex-pointed")


def test_a_click_on_a_line_selects_its_node_and_leaves_the_line_in_place(view: Locator) -> None:
    before = line(view, "f32 gated").bounding_box()
    line(view, "f32 gated").click()
    expect(node(view, "gated = multiply")).to_contain_class("ex-selected")
    expect(line(view, "f32 gated")).to_have_attribute("aria-current", "true")
    after = line(view, "f32 gated").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 4
    node(view, "scaled = multiply 0.5").click()
    expect(view.locator(".ex-code-line[aria-current]")).to_have_count(1)
    expect(line(view, "f32 scaled")).to_have_attribute("aria-current", "true")


def test_lines_are_reached_by_the_keyboard(view: Locator) -> None:
    line(view, "f32 scaled").focus()
    view.page.keyboard.press("ArrowDown")
    expect(line(view, "f32 shifted")).to_be_focused()
    assert lit(view) == ["shifted = add 1"]
    view.page.keyboard.press("Enter")
    expect(node(view, "shifted = add 1")).to_contain_class("ex-selected")
    expect(line(view, "f32 shifted")).to_be_focused()
    expect(view.locator(".ex-code-line[tabindex='0']")).to_have_count(1)


def test_marked_text_can_be_copied(view: Locator) -> None:
    """Marking a part of a line with the mouse selects text, not the node."""
    box = line(view, "f32 shifted").bounding_box()
    assert box is not None
    mouse, y = view.page.mouse, box["y"] + box["height"] / 2
    mouse.move(box["x"] + 40, y)
    mouse.down()
    mouse.move(box["x"] + 150, y, steps=5)
    mouse.up()
    assert view.page.evaluate("getSelection().toString().length") > 5
    expect(view.locator(".ex-node.ex-selected")).to_have_count(0)


def test_long_code_scrolls_inside_its_panel(show: Callable[..., Locator]) -> None:
    """The line of the selected node is visible, although the kernel has hundreds of lines."""
    y = x = ex.tensor(np.ones((100, 100), np.float32))
    for _ in range(250):
        y = ex.tanh(y) * x
    last = ex.exp(y)
    plan = ex.EvalPlan(kernels="native")
    plan.register(last * 2)
    recording = plan.prepare().recording
    number = recording.nodes.label.index("exp")
    view = show(recording)
    view.page.goto(f"{view.page.url}#stage=codegen&node={number}")
    view.page.reload()
    expect(line(view, "f32 last")).to_be_in_viewport()
    expect(view.locator(".ex-code-line[aria-current]")).to_have_count(1)
    assert view.locator(".ex-why").evaluate("panel => panel.scrollTop") == 0
    expect(view.get_by_text(re.compile(r"^lines \d+ to (\d+) of \1$"))).to_be_attached()
    code = view.locator(".ex-kernel-code")
    assert code.evaluate("code => code.scrollWidth <= code.clientWidth")
    previous = view.locator(".ex-code-line[data-node]").nth(-4)
    previous.scroll_into_view_if_needed()
    before = previous.bounding_box()
    previous.click()
    expect(previous).to_have_attribute("aria-current", "true")
    after = previous.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 4


def test_lines_of_a_scan_highlight_it_and_the_operations_of_its_steps(show: Callable[..., Locator]) -> None:
    """The code stays in the panel when the steps are shown."""
    x, start = ex.tensor(np.ones((100, 64), np.float32)), ex.tensor(np.zeros(64, np.float32))
    last, _ = ex.scan(lambda total, x: (ex.tanh(total * 0.5 + x), None), start, x)
    plan = ex.EvalPlan(kernels="native")
    plan.register(last)
    view = show(plan.prepare().recording)
    view.locator(".ex-rail").get_by_role("button", name="codegen").click()
    line(view, "f32 tanh").hover()
    expect(view.locator(".ex-node.ex-lit-code")).to_have_count(1)
    assert lit(view) == ["scan"]
    line(view, "f32 tanh").click()
    expect(node(view, "tanh")).to_contain_class("ex-selected")
    expect(line(view, "f32 tanh")).to_have_attribute("aria-current", "true")
    node(view, "add").hover()
    expect(line(view, "f32 add")).to_contain_class("ex-pointed")
    line(view, "f32 multiply").hover()
    expect(view.locator(".ex-node.ex-lit-code")).to_have_count(1)
    assert lit(view) == ["multiply 0.5"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(show: Callable[..., Locator], recording: ex.Recording, theme: str) -> None:
    view = show(recording, theme=theme)
    view.locator(".ex-rail").get_by_role("button", name="codegen").click()
    line(view, "f32 gated").click()
    assert complaints(view.page, rules=rules_of(theme)) == []
    resize(view.page, 390, 720)
    node(view, "squashed = tanh").click()
    expect(line(view, "f32 squashed")).to_be_in_viewport()
    assert complaints(view.page, rules=rules_of(theme)) == []
