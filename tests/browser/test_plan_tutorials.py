"""The notebooks about plans in JupyterLab, each at its most instructive moment."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.notebook import cells
from tests.browser.player import box, decided, heading, node, press, refusal, stage

pytestmark = pytest.mark.browser


@pytest.mark.soak
@pytest.mark.spec("P-4", "M-E4")
def test_a_thousand_calls_become_one_box(notebook):
    """In the notebook on batching, a thousand calls are folded when recorded, and one open box after grouping."""
    opened = notebook(*cells("08_dedup_and_batching.ipynb"))
    view = opened.view()
    view.locator(".ex-node").first.focus()
    expect(stage(view)).to_contain_text("recorded")
    expect(box(view, "scores ×1,000")).to_be_visible()
    expect(box(view, "scores ×1000")).not_to_be_visible()
    press(view, ".")
    expect(decided(view, "batched")).to_be_visible()
    expect(view.locator(".ex-say")).to_contain_text(re.compile(r"1,000 .*\bscores\b"))
    expect(box(view, "scores ×1000")).to_be_visible()
    press(view, "End")
    expect(view.locator(".ex-node:is([aria-label^='matmul,'], [aria-label*=' = matmul,'])")).to_have_count(2)
    opened.view(1)
    assert opened.execute("print(reused.count(False), history[-1] < history[0] / 10)") == "1 True\n"


@pytest.mark.spec("P-6", "P-12")
def test_a_refused_fusion_is_read_beside_its_node(notebook):
    """In the notebook on fusion, a click on an unfused operation shows the facts of the reason."""
    opened = notebook(*cells("09_fusion_and_stability.ipynb"))
    view = opened.view(1)
    view.locator(".ex-node").first.evaluate(
        "node => node.closest('.explorer-view').scrollIntoView({ block: 'center' })"
    )
    press(view, "End", "f")
    node(view, "multiply 2").click()
    expect(refusal(view, "other_consumers").filter(has_text="tanh")).to_be_visible()
    node(view, "sigmoid").click()
    expect(refusal(view, "asked_for").filter(has_text="add")).to_be_visible()
    first = opened.view(0)
    press(first, "End")
    expect(first.locator(".ex-node")).to_have_count(10)
    finite = "print({bool(np.isfinite(ex.evaluate(formula, without=%s)).all()) for formula in formulas.values()})"
    assert opened.execute(finite % ["simplify"]) == "{False}\n"
    assert opened.execute(finite % []) == "{True}\n"


@pytest.mark.soak
@pytest.mark.spec("P-8", "V-5")
def test_live_buffers_are_stepped_through(notebook):
    """In the notebook on memory, steps through the run show the contents of each buffer."""
    opened = notebook(*cells("10_memory.ipynb"))
    blocks = opened.view(0)
    press(blocks, "End")
    expect(blocks.locator(".ex-say")).to_contain_text("step 24 of 24")
    expect(blocks.locator(".ex-life")).to_have_count(24)
    press(blocks, ",", ",")
    expect(heading(blocks, "live now")).to_be_visible()
    expect(blocks.locator(".ex-living")).to_contain_text("in place")


@pytest.mark.soak
@pytest.mark.spec("P-11", "V-5")
def test_threads_are_stepped_through(notebook):
    """In the notebook on executors, steps go through the dag executor's run, chain by chain."""
    opened = notebook(*cells("11_order_and_executors.ipynb"))
    branches = opened.view(0)
    press(branches, "End")
    expect(branches.locator(".ex-say")).to_contain_text("step 9 of 9")
