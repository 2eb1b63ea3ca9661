"""The view of a run on several threads: start times and threads of kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.browser.player import node
from tests.view import sample

pytestmark = pytest.mark.browser


@pytest.mark.spec("P-11", "V-2")
def test_the_panel_tells_the_thread_of_a_kernel_where_there_were_several(show):
    """If several workers ran kernels, the panel shows each kernel's start and thread; otherwise neither."""
    recording = sample.mlp()
    view = show(recording)
    node(view, "tanh").click()
    expect(view.locator(".ex-why")).to_contain_text("measured2 µs")
    expect(view.locator(".ex-why")).not_to_contain_text("thread")
    steps = recording.run.steps
    recording.run.steps = tuple(replace(step, thread=place % 2) for place, step in enumerate(steps))
    view = show(recording)
    node(view, "tanh").click()
    expect(view.locator(".ex-why")).to_contain_text("measured2 µs in a first run, begun at ")
    expect(view.locator(".ex-why")).to_contain_text("on thread 1")
