"""The front end in a standalone page from disk, without JupyterLab, kernel and network."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import explorer as ex
from explorer.record.escape import visible
from explorer.view.export.html_page import html
from explorer.view.payload.view_payload import payload
from tests.browser.player import node, press
from tests.support.large import planned
from tests.view import sample

pytestmark = pytest.mark.browser

ASSETS = Path(__file__).parents[2] / "assets"


def corner(found: Locator) -> list[str | None]:
    return [found.locator(".ex-shape").get_attribute(axis) for axis in "xy"]


@pytest.mark.spec("V-1", "V-14")
def test_the_story_is_told_step_by_step(show):
    recording = sample.mlp()
    view = show(recording)
    say = view.locator(".ex-say")
    for decision in recording.decisions:
        press(view, ".")
        expect(say).to_contain_text(recording.reason(decision))
        expect(say).to_contain_text(decision.verdict)
    press(view, ".")
    expect(say).to_contain_text("pick 1 of 4 matmul runs as number 1")
    press(view, "End")
    expect(say).to_contain_text("step 4 of 4")
    expect(say).to_contain_text("took 13.8 µs, estimated 9.1 µs; 18 KB live")
    press(view, "Home")
    expect(say).to_contain_text("14 nodes")


@pytest.mark.spec("V-1", "V-4")
def test_new_gone_merged_and_fused_are_told_apart_by_shape_and_word(show):
    view = show(sample.mlp(), position=3)
    new = node(view, "log-softmax")
    expect(new).to_contain_text("new")
    expect(new).to_contain_text("was log")
    gone = node(view, "softmax")
    expect(gone).to_contain_text("removed")
    assert gone.locator(".ex-shape").evaluate("shape => getComputedStyle(shape).strokeDasharray") != "none"
    place = corner(new)
    press(view, ".")
    expect(gone).to_have_count(0)
    expect(view.locator(".ex-badge")).to_have_text("×2")
    expect(view.locator(".ex-edge-moved")).to_have_count(1)
    moved = view.locator(".ex-node:is([aria-label^='matmul,'], [aria-label*=' = matmul,'])").filter(has_text="same as")
    expect(moved).to_have_class("ex-node ex-gone ex-subject")
    press(view, ".", ".")
    expect(view.locator(".ex-frame-title")).to_have_text("2 operations · −6 KB")
    assert corner(new) == place


@pytest.mark.spec("V-4")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_outputs_are_marked_wherever_they_stand(show, theme):
    """At each step the node that represents an output is marked by a word, an outline and its accessible name."""
    recording = sample.mlp()
    recording.bodies[0] = sample.Body("", (), (recording.nodes.label.index("log"),))
    view = show(recording, theme=theme)
    output, marks = view.locator(".ex-node.ex-output"), view.locator(".ex-asked:visible")
    expect(marks).to_have_text(["output"])
    expect(output).to_have_attribute("aria-label", re.compile("^log,.* output"))
    press(view, "End")
    expect(output).to_have_attribute("aria-label", re.compile("^log-softmax,.* output"))
    width = "shape => parseFloat(getComputedStyle(shape).strokeWidth)"
    assert output.locator(".ex-shape").evaluate(width) > node(view, "tanh").locator(".ex-shape").evaluate(width)
    folded = sample.chain(20)
    folded.bodies[0] = sample.Body("", (), (20,))
    view = show(folded, theme=theme)
    expect(view.locator(".ex-closed")).to_have_attribute("aria-label", re.compile("tanh ×20.* output"))
    expect(view.locator(".ex-asked:visible")).to_have_text(["output"])


@pytest.mark.spec("V-4", headline=True)
def test_a_merged_node_says_which_it_stands_for(show):
    """Show each node's number, level and chain, ×n and the merged nodes for duplicates, and kernels as boxes."""
    view = show(sample.mlp(), position=4)
    view.locator(".ex-node", has=view.page.locator(".ex-badge")).click()
    expect(view.locator(".ex-why")).to_contain_text("represents 2 equal nodes")
    expect(view.locator(".ex-why")).to_contain_text("matmul In[3] line 2")
    expect(view.locator(".ex-badge")).to_have_text("×2")
    press(view, "End")
    numbers = {int(text) for text in view.locator(".ex-graph .ex-number").all_text_contents() if text}
    schedule = sample.mlp().schedule
    assert schedule is not None
    assert numbers == set(range(1, len(schedule.kernels) + 1))
    expect(view.locator(".ex-frame-title").first).to_contain_text("operations")
    node(view, "tanh").click()
    (kernel,) = [each for each in schedule.kernels if sample.mlp().nodes.label.index("tanh") in each.nodes]
    expect(view.locator(".ex-why")).to_contain_text(f"level, chain{kernel.level}, {kernel.chain}")


@pytest.mark.spec("V-2")
def test_the_why_panel_gives_the_decision_and_every_refusal_before_it(show):
    view = show(sample.mlp(), position=6)
    node(view, "tanh").click()
    why = view.locator(".ex-why")
    expect(why.locator("h4")).to_have_text("tanh")
    for text in (
        "32×48 float32",
        "In[3] line 1",
        "h = ex.tanh(x @ W + b)",
        "ElementwiseChain",
        "one-consumer · passes/fuse.py:27",
        "number2 of 4",
        "estimated1.9 µs",
        "measured2 µs",
        "buffer 1 · 6 KB",
    ):
        expect(why).to_contain_text(text)
    expect(why.locator(".ex-cards .ex-card")).to_have_text(
        ["✗ MatmulEpilogue matmul has 2 consumers: add and multiply 2"]
    )
    why.locator(".ex-cards").get_by_role("button", name="multiply 2").click()
    expect(why.locator("h4")).to_have_text("multiply 2")
    expect(node(view, "multiply 2")).to_have_attribute("aria-pressed", "true")


@pytest.mark.spec("V-5", "V-6")
def test_the_run_shows_what_is_live_and_what_it_cost(show):
    view = show(sample.mlp())
    press(view, "End", ",")
    expect(node(view, "multiply 2")).to_contain_text("1.4 µs")
    expect(node(view, "multiply 2")).to_contain_text("runs")
    expect(node(view, "tanh")).to_contain_text("live")
    expect(view.locator(".ex-strip-run")).to_have_count(1)
    expect(view.locator(".ex-strip-peak").first).to_have_text("most live 18 KB")
    node(view, "tanh").click()
    expect(view.locator(".ex-histogram rect")).to_have_count(32)
    expect(view.locator(".ex-statistics")).to_contain_text("min−0.998max0.997mean0.01std0.62NaN, inf0, 0")


@pytest.mark.spec("V-8")
def test_search_finds_nodes_and_decisions_and_goes_there(show):
    view = show(sample.mlp())
    press(view, "/")
    view.page.keyboard.type("softmax")
    expect(view.locator(".ex-results button")).to_have_count(4)
    expect(view.locator(".ex-match")).to_have_count(1)
    view.get_by_role("button", name="log-softmax 32×48").click()
    expect(view.locator(".ex-say")).to_contain_text("overflows at large inputs")
    expect(node(view, "log-softmax")).to_have_attribute("aria-pressed", "true")
    view.page.keyboard.press("Escape")
    expect(view.locator(".ex-search")).to_be_hidden()


@pytest.mark.spec("V-7", "V-13", headline=True)
def test_boxes_open_and_close_by_keys_and_double_click(show):
    """Open and close boxes of scopes one by one or all at once, with keys or a double-click."""
    view = show(sample.transformer())
    closed = view.locator(".ex-closed").first
    before = view.locator(".ex-node").count()
    name = closed.get_attribute("data-key")
    closed.focus()
    view.page.keyboard.press("+")
    box = view.locator(f"[data-key={name}]")
    expect(box).to_have_attribute("aria-expanded", "true")
    expect(box).to_be_focused()
    view.page.keyboard.press("-")
    expect(box).to_have_attribute("aria-expanded", "false")
    assert view.locator(".ex-node").count() == before
    view.locator(f"[data-key={name}]").dblclick()
    expect(box).to_have_attribute("aria-expanded", "true")
    press(view, "e")
    expect(view.locator(".ex-node")).to_have_count(193)
    press(view, "c")
    expect(view.locator(".ex-node")).not_to_have_count(193)


@pytest.mark.spec("V-13")
def test_arrows_walk_along_edges_and_one_item_is_in_the_tab_order(show):
    view = show(sample.mlp())
    node(view, "x").focus()
    press(view)
    view.page.keyboard.press("ArrowDown")
    expect(view.locator(".ex-node:focus")).to_have_attribute("aria-label", "matmul, x @ W → 32×48 f32")
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-why h4")).to_have_text(view.locator(".ex-node:focus .ex-name").text_content())
    view.page.keyboard.press("ArrowUp")
    expect(view.locator("[data-key][tabindex='0']")).to_have_count(1)
    view.page.keyboard.press("Escape")
    expect(view.locator(".ex-selected")).to_have_count(0)


@pytest.mark.spec("V-13")
def test_the_wheel_zooms_with_ctrl_and_scrolls_the_page_without(show):
    view = show(sample.mlp())
    world = view.locator(".ex-graph")
    before = world.get_attribute("style")
    box = view.locator(".ex-stage").bounding_box()
    view.page.evaluate("document.activeElement.blur()")
    view.page.mouse.move(box["x"] + 100, box["y"] + 100)
    view.page.mouse.wheel(0, 80)
    assert world.get_attribute("style") == before
    view.page.keyboard.down("Control")
    view.page.mouse.wheel(0, 80)
    view.page.keyboard.up("Control")
    expect(world).not_to_have_attribute("style", before)


WATCHED = """
    window.moved = [];
    const { animate } = Element.prototype;
    Element.prototype.animate = function (...options) {
        window.moved.push(this.getAttribute("class"));
        return animate.apply(this, options);
    };
    document.addEventListener("transitionrun", ({ target }) => window.moved.push(target.getAttribute("class")));
"""
"""notes what begins to move: on a busy machine a motion may be over before it is asked for"""
AT_REST = """async () => {
    await Promise.all(document.getAnimations().map((motion) => motion.finished));
    return document.getAnimations().length;
}"""


@pytest.mark.spec("V-13")
def test_edges_and_the_camera_move_visibly_and_come_to_rest(open_page, tmp_path):
    page = open_page(reduced_motion="no-preference")
    (tmp_path / "page.html").write_text(html(sample.mlp()), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    page.evaluate(WATCHED)
    view = page.locator(".explorer-view")
    press(view, "+", "+", "+", "Home")
    for _ in range(sample.mlp().end):
        press(view, ".")
        assert page.evaluate(AT_REST) == 0
    assert {"ex-edge", "ex-graph"} <= {name.split()[0] for name in page.evaluate("() => window.moved")}


@pytest.mark.spec("V-13")
def test_less_motion_is_respected(open_page, tmp_path):
    page = open_page()  # reduced motion, as on every page of these tests
    (tmp_path / "page.html").write_text(html(sample.mlp(), position=3), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    page.evaluate("void (Element.prototype.animate = () => { throw new Error('moved'); })")
    press(page.locator(".explorer-view"), ".", ".", ",")
    assert page.locator(".ex-graph").evaluate("world => getComputedStyle(world).transitionDuration") in ("0s", "")


@pytest.mark.spec("V-16")
def test_no_element_has_an_id_so_that_many_views_share_a_page(show):
    view = show(sample.transformer())
    assert view.locator("[id]").count() == 0


@pytest.mark.spec("V-14")
def test_hostile_names_show_as_text(show):
    view = show(sample.hostile())
    press(view, "e", ".")
    assert view.page.evaluate("document.querySelectorAll('.explorer-view img, .explorer-view script').length") == 0
    assert view.page.evaluate("Object.keys(window).filter(name => /evil|pwned|xss/i.test(name))") == []
    press(view, "Enter")
    expect(view.locator(".ex-why h4")).to_be_visible()


@pytest.mark.spec("V-2")
@pytest.mark.parametrize("name", ["mlp", "resnet", "hostile", "digits"])
def test_the_page_composes_the_sentences_of_the_text(module, name):
    """Each sentence with its facts equals the canonical text's, with back-ticks around code."""
    digits = ASSETS / "digits.pnnx.param"
    recording = ex.open(digits).explore().recording if name == "digits" else getattr(sample, name)()
    shown = module(
        "(explorer, data) => { const trace = new explorer.Trace(data);"
        "return trace.decisions.map((_, index) => trace.sentence(index)); }",
        payload(recording),
    )
    written = [visible(recording.reason(decision)) for decision in recording.decisions]
    assert ["".join(part["text"] for part in parts) for parts in shown] == [text.replace("`", "") for text in written]
    assert any(part["isCode"] for parts in shown for part in parts) == any("`" in text for text in written)


@pytest.mark.soak
@pytest.mark.spec("V-1")
def test_every_step_of_a_thousand_nodes_takes_effect_at_once(show):
    recording = planned(1000).recording
    first = next(stage for stage in recording.stages if stage.last > 24)
    view = show(recording)
    press(view, "e")
    # all of them are visible, so the low-detail view is shown
    expect(view.locator(".ex-low-detail")).to_be_visible()
    spent = view.page.evaluate(
        """async () => {
            const target = document.querySelector("[data-key][tabindex='0']");
            const spent = [];
            for (let step = 0; step < 24; step++) {
                await new Promise(resolve => setTimeout(resolve, 50));
                const start = performance.now();
                target.dispatchEvent(new KeyboardEvent("keydown", { key: ".", bubbles: true, cancelable: true }));
                document.body.getBoundingClientRect();
                spent.push(performance.now() - start);
            }
            return spent.sort((one, other) => one - other);
        }"""
    )
    print(json.dumps({"script, style and layout of a step, ms": [spent[12], spent[22]]}))
    expect(view.locator(".ex-say")).to_contain_text(f"{first.name} decision 24 of {first.last}")
