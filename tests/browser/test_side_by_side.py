"""Two plans or nets side by side: synchronised actions and marked differences."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

import explorer as ex
from explorer.reports import ExplorableComparison, compare
from explorer.view.compare.comparison_html import page_html
from explorer.view.compare.pair_payload import paired
from explorer.view.payload.view_payload import payload
from explorer.view.picture.difference_marks import differences
from tests.browser.player import box, decided, node, press, resize, tool
from tests.golden.programs import recorded
from tests.support.representatives import representatives
from tests.view import sample

pytestmark = pytest.mark.browser

PLANS = """
import numpy as np, explorer as ex
x = ex.tensor(np.ones((3, 4), np.float32), name="x")
root = ex.log(ex.softmax(ex.tanh(x + 1.0) * 2.0))
plans = [ex.EvalPlan(), ex.EvalPlan(without=["fuse"])]
for plan in plans:
    plan.register(root)
    plan.prepare()
both = plans[0].compare(plans[1]).explore()
both
"""


@pytest.fixture
def pair(page, tmp_path):
    """Write a comparison's page to disk and open it; return the header and both views."""

    def open_page(compared: ExplorableComparison, **options: str) -> tuple[Locator, Locator, Locator]:
        target = tmp_path / "pair.html"
        target.write_text(page_html(compared, **options), encoding="utf-8")
        page.goto(target.as_uri())
        views = page.locator(".ex-side .explorer-view")
        expect(views).to_have_count(2)
        head = page.locator(".ex-pair-head")
        expect(head.locator(".ex-differences span").first).to_be_visible()
        return head, views.nth(0), views.nth(1)

    return open_page


def net(activation=ex.tanh, *, more: bool = False, depth: int = 1, **options) -> ex.EvalPlan:
    value = ex.tensor(np.ones((3, 4), np.float32), name="x")
    for level in range(depth):
        with ex.scope(f"block{level}"):
            value = activation(value @ ex.tensor(np.ones((4, 4), np.float32), name=f"w{level}"))
            if more and level == depth - 1:
                value = ex.relu(value)
    plan = ex.EvalPlan(**options)
    plan.register(ex.softmax(value))
    return plan.prepare()


def camera(view: Locator) -> tuple[float, float, float]:
    """Return the position and scale of a view's world."""
    style = view.locator(".ex-graph").first.get_attribute("style") or ""
    match = re.search(r"translate\((-?[\d.]+)px, ?(-?[\d.]+)px\) scale\((-?[\d.]+)\)", style)
    assert match, style
    return float(match[1]), float(match[2]), float(match[3])


def place(view: Locator, name: str) -> tuple[float, float]:
    """Return the position of a node from the top left corner of its canvas."""
    outer, inner = view.locator(".ex-stage").bounding_box(), node(view, name).locator(".ex-shape").bounding_box()
    return inner["x"] - outer["x"], inner["y"] - outer["y"]


@pytest.mark.spec("V-3", headline=True)
def test_a_step_in_one_view_is_taken_in_the_other(notebook):
    """Show two plans side by side; a step or selection in one view also applies to the other."""
    book = notebook(PLANS)
    book.view(2)
    first, second = book.view(1), book.view(2)
    left, right = first.bounding_box(), second.bounding_box()
    assert left["x"] + left["width"] <= right["x"] + 1
    assert abs(left["y"] - right["y"]) < 2
    assert abs(left["width"] - right["width"]) < 4
    press(first, "Home", ".")
    for view in (first, second):
        expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
        expect(decided(view, "log_softmax")).to_be_attached()
    node(first, "tanh").click()
    expect(second.locator(".ex-why h4")).to_have_text("tanh")
    node(second, "multiply 2").click()
    expect(first.locator(".ex-why h4")).to_have_text("multiply 2")
    book.says("print(both.before.stage, both.after.stage)", "simplify simplify\n")
    book.says("print(both.before.selected == both.after.selected >= 0)", "True\n")


@pytest.mark.spec("V-3", "V-9")
def test_the_kernel_steps_and_unties_both(notebook):
    """Steps set in Python also apply to both views; the synchronisation mode is a trait."""
    book = notebook(PLANS)
    book.view(2)
    first, second = book.view(1), book.view(2)
    book.execute("both.before.stage = 'recorded'")
    book.execute("both.before.stage = 'order'")
    for view in (first, second):
        expect(view.locator(".ex-rail [aria-current]")).to_contain_text("order")
    expect(second.locator(".ex-say")).to_contain_text("4 kernels")
    book.execute("both.before.step += 1")
    expect(first.locator(".ex-say")).to_contain_text("pick 1 of 1")
    expect(second.locator(".ex-say")).to_contain_text("pick 4 of 4")  # the last of the fused operations
    tie = book.page.locator(".ex-tie")
    tie.select_option("off")
    book.says("print(both.tied)", "off\n")
    press(second, "Home")
    expect(second.locator(".ex-say")).to_contain_text("recorded")
    expect(first.locator(".ex-say")).to_contain_text("pick 1 of 1")
    book.execute("both.tied = 'steps'")
    expect(tie).to_have_value("steps")
    expect(second.locator(".ex-say")).to_contain_text("pick 1 of 4")


@pytest.mark.spec("V-3", "V-13")
def test_pan_and_zoom_of_both_are_tied_until_they_are_untied(pair, page):
    """A drag, the wheel and fit move both canvases, so that a node has the same position in both; t unties them."""
    _, first, second = pair(net(depth=6).compare(net(more=True, depth=6)))
    name = "block2"
    press(first, "e")
    before = camera(first), camera(second)
    assert before[0][2] == before[1][2]
    canvas = first.locator(".ex-stage").bounding_box()
    page.mouse.move(canvas["x"] + 40, canvas["y"] + 40)
    page.mouse.down()
    page.mouse.move(canvas["x"] + 90, canvas["y"] - 40, steps=4)
    page.mouse.up()
    moved = camera(first), camera(second)
    assert abs(moved[0][0] - before[0][0] - 50) < 10
    assert moved[1] != before[1]
    page.mouse.move(canvas["x"] + 60, canvas["y"] + 60)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    zoomed = camera(first), camera(second)
    assert zoomed[0][2] == zoomed[1][2] > moved[0][2]
    press(second, "f")
    assert camera(first)[2] == camera(second)[2]
    outer = first.locator(".ex-stage").bounding_box(), second.locator(".ex-stage").bounding_box()
    here, there = box(first, name).bounding_box(), box(second, name).bounding_box()
    assert abs(here["y"] - outer[0]["y"] - there["y"] + outer[1]["y"]) < 30
    press(second, "t", "t")
    expect(page.locator(".ex-tie")).to_have_value("off")
    held = camera(first)
    press(second, "+", "+")
    assert camera(first) == held
    press(second, "t")
    expect(page.locator(".ex-tie")).to_have_value("nodes")
    assert camera(first)[2] == camera(second)[2]


@pytest.mark.spec("V-12", "V-3")
def test_what_differs_has_a_sign_and_a_word_on_the_canvas(pair, page):
    """Added, removed and changed nodes have a sign, a word and a colour, are announced, and counted in the header."""
    head, first, second = pair(net().compare(net(ex.sin, more=True)))
    expect(head.locator(".ex-differences")).to_contain_text("− 1 removed")
    expect(head.locator(".ex-differences")).to_contain_text("+ 2 added")
    expect(head.locator(".ex-differences")).to_contain_text("→ 1 read something else")
    expect(node(first, "tanh")).to_contain_text("− removed")
    expect(node(second, "sin")).to_contain_text("+ added")
    expect(node(second, "relu")).to_have_attribute("aria-label", re.compile("only in the graph after"))
    expect(node(first, "softmax")).to_contain_text("→ reads something else")
    expect(node(first, "matmul")).not_to_have_class(re.compile("ex-differs"))
    colours = [
        node(view, name).locator(".ex-shape").evaluate("shape => getComputedStyle(shape).stroke")
        for view, name in ((first, "tanh"), (second, "sin"), (second, "softmax"), (second, "matmul"))
    ]
    assert len(set(colours)) == 4
    press(second, "f")
    node(second, "softmax").click()
    expect(second.locator(".ex-told")).to_have_text("→ reads tanh → relu")
    expect(first.locator(".ex-node.ex-selected")).to_have_attribute("aria-label", re.compile("^softmax,"))


@pytest.mark.spec("V-12", "V-13")
def test_differences_are_walked_by_keyboard(pair, page):
    """d and D step through the differences on both sides, o goes to the other graph; the help lists the keys."""
    head, first, second = pair(net().compare(net(ex.sin, more=True)))
    where = head.locator(".ex-place")
    expect(where).to_have_text("4 differ")
    results = []
    for step in range(1, 5):
        press(first, "d")
        expect(where).to_have_text(f"{step} of 4")
        results.append(page.locator(".ex-node.ex-selected").first.get_attribute("aria-label").split(",")[0])
    results = [name.rpartition(" = ")[2] for name in results]  # after the variables
    assert sorted(results) == ["relu", "sin", "softmax", "tanh"]
    page.keyboard.press("D")
    expect(where).to_have_text("3 of 4")
    page.keyboard.press("o")
    assert second.evaluate("view => view.contains(document.activeElement)")
    page.keyboard.press("o")
    assert first.evaluate("view => view.contains(document.activeElement)")
    page.keyboard.press("?")
    expect(first.locator(".ex-help")).to_contain_text("the next difference")


@pytest.mark.spec("V-12", "V-13")
def test_what_follows_from_others_is_a_row_that_opens(pair, page):
    """Renamed nodes, and rewired nodes if there are many, are one row each with a count, and skipped by d and D."""

    def products(prefix, operation):
        x = operation(ex.tensor(np.ones((3, 4), np.float32), name="x"))
        plan = ex.EvalPlan()
        for number in range(5):
            plan.register(ex.tanh(x * ex.tensor(np.full((3, 4), number, np.float32), name=f"{prefix}{number}")))
        return plan.prepare()

    head, first, second = pair(products("w", ex.exp).compare(products("v", ex.sin)))
    rows = head.locator(".ex-fold")
    expect(rows.locator("summary")).to_have_text(["→ 5 nodes read something else", "= 5 nodes renamed"])
    expect(rows.nth(1).locator("li").first).to_be_hidden()
    rows.nth(1).locator("summary").click()
    expect(rows.nth(1).locator("li")).to_have_text([f"w{number} → v{number}" for number in range(5)])
    rows.nth(1).locator("button").nth(2).click()
    for view, name in ((first, "w2"), (second, "v2")):
        expect(view.locator(".ex-node.ex-selected")).to_have_attribute("aria-label", re.compile(f"^{name},"))
    expect(head.locator(".ex-differences")).to_contain_text("→ 5 read something else")
    expect(head.locator(".ex-place")).to_have_text("2 differ")
    for _ in range(2):
        press(first, "d")
        label = page.locator(".ex-node.ex-selected").first.get_attribute("aria-label")
        assert label.startswith(("exp", "sin"))
    head, *_ = pair(products("w", ex.exp).compare(products("v", ex.exp)))
    expect(head.locator(".ex-fold summary")).to_have_text(["= 5 nodes renamed"])
    expect(head.locator("table tr")).to_have_count(3)


@pytest.mark.spec("V-3")
def test_the_mark_of_a_difference_lies_clear_of_that_of_an_output(pair):
    """An output in a different kernel has both marks, one below the other."""
    value = ex.tensor(np.ones((3, 4), np.float32), name="x")
    plans = [ex.EvalPlan(), ex.EvalPlan(without=["fuse"])]
    for plan in plans:
        plan.register(ex.tanh(value) + 1)
        plan.prepare()
    _, _, second = pair(plans[0].compare(plans[1]))
    result = second.locator(".ex-node.ex-output")
    asked, other = (result.locator(f".{mark} rect").bounding_box() for mark in ("ex-asked", "ex-differs"))
    assert other["y"] >= asked["y"] + asked["height"]


@pytest.mark.spec("V-3", "P-9")
def test_kernels_that_are_others_are_told_once_they_are_planned(pair):
    """Two plans of one graph do not differ in the recorded stage; in the order stage, different kernels are marked."""
    head, first, second = pair(net(depth=2).compare(net(depth=2, without=["fuse"])))
    press(first, "e")
    expect(first.locator(".ex-rail [aria-current]")).to_contain_text("order")
    expect(head.locator(".ex-differences")).to_contain_text("in other kernels")
    expect(first.locator(".ex-frame.ex-differs-regrouped")).not_to_have_count(0)
    expect(first.locator(".ex-frame-title").first).to_contain_text("≠ ")
    expect(node(second, "tanh")).to_contain_text("≠ other kernel")
    press(first, "Home")
    expect(head.locator(".ex-differences")).to_have_text("no difference at this step")
    press(first, "d")
    expect(first.locator(".ex-say")).to_contain_text("There is no difference at this step.", use_inner_text=True)
    expect(second.locator("[class*=ex-differs-]:not(.ex-none)")).to_have_count(0)
    rows = head.locator("table tr")
    names = rows.nth(0).locator("th").all_inner_texts()
    apart = dict(zip(names, rows.nth(3).locator("td").all_inner_texts(), strict=True))
    assert apart["kernels"].startswith("+")
    assert apart["bytes written"].split()[1] in ("B", "KB")
    assert apart["flops"] == ""


@pytest.mark.spec("V-3", "V-5")
def test_measured_times_of_both_stand_beside_each_other(pair):
    """If both plans ran, the table shows their times and the difference, with units."""
    plans = net(depth=3), net(depth=3, without=["fuse"])
    for plan in plans:
        plan.eval()
    head, first, second = pair(plans[0].compare(plans[1]))
    column = head.locator("thead th").all_inner_texts().index("measured time")
    for row in range(1, 4):
        expect(head.locator("table tr").nth(row).locator("td").nth(column)).to_have_text(re.compile(r"[µm]?s"))
    press(first, "End")
    expect(first.locator(".ex-say")).to_contain_text("took")
    expect(second.locator(".ex-say")).to_contain_text("took")


@pytest.mark.spec("V-3", "V-16")
def test_one_comparison_shown_twice_stands_at_one_step(notebook):
    """If a comparison is shown in two cells, all four views follow a step, even if the plans' steps differ."""
    book = notebook(PLANS, "both")
    book.view(5)
    one, other = [book.view(1), book.view(2)], [book.view(4), book.view(5)]
    press(one[0], "Home")
    for _ in range(4):
        press(one[1], ".")
    expect(one[1].locator(".ex-say")).to_contain_text("pick 2 of 4")
    for views in (one, other):
        expect(views[0].locator(".ex-say")).to_contain_text("pick 1 of 1")
        expect(views[1].locator(".ex-say")).to_contain_text("pick 2 of 4")
    book.says("print(both.before.place_of(both.before.step), both.after.place_of(both.after.step))", AT)
    node(other[1], "tanh").click()
    for views in (one, other):
        for view in views:
            expect(view.locator(".ex-why h4")).to_have_text("tanh")


AT = "('order', 1) ('order', 2)\n"


@pytest.mark.spec("V-3", "P-17")
def test_after_their_runs_both_views_gain_times_and_stay_where_they_are(notebook):
    """A newer comparison of the same plans updates the table's times and keeps step and selection."""
    book = notebook(PLANS)
    book.view(2)
    first, second = book.view(1), book.view(2)
    node(first, "tanh").click()
    expect(second.locator(".ex-why h4")).to_have_text("tanh")
    head = book.page.locator(".ex-pair-head thead")
    expect(head).not_to_contain_text("measured time")
    book.execute("for plan in plans: plan.eval()\nboth.update(plans[0].compare(plans[1]))")
    expect(head).to_contain_text("measured time")
    for view in (first, second):
        expect(view.locator(".ex-why h4")).to_have_text("tanh")
    press(first, "End")
    for view in (first, second):
        expect(view.locator(".ex-say")).to_contain_text("took")


@pytest.mark.spec("V-3", "V-7")
def test_boxes_open_on_both_sides(pair):
    """Opening or closing one box, or all boxes, applies to the other graph, even if their contents differ."""
    _, first, second = pair(net(depth=3).compare(net(more=True, depth=3)))
    press(first, "c")
    expect(first.locator(".ex-box.ex-open")).to_have_count(0)
    expect(second.locator(".ex-box.ex-open")).to_have_count(0)
    expect(second.locator(".ex-box.ex-closed > .ex-differs:not(.ex-none)")).to_have_text("+1")
    box(second, "block2").dblclick()
    expect(second.locator(".ex-box.ex-open")).to_have_count(1)
    expect(box(first, "block2")).to_have_class(re.compile("ex-open"))
    expect(first.locator(".ex-box.ex-open")).to_have_count(2)  # three equal blocks are folded in that graph
    press(second, "e")
    expect(first.locator(".ex-box.ex-closed")).to_have_count(0)


KEYS = [".", ",", "]", "[", "Home", "End", "d", "D", "o", "t", "f", "e", "c", "+", "-", "Enter", "ArrowDown", "ArrowUp"]


@pytest.mark.spec("V-3", "V-13")
@pytest.mark.parametrize(
    ("before", "after"),
    representatives([("perceptron", "batch"), ("closed", "structured")], [("closed", "structured")]),
)
def test_the_keyboard_is_never_lost(pair, page, before, after):
    """After any keys in either graph, both stay synchronised and one of them has the focus."""
    _, first, second = pair(compare(recorded(before), recorded(after)))
    pressed = random.Random(f"{before} {after}")
    for _ in range(80):
        key = pressed.choice(KEYS)
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.closest('.ex-stage') !== null"), key
        if page.locator(".ex-tie").input_value() != "off" and key == "f":
            assert camera(first)[2] == camera(second)[2]


@pytest.mark.spec("V-3", "V-13")
def test_a_theme_is_that_of_both(pair):
    """Both graphs and the header change the theme together."""
    _, first, second = pair(net().compare(net(more=True)), theme="light")
    tool(first, "dark or light").click()
    for view in (first, second, first.page.locator(".ex-pair")):
        expect(view).to_have_attribute("data-theme", "dark")


@pytest.mark.soak
@pytest.mark.spec("V-3", "V-12")
def test_graphs_of_ten_thousand_nodes_are_walked_side_by_side(pair, page):
    """The only new node in 10,000 is in view at once, and selected by a key."""
    head, first, second = pair(compare(sample.dag(10_000), sample.dag(10_001)))
    expect(head.locator(".ex-differences")).to_have_text("+ 1 added")
    expect(second.locator(".ex-node.ex-differs-added")).to_be_visible()
    press(first, "d")
    expect(second.locator(".ex-node.ex-differs-added.ex-selected")).to_be_visible()
    assert camera(first)[2] == camera(second)[2]
    drawn = first.locator(".ex-node, .ex-box").count() + second.locator(".ex-node, .ex-box").count()
    assert drawn < 1_500


@pytest.mark.spec("V-3", "P-14")
@pytest.mark.parametrize("change", ["operation", "more", "plan"])
def test_both_views_mark_what_the_picture_without_a_script_marks(module, change):
    """Python and JavaScript find the same differences at the beginnings, at the ends, and at one of each."""
    other = {
        "operation": lambda: net(ex.relu, depth=2),
        "more": lambda: net(more=True, depth=2),
        "plan": lambda: net(depth=2, without=["fuse"]),
    }[change]()
    comparison = compare(net(depth=2).recording, other.recording)
    ends = comparison.before.end, comparison.after.end
    places = [(0, 0), ends, (0, ends[1]), (ends[0], 0)]
    data = {"comparison": paired(comparison), "payloads": [payload(comparison.before), payload(comparison.after)]}
    shown = module(
        """(explorer, [data, places]) => {
            const pair = explorer.mountPair(document.body.appendChild(document.createElement("div")), data);
            pair.tieBy("off");
            return places.map((positions) => {
                pair.views.forEach((view, side) => view.go(positions[side] ? view.timeline.end : 0));
                pair.views.forEach((view) => view.show());
                return pair.views.map((view, side) => [...pair.differences.marks(side, view.scene)]
                    .map(([slot, { kind }]) => [view.scene.slots.get(slot).node, kind]));
            });
        }""",
        [data, places],
    )
    marked = [[dict(map(tuple, side)) for side in sides] for sides in shown]
    assert marked == [list(differences(comparison, positions)) for positions in places]
    assert any(any(sides) for sides in marked)


@pytest.mark.spec("V-3", "V-12")
@pytest.mark.parametrize("wide", [1280, 1440, 1920])
def test_graphs_have_most_of_the_room(open_page, tmp_path, wide):
    """Each graph has most of its side's area, and at least 600 px of width; the panel is a closed drawer."""
    (tmp_path / "pair.html").write_text(page_html(net().compare(net(ex.sin, more=True))), encoding="utf-8")
    page = open_page(viewport={"width": wide, "height": 900})
    page.goto((tmp_path / "pair.html").as_uri())
    expect(page.locator(".ex-differences span").first).to_be_visible()
    for side in page.locator(".ex-side").all():
        graph, outer = (side.locator(name).bounding_box() for name in (".ex-stage", ".explorer-view"))
        assert graph["width"] >= 600
        assert graph["width"] * graph["height"] >= 0.7 * outer["width"] * outer["height"]
        expect(side.locator(".ex-why")).to_be_hidden()


def lengthened(count: int, *, run: bool = False, **options) -> ex.EvalPlan:
    """Return a plan with ``count`` pairs of operations in the middle."""
    value = ex.tanh(ex.tensor(np.ones((3, 4), np.float32), name="x"))
    for _ in range(count):
        value = ex.relu(ex.exp(value))
    plan = ex.EvalPlan(**options)
    plan.register(ex.softmax(ex.tanh(value)))
    return plan.eval() if run else plan.prepare()


@pytest.mark.spec("V-3", "V-12")
def test_a_node_of_one_side_alone_is_shown_beside_its_nearest_counterpart(pair):
    """If a selected node exists in one graph only, the other graph shows the nearest common node and reports this."""
    head, first, second = pair(lengthened(0).compare(lengthened(60)))
    second.locator(".ex-stage").click(position={"x": 4, "y": 4})
    second.page.keyboard.press("/")
    second.page.keyboard.type("relu")
    for _ in range(25):
        second.page.keyboard.press("Enter")
    expect(head.locator(".ex-missing")).to_have_text(
        re.compile("relu is not in “before”, which shows its nearest neighbour in both: (tanh|value = tanh)")
    )
    expect(first.locator(".ex-graph .ex-selected")).to_have_count(0)
    canvas = first.locator(".ex-stage").bounding_box()
    shown = [item.bounding_box() for item in first.locator("[data-key] > .ex-shape").all()]
    assert any(
        canvas["x"] <= each["x"] + each["width"] / 2 <= canvas["x"] + canvas["width"]
        and canvas["y"] <= each["y"] + each["height"] / 2 <= canvas["y"] + canvas["height"]
        for each in shown
    )
    press(second, "t")
    expect(head.locator(".ex-missing")).not_to_be_empty()
    press(second, "t")  # not synchronised: the other side no longer shows a counterpart
    expect(head.locator(".ex-missing")).to_be_empty()


def test_what_only_one_side_has_is_told_until_the_selection_ends(pair):
    head, _, second = pair(lengthened(0).compare(lengthened(2)))
    press(second, "/")
    second.page.keyboard.type("relu")
    second.page.keyboard.press("Enter")
    expect(head.locator(".ex-missing")).to_contain_text("relu is not in “before”")
    press(second, "Escape", "Escape")
    expect(head.locator(".ex-missing")).to_be_empty()


def test_canvases_beside_each_other_are_level(pair, page):
    """Stages, sentences and titles take one line each, whatever their length."""
    root = ex.mean((ex.tanh(ex.tensor(np.ones((3, 4), np.float32), name="x")) * 2) ** 2)
    plans = [ex.EvalPlan(), ex.EvalPlan(without=["fuse"])]
    for plan in plans:
        plan.register(root)
    _, *views = pair(plans[0].eval().compare(plans[1].eval()))
    for width in range(900, 1500, 60):
        resize(page, width)
        press(views[0], "]")
        page.wait_for_timeout(100)
        tops = [view.locator(".ex-stage").bounding_box()["y"] for view in views]
        assert tops[0] == tops[1], width


@pytest.mark.spec("V-3")
@pytest.mark.parametrize("width", [600, 1000, 1440])
def test_no_count_is_broken_or_cut(pair, page, width, monkeypatch):
    """A percentage stays on one line, and the longest label of a difference is completely visible."""
    monkeypatch.setattr("explorer.view.compare.pair_payload.MIN_RATIO", 1e9)
    resize(page, width)
    head, *_ = pair(lengthened(3, run=True).compare(lengthened(60, run=True)))
    table = head.locator(".ex-counted")
    expect(table.locator(".ex-apart td").last).to_have_text("no more than two runs of one program differ by")
    shares = table.locator(".ex-apart span", has_text="(")
    assert shares.count() > 2
    assert all(share.evaluate("share => share.getClientRects().length") == 1 for share in shares.all())
    right = table.bounding_box()["x"] + table.bounding_box()["width"]
    for cell in table.locator("th, td").all():
        assert cell.bounding_box()["x"] + cell.bounding_box()["width"] <= right
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


@pytest.mark.spec("V-3")
@pytest.mark.parametrize("width", [600, 1000, 1440])
def test_the_table_of_counts_says_its_stage_and_fits(pair, page, width):
    """All counts of both plans are visible at any width, with a caption that they refer to the planned graphs."""
    resize(page, width)
    head, *_ = pair(lengthened(3, run=True).compare(lengthened(60, run=True)))
    table = head.locator(".ex-counted")
    expect(table.locator("caption")).to_have_text("at the end of both plans, whichever step is shown")
    assert table.evaluate("table => table.scrollWidth <= table.clientWidth")
    expect(table.get_by_role("columnheader", name="measured time")).to_be_visible()
    names = [cell.bounding_box() for cell in table.locator("thead th").all()]
    values = [cell.bounding_box() for cell in table.locator("tbody tr").first.locator("td").all()]
    for name, value in zip(names, values, strict=True):
        # One column for each count, or one row on a narrow page.
        apart = abs(name["y"] - value["y"]) if width == 600 else name["x"] - value["x"]
        assert abs(apart) < max(name["width"], value["width"]) if width > 600 else apart < 2


@pytest.mark.spec("Q-7")
def test_the_first_difference_is_in_view(pair):
    """Two models that differ near the end open there, inside the box that contains the difference."""
    nets = []
    for last in ("Relu", "Tanh"):
        net_ = ex.Net("chain")
        operand = net_.input("x", (2, 2))
        for number in range(60):
            kind = last if number == 58 else ("Sigmoid", "Softmax", "Sigmoid")[number % 3]
            operand = net_.add(kind, operand, f"y{number}", name=f"part{number // 10}.step{number}")
        net_.output(operand)
        nets.append(net_)
    head, before, after = pair(nets[0].diff(nets[1]))
    expect(head.locator(".ex-operators summary")).to_have_text("operators: 59 as before, 1 became another")
    for view, kind in ((before, "Relu"), (after, "Tanh")):
        expect(node(view, "step58")).to_contain_text(f"{kind} · 2×2 f32")
        shown, stage = node(view, "step58").bounding_box(), view.locator(".ex-stage").bounding_box()
        assert stage["y"] <= shown["y"]
        assert shown["y"] + shown["height"] <= stage["y"] + stage["height"]
    head.locator(".ex-operators summary").click()
    expect(head.locator(".ex-operators li").first).to_have_text("first difference: Relu 'part5.step58', became another")
