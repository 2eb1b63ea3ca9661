"""Checks of a page with axe's accessibility rules."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from playwright.sync_api import Page

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
COLOURS = ("color-contrast", "link-in-text-block")
"""the rules that look at colours: a theme sets nothing else, so a dark page that was light before is asked for these"""
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
FOUND = """async ([where, rules]) => {
    // no preload: a page from disk cannot request its style sheets again
    const options = { preload: false, resultTypes: ["violations"], runOnly: rules, selectors: false };
    const { violations } = await axe.run(where, options);
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 200)}`));
}"""


def rules_of(theme: str) -> Sequence[str]:
    """Return the rules for a theme: all rules for the light one, only colour rules for the dark one."""
    return COLOURS if theme.lower() == "dark" else RULES


def complaints(page: Page, where: str | dict[str, list[list[str]]] = "html", rules: Sequence[str] = RULES) -> list[str]:
    """Return the violations inside an element, or inside axe's ``include`` without its ``exclude``."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    result: list[str] = page.evaluate(FOUND, [where, list(rules)])
    return result
