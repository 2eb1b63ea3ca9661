"""Batches on the page: a stack, a small box, its contents and its cost."""

import re

import pytest
from playwright.sync_api import expect

from explorer.record import Decision, Group, Stage
from explorer.record.reasons import bytes_text, micros_text
from tests.browser.player import decided, press
from tests.support.loops import recorded
from tests.view import sample

pytestmark = pytest.mark.browser


def titles(view):
    return view.locator(".ex-box-label:not(.ex-none) .ex-title")


def closed(view, name):
    return view.locator(".ex-box.ex-closed:not(.ex-none)", has_text=name)


@pytest.mark.spec("P-4", "V-4", "V-7")
def test_plain_samples_are_a_stack_that_becomes_a_batch(show):
    """Step from the recorded samples to their batch: the first body, then one small box, then the batched body."""
    view = show(recorded("plain"), whole=True)
    press(view, "Home")
    expect(titles(view)).to_have_text(["matmul … tanh ×1,000", "block 1"])
    expect(closed(view, "999 more")).to_be_visible()
    press(view, "]", ".")
    expect(decided(view, "batched")).to_be_visible()
    expect(view.locator(".ex-say")).to_contain_text("matmul")
    expect(closed(view, "matmul … tanh ×1000")).to_contain_text("1,000 × 4 f32 → 1000×4 f32")
    expect(closed(view, "matmul … tanh ×1000")).to_contain_text("estimated")
    press(view, "End")
    expect(titles(view)).to_have_count(1)
    expect(titles(view)).to_contain_text(re.compile("^matmul … tanh ×1000 · .* instead of .*, estimated$"))
    expect(closed(view, "matmul … tanh ×1,000")).to_contain_text("now 1,000 × index0")
    expect(view.locator(".ex-frame-title")).to_have_count(3)


@pytest.mark.spec("P-4", "P-17", "V-2")
def test_the_panel_tells_what_a_batch_took(show):
    """Its decision shows measured next to estimated times, and states that members were not run separately."""
    recording = recorded("calls", run=True)
    (batched,) = [decision for decision in recording.decisions if decision.code == "batched"]
    view = show(recording, whole=True)
    press(view, "Home", "]", ".")
    facts = view.locator(".ex-why .ex-facts").first
    took = micros_text(batched.facts["measured_us"])
    separate = micros_text(batched.facts["separate_us"])
    expect(facts).to_contain_text(f"separate, estimated{separate}")
    expect(facts).to_contain_text(f"measured{took}")
    for name in ("shapes_before", "shapes_after"):
        expect(facts).to_contain_text(f"{name.replace('_', ' ')}{batched.facts[name]}")
    expect(view.locator(".ex-why")).to_contain_text("computing them one by one was not measured")
    expect(view.locator(".ex-why .ex-nodes").first).to_contain_text("and 997 more like these")
    press(view, "]")
    titles(view).first.click(position={"x": 5, "y": 5}, force=True)
    expect(view.locator(".ex-why h4")).to_have_text("mlp ×1000")
    expect(view.locator(".ex-why .ex-card")).to_contain_text(recording.reason(batched).replace("`", ""))


@pytest.mark.spec("V-4", "V-7")
def test_what_a_reader_opens_stays_open(show):
    """A stack that closed because its members are rows of a batch can be opened and closed again."""
    view = show(recorded("few"), whole=True)
    press(view, "End", "f")
    rows = closed(view, "matmul … tanh ×40")
    expect(rows).to_contain_text("now 40 × index0")
    rows.dblclick()
    expect(titles(view)).to_contain_text(["matmul … tanh ×40"])
    expect(closed(view, "39 more")).to_be_visible()
    press(view, ",", ".")
    expect(closed(view, "39 more")).to_be_visible()


@pytest.mark.spec("P-8", "V-5")
def test_memory_alive_and_memory_taken_have_two_names(show):
    """The strip shows the peak of live bytes and the footer the plan's peak, which are different numbers."""
    recording = recorded("trees of calls")
    view = show(recording)
    press(view, "End")
    live = max(kernel.live for kernel in recording.schedule.kernels)
    expect(view.locator(".ex-strip-peak")).to_have_text(f"most live {bytes_text(live)}")
    expect(view.locator(".ex-cost")).to_contain_text(f"peak {bytes_text(recording.schedule.peak)}")


def test_a_kernel_that_closed_parts_hide_has_no_outline(show):
    """A kernel whose members are hidden in three closed boxes is not drawn at all."""
    recording, members = sample.dag(3000), (10, 1500, 2900)
    recording.decisions.append(Decision(1, "Chain", "applied", "fused", "run as one", {}, members))
    recording.stages.append(Stage("fuse", "rewrite", 0, 1, {}))
    recording.groups.append(Group(0, "kernel", "far apart", members))
    view = show(recording)
    press(view, "End")
    expect(view.locator(".ex-say")).to_contain_text("run as one")
    expect(view.locator(".ex-box.ex-changed")).to_have_count(3)
    expect(view.locator(".ex-frame-title")).to_have_count(0)
