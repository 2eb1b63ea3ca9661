"""Recordings of other compilers and runtimes on the page."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.player import node
from tests.support.toy_compiler import unknown

pytestmark = pytest.mark.browser


@pytest.mark.spec("X-2")
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
