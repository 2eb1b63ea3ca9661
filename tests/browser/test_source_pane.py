"""The source pane: the cell or file next to its graph, mutual highlighting, and decisions as remarks on lines."""

import linecache
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.record import Source
from explorer.record.listings import without_source
from explorer.view.export.html_page import html
from explorer.view.payload.view_payload import payload
from tests.browser.axe import complaints, rules_of
from tests.browser.player import mount, node, press, reload_until, resize
from tests.view import sample

pytestmark = [pytest.mark.browser, pytest.mark.spec("V-2", "V-9")]

MODELS = Path(__file__).parents[2] / "assets" / "models"
PROGRAM = """\
import explorer as ex

def dense(x, W, b):
    # one layer <img src="x" onerror="alert(1)">
    return ex.tanh(x @ W + b)

x = ex.tensor([[1.0] * 32] * 64, name="x")
W = ex.tensor([[0.5] * 32] * 32, name="W")
b = ex.tensor([0.1] * 32, name="b")

scores = ex.softmax(dense(dense(x, W, b), W, b) @ W)
loss = -ex.log(scores).mean()
"""


@pytest.fixture
def recording(tmp_path: Path) -> ex.Recording:
    """Return the recording of a file with two layers."""
    path = tmp_path / "layers.py"
    path.write_text(PROGRAM)
    linecache.checkcache(str(path))
    names: dict[str, ex.Expr] = {}
    exec(compile(PROGRAM, str(path), "exec"), names)
    plan = ex.EvalPlan()
    plan.register(names["loss"])
    return plan.eval().recording


@pytest.fixture
def view(show, recording):
    """Return a view with its source pane open."""
    shown = show(recording)
    shown.get_by_role("button", name="show or hide the source").click()
    expect(pane(shown)).to_be_visible()
    return shown


def pane(view):
    return view.get_by_role("region", name="source")


def line(view, number):
    return pane(view).locator(f'.ex-line[aria-label^="line {number}:"]')


def lit(view):
    """Return the names of the highlighted and selected nodes on the canvas."""
    return view.evaluate(
        "view => [...view.querySelectorAll('.ex-node:is(.ex-lit-line, .ex-selected) .ex-name')]"
        ".map((name) => name.textContent).sort()"
    )


@pytest.mark.stores
def test_it_is_hidden_until_it_is_asked_for_and_remembered(show, recording):
    view = show(recording)
    expect(pane(view)).to_have_count(0)
    press(view, "l")
    expect(pane(view)).to_be_visible()
    expect(pane(view).locator("button:focus")).to_have_count(1)
    reload_until(view, lambda: expect(pane(view)).to_be_visible(timeout=1000))
    press(view, "l")
    expect(pane(view)).to_have_count(0)


def test_which_nodes_a_line_made_takes_two_clicks(show, recording):
    view = show(recording)
    view.get_by_role("button", name="show or hide the source").click()
    line(view, 5).click()
    expect(line(view, 5)).to_have_attribute("aria-current", "true")
    assert lit(view) == ["add", "add", "matmul", "matmul", "tanh", "tanh"]


def test_which_line_made_a_node_takes_two_clicks(show, recording):
    view = show(recording)
    view.get_by_role("button", name="show or hide the source").click()
    node(view, "mean").click()
    expect(pane(view).locator('.ex-line[aria-current="true"]')).to_contain_text("loss = -ex.log(scores).mean()")


def test_a_line_under_the_pointer_lights_its_nodes_and_a_node_its_line(view):
    line(view, 11).hover()
    expect(view.locator(".ex-node.ex-lit-line")).to_have_count(2)
    assert lit(view) == ["matmul", "scores = softmax"]
    node(view, "tanh").hover()
    expect(line(view, 5)).to_have_class("ex-line ex-pointed")
    assert lit(view) == ["add", "add", "matmul", "matmul", "tanh", "tanh"]
    view.locator(".ex-say").hover()
    expect(view.locator(".ex-node.ex-lit-line")).to_have_count(0)


def test_clicks_on_a_line_step_through_its_nodes(view):
    heading = view.locator(".ex-why h4")
    names = []
    for _ in range(3):
        line(view, 5).click()
        names.append(heading.text_content())
    assert names == ["matmul", "add", "tanh"]


def test_a_declined_decision_stands_under_its_line_and_a_click_goes_to_it(view):
    remark = line(view, 12).locator("xpath=..").locator(".ex-remark").first
    expect(remark).to_contain_text("fuse: declined: ")
    remark.click()
    expect(view.locator(".ex-rail [aria-current]")).to_contain_text("fuse")
    expect(view.locator(".ex-say")).to_contain_text("declined")
    expect(remark).to_have_attribute("aria-current", "step")


def test_its_keys_walk_over_lines_and_leave_those_of_the_view_alone(view):
    keyboard = view.page.keyboard
    boxes = view.locator(".ex-box.ex-open").count()
    expect(line(view, 5)).to_be_focused()
    keyboard.press("ArrowDown")
    expect(line(view, 7)).to_be_focused()
    assert lit(view) == ["x"]
    for letter in "ecnpghd0":
        keyboard.press(letter)
    assert view.locator(".ex-box.ex-open").count() == boxes
    expect(view.locator(".ex-rail [aria-current]")).to_contain_text("recorded")
    keyboard.press("Enter")
    expect(view.locator(".ex-why h4")).to_have_text("x")
    expect(line(view, 7)).to_be_focused()
    keyboard.press("Escape")
    expect(view.locator(".ex-node:focus")).to_have_count(1)
    expect(pane(view)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(show, recording, theme):
    view = show(recording, theme=theme)
    press(view, "l")
    line(view, 5).click()
    assert complaints(view.page, rules=rules_of(theme)) == []
    view.get_by_role("combobox", name="heat").select_option("colour: source line")
    resize(view.page, 600)
    expect(view).to_have_class(re.compile("ex-narrow"))
    assert complaints(view.page, rules=rules_of(theme)) == []


def test_a_text_of_a_file_is_no_markup(view):
    assert pane(view).locator("code").nth(1).text_content() == '    # one layer <img src="x" onerror="alert(1)">'
    assert pane(view).locator("img").count() == 0


def test_the_graph_takes_the_colours_of_lines_and_the_pane_is_their_legend(show, recording):
    view = show(recording)
    view.get_by_role("combobox", name="heat").select_option("colour: source line")
    expect(pane(view)).to_be_visible()
    colours = view.evaluate(
        "view => Object.fromEntries([...view.querySelectorAll('.ex-node')].map((node) => "
        "[node.querySelector('.ex-name').textContent, node.getAttribute('style')?.match(/--ex-line-\\d/)[0]]))"
    )
    colours = {name.rpartition(" = ")[2]: colour for name, colour in colours.items()}  # after the variables
    assert colours["matmul"] == colours["softmax"]
    assert colours["log"] == colours["mean"] != colours["softmax"]
    chip = line(view, 12).locator(".ex-hue").get_attribute("style")
    assert colours["mean"] in chip
    press(view, "l")
    expect(pane(view)).to_have_count(0)
    expect(view.locator(".ex-node.ex-hot")).to_have_count(0)


def test_a_line_of_a_models_file_selects_its_operator(show):
    view = show(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording)
    press(view, "l")
    line(view, 5).click()
    expect(view.locator(".ex-why h4")).to_have_text("relu")
    expect(pane(view).locator("code").first).to_contain_text("nn.Conv2d")


def test_a_binary_file_says_that_it_has_no_lines(show):
    view = show(ex.open(MODELS / "encoder.onnx").preview_plan().recording)
    press(view, "l")
    expect(pane(view)).to_contain_text("This file is binary and has no source lines")


def test_without_source_it_is_not_offered(show, recording):
    view = show(without_source(recording))
    expect(view.get_by_role("button", name="show or hide the source")).to_have_count(0)
    press(view, "l")
    expect(pane(view)).to_have_count(0)
    expect(view.get_by_role("combobox", name="heat").locator("option")).to_have_count(5)


def long_file(nodes: int) -> ex.Recording:
    """Return a graph in which each node was recorded by a different line."""
    recording = sample.dag(nodes)
    table = recording.nodes
    recording.sources = [Source("deep.txt", number, f"line of {number}") for number in range(1, len(table) + 1)]
    table.source = list(range(len(table)))
    return recording


def test_of_a_long_file_the_lines_around_the_selection_are_on_the_page(show):
    view = show(long_file(3000))
    press(view, "l")
    expect(pane(view).locator(".ex-line")).to_have_count(400)
    pane(view).get_by_role("button", name="more below").click()
    expect(line(view, 401)).to_be_attached()


def test_pointing_at_a_node_brings_its_line_into_sight(show):
    view = show(long_file(60))
    press(view, "e", "l")
    expect(line(view, 1)).to_be_in_viewport()
    expect(line(view, 60)).not_to_be_in_viewport()
    last = view.locator(".ex-node").last
    number = int(last.get_attribute("data-key")[1:]) + 1
    last.hover()
    expect(line(view, number)).to_have_class("ex-line ex-pointed")
    expect(line(view, number)).to_be_in_viewport()


def test_from_afar_a_node_under_the_pointer_lights_its_line(page):
    """In the low-detail view few nodes have elements that receive pointer events."""
    mount(page, payload(long_file(3000)))
    page.evaluate("view.opening.all(true)")
    page.evaluate("view.parts.turnSource()")
    expect(page.get_by_role("region", name="source")).to_be_visible()
    slot, [x, y, wide, high] = page.evaluate("[...view.placement.slots].at(150)")
    page.evaluate("([x, y]) => view.camera.stand(0.1, x, y)", [x + wide / 2, y + high / 2])
    expect(page.locator(".ex-low-detail")).to_be_visible()
    stage = page.locator(".ex-stage").bounding_box()
    page.mouse.move(stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2, steps=4)
    number = page.evaluate("slot => view.trace.slotOf.indexOf(slot) + 1", slot)
    pointed = page.locator(".ex-line.ex-pointed")
    expect(pointed).to_have_attribute("aria-label", re.compile(f"^line {number}:"))
    expect(pointed).to_be_in_viewport()


def test_nothing_is_made_while_it_is_hidden(show, recording):
    view = show(recording)
    press(view, ".", "]")
    assert view.locator(".ex-listing").evaluate("pane => pane.childElementCount") == 0


def test_at_every_width_the_graph_keeps_room(open_page, tmp_path, recording):
    target = tmp_path / "page.html"
    target.write_text(html(recording), encoding="utf-8")
    for width in (600, 1000, 1440):
        page = open_page(viewport={"width": width, "height": 900})
        page.goto(target.as_uri())
        view = page.locator(".explorer-view")
        press(view, "l")
        stage, source = view.locator(".ex-stage").bounding_box(), pane(view).bounding_box()
        assert stage["width"] >= 300
        assert stage["height"] >= 200
        assert source["width"] >= 240
        assert source["height"] >= 150


@pytest.mark.stores
def test_a_bar_sizes_it_and_the_browser_remembers(view):
    bar = view.get_by_role("separator", name="size of the source")
    before = pane(view).bounding_box()["width"]
    bar.focus()
    view.page.keyboard.press("Shift+ArrowRight")
    wide = pane(view).bounding_box()["width"]
    assert wide == pytest.approx(before + 64, abs=2)
    reload_until(view, lambda: expect(pane(view)).to_have_css("width", f"{round(wide)}px", timeout=1000))
    press(view, "l")
    expect(bar).to_have_count(0)


def test_the_panel_leads_to_the_line(show, recording):
    view = show(recording)
    node(view, "mean").click()
    view.locator(".ex-why").get_by_role("button", name="layers.py line 12").first.click()
    expect(line(view, 12)).to_be_focused()
    expect(line(view, 12)).to_have_attribute("aria-current", "true")


def test_a_line_of_an_operator_selects_what_it_computes_before_its_weights(show):
    view = show(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording)
    press(view, "l")
    names = []
    for _ in range(5):
        line(view, 4).click()
        names.append(view.locator(".ex-why h4").text_content())
    assert names[0] == "conv2d"
    assert names[-1].startswith("convbn2d_0.")


def test_in_a_notebook_every_cell_that_recorded_is_there_in_full(notebook):
    first = "import explorer as ex\n\ndef double(x):\n    # twice\n    return x + x\n"
    book = notebook(first, 'x = ex.tensor([1.0, 2.0], name="x")\ny = double(x) * 3.0\nex.explore(y.sum())')
    view = book.view()
    view.get_by_role("button", name="show or hide the source").click()
    expect(pane(view).get_by_role("heading")).to_have_text(["In[1]", "In[2]"])
    helper = ["import explorer as ex", " ", "def double(x):", "    # twice", "    return x + x"]
    program = ['x = ex.tensor([1.0, 2.0], name="x")', "y = double(x) * 3.0", "ex.explore(y.sum())"]
    assert pane(view).locator("code").all_text_contents() == [*helper, *program]
    node(view, "sum").click()
    expect(pane(view).locator('.ex-line[aria-current="true"]')).to_contain_text("ex.explore(y.sum())")
    view.page.keyboard.press("x")
    expect(view.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(2)
