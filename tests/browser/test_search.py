"""Search on the canvas: every property, steps through results with keys, and opening of boxes that hide them."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.view.export.html_page import html
from tests.browser.player import box, node, press, resize
from tests.view import sample

pytestmark = pytest.mark.browser

MODELS = Path(__file__).parents[2] / "assets" / "models"


@pytest.mark.spec("V-8", headline=True)
@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("operation:add", ["add", "add"]),
        ("name:tanh", ["tanh"]),
        ("shape:32x48 name:matmul", ["matmul", "matmul"]),
        ("shape:64×48", ["W"]),
        ("dtype:float32 name:nll", ["nll"]),
        ("dtype:float", []),
        ("operation:soft", []),
        ("um", []),
        ("max", []),
        ('text:"x @ W + b"', ["matmul", "add", "tanh"]),
    ],
)
def test_nodes_are_found_by_each_property(show, typed, names):
    """Search nodes by name, operation, shape, dtype and the text of their source line."""
    view = show(sample.mlp())
    press(view, "/")
    view.page.keyboard.type(typed)
    expect(view.locator(".ex-search [role=status]")).to_contain_text(f"{len(names)} node")
    expect(view.locator(".ex-results button > b")).to_have_text([re.compile(rf"(^| / | · ){name}$") for name in names])


@pytest.mark.spec("V-8", "V-13")
def test_results_are_walked_by_keys_and_their_boxes_open(show):
    """Enter and Shift Enter step through the results, show "2 of 3", and open hiding boxes; Escape ends the search."""
    recording = sample.transformer(3)
    view = show(recording)
    press(view, "c", "/")
    view.page.keyboard.type("operation:softmax")
    softmax = [
        n for n in range(len(recording.nodes)) if recording.operations[recording.nodes.operation[n]] == "softmax"
    ]
    count = len(softmax)
    assert count > 2
    place = view.locator(".ex-place")
    expect(place).to_have_text(f"– of {count}")
    expect(view.locator(".ex-closed.ex-match").first).to_contain_text("found inside")
    view.page.keyboard.press("Enter")
    expect(place).to_have_text(f"1 of {count}")
    expect(view.locator(".ex-node.ex-selected.ex-match")).to_be_visible()
    expect(view.get_by_role("searchbox", name="search")).to_be_focused()
    view.page.keyboard.press("Enter")
    expect(place).to_have_text(f"2 of {count}")
    expect(view.locator(".ex-results [aria-current]")).to_have_count(1)
    view.page.keyboard.press("Shift+Enter")
    view.page.keyboard.press("Shift+Enter")
    expect(place).to_have_text(f"{count} of {count}")
    view.get_by_role("button", name="next result").click()
    expect(place).to_have_text(f"1 of {count}")
    press(view, "n")
    expect(place).to_have_text(f"2 of {count}")
    view.page.keyboard.press("Escape")
    expect(view.locator(".ex-match")).to_have_count(0)
    expect(view.locator(".ex-search")).to_be_hidden()


@pytest.mark.spec("V-8")
@pytest.mark.parametrize("typed", ["type:MaxPool", "type:Relu"])
def test_a_found_operator_stays_in_sight_after_the_search(show, typed):
    """Escape keeps the found operator, a box or a single node, selected and visible, and n goes to the next result."""
    view = show(ex.open(MODELS / "resnet18.onnx").preview_plan().recording)
    press(view, "/")
    view.page.keyboard.type(typed)
    view.page.keyboard.press("Shift+Enter")
    found = view.locator(".ex-selected")
    expect(found).to_be_in_viewport(ratio=0.9)
    view.page.keyboard.press("Escape")
    expect(found.and_(view.locator(":focus"))).to_be_in_viewport(ratio=0.9)
    expect(view.locator(".ex-match")).to_have_count(0)
    view.page.keyboard.press("n")
    expect(view.locator(".ex-say")).not_to_contain_text("No search has results")
    expect(found).to_be_in_viewport(ratio=0.9)


@pytest.mark.spec("V-8", "V-13")
@pytest.mark.parametrize(("wide", "high"), [(1000, 700), (640, 480)])
def test_the_drawer_does_not_cover_the_results(show, wide, high):
    """The drawer is hidden while the search is open, and afterwards it does not cover the found node."""
    view = show(sample.transformer(3))
    resize(view.page, wide, high)
    press(view, "w", "/")
    view.page.keyboard.type("operation:softmax")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-selected")).to_be_visible()
    expect(view.locator(".ex-beside")).to_be_hidden()
    view.page.keyboard.press("Escape")
    expect(view.locator(".ex-beside")).to_be_visible()
    drawer, item = view.locator(".ex-beside").bounding_box(), view.locator(".ex-node.ex-selected").bounding_box()
    assert item["x"] + item["width"] <= drawer["x"] or item["y"] + item["height"] <= drawer["y"]


@pytest.mark.spec("V-8", "V-25", "V-26")
def test_in_a_small_window_a_result_is_not_under_the_search_or_the_sentence(show):
    """After a jump only the search field remains, and nothing covers the result; the field shows the list again."""
    view = show(sample.transformer(3))
    resize(view.page, 640, 480)
    press(view, "/")
    view.page.keyboard.type("softmax")
    results = view.locator(".ex-results")
    expect(results).to_be_visible()
    count = int(view.locator(".ex-place").inner_text().split(" of ")[1])
    for _ in range(count):
        view.page.keyboard.press("Enter")
        expect(results).to_be_hidden()
        view.page.wait_for_function(NOTHING_COVERS)
    view.locator(".ex-search input").click()
    expect(results).to_be_visible()
    view.page.keyboard.press("ArrowDown")
    view.page.keyboard.press("Enter")
    expect(results).to_be_hidden()
    expect(view.locator(".ex-search input")).to_be_focused()


NOTHING_COVERS = """() => {
    const rect = (found) => document.querySelector(found)?.getBoundingClientRect();
    const item = rect(".ex-selected") ?? rect(".ex-changed") ?? rect(".ex-new, .ex-subject, .ex-declined");
    const [search, sentence] = [rect(".ex-search"), rect(".ex-say")];
    const before = (one, two) => one.right <= two.left || one.bottom <= two.top;
    const apart = (one, two) => before(one, two) || before(two, one);
    return item && apart(item, search) && apart(item, sentence) && item.left >= 0 && item.right <= innerWidth;
}"""


@pytest.mark.spec("V-8")
def test_all_of_one_kind_are_selected_from_one_of_them(show):
    """A button of a node finds all nodes of its operation, beginning at this node; Escape ends the search."""
    view = show(sample.mlp())
    node(view, "multiply 2").click()
    view.get_by_role("button", name="all 2 multiply").click()
    expect(view.locator(".ex-match")).to_have_count(2)
    expect(view.locator(".ex-place")).to_have_text("1 of 2")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-why h4")).to_have_text("multiply 1")
    view.page.keyboard.press("Escape")
    expect(view.locator(".ex-match")).to_have_count(0)


@pytest.mark.spec("V-8")
def test_decisions_are_found_by_their_rule_and_listed_under_it(show):
    """A found decision has its verdict and location as title, followed by its sentence."""
    recording = sample.mlp()
    view = show(recording)
    press(view, "/")
    view.page.keyboard.type(recording.decisions[0].rule)
    titles = view.locator(".ex-results button > b").all_text_contents()
    first = recording.decisions[0].subjects[0]
    source = recording.sources[recording.nodes.source[first]]
    assert any(title.startswith(f"✓ {source.full_location}") for title in titles)
    assert not any("undefined" in title for title in titles)


@pytest.mark.spec("V-8")
def test_what_a_search_says_about_a_hostile_file_is_text(show):
    """Names from a file are shown as text in the results."""
    view = show(sample.hostile())
    press(view, "/")
    view.page.keyboard.type("a")
    assert view.locator(".ex-results button").count() > 0
    assert view.page.evaluate("document.querySelectorAll('.explorer-view img, .explorer-view script').length") == 0


@pytest.mark.spec("V-8")
def test_a_result_does_not_hide_under_the_list(open_page, tmp_path):
    """The canvas moves a result so that the list does not cover it."""
    page = open_page(viewport={"width": 1400, "height": 800})
    (tmp_path / "page.html").write_text(html(sample.transformer(3)), encoding="utf-8")
    page.goto((tmp_path / "page.html").as_uri())
    view = page.locator(".explorer-view")
    press(view, "e", "/")
    page.keyboard.type("operation:softmax")
    for _ in range(3):
        page.keyboard.press("Enter")
        result = view.locator(".ex-node.ex-selected .ex-shape").bounding_box()
        panel = view.locator(".ex-search").bounding_box()
        assert result["x"] + result["width"] <= panel["x"]


@pytest.mark.spec("V-7", "V-19")
def test_a_box_in_the_panel_is_a_way_to_it(show):
    """A click on a box in the cost table selects it and opens the boxes around it."""
    view = show(sample.transformer(3))
    press(view, "c")
    link = view.locator(".ex-inside .ex-link").first
    name = link.text_content()
    link.click()
    expect(view.locator(".ex-why h4")).to_contain_text(name.split(" ×")[0])
    expect(box(view, name)).to_have_class("ex-box ex-closed ex-selected")


@pytest.mark.spec("V-8", "V-2", "V-7")
def test_known_compositions_are_told_lit_and_found(show):
    """A handwritten GELU is named at its result, its operations are highlighted together, and search finds them."""
    x = ex.tensor(np.ones((4, 8), "float32"), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.cos(0.5 * x * (1 + ex.erf(x / 2**0.5))))
    view = show(plan.prepare().recording, position=0)
    result = view.locator(".ex-node").filter(has_text="GELU(x) → 4×8 f32")
    result.click()
    expect(view.locator(".ex-lit-found")).to_have_count(4)
    dashes = "shape => getComputedStyle(shape).strokeDasharray"
    assert view.locator(".ex-lit-found .ex-shape").first.evaluate(dashes) != "none"
    why = view.locator(".ex-why")
    expect(why.get_by_role("heading", name="found as GELU")).to_be_visible()
    expect(why).to_contain_text("These 5 operations compute GELU of x, and this one gives its result.")
    why.get_by_role("button", name="erf", exact=True).first.click()
    expect(why).to_contain_text("These 5 operations compute GELU of x; multiply gives its result.")
    node(view, "cos").click()
    expect(view.locator(".ex-lit-found")).to_have_count(0)
    expect(why).not_to_contain_text("found as")
    press(view, "/")
    view.page.keyboard.type("found:gelu")
    expect(view.locator(".ex-search [role=status]")).to_contain_text("5 nodes")


@pytest.mark.spec("Q-5", headline=True)
def test_operators_of_a_file_are_found_by_their_type(show):
    """Find a file's operators by type, name, operand and attribute; a click on a type's count finds them all."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    view = show(recording)
    types = [scope.type for scope in recording.scopes if scope.type]
    result = view.locator(".ex-search [role=status]")
    for typed in ("type:Conv", "type:MaxPool", "type:Relu", "type:Add"):  # the last two have one node and no box
        press(view, "/")
        view.page.keyboard.type(typed)
        expect(result).to_have_text(re.compile(f"^{types.count(typed[5:])} operators?, 0 nodes"))
        press(view, "Escape")
    view.locator(".ex-kinds .ex-link", has_text="MaxPool").click()
    expect(view.get_by_role("searchbox", name="search")).to_have_value("type:MaxPool")
    expect(view.locator(".ex-results button")).to_have_count(types.count("MaxPool"))
    view.get_by_role("searchbox", name="search").fill("type:Conv")
    names = [scope.name for scope in recording.scopes if scope.type == "Conv"]
    expect(view.locator(".ex-results button > b")).to_have_text([re.compile(f" / {name}$") for name in names])
    view.get_by_role("searchbox", name="search").fill("type:MaxPool")
    view.page.keyboard.press("Enter")
    expect(view.locator(".ex-why h4")).to_contain_text("maxpool")
    expect(view.locator(".ex-box.ex-selected")).to_be_in_viewport()


@pytest.mark.spec("Q-5")
def test_operators_of_a_file_are_found_by_their_operands(show):
    """Find the operator that writes an operand, followed by the operators that read it."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    view = show(recording)
    writer, *readers = [
        recording.scopes[operator.scope].name
        for side in ("outputs", "inputs")
        for operator in recording.operators
        if "max_pool2d" in getattr(operator, side)
    ]
    press(view, "/")
    for typed in ("operand:max_pool2d", "tensor:max_pool2d"):
        view.get_by_role("searchbox", name="search").fill(typed)
        rows = view.locator(".ex-results button > b")
        expect(rows).to_have_count(1 + len(readers))
        for row, name in enumerate([writer, *readers]):
            expect(rows.nth(row)).to_contain_text(name)
    view.get_by_role("searchbox", name="search").fill("getitem_3")
    expect(view.locator(".ex-search [role=status]")).to_have_text(re.compile("^2 operators, 0 nodes"))


@pytest.mark.spec("V-8", "Q-5")
def test_found_operators_are_listed_with_their_whole_paths(show):
    """Equal modules of several blocks are told apart: "layer1 / 0 / bn1 / node_Conv_57", "Conv · 1×64×16×16 f32"."""
    view = show(ex.open(MODELS / "resnet18.onnx").preview_plan().recording)
    press(view, "/")
    view.page.keyboard.type("type:Conv")
    rows = view.locator(".ex-results button")
    expect(rows.nth(1).locator("b")).to_have_text(re.compile(r"^layer1 / 0 / bn1 / node_Conv_\d+$"))
    expect(rows.nth(1).locator(".ex-soft")).to_have_text(re.compile(r"^Conv · [\d×]+ f32 · W [\d×]+ · B \d+$"))


@pytest.mark.spec("V-8", "Q-5")
def test_a_closed_box_counts_the_listed_results_inside(show):
    """A closed box counts found operators, not their nodes; a found operator's own closed box says "found"."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    count = sum(scope.type == "Conv" for scope in recording.scopes)
    view = show(recording)
    badges = view.locator(".ex-closed.ex-match .ex-tag text")
    press(view, "c", "/")
    view.page.keyboard.type("type:Conv")
    expect(view.locator(".ex-results button")).to_have_count(count)
    expect(badges.first).to_have_text(re.compile("found"))
    shown = badges.all_text_contents()
    assert sum(1 if text == "found" else int(text.removesuffix(" found inside")) for text in shown) == count
    assert any(text.endswith(" found inside") for text in shown)
    press(view, "Escape", "e", "/")
    view.get_by_role("searchbox", name="search").fill("type:MaxPool")
    expect(view.locator(".ex-results button")).to_have_count(1)
    expect(badges).to_have_text([])
