"""Recordings of other compilers and runtimes on the page."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.player import node
from tests.support.toy_compiler import compiled_toy, unknown

pytestmark = pytest.mark.browser


@pytest.mark.spec("X-1")
def test_the_page_leaves_out_what_is_unknown(show):
    """Panel, sentence, heat menu and timeline contain no number that the recording lacks."""
    view = show(unknown())
    options = view.locator(".ex-heat-choice option").all_text_contents()
    assert "heat: flops" not in options
    assert "heat: time" in options
    seen = []
    for stage in ("given", "order", "run"):
        view.locator(".ex-chip", has_text=stage).first.click()
        for _ in range(3):
            seen.append(view.locator(".ex-saying").inner_text())
            seen.append(view.locator(".ex-why").inner_text())
            view.press(".")
    expect(view.locator(".ex-strip-memory")).to_have_count(0)
    node(view, "exp").click()
    panel = view.locator(".ex-why")
    expect(panel).to_contain_text("measured")
    seen.append(panel.inner_text())
    for text in seen:
        assert not re.search(r"flop|level|chain|buffer|peak|\blive\b|estimated|null|NaN µs|undefined", text), text


@pytest.mark.spec("X-1")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_shows_placement_and_code(show, theme):
    """The panel of a node shows where its kernel runs, and marks the lines of code that compute the node."""
    view = show(compiled_toy(), theme=theme)
    node(view, "mul").click()
    panel = view.locator(".ex-why")
    expect(panel).to_contain_text("toy 1.0 · ToyProvider · cpu:0")
    expect(panel.locator("pre mark")).to_have_text(["%b = fmul float %a, %a"])
    expect(panel.locator("pre")).to_contain_text("define void @loop_1")
    node(view, "tanh").click()
    expect(panel.locator("pre mark")).to_contain_text(["tanhf"])
    expect(panel).to_contain_text("also computed in")
    node(view, "sum").click()
    expect(panel).to_contain_text("OtherProvider")
    expect(panel.locator("pre")).to_have_count(0)


@pytest.mark.spec("X-1")
def test_both_kernels_of_a_node_are_outlined_and_rounds_are_folded(show):
    view = show(compiled_toy())
    rail = view.locator(".ex-rail")
    expect(rail.locator(".ex-folded")).to_have_text(["+9", "loops×3"])
    rail.locator(".ex-folded", has_text="loops").click()
    expect(rail.locator(".ex-chip", has_text="loops")).to_have_count(3)
    rail.locator(".ex-chip", has_text="loops").nth(2).click()
    expect(view.locator("path.ex-frame")).to_have_count(2)
    rail.locator(".ex-chip", has_text="loops").first.click()
    view.press(".")
    expect(view.locator(".ex-why")).to_contain_text("stated by toy's log")
