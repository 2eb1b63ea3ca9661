"""Comparison as HTML: two pictures and text without scripts, and an offline page with both players."""

from __future__ import annotations

from explorer.record.compare.comparison import Comparison
from explorer.view.base.markup import Markup, element
from explorer.view.compare.comparison_text import text
from explorer.view.compare.pair_payload import paired, title
from explorer.view.export.html_page import FILLS, page
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import payload
from explorer.view.picture.difference_marks import differences, legend
from explorer.view.picture.svg import svg

_START = """
const data = JSON.parse(document.getElementById("explorer-data").textContent);
const pair = mountPair(document.getElementById("explorer"), data);
pair.take();
"""

_FILL = "#explorer .ex-side .explorer-view{--ex-height:max(420px,calc(100vh - 190px)) !important;" + FILLS


def html(comparison: Comparison) -> str:
    """Return both graphs side by side with marked differences, and the text below, as HTML without scripts.

    Show the recorded graphs if they differ, else the final graphs.
    """
    positions = (comparison.before.end, comparison.after.end) if comparison.nodes.equal else (0, 0)
    marks = differences(comparison, positions)
    sides = []
    for side, (name, recording) in enumerate((("before", comparison.before), ("after", comparison.after))):
        phrases = legend(marks[side].values()) or ["no difference"]
        caption = element("figcaption", f"{name}: {title(recording)} · {', '.join(phrases)}")
        picture = Markup(svg(recording, positions[side], marks=marks[side]))
        sides.append(element("figure", caption, picture, style="margin:0;flex:1 1 0;min-width:0"))
    return element(
        "div",
        element("div", *sides, style="display:flex;gap:16px;align-items:flex-start;font-family:sans-serif"),
        element(
            "pre",
            *[Markup(element("span", line) + "\n") for line in text(comparison).splitlines()],
            # Pages of nbconvert break words, and use the body font for output other than terminal output.
            style="white-space:pre-wrap;word-break:normal;font-family:monospace",
        ),
    )


def page_html(comparison: Comparison, *, theme: str = "auto") -> str:
    """Return a complete HTML page with both recordings side by side, which loads no other resource.

    Raise ValueError for an unknown theme.
    """
    recordings = comparison.before, comparison.after
    drawings = [draw(recording) for recording in recordings]
    data = {
        "comparison": paired(comparison),
        "payloads": [
            payload(recording, theme=theme, position=0, drawing=drawing)
            for recording, drawing in zip(recordings, drawings, strict=True)
        ],
    }
    names = [recording.title or "recording" for recording in recordings]
    fallback = Markup(html(comparison))
    return page(" → ".join(dict.fromkeys(names)), data, _START, fallback, theme=theme, style=_FILL)
