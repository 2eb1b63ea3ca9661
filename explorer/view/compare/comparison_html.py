"""A comparison as two pictures and text, where no script runs."""

from __future__ import annotations

from explorer.record.compare.comparison import Comparison
from explorer.view.base.markup import Markup, element
from explorer.view.compare.comparison_text import text
from explorer.view.compare.pair_payload import title
from explorer.view.picture.difference_marks import differences, legend
from explorer.view.picture.svg import svg


def html(comparison: Comparison) -> str:
    """Return both graphs side by side with what differs marked, and the text below, as HTML without a script.

    The graphs are those that were recorded, where they differ, else those that the plans end with.
    """
    positions = (comparison.before.end, comparison.after.end) if comparison.nodes.equal else (0, 0)
    marks = differences(comparison, positions)
    sides = []
    for side, (name, recording) in enumerate((("before", comparison.before), ("after", comparison.after))):
        told = legend(marks[side].values()) or ["no difference"]
        caption = element("figcaption", f"{name}: {title(recording)} · {', '.join(told)}")
        picture = Markup(svg(recording, positions[side], marks=marks[side]))
        sides.append(element("figure", caption, picture, style="margin:0;flex:1 1 0;min-width:0"))
    return element(
        "div",
        element("div", *sides, style="display:flex;gap:16px;align-items:flex-start;font-family:sans-serif"),
        element(
            "pre",
            *[Markup(element("span", line) + "\n") for line in text(comparison).splitlines()],
            style="white-space:pre-wrap",
        ),
    )
