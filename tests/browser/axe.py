"""The accessibility rules of axe, on a page of a test."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
FOUND = """async ([where, rules]) => {
    const { violations } = await axe.run(where, { resultTypes: ["violations"], runOnly: rules });
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`));
}"""


def complaints(page: Page, where: str = "html", rules: Sequence[str] = RULES) -> list[str]:
    """List what breaks a rule inside an element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found: list[str] = page.evaluate(FOUND, [where, list(rules)])
    return found
