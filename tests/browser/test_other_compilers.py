"""Recordings of other compilers and runtimes on the page."""

import re

import pytest
from playwright.sync_api import expect

from explorer.compilers import Snapshot, Statement, Value, recording_of
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
def test_the_summary_names_the_inputs(show):
    """An input whose operation is its name, as in Inductor's graphs, is listed with its name and type."""
    values = {
        "layer.weight": Value("layer.weight", shape=(8,), kind="leaf"),
        "exp": Value("exp", ("layer.weight",), (8,)),
    }
    view = show(recording_of("toy", [Snapshot("given", values, ("exp",))]))
    expect(view.locator(".ex-summary dd").first).to_have_text("layer.weight 8 float32")


@pytest.mark.spec("X-1")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_shows_placement_and_code(show, theme):
    """The panel of a node shows where its kernel runs, and marks the lines of code that compute the node."""
    view = show(compiled_toy(), theme=theme)
    node(view, "mul").click()
    panel = view.locator(".ex-why")
    expect(panel).to_contain_text("toy 1.0 · ToyProvider · cpu:0")
    expect(panel.locator(".ex-code-line[aria-current]")).to_have_text(["%b = fmul float %a, %a"])
    expect(panel.locator(".ex-kernel-code")).to_contain_text("define void @loop_1")
    node(view, "tanh").click()
    expect(panel.locator(".ex-code-line[aria-current]")).to_contain_text(["tanhf"])
    expect(panel).to_contain_text("also computed in")
    node(view, "sum").click()
    expect(panel).to_contain_text("OtherProvider")
    expect(panel.locator(".ex-kernel-code")).to_have_count(0)


@pytest.mark.spec("X-1")
def test_both_kernels_of_a_node_are_outlined_and_rounds_are_folded(show):
    view = show(compiled_toy())
    rail = view.locator(".ex-rail")
    expect(rail.locator(".ex-folded")).to_have_text(["+9", "loops×32✓2✗"])
    rail.locator(".ex-folded", has_text="loops").click()
    expect(rail.locator(".ex-chip", has_text="loops")).to_have_count(3)
    rail.locator(".ex-chip", has_text="loops").nth(2).click()
    expect(view.locator("path.ex-frame")).to_have_count(2)
    rail.locator(".ex-chip", has_text="loops").first.click()
    view.press(".")
    expect(view.locator(".ex-why")).to_contain_text("stated by toy's log")


@pytest.mark.spec("X-5")
def test_passes_of_a_pipeline_share_a_chip(show):
    """At 1280 pixels, the bar shows every stage of a long pipeline in one chip, which goes to the last pass."""
    values = {"x": Value("x", kind="leaf"), "a": Value("exp", ("x",))}
    passes = [Snapshot("given", values, ("a",))]
    for number in range(20):
        values = {**values, "a": Value("exp", ("x",), attributes={"round": str(number)})}
        pipeline = "simplification" if number < 19 else "code"
        decides = "kernels" if number == 18 else ""
        passes.append(Snapshot(f"algebra {number}", values, ("a",), pipeline=pipeline, decides=decides))
    view = show(recording_of("a pipeline", passes))
    rail = view.locator(".ex-rail")
    expect(rail.locator(".ex-chip")).to_have_text(["given2", "simplification×1818✓", "algebra 181✓", "algebra 191✓"])
    assert rail.evaluate("rail => rail.scrollWidth <= rail.clientWidth")
    rail.locator(".ex-folded").click()
    expect(rail.locator("[aria-current]")).to_contain_text("algebra 17")
    expect(rail.locator(".ex-chip")).to_have_count(21)
    rail.locator(".ex-chip", has_text="algebra 18").click()
    expect(rail.locator(".ex-chip")).to_have_count(4)


@pytest.mark.spec("X-1")
def test_refusals_without_costs_are_no_trifles(show):
    view = show(compiled_toy())
    view.locator(".ex-folded", has_text="loops").click()
    view.locator(".ex-chip", has_text="loops").first.click()
    expect(view.locator(".ex-decisions .ex-mark-declined").first).to_be_visible()
    expect(view.locator(".ex-threshold")).to_be_hidden()
    expect(view.locator(".ex-trifles")).to_have_count(0)


@pytest.mark.spec("X-5")
def test_many_refusals_of_a_compiler_are_folded_by_reason(show):
    """Hundreds of refusals have one row per reason, the largest values first; no cost is known, so none is a trifle."""
    shape = {"large": (64, 64), "small": (2,)}
    given = {"x": Value("x", kind="leaf")}
    refusals = []
    for index in range(60):
        kind = "large" if index % 3 == 0 else "small"
        given[f"a{index}"] = Value(f"exp_{index}", ("x",), shape[kind])
        given[f"b{index}"] = Value(f"log_{index}", (f"a{index}",), shape[kind])
        facts = {"operand": f"a{index}", "reader": f"b{index}", "why": f"it is {kind}"}
        reason = "`{operand}` is not fused into `{reader}`: {why}"
        refusals.append(Statement("loops", "declined", reason, (f"a{index}", f"b{index}"), facts=facts))
    results = tuple(f"b{index}" for index in range(60))
    passes = [Snapshot("given", given, results), Snapshot("loops", given, results, tuple(refusals))]
    view = show(recording_of("many refusals", passes))
    view.page.evaluate("location.hash = 'stage=loops'")
    rows = view.locator(".ex-decisions [data-decision]")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("×20 · values of 320 KB… is not fused into …: it is large")
    expect(rows.nth(1)).to_contain_text("×40")
    expect(view.locator(".ex-threshold")).to_be_hidden()
    expect(view.locator(".ex-trifles")).to_have_count(0)
    rows.nth(0).click()
    expect(rows.nth(0)).to_contain_text("exp_0 is not fused into log_0: it is large")
    expect(rows.nth(1)).to_contain_text("exp_3 is not fused into log_3")
    view.get_by_placeholder("filter decisions").fill("exp_33")
    expect(rows).to_have_count(1)
    expect(rows.nth(0)).to_contain_text("exp_33 is not fused into log_33")
