"""marimo, which shows each output inside a shadow root and has no IPython shell."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.hosts.conftest import Host

pytestmark = pytest.mark.hosts

APP = """
# /// script
# [tool.marimo.display]
# theme = "{theme}"
# ///
import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import marimo as mo

    again = mo.ui.button(label="again")
    again
    return (again,)


@app.cell
def _(again):
    import explorer as ex
    from model import y

    again
    view = ex.explore(y)
    view
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.mark.spec("H-1", "V-16", headline=True)
@pytest.mark.parametrize(("theme", "system"), [("light", "dark"), ("dark", "light")])
def test_a_view_in_marimo_steps(host: Host, theme: str, system: str) -> None:
    """Show a live view in marimo, in its theme and not in the system's, also after its cell ran again."""
    host.write("app.py", APP.format(theme=theme))
    address = host.serve("marimo", "run", "app.py", "--headless", "--port=PORT", "--no-token")
    page = host.open(address, theme=system)
    view = page.locator(".explorer-view")
    host.check(view, f"marimo-{theme}")
    first = view.element_handle()
    page.get_by_role("button", name="again").click()
    page.wait_for_function("view => !view.isConnected", arg=first)
    host.check(view, f"marimo-{theme}-again")
    expect(view).to_have_attribute("data-theme", theme)
