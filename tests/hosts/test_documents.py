"""Programs that make documents of notebooks: nbconvert, papermill, MyST-NB on Sphinx, and what Quarto reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from explorer.view.payload.stored import MIME
from tests.browser.player import stage
from tests.hosts.conftest import SECONDS, Host, example

pytestmark = pytest.mark.hosts


@pytest.fixture
def pandoc(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package pypandoc, after its program was put into the path."""
    import pypandoc  # .venv, which collects these tests to count them, lacks it

    monkeypatch.setenv("PATH", str(Path(pypandoc.get_pandoc_path()).parent), prepend=":")
    return pypandoc


def is_drawn(picture: Locator) -> None:
    """Assert that an image was loaded and has a size."""
    expect(picture).to_be_visible(timeout=SECONDS * 1000)
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100


@pytest.mark.spec("H-1", "V-15")
@pytest.mark.parametrize(("form", "name"), [("html", "book.html"), ("slides", "book.slides.html")])
def test_nbconvert_writes_the_picture_of_a_view(host: Host, form: str, name: str) -> None:
    host.write_notebook("book.ipynb", is_executed=True)
    host.run("nbconvert", f"--to={form}", "book.ipynb")
    page = host.open((host.folder / name).as_uri())
    is_drawn(page.locator("main img, .reveal img").first)
    host.picture(page, f"nbconvert-{form}")


@pytest.mark.spec("H-1", "V-15")
def test_nbconvert_writes_the_picture_of_a_view_into_markdown(host: Host, pandoc: Any) -> None:
    host.write_notebook("book.ipynb", is_executed=True)
    host.run("nbconvert", "--to=markdown", "book.ipynb")
    host.write("book.html", pandoc.convert_file(str(host.folder / "book.md"), "html"))
    is_drawn(host.open((host.folder / "book.html").as_uri()).locator("img"))


@pytest.mark.spec("H-1", "V-15")
@pytest.mark.usefixtures("pandoc")
def test_nbconvert_writes_the_picture_of_a_view_into_latex(host: Host) -> None:
    """With `ex.outputs.png`, the picture is a PNG file that LaTeX includes, and Inkscape is not needed."""
    host.write_notebook("book.ipynb", is_executed=True, start="import explorer as ex\n\nex.outputs.png = True")
    host.run("nbconvert", "--to=latex", "book.ipynb")
    (picture,) = host.folder.glob("book_files/*.png")
    assert f"{{{picture.relative_to(host.folder)}}}" in (host.folder / "book.tex").read_text(encoding="utf-8")
    with Image.open(io.BytesIO(picture.read_bytes())) as image:
        assert min(image.size) > 100


@pytest.mark.spec("H-1", "V-22")
def test_papermill_stores_the_view_and_the_picture_but_no_models(host: Host) -> None:
    """A program that runs cells gets a small notebook, from which Quarto takes the picture."""
    host.write_notebook("book.ipynb", is_executed=False)
    host.run("papermill", "book.ipynb", "done.ipynb")
    notebook = nbformat.read(host.folder / "done.ipynb", as_version=4)
    assert "widgets" not in notebook.metadata
    assert (host.folder / "done.ipynb").stat().st_size < 50_000
    (output,) = notebook.cells[-1].outputs
    assert MIME in output.data
    # Quarto runs cells in the same way, and takes the first of these types that an output has.
    html = ("application/vnd.jupyter.widget-view+json", "application/javascript", "text/html", "image/svg+xml")
    assert next(mime for mime in html if mime in output.data) == "text/html"
    assert output.data["text/html"].startswith("<img ")
    latex = ("text/markdown", "image/svg+xml", "image/png")
    assert next(mime for mime in latex if mime in output.data) == "image/svg+xml"


@pytest.mark.spec("H-1")
def test_sphinx_shows_an_interactive_view_without_a_warning(host: Host) -> None:
    """MyST-NB and the extension write a page whose view steps from disk, and follows a link; warnings are errors."""
    host.write("conf.py", example("Sphinx"))
    host.write("index.md", "# Book\n\n```{toctree}\nbook\n```\n")
    host.write_notebook("book.ipynb", is_executed=True, text="# A view\n\n[the kernel](#explorer:stage=fuse&node=tanh)")
    host.run("sphinx", "-W", "--keep-going", "-n", "-b", "html", ".", "out")
    page = host.open((host.folder / "out" / "book.html").as_uri())
    view = page.locator(".explorer-view")
    host.check(view, "sphinx", is_live=False)
    page.get_by_role("link", name="the kernel").click()
    expect(stage(view)).to_contain_text("fuse")


@pytest.mark.spec("H-1", "V-15")
def test_sphinx_shows_the_picture_of_a_view_without_the_extension(host: Host) -> None:
    host.write("conf.py", "extensions = ['myst_nb']\nnb_execution_mode = 'off'\n")
    host.write_notebook("index.ipynb", is_executed=True)
    host.run("sphinx", "-b", "html", ".", "out")
    is_drawn(host.open((host.folder / "out" / "index.html").as_uri()).locator(".cell_output img"))
