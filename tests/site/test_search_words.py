"""Further words of the search of the documentation site, which belong to its guides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assets.documentation.search_words import WORDS, keywords

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.spec("H-10")
def test_further_words_belong_to_guides() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    guides = re.findall(r"\]\(([\w-]+)\.md\)", index.partition("\n## How-to guides\n")[2].partition("\n## ")[0])
    assert {*WORDS} <= {*guides}
    for guide, words in WORDS.items():
        assert len(words.split()) == len({*words.split()}), guide


def test_the_words_of_a_guide_are_its_keywords() -> None:
    """Sphinx adds the keywords of a page, separated by commas, to the words of the page."""
    lines = keywords("shapes").splitlines()
    assert lines[:3] == ["---", "myst:", "  html_meta:"]
    assert "clash" in lines[3].partition(":")[2].strip(' "').split(", ")
    assert lines[4:] == ["---"]
