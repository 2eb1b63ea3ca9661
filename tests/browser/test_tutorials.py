"""The notebooks in JupyterLab, as a reader meets them."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.notebook import Lab

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


def cells(name: str) -> list[str]:
    """The code of a notebook, cell by cell."""
    found = json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]


@pytest.mark.spec("V-1", "V-2", "V-9")
def test_the_first_notebook_is_stepped_and_asked(notebook):
    """All cells run; the plan is stepped, a node clicked, and Python knows which expression it is."""
    opened = notebook(*cells("01_expressions_and_the_plan.ipynb"))
    view = opened.view()
    view.locator(".ex-node").first.focus()
    expect(view.locator(".ex-say")).to_contain_text("nothing is computed")
    view.page.keyboard.press(".")
    expect(view.locator(".ex-say")).to_contain_text("log-softmax")
    assert opened.execute("print(view.step, view.stage)") == "1 simplify\n"
    tanh = view.locator('.ex-node[aria-label^="tanh,"]').first
    tanh.evaluate("node => node.closest('.explorer-view').scrollIntoView({ block: 'center' })")
    view.get_by_role("button", name="fit into view").click()
    tanh.click()
    expect(view.locator(".ex-why h4")).to_have_text("tanh")
    assert opened.execute("print(view.selected_expression.operation.name)") == "tanh\n"
    opened.execute("view.focus(scores)")
    expect(view.locator(".ex-why h4")).to_have_text("add")
    assert opened.execute("print(view.recording.run is not None)") == "True\n"
    for index in range(3):
        opened.view(index)


@pytest.mark.spec("I-11")
def test_a_digit_is_seen_inside_the_model(notebook, lab: Lab):
    """The second notebook runs beside the model's files, and its explorers stand."""
    assets = lab.root.parent / "assets"
    if not assets.exists():
        assets.symlink_to(ROOT / "assets")
    opened = notebook(*cells("02_a_models_graph.ipynb"))
    for index in range(4):
        opened.view(index)
    assert opened.execute("print(int(probability.argmax()))") == "3\n"
