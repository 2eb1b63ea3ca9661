"""The page's sums equal the sums of Python's values for nodes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer import layers
from explorer.record.reasons import micros_text
from explorer.view.layout.placed_model import draw
from explorer.view.model.totals import leaves_of
from explorer.view.payload.view_payload import payload
from tests.browser.player import box, press, stage
from tests.support.pnnx_models import opened
from tests.support.tied_weights import PARAMETERS, tied_weights
from tests.view import sample

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "assets" / "models"


def scoped():
    """Return a program with an array in its own scope, which is an input, not a parameter."""
    with ex.scope("mine"):
        x = ex.tensor(np.ones((3, 4), np.float32), name="x")
        return (ex.tanh(x) * 2 + x).explore().recording


def perceptron():
    inputs = {"input": ex.TensorType((4, 2), np.dtype(np.float32))}
    chosen = [layers.PUpdate, layers.PerceptronPolicy.activation(layers.Sigmoid)]
    return layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, inputs=inputs).explore().recording


@pytest.mark.spec("V-19")
@pytest.mark.parametrize(
    "make", [sample.mlp, sample.network, lambda: sample.transformer(2), sample.hostile, scoped, perceptron]
)
def test_boxes_hold_the_sums_of_their_nodes(module, make):
    """Compare nodes, parameters, their bytes, other leaves and flops of every box at the beginning and end."""
    recording = make()
    tree, slots = (model := draw(recording).model).tree, model.slots
    nodes, leaves = recording.nodes, leaves_of(recording)
    for position in (0, recording.end):
        expected = [[0] * 5 for _ in tree.boxes]
        for slot, around in enumerate(tree.box_of):
            for node in slots.nodes[slot]:
                if nodes.born[node] < position and not 0 <= nodes.gone[node] < position:
                    sizes = [table.get(node, 0) for table in leaves]
                    for place, value in enumerate([1, *sizes, nodes.flops[node]]):
                        expected[around][place] += value
        for inner in tree.postorder():
            if tree.boxes[inner].parent >= 0:
                outer = expected[tree.boxes[inner].parent]
                outer[:] = [one + other for one, other in zip(outer, expected[inner], strict=True)]
        shown = module(
            """(explorer, [data, position]) => new explorer.Totals(new explorer.Trace(data)).at(position)
                .map(({ nodes, parameters, weights, others, flops }) => [nodes, parameters, weights, others, flops])""",
            [payload(recording), position],
        )
        assert shown == expected
    assert (make is scoped) <= (not leaves.parameters)
    assert (make is perceptron) <= (sum(leaves.parameters.values()) == 2 * 3 + 3)


@pytest.mark.spec("V-19")
def test_a_shared_weight_counts_once_in_each_box(module):
    """The page's totals of the recorded program equal Python's, also in bytes; later, equal leaves are merged."""
    recording = tied_weights()
    totals = draw(recording).model.totals
    recorded, final = (
        module(
            """(explorer, [data, position]) => new explorer.Totals(new explorer.Trace(data)).at(position)
                .map(({ parameters, weights }) => [parameters, weights])""",
            [payload(recording), position],
        )
        for position in (0, recording.end)
    )
    assert recorded == [[total.parameters, 4 * total.parameters] for total in totals]
    assert recorded[0] == final[0] == [PARAMETERS, 4 * PARAMETERS]


WALK = """(explorer, data) => {
    const trace = new explorer.Trace(data);
    const walked = new explorer.Totals(trace);
    const forth = [...Array(trace.decisions.length + 1).keys()];
    const [positions, differing, tables] = [[...forth, ...[...forth].reverse(), forth.at(-1), 0], [], new Set()];
    for (const position of positions) {
        const table = walked.at(position);
        tables.add(table);
        if (JSON.stringify(table) !== JSON.stringify(new explorer.Totals(trace).at(position))) differing.push(position);
    }
    return [differing, tables.size, positions.length];
}"""


@pytest.mark.spec("V-19")
@pytest.mark.parametrize("make", [sample.mlp, sample.network, sample.resnet, scoped])
def test_what_is_kept_from_step_to_step_is_what_is_added_up_anew(module, make):
    """Step forward, back and in one jump; only changes by decisions are counted again."""
    differing, tables, positions = module(WALK, payload(make()))
    assert differing == []
    assert 1 < tables < positions


@pytest.mark.spec("V-7", "V-19")
def test_the_costliest_part_of_a_box_is_listed_first(show):
    """The panel of a box lists its parts by cost; the panel of the whole graph lists them in program order."""
    view = show(ex.open(MODELS / "encoder.onnx").preview_plan().recording, position=0)
    names = view.locator(".ex-inside .ex-link")
    expect(names).to_have_text(["emb", "ls ×2", "ln / LayerNormalization", "head / Gemm"])
    names.filter(has_text="ls").click()
    # Blocks of equal costs are in program order.
    expect(names).to_have_text(["ls.0", "ls.1"])
    names.first.click()
    expect(names).to_have_text(["at", "f1", "f2", "ln1 / LayerNormalization", "ln2 / LayerNormalization"])


def rows_inside(view):
    """Return the name of each box in the table, and its soft lines, with its time."""
    rows = view.locator(".ex-inside tbody tr").all()
    return {
        row.locator("th button").inner_text(): (
            row.locator("th div").all_inner_texts(),
            row.locator("td").nth(1).inner_text(),
        )
        for row in rows
    }


def micros(text):
    return float(text.removesuffix(" µs"))


def absorbed():
    """A product, and a factor that goes into its weights."""
    x = ex.tensor(np.ones((4096, 16), np.float32), name="x")
    with ex.scope("product"):
        h = x @ ex.tensor(np.ones((16, 32), np.float32), name="w")
    with ex.scope("scale"):
        y = h * ex.tensor(np.arange(32, dtype=np.float32), name="s")
    plan = ex.EvalPlan(numerics="fast")
    plan.register(y)
    return plan.prepare().recording


@pytest.mark.spec("V-19")
def test_a_convolution_has_the_time_of_the_one_that_absorbs_a_batch_norm(show):
    """The batch norm has only its own part of the kernel and what is computed once, and says where the rest is."""
    view = show(opened("convbn_opt0").preview_plan().recording)
    view.locator(".ex-rail button").last.click()
    rows = rows_inside(view)
    times = {name: micros(time) for name, (_, time) in rows.items()}
    assert times["c"] == max(times.values())
    assert {name: lines[1:] for name, (lines, _) in rows.items() if lines[1:]} == {
        "b": ["partly computed in c", "and 8.15 µs once"]
    }


@pytest.mark.spec("Q-2", headline=True)
@pytest.mark.spec("V-19")
def test_a_row_says_where_the_work_of_a_box_is_done(show):
    """Show each operator's time in its own box; an operator that another absorbs names the box that computes it."""
    recording = absorbed()
    slots = draw(recording).model.slots
    products = [node for node, label in enumerate(recording.nodes.label) if label == "matmul"]
    assert len({recording.nodes.scope[node] for node in products}) == 1 < len(products)
    assert len({slots.of[node] for node in products}) == 2
    view = show(recording)
    view.locator(".ex-rail button").last.click()
    rows = rows_inside(view)
    assert micros(rows["product"][1]) > micros(rows["scale"][1])
    view.locator(".ex-inside button", has_text="scale").click()
    expect(view.locator(".ex-costs")).to_contain_text("partly computed in product")


@pytest.mark.spec("Q-2", "V-19")
@pytest.mark.parametrize("run", [False, True])
def test_times_of_runs_are_apart_from_what_is_computed_once(module, show, run):
    """Boxes, canvas, heat and the slowest kernels show the time of each run; what is computed once has its own line."""
    recording = sample.weighted(run)
    (once,), kernels = recording.once, recording.schedule.kernels
    steps = recording.run.steps if run else ()
    times = {step.kernel: step.micros for step in steps} or {at: each.estimate for at, each in enumerate(kernels)}
    before = times.pop(once)
    each = sum(times.values())
    assert min(before, each) > 1
    whole = module(
        """(explorer, data) => new explorer.Totals(new explorer.Trace(data)).at(data.recording.decisions.length)
            .map(({ time, once }) => [time, once])""",
        payload(recording),
    )
    assert whole[0] == [pytest.approx(each), pytest.approx(before)]
    view = show(recording, start="depth=0")
    press(view, "End", "[", "]")
    rows = rows_inside(view)
    assert (rows["weight"][1], f"and {micros_text(before)} once" in rows["weight"][0]) == ("–", True)
    assert rows["product"][1] == micros_text(each)
    costs = view.locator(".ex-costs").first
    expect(costs.locator("dt", has_text="once, before the first run").locator("+ dd")).to_have_text(micros_text(before))
    expect(view.locator(".ex-slowest ~ .ex-soft")).to_contain_text([f"and {micros_text(before)} once"])
    expect(view.locator(f".ex-slowest [data-kernel='{once}']")).to_have_count(0)
    if run:
        expect(box(view, "weight").locator(".ex-second").last).to_have_text(f"{micros_text(before)} once")
    press(view, "h")
    expect(view.locator(".ex-legend")).to_contain_text(micros_text(each))
    shares = [
        box(view, name).evaluate("box => box.style.getPropertyValue('--ex-share')") for name in ("weight", "product")
    ]
    assert shares == ["0%", "100%"]
    view.locator(".ex-inside button", has_text="weight").click()
    expect(view.locator(".ex-costs").first).not_to_contain_text("0 µs")


@pytest.mark.spec("Q-2")
def test_a_warm_run_says_what_was_computed_before_it(show):
    """A kernel that runs once has no time of its own in a later run, and none is invented."""
    recording = sample.weighted()
    view = show(replace(recording, run=replace(recording.run, warm=True)), start="depth=9")
    press(view, "End", "[", "]")
    expect(view.locator(".ex-frame-label", has_text="computed before")).to_have_count(1)
    expect(view.locator(".ex-costs").first).not_to_contain_text("once")


@pytest.mark.spec("Q-2", "V-19")
def test_a_box_shows_the_time_that_the_table_shows(show):
    """A kernel over two boxes is divided between them, on the canvas as in the table."""
    x = ex.tensor(np.ones((64, 512), np.float32), name="x")
    with ex.scope("first"):
        h = np.exp(x) * 2
    with ex.scope("second"):
        y = np.tanh(h) + 1
    recording = ex.explore(y).recording
    assert [len(kernel.nodes) for kernel in recording.schedule.kernels] == [4]
    # An outline would show the kernel's time instead of the boxes.
    view = show(replace(recording, groups=[]), start="depth=0")
    press(view, "End", "[", "]")
    expect(stage(view)).to_contain_text("run")
    rows = rows_inside(view)
    assert {*rows} == {"first", "second"}
    for name, (_, time) in rows.items():
        expect(box(view, name).locator(".ex-second").last).to_have_text(time)
