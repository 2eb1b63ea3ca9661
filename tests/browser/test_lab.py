import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.player import press
from tests.support.representatives import representatives

pytestmark = pytest.mark.browser

SHOW = """
from explorer.view.widget.widget import GraphView
from tests.view import sample
view = GraphView(sample.mlp())
view
"""


def node(view, name):
    return view.locator(f'.ex-node:is([aria-label^="{name},"], [aria-label*=" = {name},"])').first


@pytest.mark.spec("V-1", "V-13")
def test_the_keyboard_steps_forward_and_back(notebook):
    view = notebook(SHOW).view()
    view.locator(".ex-node").first.focus()
    expect(view.locator(".ex-say")).to_contain_text("14 nodes, 10 of them operations")
    view.page.keyboard.press(".")
    expect(view.locator(".ex-say")).to_contain_text("decision 1 of 3")
    expect(view.locator(".ex-say")).to_contain_text("multiplying by 1 changes nothing")
    view.page.keyboard.press("]")
    expect(view.locator("[aria-current=step]")).to_contain_text("dedup")
    view.page.keyboard.press(",")
    expect(view.locator(".ex-say")).to_contain_text("decision 3 of 3")
    view.page.keyboard.press("End")
    expect(view.locator(".ex-say")).to_contain_text("step 4 of 4")


@pytest.mark.spec("V-1", "V-9")
def test_step_stage_and_selection_go_both_ways(notebook):
    book = notebook(SHOW)
    view = book.view()
    node(view, "tanh").click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    view.locator(".ex-node.ex-selected").focus()
    view.page.keyboard.press("]")
    book.says("print(view.selected, view.step, view.stage)", "6 0 simplify\n")
    book.execute("view.stage = 'fuse'")
    expect(view.locator(".ex-say")).to_contain_text("2 kernels fused")
    book.execute("view.step = 6")
    expect(view.locator(".ex-say")).to_contain_text("add and tanh run as one kernel")
    book.execute("view.focus(16)")
    expect(view.locator(".ex-why h4")).to_have_text("log-softmax")
    book.says("print(view.selected, view.step, view.stage)", "16 6 fuse\n")


@pytest.mark.spec("V-1")
def test_a_run_adds_its_steps_and_leaves_the_reader_where_they_are(notebook):
    plan = SHOW.replace("sample.mlp()", "planned").replace(
        "view =", "planned = sample.mlp(); planned.run = None\nview ="
    )
    book = notebook(plan)
    view = book.view()
    book.execute("view.stage = 'fuse'; view.selected = 6")
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    expect(view.locator(".ex-histogram")).to_have_count(0)
    book.execute("view.update(sample.mlp())")
    expect(view.locator(".ex-histogram")).to_be_visible()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    expect(view.locator("[aria-current=step]")).to_contain_text("fuse")
    book.says("print(view.step, view.stage, view.selected, view.last_step)", "4 fuse 6 16\n")


@pytest.mark.spec("V-16", headline=True)
def test_two_views_of_one_widget_and_another_widget(notebook):
    """Show one widget in several views, and another widget next to it, each with its own state."""
    book = notebook(SHOW, "view", "other = GraphView(sample.mlp())\nother")
    first, same, other = book.view(0), book.view(1), book.view(2)
    first.get_by_role("button", name="a step forward").click()
    expect(same.locator(".ex-say")).to_contain_text("decision 1 of 3")
    expect(other.locator(".ex-say")).to_contain_text("14 nodes, 10 of them operations")
    book.says("print(view.step, other.step)", "1 0\n")


@pytest.mark.spec("V-9")
def test_traits_link_with_other_widgets_in_the_browser(notebook):
    link = """
import ipywidgets
slider = ipywidgets.IntSlider(max=view.last_step)
link = ipywidgets.jslink((slider, "value"), (view, "step"))
ipywidgets.VBox([slider, view])
"""
    book = notebook(SHOW.removesuffix("view\n"), link)
    view = book.view()
    view.get_by_role("button", name="a step forward").click()
    expect(book.page.locator(".widget-slider .widget-readout")).to_have_text("1")


@pytest.mark.spec("V-13")
@pytest.mark.parametrize(
    ("theme", "name"),
    representatives([("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")], [("JupyterLab Dark", "dark")]),
)
def test_the_theme_is_jupyterlabs(notebook, theme, name):
    book = notebook(SHOW, theme=theme)
    view = book.view()
    expect(view).to_have_attribute("data-theme", name)
    book.theme("JupyterLab Dark" if name == "light" else "JupyterLab Light")
    expect(view).to_have_attribute("data-theme", "light" if name == "dark" else "dark")
    book.execute(f"view.theme = '{name}'")
    expect(view).to_have_attribute("data-theme", name)


@pytest.mark.spec("V-9", "V-16")
def test_jupyterlabs_own_keys_stay_silent_inside(notebook):
    book = notebook(SHOW)
    view = book.view()
    node(view, "tanh").click()
    for key in ("a", "b", "x", "m", "e", "c", "Enter"):
        view.page.keyboard.press(key)
    assert book.page.locator(".jp-Notebook .jp-Cell").count() == 1
    assert re.search(r"ex-selected", node(view, "tanh").get_attribute("class"))


@pytest.mark.spec("V-13", "V-16")
def test_jupyterlabs_own_styles_leave_the_panel_and_the_minimap_as_they_are(notebook):
    view = notebook(SHOW, theme="JupyterLab Dark").view()
    for name in view.locator(".ex-why dt").all():
        assert name.evaluate("name => [getComputedStyle(name).float, name.offsetHeight < 30]") == ["none", True]
    press(view, *"+" * 6)
    expect(view.locator(".ex-minimap")).to_be_visible()
    colours = view.locator(".ex-minimap").evaluate(
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let at = 0; at < data.length; at += 4) {
                if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
            }
            return [...seen];
        }"""
    )
    assert "105,117,138" in colours
    assert "0,0,0" not in colours


@pytest.mark.spec("V-6")
def test_a_weight_that_is_selected_shows_its_value_without_an_input(notebook):
    """A selected weight of a file shows its values, which are read on selection without any input."""
    model = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"
    book = notebook(f"import explorer as ex\nview = ex.open({str(model)!r}).explore()\nview")
    view = book.view()
    book.execute("view.focus(view.recording.nodes.label.index('conv2.weight'))")
    expect(view.locator(".ex-why .ex-histogram")).to_be_visible()
    expect(view.locator(".ex-why .ex-statistics")).to_contain_text("mean")


@pytest.mark.spec("V-1")
def test_a_step_taken_while_a_cell_runs_does_not_undo_what_the_cell_sets(notebook):
    """The stage that a cell sets overrides steps that wait for the busy kernel, on the page and in Python."""
    book = notebook(SHOW)
    view = book.view()
    say = view.locator(".ex-say")
    book.page.evaluate(
        """() => {
            const { content } = window.jupyterapp.shell.currentWidget;
            const source = "import time\\nprint('busy')\\ntime.sleep(3)\\nview.stage = 'order'";
            content.model.sharedModel.insertCell(1, { cell_type: "code", source });
            content.activeCellIndex = 1;
            content.deselectAll();
            void window.jupyterapp.commands.execute("notebook:run-cell");
        }"""
    )
    book.cells.append("")
    expect(book.page.locator(".jp-OutputArea-output").filter(has_text="busy")).to_be_visible()
    press(view, ".", ".")
    expect(say).to_contain_text("decision 2 of 3")
    expect(view.locator(".ex-rail [aria-current] b")).to_have_text("order")
    assert book.execute("print(view.stage, view.step)") == "order 8\n"
    expect(view.locator(".ex-rail [aria-current] b")).to_have_text("order")
    press(view, ".")
    book.says("print(view.stage, view.step)", "order 9\n")
