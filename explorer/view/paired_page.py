"""A comparison as one HTML file that works from disk: both players, tied, and a picture for readers without scripts."""

from __future__ import annotations

from explorer.record.compare.comparison import Comparison
from explorer.view.base.markup import Markup
from explorer.view.compare.comparison_html import html as pictures
from explorer.view.compare.pair_payload import paired
from explorer.view.export.html_page import page
from explorer.view.layout.box_layout import draw
from explorer.view.payload.payload import payload

_START = """
const given = JSON.parse(document.getElementById("explorer-data").textContent);
const pair = mountPair(document.getElementById("explorer"), given);
pair.views[0].root.querySelector("[data-key][tabindex='0']")?.focus({ preventScroll: true });
"""

_FILL = "#explorer .ex-side .explorer-view{--ex-height:max(420px,calc(100vh - 190px)) !important}"


def html(comparison: Comparison, *, theme: str = "auto") -> str:
    """Return a complete HTML page of both recordings side by side; it loads nothing, and its policy forbids it to.

    Raises ValueError for a theme that does not exist.
    """
    recordings = comparison.before, comparison.after
    drawings = [draw(recording) for recording in recordings]
    held = {
        "comparison": paired(comparison),
        "payloads": [
            payload(recording, theme=theme, position=0, drawing=drawing)
            for recording, drawing in zip(recordings, drawings, strict=True)
        ],
    }
    names = [recording.title or "recording" for recording in recordings]
    fallback = Markup(pictures(comparison))
    return page(" → ".join(dict.fromkeys(names)), held, _START, fallback, theme=theme, style=_FILL)
