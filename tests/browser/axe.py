"""The accessibility rules of axe, on a page of a test."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
COLOURS = ("color-contrast", "link-in-text-block")
"""the rules that look at colours: a theme sets nothing else, so a dark page that was light before is asked for these"""
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
FOUND = """async ([where, rules]) => {
    const { violations } = await axe.run(where, { resultTypes: ["violations"], selectors: false, runOnly: rules });
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`));
}"""


def rules_of(theme: str) -> Sequence[str]:
    """Choose the rules for a page in a theme: all in the light one, which the dark one shares all but colours with."""
    return COLOURS if theme.lower() == "dark" else RULES


def complaints(page: Page, where: str | dict[str, list[list[str]]] = "html", rules: Sequence[str] = RULES) -> list[str]:
    """List what breaks a rule inside an element, or inside all of axe's ``include`` but its ``exclude``."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    result: list[str] = page.evaluate(FOUND, [where, list(rules)])
    return result
