"""The run in the view: live values in buffers, times, and the origin of a NaN."""

import os
import re
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.model.heat import METRICS
from tests.browser.player import heading, node, press
from tests.view import sample

pytestmark = pytest.mark.browser


@pytest.mark.spec("V-5")
def test_buffers_are_lanes_that_show_what_is_alive(show):
    """At each step of the run the lane of a buffer shows its value; live values are listed with their bytes."""
    recording = sample.mlp()
    view = show(recording)
    press(view, "End", ",")
    expect(heading(view, "live now: 3 values, 12 KB")).to_be_visible()
    expect(view.locator(".ex-life")).to_have_count(4)
    expect(view.locator(".ex-life.ex-alive")).to_have_count(3)
    expect(view.locator(".ex-life.ex-later")).to_have_count(1)
    rows = view.locator(".ex-living > *")
    expect(rows).to_have_text(
        ["matmulIn[3] line 1", "6 KB · buffer 0", "tanh", "6 KB · buffer 1", "multiply 2", "6 KB · buffer 0, in place"]
    )
    expect(view.get_by_role("img", name="buffers at kernel 3: matmul in buffer 0, tanh in buffer 1")).to_be_visible()
    press(view, ".")
    expect(view.locator(".ex-life.ex-dead")).to_have_count(1)
    expect(view.locator(".ex-living")).to_contain_text("working memory6 KB")
    view.locator(".ex-living").get_by_role("button", name="tanh").click()
    expect(view.locator(".ex-life.ex-chosen")).to_have_attribute("data-life", "6")


@pytest.mark.spec("V-5", headline=True)
def test_one_scrubs_back_and_forth(show):
    """Scrub through a run in both directions, and see the current operation, its time and a curve of live memory."""
    view = show(sample.mlp())
    slider = view.get_by_role("slider", name="moment")
    slider.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        view.page.keyboard.press(key)
    expect(view.locator(".ex-say")).to_contain_text("step 2 of 4")
    expect(node(view, "tanh")).to_have_class("ex-node ex-plain ex-current ex-member")
    expect(slider).to_have_attribute(
        "aria-valuetext", "run step 2 of 4: add and tanh took 2 µs, estimated 1.9 µs; 12 KB live."
    )
    left = float(view.locator(".ex-strip-dot").get_attribute("cx"))
    view.page.keyboard.press("ArrowRight")
    expect(view.locator(".ex-say")).to_contain_text("step 3 of 4")
    assert float(view.locator(".ex-strip-dot").get_attribute("cx")) > left
    lanes = view.locator(".ex-lanes").bounding_box()
    view.page.mouse.click(lanes["x"] + lanes["width"] / 8, lanes["y"] + lanes["height"] - 2)
    expect(view.locator(".ex-say")).to_contain_text("step 1 of 4")


@pytest.mark.spec("Q-2", "V-5")
def test_the_slowest_kernels_are_listed_and_lead_to_their_nodes(show):
    """The stage *run* lists kernels by measured time, and *order* by estimated time if nothing ran."""
    recording = sample.mlp()
    view = show(recording)
    view.page.evaluate("location.hash = 'stage=run'")
    expect(heading(view, "slowest kernels, measured")).to_be_visible()
    steps = sorted(recording.run.steps, key=lambda step: -step.micros)
    whole = sum(step.micros for step in steps)
    shares = view.locator(".ex-slowest td:nth-child(3)").all_inner_texts()
    assert [float(share.removesuffix(" %")) for share in shares] == [
        pytest.approx(100 * step.micros / whole, abs=0.5) for step in steps
    ]
    result = recording.schedule.kernels[steps[0].kernel].nodes[-1]
    view.locator(".ex-slowest .ex-link").first.click()
    expect(view.locator(".ex-say")).to_contain_text(f"step {recording.run.steps.index(steps[0]) + 1} of 4")
    expect(view.locator(".ex-why h4")).to_have_text(recording.named_label(result))
    expect(node(view, recording.named_label(result))).to_have_attribute("aria-pressed", "true")
    unmeasured = show(replace(recording, run=None, stages=recording.stages[:-1]))
    unmeasured.page.evaluate("location.hash = 'stage=order'")
    expect(heading(unmeasured, "slowest kernels, estimated")).to_be_visible()
    unmeasured.page.evaluate("location.hash = 'stage=fuse'")
    expect(unmeasured.locator(".ex-rail [aria-current]")).to_contain_text("fuse")
    expect(unmeasured.locator(".ex-slowest")).to_have_count(0)
    expect(unmeasured.locator(".ex-costs")).not_to_contain_text("estimated time")


@pytest.mark.spec("V-5", "V-13")
def test_what_costs_most_is_the_hottest(show):
    """A key and a select colour every node by time, flops, bytes or flops per byte; a legend explains the colours."""
    recording = sample.mlp()
    view = show(recording)
    press(view, "h")
    expect(view.locator(".ex-legend")).to_have_text("measured time022.4 µs")
    assert view.locator(".ex-hot").count() == view.locator(".ex-node:not(.ex-was, .ex-gone)").count()
    assert share(node(view, "matmul")) == 100
    slowest = max(step.micros for step in recording.run.steps)
    chain = recording.schedule.kernels[1]
    part = recording.nodes.flops[6] / sum(recording.nodes.flops[member] for member in chain.nodes)
    assert share(node(view, "tanh")) == pytest.approx(100 * recording.run.steps[1].micros * part / slowest, abs=1)
    view.get_by_role("combobox", name="heat").select_option("flops")
    expect(view.locator(".ex-legend")).to_contain_text("197 K flops")
    press(view, "h", "h", "h")
    expect(view.locator(".ex-hot")).to_have_count(0)
    expect(view.locator(".ex-legend")).to_be_hidden()


@pytest.mark.spec("V-5", "V-13")
def test_a_metric_of_ones_own_is_chosen_coloured_summed_and_explained(show, own_metric):
    """A metric of ex.register_heat appears in the choice, the legend, the costs of a box, and the list of keys."""
    recording = sample.mlp()
    most = max(prod(recording.type_of(slot).shape) for slot in recording.visible(recording.end))
    view = show(recording)
    press(view, "End")
    view.get_by_role("combobox", name="heat").select_option("own elements")
    expect(view.locator(".ex-legend")).to_have_text(f"own elements0{most / 1000:.3g} K numbers")
    expect(view.locator(".ex-legend")).to_have_attribute("title", "numbers in a value")
    assert view.locator(".ex-hot").count() > 1
    press(view, "?")
    expect(view.locator(".ex-help")).to_contain_text(", own elements")
    press(view, "Escape", "Home")
    rows = dict(zip(*[view.locator(f".ex-costs {tag}").all_text_contents() for tag in ("dt", "dd")], strict=True))
    assert rows["own elements"].endswith(" numbers")
    if shots := os.environ.get("EXPLORER_SHOTS"):
        view.page.screenshot(path=shots)


@pytest.mark.spec("V-5", "Q-2")
def test_a_box_has_the_ratio_of_two_sums_with_mean_and_maximum(show, own_metric):
    """Colour by user-defined ratios such as flops per byte; boxes show the ratio of the sums, the mean and maximum."""
    ex.register_heat(
        "flops per byte", lambda r, n: r.nodes.flops[n], per=lambda r, n: r.nodes.bytes[n], unit="flops/B", replace=True
    )
    recording = sample.mlp()
    nodes = recording.nodes
    try:
        view = show(recording)
    finally:
        del METRICS["flops per byte"]
    first = [node for node in range(len(nodes)) if nodes.born[node] < 0]
    ratios = [nodes.flops[node] / nodes.bytes[node] for node in first if nodes.flops[node] and nodes.bytes[node]]
    view.get_by_role("combobox", name="heat").select_option("flops per byte")
    expect(view.locator(".ex-legend")).to_contain_text(f"{max(ratios):.3g} flops/B")
    rows = dict(zip(*[view.locator(f".ex-costs {tag}").all_text_contents() for tag in ("dt", "dd")], strict=True))
    whole = sum(nodes.flops[node] for node in first) / sum(nodes.bytes[node] for node in first)
    assert rows["flops per byte"] == f"{whole:.2g} flops/B · max {max(ratios):.3g} flops/B"
    sizes = [prod(recording.type_of(node).shape) for node in first]
    assert rows["own elements"].startswith(f"{sum(sizes) / 1000:.3g} K numbers · mean ")
    assert rows["own elements"].endswith(f" · max {max(sizes) / 1000:.3g} K numbers")


@pytest.mark.spec("Q-2")
def test_flops_per_byte_are_a_choice_of_the_heat_menu(show):
    """The key h goes to it after flops and bytes; the costs of the graph show its ratio and its maximum."""
    x = ex.tensor(np.ones((5, 8), np.float32), name="x")
    flat = (x @ ex.tensor(np.ones((8, 2), np.float32))).reshape(-1)
    recording = ex.explore(flat * flat, run=False).recording
    view = show(recording)
    press(view, *"hhhh")
    expect(view.get_by_role("combobox", name="heat")).to_have_value("flops/byte")
    expect(view.locator(".ex-legend")).to_have_text(re.compile(r"^flops/byte0.* flops/B$"))
    expect(node(view, "matmul")).to_have_class(re.compile("ex-hot"))
    # A view moves no bytes, and an operand that is read twice counts once.
    product, square = 4 * (5 * 8 + 8 * 2 + 5 * 2), 4 * (5 * 2 + 5 * 2)
    flops = dict(zip(recording.nodes.label, recording.nodes.flops, strict=True))
    whole, most = (flops["matmul"] + flops["multiply"]) / (product + square), flops["matmul"] / product
    expect(view.locator(".ex-costs dd", has_text="flops/B")).to_have_text(
        f"{whole:.2g} flops/B · max {most:.2g} flops/B"
    )


@pytest.fixture
def own_metric():
    def elements(recording, node):
        return prod(recording.type_of(node).shape)

    ex.register_heat("own elements", elements, unit="numbers", text="numbers in a value")
    yield
    del METRICS["own elements"]


def share(found):
    return int(found.evaluate("element => parseInt(element.style.getPropertyValue('--ex-share'))"))


@pytest.mark.spec("V-6")
def test_a_nan_is_marked_and_its_first_is_one_click_away(show):
    """Values with NaN or inf are marked on the canvas and counted, and a button goes to the first at its step."""
    recording = sample.mlp()
    values = recording.run.values
    for spoiled in (6, 10):
        values[spoiled] = replace(values[6], nan=7, min=None, max=None, mean=None, std=None)
    view = show(recording)
    press(view, "End")
    expect(node(view, "multiply 2")).to_contain_text("NaN")
    note = view.locator(".ex-note", has_text="contain NaN or inf")
    expect(note).to_contain_text(f"2 of {len(values)} values contain NaN or inf")
    note.get_by_role("button", name="Go to the first NaN").click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    expect(view.locator(".ex-say")).to_contain_text("step 2 of 4")
    expect(view.locator(".ex-statistics .ex-bad").last).to_have_text("7, 0")
    clean = show(sample.mlp())
    press(clean, "End")
    expect(clean.locator(".ex-note", has_text="no NaN or inf in")).to_be_visible()
    expect(clean.get_by_role("button", name="Go to the first NaN")).to_have_count(0)


@pytest.mark.spec("V-6")
def test_a_value_of_one_number_stands_on_its_node_once_it_is_computed(show):
    """Forward and backward values of a scalar program are shown on the graph and not covered by labels."""
    at = ex.tensor(0.5, name="at")
    middle = ex.tanh(3 * at)
    loss = ex.square(middle)
    view = show(ex.explore(loss, ex.grad(loss, at)).recording)
    press(view, "e", "End", ",")
    second = lambda name: node(view, name).locator(".ex-second")  # noqa: E731
    expect(second("at")).to_have_text("= 0.5")
    expect(second("multiply 3")).to_have_text("= 1.5")
    expect(second("tanh")).to_have_text("= 0.9051")
    expect(view.locator(".ex-node .ex-second", has_text="= 0.9814")).to_have_count(0)
    press(view, ".")
    expect(view.locator(".ex-node .ex-second", has_text="= 0.9814")).to_have_count(1)
    expect(view.locator(".ex-label", has_text="scalar")).to_have_count(0)
    press(view, "Home")
    expect(second("at")).to_have_text("scalar f64")


@pytest.mark.spec("V-5", "V-6")
def test_a_scalar_shows_its_value_and_the_time_of_its_kernel(show):
    """A scalar shows its formatted value instead of its type, and the time at its side if it is a kernel."""
    plan = ex.EvalPlan(record="values")
    total = ex.sum(ex.tensor([[-2.0, -1.0]], name="x"), axis=(0, 1))
    plan.register(total)
    plan.eval()
    view = show(plan.recording)
    press(view, "End")
    expect(node(view, "sum").locator(".ex-second")).to_have_text("= −3")
    expect(node(view, "sum").locator(".ex-frame-time")).to_have_text(re.compile(r"^[\d.]+ (µs|ms)$"))
    expect(node(view, "x").locator(".ex-frame-time")).to_have_count(0)
    node(view, "sum").click()
    expect(view.locator(".ex-why .ex-elements")).to_have_text("−3")


@pytest.mark.spec("V-5")
def test_the_time_of_a_scalar_lies_clear_of_its_neighbours(show):
    """If nodes are close together, a time that the next node would cover is shown in the panel only."""
    plan = ex.EvalPlan(record="values", without=["join"])
    x = ex.tensor(np.arange(6.0), name="x")
    for total in (ex.sum(x), ex.max(x), ex.min(x), ex.mean(x)):
        plan.register(total)
    plan.eval()
    view = show(plan.recording)
    press(view, "End")
    nodes = view.locator(".ex-graph .ex-node")
    places = [each.locator(".ex-shape").bounding_box() for each in nodes.all()]
    times = [each for each in view.locator(".ex-graph .ex-frame-time").all() if each.text_content()]
    assert times, "the last of a row has room"
    halo = 6  # px by which the text's background extends beyond it
    for time in (each.bounding_box() for each in times):
        right, low = time["x"] + time["width"] - halo, time["y"] + time["height"] - halo
        for place in places:
            beside = right <= place["x"] or place["x"] + place["width"] <= time["x"] + halo
            assert beside or low <= place["y"] or place["y"] + place["height"] <= time["y"] + halo
    node(view, "sum").click()
    expect(view.locator(".ex-why .ex-facts").first).to_contain_text(re.compile("[\\d.]+ (µs|ms) in a (first|warm) run"))


@pytest.mark.spec("V-6")
def test_a_small_negative_scalar_stands_on_its_node(show):
    """Superscript digits are narrow, so a value with a power of ten fits."""
    plan = ex.EvalPlan(record="values")
    plan.register(ex.sum(ex.tensor(np.array([-1.23456e-20]), name="x") * np.array([1.0, 0.0])))
    plan.eval()
    view = show(plan.recording)
    press(view, "End")
    second = node(view, "sum").locator(".ex-second")
    expect(second).to_have_text("= −1.2346·10⁻²⁰")
    text, shape = second.bounding_box(), node(view, "sum").locator(".ex-shape").bounding_box()
    assert shape["x"] <= text["x"]
    assert text["x"] + text["width"] <= shape["x"] + shape["width"]


@pytest.mark.spec("V-5")
def test_a_closed_box_shows_how_many_kernels_compute_its_nodes(show):
    """From the order stage on; a box whose nodes run in one kernel shows no number."""
    x = ex.tensor(np.ones((32, 64), np.float32), name="x")
    with ex.scope("projection"):
        h = ex.softmax(ex.tanh(x @ x.T))
    with ex.scope("activation"):
        y = ex.exp(h) * 2 + 1
    view = show(ex.explore(y).recording, start="depth=0")
    projection, activation = (view.locator(".ex-closed", has_text=name) for name in ("projection", "activation"))
    expect(projection).not_to_contain_text("kernels")
    for stage in ("order", "buffers"):
        view.get_by_role("button", name=re.compile(f"^{stage}")).first.click()
        expect(projection.locator(".ex-second").last).to_have_text("2 kernels")
    expect(activation).not_to_contain_text("kernel")
    view.get_by_role("button", name=re.compile("^run")).first.click()
    expect(projection.locator(".ex-second").last).to_have_text(re.compile(r"µs · 2 kernels$"))
    expect(projection).to_have_attribute("aria-label", re.compile("2 kernels"))
    press(view, "Home")
    expect(projection).not_to_contain_text("kernels")


@pytest.mark.spec("V-13")
def test_the_rows_of_a_small_matrix_are_on_separate_lines(show):
    """The panel shows the elements of a small value as NumPy prints them."""
    plan = ex.EvalPlan(record="values")
    handle = plan.register(ex.exp(ex.tensor([[0.0, 0.0], [0.0, 0.0]])))
    plan.eval()
    assert handle.data() is not None
    view = show(plan.recording)
    press(view, "End")
    node(view, "exp").click()
    assert view.locator(".ex-elements").inner_text() == "[[1., 1.],\n [1., 1.]]"
