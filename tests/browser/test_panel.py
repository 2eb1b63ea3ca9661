"""The panel: costs of boxes, lists of decisions, options of the plan."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Stage
from explorer.record.reasons import bytes_text, micros_text, render
from explorer.run.diagnosis.leaf_values import leaf_values
from explorer.view.export.html_page import html
from explorer.view.layout.box_layout import Layouts
from explorer.view.layout.placement import compose
from explorer.view.model.picture_model import build_model
from explorer.view.picture.kernel_outlines import frames
from explorer.view.replay.state import state_at
from explorer.view.tree.scopes import scope_path
from tests.browser.player import box, heading, node, press, resize
from tests.formats.onnx.models import FLOAT, model, opened
from tests.formats.onnx.models import node as onnx_node
from tests.view import sample

pytestmark = pytest.mark.browser

ASSETS = Path(__file__).parents[2] / "assets"


@pytest.fixture(scope="module")
def digits():
    """Return the recording of a small model file, run on images."""
    images = np.load(ASSETS / "digits.npz")["images"]
    return ex.open(ASSETS / "digits.pnnx.param").explore(images).recording


def costs(view):
    names, values = view.locator(".ex-costs dt").all_text_contents(), view.locator(".ex-costs dd").all_text_contents()
    return dict(zip(names, values, strict=True))


@pytest.mark.spec("V-19", headline=True)
def test_a_box_says_what_it_costs_and_the_graph_says_it_of_everything(show, digits):
    """Sum parameters, flops, bytes and time over a selected box or the whole graph."""
    nodes, scopes = digits.nodes, digits.scopes
    view = show(digits)
    sizes = [int(np.prod(digits.type_of(n).shape)) for n in range(len(nodes))]
    weights = [n for n in range(len(nodes)) if nodes.kind[n] == "leaf" and scopes[nodes.scope[n]].kind != "top"]
    everything = costs(view)
    assert everything["parameters"].startswith(f"{sum(sizes[n] for n in weights):,} · ")
    assert set(everything) == {"parameters", "flops/byte"}
    view.locator(".ex-rail button").last.click()
    assert set(costs(view)) == {"parameters", "measured time", "flops/byte"}
    view.locator(".ex-rail button").first.click()
    box(view, "conv2").click()
    inside = [n for n in range(len(nodes)) if scopes[nodes.scope[n]].name == "conv2" and nodes.born[n] < 0]
    said = costs(view)
    assert said["nodes"] == str(len(inside))
    assert said["parameters"].startswith(f"{sum(sizes[n] for n in inside if n in weights):,} · ")
    flops, total = sum(nodes.flops[n] for n in inside), sum(nodes.flops)
    assert f"{flops / 1e6:.3g} M" in said["flops"]
    assert f"{100 * flops / total:.0f} %" in said["flops"]
    assert said["measured time"].endswith(" %")
    assert said["written"].startswith(bytes_text(sum(nodes.bytes[n] for n in inside)))
    expect(view.locator(".ex-why .ex-source")).to_contain_text("digits.pnnx.param line")
    expect(view.locator(".ex-why .ex-source")).to_contain_text("nn.Conv2d")


@pytest.mark.spec("V-19")
def test_the_times_of_the_boxes_are_the_time_of_the_run(show, digits):
    """A kernel's time is divided among its nodes, so the times of boxes and nodes add up to the kernels' total."""
    view = show(digits)
    view.locator(".ex-rail button").last.click()
    added = costs(view)["measured time"]
    assert digits.run is not None
    spent = sum(step.micros for step in digits.run.steps)
    assert added in (f"{spent:.3g} µs", f"{spent / 1000:.3g} ms")


@pytest.mark.spec("V-7", "V-19")
def test_a_model_says_at_once_what_it_is(show, digits):
    """A model's initial panel shows its name, inputs, outputs and operators, and its parts with shapes and sums."""
    view = show(digits, position=0)
    expect(view.locator(".ex-why h4")).to_have_text("digits")
    parameters, memory = costs(view)["parameters"].split(" · ")
    said = f"digits: 12×1×8×8 f32 → 12×10 f32, {parameters} parameters · {memory}, "
    expect(view.locator(".ex-say")).to_contain_text(said)
    rows = view.locator(".ex-summary dt, .ex-summary dd").all_text_contents()
    table = dict(zip(rows[::2], rows[1::2], strict=True))
    assert table["inputs"].endswith("12×1×8×8 float32")
    assert table["outputs"].endswith("12×10 float32 · nn.Softmax")
    kinds = Counter(scope.type for scope in digits.scopes if scope.type)
    texts = view.locator(".ex-kinds span").all_text_contents()
    assert {"nn.Conv2d ×4", "nn.Linear ×2", "nn.MaxPool2d"} <= set(texts)
    assert texts == [f"{kind} ×{count}" if count > 1 else kind for kind, count in kinds.most_common(12)][: len(texts)]
    inside = view.locator(".ex-inside tbody th").all_text_contents()
    assert inside[0] == "convbn2d_0→ 12×8×8×8"
    assert inside[-1] == "fc2→ 12×10"
    names = view.locator(".ex-inside tbody .ex-link")
    assert names.evaluate_all("names => names.every((name) => name.scrollWidth <= name.clientWidth)")
    room = view.locator(".ex-why").bounding_box()
    table = view.locator(".ex-inside").bounding_box()
    assert table["x"] + table["width"] <= room["x"] + room["width"]


@pytest.mark.spec("V-2", headline=True)
def test_a_refusal_is_told_in_full_wherever_the_story_stands(show, digits):
    """Show the full reason for every change that was declined for a node."""
    declined = next(d for d in digits.decisions if (d.rule, d.verdict) == ("Epilogue", "declined"))
    reason = render(declined.reason, declined.facts, digits.nodes.label.__getitem__)
    stage = digits.stages[declined.stage]
    for position in (stage.first + 1, digits.end):
        view = show(digits, position=position, whole=True)
        press(view, "f")
        node(view, "add").click()
        card = view.locator(".ex-why .ex-card-declined", has_text=reason.replace("`", ""))
        expect(card).to_be_visible()
        expect(card).to_contain_text("✗ Epilogue")
        expect(view.locator(".ex-why .ex-source").first).to_contain_text("digits.pnnx.param line")


@pytest.mark.spec("V-2")
def test_a_decision_is_explained_below_its_sentence(show, digits):
    """A click on a decision's collapsed details shows its meaning and how to change it."""
    declined = next(d for d in digits.decisions if (d.rule, d.verdict) == ("Epilogue", "declined"))
    (decision,) = [each for each in digits.explanations if (each.code, each.reason) == (declined.code, declined.reason)]
    view = show(digits, position=digits.decisions.index(declined) + 1)
    card = view.locator(".ex-why .ex-explained").first
    expect(card.get_by_text(decision.meaning)).to_be_hidden()
    card.locator("summary").click()
    expect(card.get_by_text(decision.meaning)).to_be_visible()
    expect(card.get_by_text(decision.change)).to_be_visible()
    expect(card).to_contain_text(f"assets/reasons.md#{decision.anchor}")


@pytest.mark.spec("V-2")
def test_a_decision_that_nothing_would_change_is_explained_without_advice(show, digits):
    explained = {(each.code, each.reason): each for each in digits.explanations}
    texts = [explained[decision.code, decision.reason] for decision in digits.decisions]
    number = next(number for number, text in enumerate(texts) if not text.change)
    card = show(digits, position=number + 1).locator(".ex-why .ex-explained").first
    expect(card.locator("summary")).to_have_text("what it means")
    card.locator("summary").click()
    expect(card.get_by_text(texts[number].meaning)).to_be_visible()
    expect(card).not_to_contain_text("To change it")


@pytest.mark.spec("V-23", headline=True)
def test_decisions_are_filtered_by_verdict_and_by_words(show):
    """Filter the decisions of a stage by verdict and words; the filter stays active while stepping."""
    recording = sample.mlp()
    view = show(recording, position=5)
    rows = view.locator(".ex-decisions li").filter(has=view.page.locator("button"))
    expect(view.locator(".ex-why h5", has_text="fuse: 2 applied, 2 declined")).to_be_visible()
    expect(rows).to_have_count(4)
    view.get_by_role("button", name="✗ declined").click()
    expect(rows).to_have_count(2)
    field = view.get_by_role("searchbox", name="filter decisions")
    field.fill("joins")
    expect(rows).to_have_count(1)
    field.fill("nothing of this")
    expect(view.locator(".ex-why [role=status]")).to_contain_text("“nothing of this”: 0 of 4")
    field.fill("joins")
    rows.get_by_role("button").click()
    expect(view.locator(".ex-say")).to_contain_text("decision 3 of 4")
    expect(rows).to_have_count(1)
    press(view, "Home")
    expect(view.locator(".ex-why h5", has_text="the whole plan: 5 applied, 3 declined")).to_be_visible()
    view.get_by_role("button", name="all", exact=True).click()
    field.fill("operands")
    (merged,) = [row for row in recording.decisions if row.code == "same-value"]
    expect(rows).to_have_text([f"✓In[3] line 2 · matmul{recording.reason(merged)}"])


@pytest.mark.spec("V-23")
def test_the_options_of_the_plan_stand_at_every_stage(show, digits):
    """The plan's options are shown at every stage; passes that changed nothing are one chip."""
    view = show(digits)
    for name, value in digits.options.items():
        if value != []:
            expect(view.locator(".ex-plan")).to_contain_text(f"{name} {value}")
    expect(view.locator(".ex-plan")).not_to_contain_text("[]")
    quiet = [stage.name for stage in digits.stages if stage.kind == "rewrite" and stage.first == stage.last]
    folded = view.locator(".ex-folded").first
    names = folded.get_attribute("title").removeprefix("changed nothing: ").split(", ")
    assert set(names) <= set(quiet)
    expect(view.locator(".ex-chip b").get_by_text(names[0], exact=True)).to_have_count(0)
    folded.click()
    view.locator(".ex-chip b").get_by_text(names[0], exact=True).click()
    expect(view.locator(".ex-say")).to_contain_text("changed nothing")
    expect(view.locator(".ex-plan")).to_be_visible()


@pytest.mark.spec("V-1", "V-13")
def test_a_long_row_of_stages_keeps_the_present_one_in_sight(open_page, tmp_path):
    """With forty stages the current chip and its neighbours are visible, and the ends fade."""
    recording = sample.mlp()
    last = recording.stages.pop()
    for number in range(40):
        recording.stages.append(Stage(f"tidying {number}", "memory", 8, 8, {}, "nothing"))
    recording.stages.append(last)
    page = open_page(viewport={"width": 900, "height": 700})
    (tmp_path / "page.html").write_text(html(recording), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    view = page.locator(".explorer-view")
    rail = view.locator(".ex-rail")
    expect(rail).to_have_attribute("data-more", "after")
    press(view, *["]"] * 20)
    expect(rail).to_have_attribute("data-more", "before after")
    for key in ("]", "]", "[", "["):
        page.keyboard.press(key)
        room, chip = rail.bounding_box(), rail.locator("[aria-current]").bounding_box()
        assert room["x"] + 20 <= chip["x"]
        assert chip["x"] + chip["width"] <= room["x"] + room["width"] - 20
    press(view, "End")
    expect(rail).to_have_attribute("data-more", "before")


@pytest.mark.spec("V-1", "V-13")
@pytest.mark.parametrize("wide", [1440, 1225, 900, 600, 500])
def test_all_stages_of_a_net_are_in_sight(open_page, tmp_path, wide):
    """The widget is 1,225 px wide in a window of 1,440: chips move together, and in a narrower row they scroll."""
    page = open_page(viewport={"width": wide, "height": 900})
    net = ex.open(ASSETS / "digits.onnx")
    (tmp_path / "page.html").write_text(html(net.plan((1, 1, 8, 8)).recording, position=0), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    rail = page.locator(".ex-rail")
    last = rail.get_by_text("buffers")
    if wide < 900:
        expect(rail).to_have_attribute("data-more", "after")
    else:
        expect(last).to_be_in_viewport(ratio=1)
    press(page.locator(".explorer-view"), "End")
    expect(last).to_be_in_viewport(ratio=1)
    assert rail.bounding_box()["height"] < 32


@pytest.mark.spec("V-4")
def test_a_kernel_is_outlined_around_the_closed_operators_that_hide_its_members(show, digits):
    """Python and JavaScript outline the same kernels at the same positions, including closed operators."""
    model = build_model(digits)
    is_open = {index for index, one in enumerate(model.tree.boxes) if one.open}
    scene = compose(model, Layouts(model), is_open)
    drawn = frames(model, scene, state_at(digits, model.slots, digits.end), is_open)
    assert any(frame.boxes for frame in drawn)
    view = show(digits, position=digits.end, whole=True)
    press(view, "End")
    expect(view.locator("path.ex-frame")).to_have_count(len(drawn))
    result = view.locator("path.ex-frame").evaluate_all(
        "paths => paths.map(path => path.getBBox()).map(({ x, y, width, height }) => [x, y, x + width, y + height])"
    )
    wanted = [
        [
            min(s[0] for s in f.shapes),
            min(s[1] for s in f.shapes),
            max(s[2] for s in f.shapes),
            max(s[3] for s in f.shapes),
        ]
        for f in drawn
    ]
    assert sorted(result) == [pytest.approx(corners, abs=1) for corners in sorted(map(list, wanted))]
    member = model.tree.boxes[next(frame.boxes[0] for frame in drawn if frame.boxes)]
    assert member.is_operator
    assert view.locator(".ex-closed.ex-member").count() == len({one for frame in drawn for one in frame.boxes})


@pytest.mark.spec("V-7")
def test_a_box_is_there_only_while_it_holds_something(show):
    """A box without existing nodes is not drawn, open or closed, and not focusable."""
    make = sample.Builder("late", "1a7e")
    kind = make.type(4, 4)
    late = make.scope("late", "layer")
    x = make.leaf("x", kind)
    old = make.node("exp", x, type=kind)
    make.stage("recorded", "record", nodes=2)
    make.stage("split", "rewrite", nodes=3)
    born = make.next_decision()
    first = make.node("half", x, type=kind, scope=late, born=born)
    second = make.node("twice", first, type=kind, scope=late, born=born)
    joined = make.node("add", second, x, type=kind, born=born)
    values = (first, second, joined)
    make.decide("Split", "three", "{node} becomes three", (old,), values, replace=[(old, joined)], node={"node": old})
    view = show(make.roots(old))
    drawn = box(view, "late")
    expect(view.locator(".ex-node:visible")).to_have_count(2)
    expect(drawn).to_be_hidden()
    press(view, ".")
    expect(drawn).to_be_visible()
    press(view, ",")
    expect(drawn).to_be_hidden()


@pytest.mark.spec("V-13")
def test_every_control_has_a_name_and_a_ring(show, digits):
    """Every button, list, field and slider has an accessible name and a focus ring."""
    view = show(digits)
    press(view, "End", "/")
    controls = view.locator("button:visible, input:visible, select:visible")
    assert controls.count() > 20
    nameless = controls.evaluate_all(
        "all => all.filter(one => !one.ariaLabel && !one.textContent.trim()).map(one => one.outerHTML)"
    )
    assert nameless == []
    view.get_by_role("searchbox", name="search").focus()
    for _ in range(14):
        view.page.keyboard.press("Tab")
        ring = view.page.evaluate(
            """() => {
                const held = document.activeElement, style = getComputedStyle(held);
                const shape = held.querySelector(':scope > .ex-shape');
                const slider = held.closest('.ex-strip');
                return style.outlineStyle !== 'none' || (shape && getComputedStyle(shape).strokeWidth === '3px')
                    || (slider && getComputedStyle(slider).outlineStyle !== 'none') || held === document.body;
            }"""
        )
        assert ring, view.page.evaluate("document.activeElement.outerHTML")


@pytest.mark.spec("V-13")
def test_what_is_out_of_sight_is_not_drawn_and_the_keyboard_still_gets_there(show):
    """Of a thousand nodes only those near the visible part are drawn; moving by keys draws the next ones."""
    view = show(sample.dag(1000))
    press(view, "e")
    press(view, *["+"] * 16)
    assert view.locator(".ex-layer-nodes > svg.ex-none").count() > 0
    view.locator(".ex-layer-nodes > svg:not(.ex-none) > .ex-node").first.focus()
    for _ in range(30):
        view.page.keyboard.press("ArrowDown")
    focused = view.locator(".ex-node:focus")
    expect(focused).to_be_visible()
    stage, at = view.locator(".ex-stage").bounding_box(), focused.bounding_box()
    assert stage["y"] <= at["y"] <= stage["y"] + stage["height"]


@pytest.mark.spec("I-5", "V-6")
def test_an_operator_of_a_file_lists_its_attributes_and_weights(show):
    """An operator's box and nodes list the operator's attributes and weights with the file's names."""
    view = show(ex.open(ASSETS / "models" / "resnet18.pnnx.param").preview_plan().recording)
    panel = view.locator(".ex-why")
    box(view, "convbn2d_0").click()
    expect(heading(view, "attributes")).to_be_visible()
    expect(panel.locator(".ex-facts dt", has_text="kernel_size")).to_have_count(1)
    expect(panel.locator(".ex-facts dd").filter(has_text="convbn2d_0.weight 64×3×7×7 float32")).to_have_count(1)
    box(view, "convbn2d_0").dblclick()
    node(view, "conv2d").click()
    expect(panel.locator(".ex-facts dt", has_text="kernel_size")).to_have_count(1)


@pytest.mark.spec("V-6")
def test_a_page_without_the_values_of_weights_gives_the_command_that_reads_them(show):
    """`explorer show FILE --weights` is given where a value would be, and not if the page has values."""
    plan = ex.open(ASSETS / "digits.onnx").preview_plan()
    hint = re.compile("explorer show FILE --weights")
    view = show(plan.recording, position=0)
    box(view, "fc1 / Gemm").dblclick()
    node(view, "fc1.weight").click()
    expect(view.locator(".ex-why .ex-note").filter(has_text=hint)).to_have_count(1)
    plan.recording.leaf_values = leaf_values(plan.planned)
    view = show(plan.recording, position=0)
    box(view, "fc1 / Gemm").dblclick()
    node(view, "fc1.weight").click()
    expect(heading(view, re.compile("^value$"))).to_be_visible()
    expect(view.locator(".ex-why .ex-note").filter(has_text=hint)).to_have_count(0)
    expect(view.locator(".ex-why .ex-elements")).to_have_text(re.compile(r"^\[[-0-9., ]+, …\]$"))


@pytest.mark.spec("V-9")
def test_the_panel_of_a_box_leads_to_producers_and_readers(show):
    """An operator's or layer's box lists the nodes outside that it reads and that read it, as links with types."""
    view = show(ex.open(ASSETS / "models" / "resnet18.onnx").preview_plan().recording, position=0)
    panel = view.locator(".ex-why")
    box(view, "maxpool / MaxPool").click()
    expect(heading(view, re.compile("^reads$"))).to_be_visible()
    expect(heading(view, "read by 2")).to_be_visible()
    rows = panel.locator(".ex-nodes").first.locator("li")
    expect(rows).to_have_text([re.compile(r"^Relu 1×64×\S+ f32$")])
    box(view, "layer1 ×2").click()
    expect(heading(view, "read by 2")).to_be_visible()
    expect(panel.locator(".ex-nodes").nth(1).locator("button")).to_have_text(["conv2d", "conv2d"])
    box(view, "maxpool / MaxPool").click()
    rows.locator("button").click()
    expect(panel.locator("h4")).to_have_text("Relu")


@pytest.mark.spec("I-5")
def test_attributes_precede_decisions_in_a_recorded_graph(show):
    """In the graph as recorded, the operator in the file comes before its decisions; in a pass, after them."""
    view = show(ex.open(ASSETS / "models" / "resnet18.pnnx.param").preview_plan().recording, position=0)
    headings = view.locator(".ex-why h5")
    box(view, "convbn2d_0").dblclick()
    node(view, "conv2d").click()
    expect(headings.first).to_have_text("operator")
    expect(heading(view, "decisions about it")).to_be_visible()
    view.page.evaluate("location.hash = 'stage=fuse'")
    expect(headings.first).not_to_have_text("operator")
    expect(heading(view, "attributes")).to_be_visible()


@pytest.mark.spec("V-23")
def test_decisions_begin_with_their_place_equal_ones_are_folded_and_the_costliest_is_first(show):
    """Five equal reasons are one row; the cheapest come last, below a threshold that the reader moves."""
    recording = sample.resnet()
    fuse = next(stage for stage in recording.stages if stage.name == "fuse")
    declined = [row for row in recording.decisions[fuse.first : fuse.last] if row.verdict == "declined"]
    view = show(recording, position=0)
    view.page.evaluate("location.hash = 'stage=fuse'")
    rows = view.locator(".ex-decisions li").filter(has=view.page.locator(".ex-mark-declined"))
    groups: dict[str, list[float]] = {}
    for row in declined:
        groups.setdefault(recording.reason(row).replace("`", ""), []).append(row.facts["estimated_cost_us"])
    by_cost = sorted(groups.values(), key=lambda costs: -sum(costs))
    expect(rows).to_have_count(len(groups))
    assert len(groups) < len(declined)
    for number, costs in enumerate(by_cost):
        expect(rows.nth(number)).to_contain_text(micros_text(sum(costs)))
        expect(rows.nth(number).locator(".ex-count")).to_have_count(int(len(costs) > 1))
    dearest = max(declined, key=lambda row: row.facts["estimated_cost_us"])
    scope = " / ".join(scope_path(recording, dearest.subjects[0]))
    expect(rows.first.locator("b").first).to_contain_text(scope)
    expect(view.locator(".ex-trifles")).to_have_count(0)
    view.get_by_label("cost of declining below which").fill("4")
    expect(view.locator(".ex-threshold")).to_contain_text("below 100 µs")
    expect(view.locator(".ex-trifles")).to_have_count(1)
    cheap = [costs for costs in by_cost if sum(costs) < 100]
    expect(view.locator(".ex-trifles ~ li")).to_have_count(len(cheap))
    rows.first.get_by_role("button").click()
    expect(view.locator(".ex-say")).to_contain_text("declined")
    expect(rows).to_have_count(len(groups) + len(by_cost[0]) - 1)


@pytest.mark.spec("V-2", "V-7")
def test_a_node_says_what_it_computes_and_the_panel_says_it_whole(show):
    """A node's second line has its operands' names, shortened; the panel has all of them, unless none has a name."""
    weight = "a_weight_of_the_first_linear_layer_of_the_decoder"
    x, w = (ex.tensor(np.ones((3, 3), "float32"), name=name) for name in ("x", weight))
    plan = ex.EvalPlan()
    plan.register(ex.exp(1 - x @ w))
    view = show(plan.prepare().recording, position=0)
    expect(node(view, "matmul")).to_contain_text("→ 3×3 f32")
    expect(node(view, "matmul")).not_to_contain_text(weight)
    node(view, "matmul").click()
    expect(view.locator(".ex-why code").filter(has_text=f"x @ {weight}")).to_have_count(1)
    node(view, "exp").click()
    expect(view.locator(".ex-why")).not_to_contain_text("@ a_weight")
    expect(view.locator(".ex-node").filter(has_text="1 − matmul")).to_have_count(1)


@pytest.mark.spec("T-14")
def test_a_tensor_is_shown_as_one_block_with_its_strides(show):
    """A stored tensor shows its strides in elements; a computed value has none."""
    x, row = ex.tensor(np.zeros((2, 3, 4), np.float32), name="x"), ex.tensor(np.zeros(4, np.float32), name="row")
    plan = ex.EvalPlan()
    plan.register(ex.tanh(x + row))
    plan.prepare()
    view = show(plan.recording)
    for name, strides in (("x", "(12, 4, 1)"), ("row", "(1)")):
        node(view, name).click()
        expect(view.locator(".ex-why")).to_contain_text(f"one block, strides {strides} elements")
    node(view, "tanh").click()
    expect(view.locator(".ex-why")).not_to_contain_text("strides")


@pytest.mark.spec("V-2")
def test_readers_before_and_after_dedup_are_counted(show):
    """After two equal expressions are merged, a node shows its numbers of readers now and as recorded."""
    x = ex.tensor(np.ones((3, 4)), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.tanh(x) * 2 + ex.tanh(x).sum())
    view = show(plan.prepare().recording)
    why = view.locator(".ex-why")
    press(view, "Home")
    node(view, "tanh").first.click()
    expect(why.get_by_text("read by 1", exact=True)).to_be_visible()
    press(view, "End")
    expect(why.get_by_text("read by 2", exact=True)).to_be_visible()
    expect(why).to_contain_text("readers: as recorded 1, after dedup 2")


@pytest.mark.spec("V-2")
def test_a_click_on_a_kernels_title_selects_its_result(show):
    """A click on the title of a kernel's outline shows its last operation and the kernel."""
    x = ex.tensor(np.ones((32, 48), np.float32), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.softmax(ex.tanh(x) * 2 + x))
    view = show(plan.prepare().recording)
    press(view, "End")
    view.locator(".ex-frame-title").get_by_text("4 operations").click()
    expect(view.locator(".ex-node.ex-selected")).to_have_count(1)
    expect(view.locator(".ex-why h4")).to_have_text("softmax")
    expect(view.locator(".ex-why").get_by_text("kernel", exact=True)).to_be_visible()


@pytest.mark.spec("V-2")
def test_a_term_stands_beside_the_first_line_of_its_value(show):
    """A name of many lines is aligned with its term."""
    value = ex.tensor(np.ones(3, np.float32), name="a_very_long_name_" * 20)
    view = show(ex.explore(ex.tanh(value) + 1).recording)
    term = view.locator(".ex-why dt").filter(has_text="inputs").first
    link = view.locator(".ex-why dd .ex-link").first
    expect(link).to_contain_text("a_very_long_name_")
    assert link.bounding_box()["height"] > 40
    assert abs(term.bounding_box()["y"] - link.bounding_box()["y"]) < 8


@pytest.mark.spec("V-2")
@pytest.mark.parametrize("width", [600, 1440])
def test_a_very_long_name_takes_three_lines_and_is_whole_in_its_tooltip(show, width):
    """A name of 600 letters is shortened; its tooltip and copied text are the whole name."""
    name = "/model/" + "a_module_of_an_exporter/" * 25 + "MatMul_output_0"
    x = ex.tensor(np.ones((2, 3), np.float32), name=name)
    with ex.scope(name.replace("/", "_")):
        view = show(ex.explore(ex.tanh(ex.exp(x)), run=False).recording, whole=True)
    resize(view.page, width)
    item = view.locator(".ex-node.ex-leaf")
    expect(item.locator(".ex-name")).to_have_text(re.compile("^/model/.+….+output_0$"))
    item.click()
    heading = view.locator(".ex-why h4")
    expect(heading).to_have_text(name)
    expect(heading).to_have_attribute("title", name)
    view.locator(".ex-node", has_text="tanh").click()
    scope = view.locator(".ex-why .ex-sub code")
    expect(scope).to_have_attribute("title", name.replace("/", "_"))
    for each in view.locator(".ex-why .ex-long").all():
        assert each.evaluate("(part) => part.clientHeight / parseFloat(getComputedStyle(part).fontSize)") < 3.5 * 1.6
    title = view.locator(".ex-box-label .ex-title").first.bounding_box()
    frame = view.locator(".ex-box.ex-open > .ex-shape").first.bounding_box()
    assert frame["x"] <= title["x"]
    assert title["x"] + title["width"] <= frame["x"] + frame["width"]


@pytest.mark.spec("V-6")
def test_a_picture_of_a_value_says_which_part_it_shows(show):
    """The first image of a stack is drawn; a matrix is drawn completely."""
    stack = ex.tensor(np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5), name="stack")
    single = ex.tensor(np.arange(20, dtype=np.float32).reshape(1, 4, 5), name="single")
    view = show(ex.explore(stack + single, run=True).recording)
    node(view, "stack").click()
    expect(view.get_by_role("img", name="picture of value[0, 0], 4 rows")).to_be_visible()
    expect(view.locator(".ex-value figcaption")).to_have_text("value[0, 0]")
    node(view, "single").click()
    expect(view.get_by_role("img", name="picture of the value, 4 rows")).to_be_visible()
    expect(view.locator(".ex-value figcaption")).to_have_count(0)


@pytest.mark.spec("V-6", headline=True)
def test_the_value_of_a_node_is_seen_at_once_where_decisions_are_not_the_subject(show):
    """Show the value of a selected node: statistics, NaN and inf, a histogram and an image."""
    images = np.load(ASSETS / "digits.npz")["images"][:4].astype(np.float32)
    recording = ex.open(ASSETS / "digits.onnx").plan(images, record="values").eval().recording
    view = show(recording, position=0)
    node(view, "Relu").click()
    decisions = heading(view, "later decisions about it")
    value, panel = heading(view, "value in the run"), view.locator(".ex-why")
    statistics = panel.locator(".ex-statistics")
    assert value.bounding_box()["y"] < decisions.bounding_box()["y"]
    expect(statistics).to_contain_text(re.compile(r"min.*max.*mean.*std.*NaN, inf0, 0"))
    expect(panel.locator(".ex-histogram rect")).to_have_count(32)
    expect(panel.get_by_role("img", name="picture of value")).to_be_visible()
    room = panel.bounding_box()
    assert statistics.bounding_box()["y"] + statistics.bounding_box()["height"] < room["y"] + room["height"]
    view.locator(".ex-chip", has_text="run").last.click()
    expect(statistics).to_be_in_viewport()
    view.locator(".ex-chip", has_text="fuse").click()
    assert value.bounding_box()["y"] > panel.locator(".ex-card").first.bounding_box()["y"]


@pytest.mark.spec("Q-1")
def test_the_panel_lists_what_the_file_states(show, tmp_path):
    """The first stage lists descriptions and metadata as text, with their lines; an operator shows its description."""
    operator = onnx_node("Neg", ["x"], ["y"], "invert")
    operator.doc_string = "describes the node"
    stated = {"producer_name": "tool", "producer_version": "1.2", "doc_string": "<b>first</b>\x1b[31m\nsecond"}
    net = opened(model([operator], {"x": (FLOAT, [2])}, ["y"], **stated), tmp_path)
    view = show(net.explore().recording)
    rows = view.locator(".ex-metadata")
    assert rows.locator("dt").all_text_contents()[:2] == ["description", "producer"]
    lines = rows.locator("dd").first.locator("div").all_text_contents()
    assert lines == ["<b>first</b>\\x1b[31m", "second"]
    assert rows.locator("dd").nth(1).text_content() == "tool 1.2"
    node(view, "invert").click()
    expect(view.locator(".ex-why")).to_contain_text("describes the node")


@pytest.mark.spec("V-19")
def test_a_box_says_that_an_estimated_time_is_of_the_final_plan(show):
    """Before the final plan, inner boxes are compared by their flops, which belong to the graph shown."""
    view = show(ex.open(ASSETS / "models" / "resnet18.pnnx.param").preview_plan().recording, position=0)
    box(view, "layer2").click()
    columns = view.locator(".ex-why .ex-inside thead th")
    assert "estimated time in the final plan" in costs(view)
    expect(columns.nth(2)).to_have_text("flops")
    view.locator(".ex-rail button").last.click()
    box(view, "layer2").click()
    expect(columns.nth(2)).to_have_text("estimated time")
    assert "estimated time" in costs(view)


@pytest.mark.spec("Q-12")
def test_the_panel_documents_the_operator_of_a_file(show, tmp_path, page):
    """It shows the type's operator set, summary and page, and marks attributes with default values."""
    pool = onnx_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    net = opened(model([pool], {"x": (FLOAT, [1, 1, 4, 4])}, ["y"], opset=17), tmp_path)
    view = show(net.explore().recording)
    node(view, "pool").click()
    panel = view.locator(".ex-why")
    expect(panel).to_contain_text("recorded as max_pool2d")
    expect(panel).to_contain_text("MaxPool of ONNX, opset 17 (unchanged since opset 12)")
    expect(panel.locator(".ex-type")).to_contain_text("MaxPool consumes an input tensor X and applies max pooling")
    link = panel.get_by_role("link", name="documentation on onnx.ai")
    expect(link).to_have_attribute("href", "https://onnx.ai/onnx/operators/onnx__MaxPool.html")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    attributes = dict(zip(*[facts_of(panel, "attributes", tag) for tag in ("dt", "dd")], strict=True))
    assert attributes == {
        "kernel_shape": "(2, 2)",
        "strides": "(2, 2)",
        "auto_pad": "NOTSET default",
        "ceil_mode": "0 default",
        "storage_order": "0 default",
    }
    whole = panel.locator("details", has_text="Documentation")
    expect(whole.locator("dl").first).to_be_hidden()
    whole.locator("summary").click()
    expect(whole.locator("p").first).to_contain_text("MaxPool consumes an input tensor X and applies max pooling")
    expect(whole.locator("pre").first).to_contain_text("output_spatial_shape[i] = floor((input_spatial_shape[i] + pad_")
    assert whole.locator("h6").all_text_contents() == ["inputs", "outputs", "attributes", "types"]
    names = whole.locator("dt").all_text_contents()
    assert names[:3] == ["X: T", "Y: T", "Indices: I optional"]
    assert "ceil_mode: int = 0" in names
    assert "kernel_shape: ints required" in names
    assert names[-1] == "I: tensor(int64)"
    expect(whole.locator("dd", has_text="Whether to use ceil or floor (default)")).to_have_count(1)
    room = panel.bounding_box()
    for part in whole.locator("p, pre, dt, dd, li").all():
        inside = part.bounding_box()
        assert inside["x"] + inside["width"] <= room["x"] + room["width"]
    assert len(page.context.pages) == 1


def facts_of(panel, title, tag):
    """Return the names or values in the table after a heading."""
    return panel.locator(f'h5:text-is("{title}") + dl {tag}').all_text_contents()


@pytest.mark.spec("Q-12")
def test_the_address_of_a_page_cannot_be_a_script(show, digits):
    """Only the page of an https address is linked, since a recording may come from anywhere."""
    types = [replace(type, url="javascript:alert(1)") for type in digits.operator_types]
    view = show(replace(digits, operator_types=types))
    node(view, "relu1").click()
    expect(view.locator(".ex-why")).to_contain_text("of PNNX")
    expect(view.locator(".ex-why a")).to_have_count(0)


def test_documentation_is_text_with_lists_and_links_to_pages(show, digits, page):
    """A recording may come from anywhere: its Markdown becomes elements, and everything else stays text."""
    marked = """<img src=x onerror="window.hit = 1"> `<b>code</b>` and **bold\x1b** of [a page](https://x.org/a).

1. one
   - two, [no page](javascript:alert(1))

         code <script>window.hit = 1</script>
"""
    types = [replace(type, description=marked) for type in digits.operator_types]
    view = show(replace(digits, operator_types=types))
    node(view, "relu1").click()
    whole = view.locator(".ex-documentation")
    whole.locator("summary").click()
    first = whole.locator("p")
    expect(first).to_have_text('<img src=x onerror="window.hit = 1"> <b>code</b> and bold\\x1b of a page.')
    expect(first.locator("code")).to_have_text("<b>code</b>")
    expect(first.locator("b")).to_have_text("bold\\x1b")
    items = whole.locator("ul > li")
    assert [(each.get_attribute("data-depth"), each.get_attribute("data-mark")) for each in items.all()] == [
        ("1", "1."),
        ("2", "•"),
    ]
    expect(items.nth(1).locator("pre")).to_have_text("code <script>window.hit = 1</script>")
    assert [link.get_attribute("href") for link in whole.locator("a").all()] == ["https://x.org/a"]
    assert page.evaluate("window.hit") is None


@pytest.mark.spec("Q-1")
def test_the_panel_lists_what_the_file_states_about_an_operator(show, tmp_path):
    operator = onnx_node("Neg", ["x"], ["y"], "invert")
    operator.metadata_props.add(key="<i>pass\x1b", value="fused from a")
    operator.metadata_props.add(key="pkg.exporter.long_names_of_keys_without_spaces.in_metadata", value="above")
    made = model([operator], {"x": (FLOAT, [2])}, ["y"])
    made.graph.output[0].metadata_props.add(key="unit", value="<b>V")
    view = show(opened(made, tmp_path).explore().recording)
    node(view, "invert").click()
    rows = view.locator(".ex-why .ex-metadata")
    expect(rows.locator("dt")).to_have_text(["<i>pass\\x1b", re.compile("^pkg.exporter"), "y: unit"])
    expect(rows.locator("dd")).to_have_text(["fused from a", "above", "<b>V"])
    name, value = rows.locator("dt").nth(1).bounding_box(), rows.locator("dd").nth(1).bounding_box()
    room = view.locator(".ex-why").bounding_box()
    assert name["x"] + name["width"] <= room["x"] + room["width"]
    assert (name["x"], name["y"] + name["height"]) <= (value["x"], value["y"] + 1)
