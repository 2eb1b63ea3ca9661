"""Whole stages: the result precedes the decisions, the selection stays visible, and playback is readable."""

import re
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

import explorer as ex
from explorer.record import Recording
from explorer.record.reasons import micros_text
from explorer.view.export.html_page import html
from explorer.view.model.stage_texts import stage_result
from explorer.view.picture.svg import svg
from explorer.view.tree.scopes import scope_path
from tests.browser.player import box, press, stage
from tests.golden.programs import recorded
from tests.view import sample

pytestmark = pytest.mark.browser

ASSETS = Path(__file__).parents[2] / "assets"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def resnet() -> Recording:
    """Return the plan of a file with twenty-two fused kernels."""
    return ex.open(ASSETS / "models" / "resnet18.pnnx.param").explore().recording


def chip(view: Locator, name: str) -> Locator:
    """Return the button of a stage."""
    return view.locator(".ex-chip").filter(has=view.page.locator(f'b:text-is("{name}")'))


def is_in_sight(view: Locator, wanted: Locator) -> bool:
    """Return whether the center of an element is on the canvas."""
    room, place = view.locator(".ex-stage").bounding_box(), wanted.bounding_box()
    assert room is not None
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    return room["x"] <= x <= room["x"] + room["width"] and room["y"] <= y <= room["y"] + room["height"]


@pytest.mark.spec("V-1")
def test_a_click_on_a_stage_shows_its_result_and_a_step_its_first_decision(show):
    """A stage is shown as a whole, with its result in one sentence; steps begin at its first decision."""
    recording = sample.mlp()
    number = [each.name for each in recording.stages].index("fuse")
    view = show(recording, position=0)
    chip(view, "fuse").click()
    expect(stage(view)).to_contain_text("fuse")
    expect(view.locator(".ex-say .ex-sentence")).to_have_text(stage_result(recording, number))
    expect(view.locator(".ex-why")).not_to_contain_text(stage_result(recording, number))
    expect(view.locator(".ex-why .ex-sub")).to_have_text(recording.stages[number].purpose)
    kernels = [group for group in recording.groups if recording.decisions[group.decision].stage == number]
    assert kernels
    expect(view.locator(".ex-frame.ex-kernel")).to_have_count(len({group.members[-1] for group in kernels}))
    press(view, ".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of 4")
    press(view, ",", "]", "[")
    expect(view.locator(".ex-say .ex-sentence")).to_have_text(stage_result(recording, number - 1))
    press(view, "]", ",")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of 1")


@pytest.mark.spec("V-1", "V-25")
def test_the_decisions_of_a_rewriting_stage_precede_the_costs_of_the_graph(show, resnet):
    view = show(resnet, position=0)
    chip(view, "fuse").click()
    expect(view.locator(".ex-why h5")).to_have_text(["in numbers", re.compile("^fuse: "), "the whole graph"])
    chip(view, "order").click()
    expect(view.locator(".ex-why h5").last).to_have_text(re.compile("^the whole plan: "))


@pytest.mark.spec("V-1", "V-13")
def test_keys_of_stages_skip_folded_ones(show):
    """Stages that changed nothing are skipped, unless the reader has unfolded them."""
    view = show(sample.resnet(), position=0)
    press(view, "Home")
    for key, name in (("]", "simplify"), ("]", "prune"), ("]", "algorithms"), ("[", "prune"), ("[", "simplify")):
        press(view, key)
        expect(stage(view)).to_contain_text(name)
    view.locator(".ex-folded").first.click()
    press(view, "]")
    expect(stage(view)).to_contain_text("dedup")


@pytest.mark.spec("V-25")
def test_closed_boxes_count_the_decisions_of_a_stage_inside(show, resnet):
    """A whole stage marks the closed boxes in which it decided anything; a single decision marks them differently."""
    view = show(resnet, start="depth=0")
    marks = view.locator(".ex-box .ex-decided:not(.ex-none)")
    expect(marks).to_have_count(0)
    chip(view, "fuse").click()
    first, last = next((each.first, each.last) for each in resnet.stages if each.name == "fuse")
    inside = {node for node in range(len(resnet.nodes)) if "layer2" in scope_path(resnet, node)}
    verdicts = [each.verdict for each in resnet.decisions[first:last] if inside.intersection(each.subjects)]
    applied, declined = verdicts.count("applied"), verdicts.count("declined")
    expect(box(view, "layer2").locator(".ex-decided")).to_have_text(f"{applied}✓ {declined}✗")
    expect(box(view, "layer2")).to_have_accessible_name(
        re.compile(f"{applied} applied inside, {declined} declined inside")
    )
    expect(box(view, "convbn2d_0").locator(".ex-decided")).to_have_text("1✓")
    press(view, ".")
    expect(marks).to_have_count(0)


@pytest.mark.spec("V-25")
@pytest.mark.parametrize("stage_name", ["simplify", "algorithms", "fuse", "buffers"])
def test_a_picture_and_the_page_count_equal_decisions_in_closed_boxes(show, resnet, stage_name):
    """The picture of a stage, without a browser, has the marks of the page."""
    view = show(resnet, start="depth=0")
    chip(view, stage_name).click()
    number = [each.name for each in resnet.stages].index(stage_name)
    drawing = ElementTree.fromstring(svg(resnet, resnet.stages[number].last, depth=0, stage=resnet.stages[number]))
    texts = [
        {each.get("class"): "".join(each.itertext()) for each in group.iter(f"{SVG}text")}
        for group in drawing.iter(f"{SVG}g")
        if (group.get("class") or "").startswith("closed")
    ]
    expected = sorted((each["name"], each["decided"]) for each in texts if "decided" in each)
    assert expected
    marks = view.locator(".ex-box:has(.ex-decided:not(.ex-none))")
    expect(marks).to_have_count(len(expected))
    shown = marks.evaluate_all(
        "(all) => all.map((box) => ['.ex-name', '.ex-decided'].map((part) => box.querySelector(part).textContent))"
    )
    assert sorted(map(tuple, shown)) == expected


@pytest.mark.spec("V-1", "V-5")
def test_order_and_run_are_shown_as_wholes_with_every_number_and_time(show):
    """The whole order numbers every kernel, the whole run shows every time, and nothing waits."""
    recording = sample.mlp()
    assert recording.schedule is not None
    view = show(recording, position=0)
    for name in ("order", "run"):
        chip(view, name).click()
        expect(view.locator(".ex-say .ex-sentence")).to_contain_text("kernels")
        expect(view.locator(".ex-graph :is(.ex-waiting, .ex-current, .ex-ready)")).to_have_count(0)
        numbers = {int(text) for text in view.locator(".ex-graph .ex-number").all_text_contents() if text}
        assert numbers == set(range(1, len(recording.schedule.kernels) + 1))


@pytest.mark.spec("V-1", "V-2")
def test_a_selection_stays_in_sight_and_the_first_decision_is_about_it(show, resnet):
    """A selected node is visible in every stage, and the first step into a stage is a decision about it."""
    fuse = next(each for each in resnet.stages if each.name == "fuse")
    declined = [row for row in resnet.decisions[fuse.first + 1 : fuse.last] if row.verdict == "declined"]
    about = declined[0].subjects[0]
    view = show(resnet, position=0)
    view.page.evaluate("about => { location.hash = `stage=recorded&node=${about}` }", about)
    expect(view.locator(".ex-why h4")).to_have_text(resnet.label(about))
    for name in ("simplify", "algorithms", "fuse", "order", "buffers"):
        chip(view, name).click()
        expect(view.locator(".ex-node.ex-selected")).to_have_count(1)
        assert is_in_sight(view, view.locator(".ex-node.ex-selected")), name
    chip(view, "fuse").click()
    expect(view.locator(".ex-why h4")).to_have_text(resnet.label(about))
    view.locator(".ex-stage").focus()
    view.page.keyboard.press(".")
    place = next(at for at, row in enumerate(resnet.decisions[fuse.first : fuse.last], 1) if about in row.subjects)
    assert place > 1
    expect(view.locator(".ex-say")).to_contain_text(f"decision {place} of")


@pytest.fixture
def clock(page):
    """Return the page's clock, controlled by the test; other tests do not reuse the page."""
    yield page.clock
    page.close()


@pytest.mark.spec("V-1")
def test_play_leaves_time_to_read(show, clock):
    """A decision is shown for three seconds at 1×, and for six at 0.5×; a kernel for 0.8 s."""
    clock.install(time=datetime(2026, 1, 1, 12))
    view = show(sample.mlp(), position=0)
    clock.pause_at(datetime(2026, 1, 1, 13))
    press(view, "p")
    say = view.locator(".ex-say")
    clock.run_for(850)
    expect(say).to_contain_text("decision 1 of 3")
    clock.run_for(2_900)
    expect(say).to_contain_text("decision 1 of 3")
    clock.run_for(150)
    expect(say).to_contain_text("decision 2 of 3")
    view.locator(".ex-speed").select_option("0.5")
    clock.run_for(5_900)
    expect(say).to_contain_text("decision 2 of 3")
    clock.run_for(200)
    expect(say).to_contain_text("decision 3 of 3")
    view.locator(".ex-speed").select_option("1")
    clock.run_for(6 * 3_000 + 100)
    expect(say).to_contain_text("pick 1 of 4")
    clock.run_for(800)
    expect(say).to_contain_text("pick 2 of 4")


@pytest.mark.spec("V-5")
def test_a_kernels_time_stands_on_its_outline(show):
    """The time of a kernel of several operations is at its outline, not on one of the operations."""
    recording = sample.mlp()
    assert recording.run is not None
    assert recording.schedule is not None
    fused = [step for step in recording.run.steps if len(recording.schedule.kernels[step.kernel].nodes) > 1]
    assert fused
    view = show(recording, position=0)
    chip(view, "run").click()
    times = view.locator(".ex-graph .ex-frame-time")
    expect(times).to_have_text([micros_text(step.micros) for step in fused])
    for member in view.locator(".ex-graph .ex-node.ex-member .ex-second").all_text_contents():
        assert not member.endswith((" µs", " ms"))


@pytest.mark.spec("V-5")
def test_a_kernels_time_lies_clear_of_the_title_of_the_next_kernel(show):
    """In a chain of kernels each time is next to its outline, where there is no other title."""
    images = np.load(ASSETS / "digits.npz")["images"][:4]
    recording = ex.open(ASSETS / "digits.onnx").plan(images.astype(np.float32)).eval().recording
    view = show(recording, position=0, whole=True)
    chip(view, "run").click()
    places = {
        name: [each.bounding_box() for each in view.locator(f".ex-graph .ex-frame-{name}").all()]
        for name in ("time", "title")
    }
    assert len(places["time"]) == len(places["title"]) == 4
    for time in places["time"]:
        for title in places["title"]:
            assert (
                time["x"] >= title["x"] + title["width"]
                or time["y"] >= title["y"] + title["height"]
                or time["y"] + time["height"] <= title["y"]
            )


@pytest.mark.spec("V-5")
def test_a_kernels_time_lies_clear_of_a_neighbour(show):
    """If a tensor to the right of a kernel covers its center, the time is above or below the tensor."""
    q, k = [ex.tensor(np.full((2, 10, 32), 0.1, np.float32)) for _ in range(2)]
    scores = q @ ex.transpose(k, (0, 2, 1)) / np.sqrt(32.0)
    view = show(ex.explore(ex.softmax(scores + np.triu(np.full((10, 10), -9.0), 1))).recording, position=0)
    chip(view, "run").click()
    (time,) = [each.bounding_box() for each in view.locator(".ex-graph .ex-frame-time").all() if each.text_content()]
    frame = view.locator(".ex-graph .ex-frame").first.bounding_box()
    nodes = [each.bounding_box() for each in view.locator(".ex-graph .ex-node").all()]
    beside = [node for node in nodes if frame["x"] + frame["width"] <= node["x"] < time["x"] + time["width"]]
    assert beside, "nothing stands where the time would be"
    halo = 6  # px by which the text's background extends beyond it
    for node in beside:
        above = time["y"] + time["height"] - halo <= node["y"]
        assert above or time["y"] + halo >= node["y"] + node["height"]
    assert frame["y"] <= time["y"] + time["height"] / 2 <= frame["y"] + frame["height"]


@pytest.mark.spec("V-5")
@pytest.mark.parametrize("width", [600, 1400])
def test_the_most_that_is_live_is_named_and_labels_do_not_collide(open_page, tmp_path, width):
    """The order's peak is labelled, and the run's "as planned"; if both do not fit, only one label is shown."""
    page = open_page(viewport={"width": width, "height": 800})
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    labels = page.locator(".ex-strip-peak")
    expect(labels.first).to_contain_text("most live")
    places = [label.bounding_box() for label in labels.all()]
    if len(places) == 2:
        expect(labels.last).to_have_text("as planned")
        assert places[0]["x"] + places[0]["width"] <= places[1]["x"]
    assert (len(places) == 2) == (width == 1400)


@pytest.mark.spec("V-1", "V-13")
def test_the_end_of_a_program_without_a_step_is_its_last_stage(show):
    """A reshape and a slice need no decisions and kernels, so End shows the whole run."""
    plan = ex.EvalPlan()
    plan.register(ex.tensor(np.ones((4, 6), np.float32), name="x").reshape((6, 4))[1:3])
    plan.eval()
    assert plan.recording.end == 0
    view = show(plan.recording, position=0)
    for key, name in (("End", "run"), ("Home", "recorded")):
        press(view, key)
        expect(chip(view, name)).to_have_attribute("aria-current", "step")


@pytest.mark.spec("V-1")
def test_an_edge_passes_behind_a_removed_or_unused_node(show):
    """A rewrite replaces log(exp(x)) by x, so the edge from x passes the removed nodes, whose text stays legible."""
    view = show(recorded("inverse_pair"), start="stage=simplify")
    opacity = """node => {
        const { fill, fillOpacity, opacity } = getComputedStyle(node.querySelector(".ex-shape"));
        return fill === "none" ? "0" : fillOpacity * opacity;
    }"""
    for state in ("ex-was", "ex-unused"):
        nodes = view.locator(f".ex-graph .ex-node.{state}")
        expect(nodes).to_have_count(1)
        assert nodes.evaluate(opacity) == 1


def test_the_cost_of_a_stage_is_not_cut_off(show):
    """There is room for three digits and a unit of both numbers."""
    view = show(sample.mlp())
    cost = view.locator(".ex-cost")
    cost.evaluate("cost => cost.textContent = '888.8 M flops · 88.8 MB written'")
    assert cost.evaluate("cost => cost.scrollWidth <= cost.clientWidth")
