"""The memory peak of a plan that has not run: its kernel and its live values."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Recording, Run, Stage, Step
from tests.browser.player import heading, tool

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-5")]

MODELS = Path(__file__).parents[2] / "assets" / "models"


@pytest.fixture(scope="module")
def program() -> Recording:
    """Return kernels, one of which reads and writes large values."""
    x = ex.tensor(np.ones((256, 256), np.float32), name="x")
    w = ex.tensor(np.ones((256, 64), np.float32), name="w")
    plan = ex.EvalPlan(without="fuse")
    small = ex.tanh(x @ w)
    large = small @ w.T
    plan.register(ex.sum(ex.relu(large) * ex.exp(large)))
    return plan.prepare().recording


def test_the_stage_of_buffers_names_the_values_at_the_peak(show, program):
    view = show(program)
    view.locator(".ex-chip", has_text="buffers").click()
    schedule = program.schedule
    assert schedule is not None
    lives = [kernel.live for kernel in schedule.kernels]
    number = lives.index(max(lives)) + 1
    expect(heading(view, f"most live, in kernel {number} of {len(lives)}: 2 values, ")).to_be_visible()
    expect(view.locator(".ex-living dd").first).to_contain_text("256 KB")
    expect(view.locator(".ex-living dt .ex-soft")).to_have_count(0)  # every name occurs once


def test_a_value_that_shares_its_name_is_told_with_its_place(show):
    """Results with the same name, such as relu, are shown with their scopes."""
    view = show(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording)
    view.locator(".ex-chip", has_text="buffers").click()
    first = view.locator(".ex-living dt").first
    expect(first.get_by_role("button")).to_have_text(re.compile("^(relu|add|max_pool2d)$"))
    places = ["maxpool", "layer1 / 0 / relu", "layer1 / 0 / pnnx_unique_0"]
    expect(view.locator(".ex-living dt .ex-soft")).to_have_text(places)


def test_a_click_on_the_label_of_the_peak_goes_there_and_says_what_is_live(show, program):
    view = show(program)
    label = view.locator(".ex-strip-peak")
    expect(label).to_contain_text("most live")
    place = label.bounding_box()
    view.page.mouse.click(place["x"] + 3, place["y"] + place["height"] / 2)
    schedule = program.schedule
    assert schedule is not None
    lives = [kernel.live for kernel in schedule.kernels]
    expect(view.locator(".ex-say")).to_contain_text(f"pick {lives.index(max(lives)) + 1} of {len(lives)}")
    expect(heading(view, "live while it runs: 2 values")).to_be_visible()


def test_the_values_at_the_peak_add_up_to_it(show):
    """Values computed once for all runs, such as joined weights, are excluded and marked in the graph."""
    recording = ex.open(MODELS / "encoder.onnx").preview_plan().recording
    schedule = recording.schedule
    assert schedule is not None
    kept = [kernel for kernel in schedule.kernels if kernel.pick_reason == "constant" and kernel.bytes]
    assert kept
    view = show(recording)
    view.locator(".ex-chip", has_text="buffers").click()
    sizes = view.locator(".ex-living dd").all_text_contents()
    assert [size.split(" · ")[0] for size in sizes] == ["32 KB", "8 KB", "8 KB", "32 KB"]
    assert max(kernel.live for kernel in schedule.kernels) == 80 * 1024
    tool(view, "open all boxes").click()  # joined weights are in a box of the pass's nodes
    expect(view.locator(".ex-second", has_text="kept for all runs").first).to_be_attached()
    expect(view.locator(".ex-second", has_text="the caller's")).to_have_count(1)  # the net's result, not a weight
    peak, whole = (heading(view, text).bounding_box() for text in ("most live, in kernel", "the whole graph"))
    assert peak["y"] < whole["y"]


@pytest.mark.spec("Q-3", headline=True)
def test_a_run_of_a_runtime_names_the_values_at_the_peak(show, program):
    """Name the kernel with the most live memory and the values that hold it, in plans and in runs of a runtime."""
    schedule = program.schedule
    assert schedule is not None
    padding = 1024
    kernels = [replace(kernel, buffer=None, frees=(), live=kernel.live + padding) for kernel in schedule.kernels]
    steps = tuple(Step(number, 10.0 * number, 5.0, kernel.live) for number, kernel in enumerate(kernels))
    stages = [replace(stage, kind="rewrite") if stage.kind == "memory" else stage for stage in program.stages]
    last = program.stages[-1]
    stages.append(Stage("run", "run", last.last, last.last, {"steps": len(steps)}, "Run by a runtime."))
    run = Run("a runtime", steps, 5.0 * len(steps))
    recording = replace(program, stages=stages, schedule=replace(schedule, kernels=kernels, buffers=()), run=run)
    planned = show(program)
    planned.locator(".ex-chip", has_text="buffers").click()
    held = planned.locator(".ex-living dt").all_inner_texts()
    view = show(recording)
    view.locator(".ex-chip", has_text="run").click()
    lives = [kernel.live for kernel in schedule.kernels]
    number = lives.index(max(lives)) + 1
    expect(heading(view, f"most live, in kernel {number} of {len(lives)}: 2 values, ")).to_be_visible()
    ran = view.locator(".ex-living dt").all_inner_texts()
    assert ran == [*held, "padding and working memory"]
    expect(view.locator(".ex-living dd").last).to_have_text("1 KB")


def test_no_values_are_named_if_the_live_memory_is_unknown(show, program):
    """XLA reports buffers, and no live memory; then the first kernel is not presented as the peak."""
    schedule = program.schedule
    assert schedule is not None
    kernels = [replace(kernel, live=None) for kernel in schedule.kernels]
    view = show(replace(program, schedule=replace(schedule, kernels=kernels)))
    view.locator(".ex-chip", has_text="buffers").click()
    expect(heading(view, "buffers over time")).to_be_visible()
    expect(view.locator(".ex-living")).to_have_count(0)
