"""Model files in JupyterLab: a double click opens the explorer, which reads them on the server."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect
from safetensors.numpy import save_file

import explorer as ex
from tests.browser.axe import complaints, rules_of
from tests.browser.notebook import Lab, Notebook, open_document
from tests.browser.player import press, tool
from tests.support.representatives import representatives

pytestmark = pytest.mark.browser

ASSETS = Path(__file__).parents[2] / "assets"
HOSTILE = "<img src=x onerror=\"document.title='run'\">.onnx"


@pytest.fixture
def page(lab_page: Page) -> Page:
    return lab_page


@pytest.fixture
def folder(lab: Lab, request: pytest.FixtureRequest) -> Path:
    """Return a separate folder for one test."""
    folder = lab.root / "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    folder.mkdir()
    return folder


def opened(page: Page, folder: Path, theme: str = "JupyterLab Light") -> Notebook:
    """Open JupyterLab on a folder, with its files in the sidebar."""
    jupyter = Notebook(page)
    jupyter.theme(theme)
    jupyter.command("application:set-mode", {"mode": "multiple-document"})
    jupyter.command("filebrowser:activate")
    jupyter.command("filebrowser:go-to-path", {"path": folder.name})
    return jupyter


def double_click(page: Page, name: str) -> Locator:
    """Double-click a file in the file browser; return the content of its tab."""
    page.locator(".jp-DirListing-item").filter(has=page.get_by_text(name, exact=True)).dblclick()
    return page.locator(".explorer-file:visible")


def drawn(tab: Locator) -> Locator:
    """Return the explorer of a tab once the server has read the file; its first process has to import the package."""
    view = tab.locator(".explorer-view")
    expect(view).to_be_visible(timeout=60_000)
    return view


@pytest.mark.spec("V-17", headline=True)
@pytest.mark.parametrize("theme", representatives(["Light", "Dark"], ["Light"]))
def test_a_double_click_on_a_model_opens_the_explorer(page: Page, folder: Path, theme: str) -> None:
    """Open Explorer with a double-click on an .onnx or .pnnx.param file in JupyterLab."""
    for name in ("digits.onnx", "digits.pnnx.param", "digits.pnnx.bin"):
        shutil.copy(ASSETS / name, folder)
    opened(page, folder, f"JupyterLab {theme}")
    for name, weight in (("digits.onnx", "conv2.weight"), ("digits.pnnx.param", "conv2.weight")):
        tab = double_click(page, name)
        view = drawn(tab)
        expect(view).to_have_attribute("data-theme", theme.lower())
        expect(tab.locator(".explorer-file-message")).to_be_empty()
        expect(tool(view, "flow to the right")).to_be_visible()
        page.keyboard.press("Escape")
        press(view, ".")
        expect(view.locator(".ex-say")).to_contain_text("decision 1 of")
        press(view, "/")
        page.keyboard.type(f"name:{weight}")
        expect(view.locator(".ex-search [role=status]")).to_contain_text("1 node")
        page.keyboard.press("Enter")
        expect(view.locator(".ex-why .ex-statistics")).to_contain_text("mean")
        assert view.evaluate("(view) => view.offsetHeight === view.parentElement.offsetHeight")
        assert complaints(page, ".explorer-file:not(.lm-mod-hidden .explorer-file)", rules_of(theme)) == []
    assert not list(folder.glob(".ipynb_checkpoints/*")), "JupyterLab made a copy of a model"


@pytest.mark.spec("V-17")
def test_a_double_click_on_the_weights_of_a_pnnx_model_opens_the_model(page: Page, folder: Path) -> None:
    """A double click on a `.pnnx.bin` file opens the graph of the `.pnnx.param` file next to it."""
    for name in ("digits.pnnx.param", "digits.pnnx.bin"):
        shutil.copy(ASSETS / name, folder)
    opened(page, folder)
    tab = double_click(page, "digits.pnnx.bin")
    view = drawn(tab)
    expect(tab.locator(".explorer-file-message")).to_be_empty()
    press(view, "/")
    page.keyboard.type("name:conv2.weight")
    expect(view.locator(".ex-search [role=status]")).to_contain_text("1 node")


@pytest.mark.spec("V-17")
def test_a_double_click_on_a_file_of_weights_opens_its_tensors(page: Page, folder: Path) -> None:
    """A `.safetensors` or `.gguf` file opens as boxes of tensors; a selected tensor shows its values."""
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    save_file({f"layer{i}.0.conv.weight": weights + i for i in range(3)}, folder / "toy.safetensors")
    opened(page, folder)
    view = drawn(double_click(page, "toy.safetensors"))
    press(view, "/")
    page.keyboard.type("name:layer2.0.conv.weight")
    expect(view.locator(".ex-search [role=status]")).to_contain_text("1 node")
    page.keyboard.press("Enter")
    expect(view.locator(".ex-why .ex-statistics")).to_contain_text("mean")
    expect(view.locator(".ex-why")).to_contain_text("layer2.0.conv: weight F32 3×4 48 B")


@pytest.mark.spec("V-17", "V-20")
def test_a_tab_says_what_it_waits_for(page: Page, folder: Path) -> None:
    """A tab shows that it is reading until the server answers, and reports a server without the extension."""
    shutil.copy(ASSETS / "digits.onnx", folder)
    waiting: list[Route] = []
    page.route("**/explorer/view/**", lambda route: waiting.append(route))
    opened(page, folder)
    with page.expect_request("**/explorer/view/**"):
        tab = double_click(page, "digits.onnx")
    expect(tab.get_by_role("status")).to_have_text("Reading digits.onnx …")
    progress = '{"progress": {"phase": "planning", "what": "fuse", "done": 3, "total": 9}}\n'
    problem = '{"problem": {"given": "<b>wrong</b>", "rule": "must be right", "fix": ""}}\n'
    waiting.pop().fulfill(body=progress + problem)
    expect(tab.get_by_role("alert")).to_have_text("<b>wrong</b>rule: must be right")
    with page.expect_request("**/explorer/view/**"):
        page.get_by_role("button", name="Reload").click()
    expect(tab.get_by_role("status")).to_have_text("Reading digits.onnx …")
    waiting.pop().continue_()
    drawn(tab)


@pytest.mark.spec("V-17")
def test_open_with_offers_the_explorer(page: Page, folder: Path) -> None:
    """Models and recordings open in the explorer, JSON and .param files only with "Open With"; editors remain."""
    recording = ex.explore(ex.tanh(ex.tensor([1.0, 2.0])))
    recording.save(folder / "plan.json")
    opened(page, folder)
    offers = page.evaluate(
        """(names) => names.map((name) =>
            window.jupyterapp.docRegistry.preferredWidgetFactories(name).map((each) => each.name))""",
        [
            "a.onnx",
            "a.pnnx.param",
            "a.explorer.json",
            "a.safetensors",
            "a.gguf",
            "a.tflite",
            "a.json",
            "a.param",
            "a.npz",
            "a.npy",
        ],
    )
    assert [names[0] == "Explorer" for names in offers] == [True] * 6 + [False] * 4
    assert all("Explorer" in names and "Editor" in names for names in offers)
    open_document(page, {"path": f"{folder.name}/plan.json", "factory": "Explorer"})
    expect(drawn(page.locator(".explorer-file:visible")).locator(".ex-rail")).to_contain_text("run")


@pytest.mark.spec("V-17")
def test_a_tab_follows_its_file(page: Page, folder: Path) -> None:
    """A tab reports why a file cannot be read, and shows it once it is written again, keeping step and selection."""
    model = folder / "net.onnx"
    model.write_bytes(b"\xff\xfe")
    opened(page, folder)
    tab = double_click(page, "net.onnx")
    alert = tab.get_by_role("alert")
    expect(alert.locator(".explorer-file-given")).to_contain_text("net.onnx", timeout=60_000)
    expect(alert.locator(".explorer-file-fix")).not_to_be_empty()
    shutil.copyfile(ASSETS / "digits.onnx", model)
    view = drawn(tab)
    expect(alert).to_have_count(0)
    press(view, ".", ".")
    said = view.locator(".ex-say").inner_text()
    assert "decision" in said
    model.write_bytes(b"\xff\xfe")
    expect(alert).to_be_visible(timeout=60_000)
    expect(view.locator(".ex-say")).to_have_text(said)
    shutil.copyfile(ASSETS / "digits.onnx", model)
    expect(alert).to_have_count(0, timeout=60_000)
    expect(view.locator(".ex-say")).to_have_text(said)


@pytest.mark.spec("V-17")
def test_a_hostile_name_is_text(page: Page, folder: Path) -> None:
    """A file's name is shown as text in the tab and in errors, never as markup."""
    (folder / HOSTILE).write_bytes(b"\xff")
    opened(page, folder)
    open_document(page, {"path": f"{folder.name}/{HOSTILE}"})
    expect(page.locator(".explorer-file-given")).to_contain_text("<img src=x onerror=", timeout=60_000)
    assert page.locator(".explorer-file img").count() == 0


@pytest.mark.soak
@pytest.mark.spec("V-17")
def test_a_tab_is_there_again_after_a_reload(lab: Lab, open_lab_page: Callable[[], Page], folder: Path) -> None:
    """After a reload JupyterLab shows the explorers that were open."""
    shutil.copy(ASSETS / "digits.onnx", folder)
    page = open_lab_page()
    lab.open(page, folder.name)  # in a new workspace, because JupyterLab clears old ones late
    jupyter = opened(page, folder)
    drawn(double_click(page, "digits.onnx"))
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.isReady")
    kept(page, folder)
    # A busy server may process saves out of order, so save once more after they have arrived.
    with page.expect_response(lambda answer: answer.request.method == "PUT" and "/workspaces/" in answer.url):
        jupyter.command("application:toggle-left-area")
    kept(page, folder)
    lab.open(page, folder.name)
    drawn(page.locator(".explorer-file"))


def kept(page: Page, folder: Path) -> None:
    """Wait until the server has stored the file's tab in two records: its position and its contents."""
    page.wait_for_function(
        "name => window.jupyterapp.serviceManager.workspaces.list()"
        ".then(({ values }) => values.some(({ data }) => name in data"
        " && JSON.stringify(data['layout-restorer:data'] ?? {}).includes(name)))",
        arg=f"explorer-graphs:{folder.name}/digits.onnx",
    )
