"""Lanes of workers as a static picture: SVG without scripts, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.record.reasons import counted_text, micros_text
from explorer.record.worker_lanes import Lane
from explorer.view.base.markup import Markup, element
from explorer.view.base.palette import page_colours

_LEFT, _WIDE, _HIGH, _GAP = 92, 620, 16, 6
"""in px: space for names on the left, width of the time axis, height of a lane, gap between lanes"""
_MAX_LANES, _PARTS = 64, 4
"""maximum number of drawn lanes, and number of intervals on the time axis"""
_STYLE = page_colours(".explorer-lanes") + (
    ".explorer-lanes text{font:11px var(--font);fill:var(--soft)}"
    ".explorer-lanes .back{fill:var(--bg)}.explorer-lanes .wait{fill:var(--leaf)}"
    ".explorer-lanes .work{fill:var(--accent)}.explorer-lanes .receive{fill:var(--heat)}"
    ".explorer-lanes line{stroke:var(--line)}"
)


def lanes_picture(lanes: Sequence[Lane], micros: float) -> str:
    """Return lanes as SVG: each computes (blue), receives (orange, a strip below) or waits; at most 64 are drawn."""
    drawn = lanes[:_MAX_LANES]
    scale = _WIDE / micros if micros > 0 else 0.0
    bottom = len(drawn) * (_HIGH + _GAP) + 10
    wide, high = _LEFT + _WIDE + 14, bottom + (42 if len(lanes) > len(drawn) else 24)
    parts = [element("style", Markup(_STYLE)), element("rect", width=wide, height=high, class_="back")]
    for row, lane in enumerate(drawn):
        y = row * (_HIGH + _GAP) + 8
        parts.append(element("text", lane.name, x=_LEFT - 8, y=y + 12, text_anchor="end"))
        parts.append(_bar("wait", _LEFT, y, _WIDE, _HIGH, f"{lane.name}: computes {micros_text(lane.busy)}"))
        for span in lane.spans:
            top, thick = (y + 11, 5) if span.receiving else (y, 10)
            # A span is at least one pixel long, and moved to stay inside the lane.
            length = max(1.0, (span.end - span.start) * scale)
            title = f"{span.label}: {micros_text(span.start)} to {micros_text(span.end)}"
            x = min(_LEFT + span.start * scale, _LEFT + _WIDE - length)
            parts.append(_bar("receive" if span.receiving else "work", x, top, length, thick, title))
    for part in range(_PARTS + 1):
        x = _LEFT + _WIDE * part / _PARTS
        anchor = "start" if part == 0 else "end" if part == _PARTS else "middle"
        parts.append(element("line", x1=x, x2=x, y1=4, y2=bottom - 2))
        label = micros_text(micros * part / _PARTS) if part else "0"
        parts.append(element("text", label, x=x, y=bottom + 12, text_anchor=anchor))
    if len(lanes) > len(drawn):
        more = f"{counted_text(len(lanes) - len(drawn), 'more lane')} not drawn"
        parts.append(element("text", more, x=_LEFT, y=bottom + 30))
    description = f"{counted_text(len(lanes), 'lane')}, {micros_text(micros)}"
    box = {"viewBox": f"0 0 {wide} {high}", "aria-label": description}
    size = {
        "xmlns": "http://www.w3.org/2000/svg",
        "width": wide,
        "height": high,
        "role": "img",
        "class_": "explorer-lanes",
    }
    return str(element("svg", *parts, **size, **box))


def _bar(css_class: str, x: float, y: float, wide: float, high: float, title: str) -> Markup:
    attributes = {"x": round(x, 2), "y": y, "width": round(wide, 2), "height": high, "rx": 2}
    return element("rect", element("title", title), class_=css_class, **attributes)
