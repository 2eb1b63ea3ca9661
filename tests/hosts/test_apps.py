"""Frameworks for apps, with the programs of docs/hosts.md."""

from __future__ import annotations

import pytest

from tests.hosts.conftest import Host, example

pytestmark = pytest.mark.hosts


@pytest.mark.spec("H-1", "V-16")
def test_a_view_in_solara_steps(host: Host) -> None:
    """Show a live view to each visitor."""
    host.write("app.py", example("Solara"))
    address = host.serve("solara", "run", "app.py", "--port=PORT", "--no-open", "--production")
    for visit in ("solara", "solara-again"):
        host.check(host.open(address).locator(".explorer-view"), visit)


@pytest.mark.spec("H-1", "V-16")
def test_a_view_in_panel_steps(host: Host) -> None:
    host.write("app.py", example("Panel"))
    address = host.serve("panel", "serve", "app.py", "--port=PORT")
    for visit in ("panel", "panel-again"):
        host.check(host.open(f"{address}/app").locator(".explorer-view"), visit)


@pytest.mark.spec("H-1", "V-16")
def test_a_view_in_shiny_steps(host: Host) -> None:
    host.write("app.py", example("Shiny for Python"))
    address = host.serve("shiny", "run", "app.py", "--port=PORT")
    for visit in ("shiny", "shiny-again"):
        host.check(host.open(address).locator(".explorer-view"), visit)


@pytest.mark.spec("H-1", "V-14")
def test_the_page_of_a_view_in_streamlit_steps(host: Host) -> None:
    """Show the page of `view.to_html()`, which needs no kernel, in an app that has no widgets."""
    host.write("app.py", example("Streamlit"))
    quiet = ("--server.headless=true", "--browser.gatherUsageStats=false")
    address = host.serve("streamlit", "run", "app.py", "--server.port=PORT", *quiet)
    view = host.open(address).locator("iframe").content_frame.locator(".explorer-view")
    host.check(view, "streamlit", is_live=False)
