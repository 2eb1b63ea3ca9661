"""The notebooks in JupyterLab, used as a reader would."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.notebook import Lab, cells
from tests.browser.player import box, heading, press, stage

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


@pytest.mark.spec("V-1", "V-2", "V-9")
def test_the_first_notebook_is_stepped_and_asked(notebook):
    """Run all cells, step through the plan, and click a node; Python returns its expression."""
    opened = notebook(*cells("01_expressions_and_the_plan.ipynb"))
    view = opened.view()
    view.locator(".ex-node").first.focus()
    expect(stage(view)).to_contain_text("recorded")
    view.page.keyboard.press(".")
    expect(view.locator(".ex-say")).to_contain_text("negative log likelihood")
    opened.says("print(view.step, view.stage)", "1 simplify\n")
    tanh = view.locator('.ex-node:is([aria-label^="tanh,"], [aria-label*=" = tanh,"])').first
    tanh.evaluate("node => node.closest('.explorer-view').scrollIntoView({ block: 'center' })")
    view.get_by_role("button", name="fit into view").click()
    tanh.click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    opened.says("print(view.selected_expression.operation.name)", "tanh\n")
    opened.execute("view.focus(scores)")
    expect(view.locator(".ex-why h4")).to_have_text("scores = add")
    assert opened.execute("print(view.recording.run is not None)") == "True\n"
    for index in range(3):
        opened.view(index)


@pytest.mark.spec("I-11")
def test_a_digit_is_seen_inside_the_model(notebook, lab: Lab):
    """The second notebook runs next to the model files, and its explorers are drawn."""
    assets = lab.root.parent / "assets"
    if not assets.exists():
        assets.symlink_to(ROOT / "assets")
    opened = notebook(*cells("02_a_models_graph.ipynb"))
    for index in range(4):
        opened.view(index)
    assert opened.execute("print(int(probability.argmax()))") == "3\n"


def middle(view):
    """Scroll an explorer completely into view, and fit its graph."""
    view.evaluate("view => view.scrollIntoView({ block: 'center' })")
    view.get_by_role("button", name="fit into view").click()


@pytest.mark.soak
@pytest.mark.spec("M-L10", "M-L12", "M-L15")
def test_a_composite_tells_how_it_is_wired_and_who_gave_its_policies(notebook):
    """A user-defined composite shows its clauses and order, and a part shows the source of each policy."""
    opened = notebook(*cells("04_composites_and_policies.ipynb"))
    view = opened.view()
    middle(view)
    box(view, "block · Residual").click(position={"x": 60, "y": 8})
    panel = view.locator(".ex-why")
    expect(panel.locator(".ex-order")).to_have_text("linear → bend → sum")
    expect(panel.locator(".ex-clauses li").first).to_have_text("OutConnect('sum', 'output', 'output')")
    trained = opened.view(1)
    middle(trained)
    press(trained, "e")
    trained.locator('.ex-node[aria-label^="linear/bias/parameter,"]').click()
    expect(trained.locator(".ex-policies")).to_contain_text("GradPolicy.update = True given by perceptron")
    expect(trained.locator(".ex-built")).to_be_visible()


@pytest.mark.soak
@pytest.mark.spec("V-11", "M-L13")
def test_a_gradient_stands_beside_what_it_belongs_to(notebook):
    """In the notebook on gradients, a click on tanh highlights its gradient and lists saved values."""
    opened = notebook(*cells("05_gradients.ipynb"))
    view = opened.view(1)
    middle(view)
    box(view, "gradient").dblclick()
    view.get_by_role("button", name="fit into view").click()
    view.locator('.ex-node:is([aria-label^="tanh,"], [aria-label*=" = tanh,"])').click()
    expect(heading(view, "saved for its gradient")).to_be_visible()
    expect(view.locator(".ex-node.ex-lit-backward", has_text="subtract")).to_be_visible()
    view.page.keyboard.press(".")
    expect(stage(view)).to_contain_text("simplify")
    expect(view.locator(".ex-say")).to_contain_text("broadcast_to")
    view.page.keyboard.press(".")
    expect(stage(view)).to_contain_text("dedup")
    expect(view.locator(".ex-say")).to_contain_text("square")


@pytest.mark.soak
@pytest.mark.spec("M-L13")
def test_layers_fed_backward_say_what_was_not_built(notebook):
    """In the notebook on backward layers, a frozen weight shows why its gradient was not built."""
    opened = notebook(*cells("06_layers_fed_backward.ipynb"))
    perceptron = opened.view(0)
    middle(perceptron)
    press(perceptron, "e")
    perceptron.locator('.ex-node[aria-label^="linear/weight/parameter,"]').click()
    expect(perceptron.locator(".ex-unbuilt")).to_contain_text("GradPolicy.update = False")


@pytest.mark.soak
def test_gradients_through_time_train_further(notebook):
    opened = notebook(*cells("07_a_network_that_remembers.ipynb"))
    assert opened.execute("print(through[-1] < within[-1] < through[0])") == "True\n"
