"""The sentences of the front end are those of record/reasons.py, nouns included."""

import base64
from pathlib import Path

import pytest

import explorer.view
from explorer.record import render

pytestmark = pytest.mark.browser

SENTENCES = [
    (template, {"count": count, "size_bytes": 6144 * count, "of": {"node": 3}, "same_bits": count > 1})
    for template in (
        "in {count:place}",
        "{count:temporary|temporaries} of {size_bytes} never written",
        "{of} is computed once for {count:equal expression}",
        "{} and {a b} and {count:} stay, {count}{count}",
        "{same_bits}",
    )
    for count in (0, 1, 2, 3000)
]


@pytest.mark.spec("V-2")
def test_both_languages_count_alike(browser):
    script = (Path(explorer.view.__file__).parent / "static" / "data" / "reasons.js").read_bytes()
    page = browser.new_page()
    said = page.evaluate(
        """async ([url, sentences]) => {
            const { sentence } = await import(url);
            return sentences.map(([template, facts]) =>
                sentence(template, facts, node => `node ${node}`).map(({ text }) => text).join(""));
        }""",
        ["data:text/javascript;base64," + base64.b64encode(script).decode(), SENTENCES],
    )
    assert said == [render(template, facts, "node {}".format) for template, facts in SENTENCES]
    page.close()
