"""HTML export: a single offline file with the player, its data, and a picture for readers without scripts.

The page contains its script, style sheet and data and loads nothing, so that it works from disk, in an e-mail, and
under a policy that forbids other origins.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.view.base.markup import Markup, element
from explorer.view.base.palette import LIGHT, page_style
from explorer.view.layout.direction import check_direction
from explorer.view.layout.placed_model import draw
from explorer.view.model.heat import HeatMetric
from explorer.view.payload.script_bundle import script, stylesheet
from explorer.view.payload.view_payload import page_boxes, payload, turned
from explorer.view.picture.svg import svg


def image(picture: str, label: str) -> Markup:
    """Return a picture as a self-contained HTML image, since sanitizers that remove SVG elements keep images."""
    data = base64.b64encode(picture.encode()).decode()
    return element("img", src=f"data:image/svg+xml;base64,{data}", alt=label, style="max-width:100%;height:auto")


_SHAPE = f' fill="{LIGHT["node"]}" stroke="{LIGHT["edge"]}"'
_LINE = f' fill="none" stroke="{LIGHT["edge"]}"'
_TEXT = f' fill="{LIGHT["ink"]}" font-family="sans-serif" font-size="11"'

_ANCHORS = {
    **dict.fromkeys(("name", "type", "copies", "asked", "apart", "label", "decided"), "middle"),
    "number": "end",
}
"""CSS class of a text element → text anchor"""


def plain(picture: Markup) -> Markup:
    """Add attributes to the shapes and texts of a picture, which make it legible without styles."""
    return Markup(re.sub(r"<(rect|path|circle|polygon|text)(?=[ >/])([^>]*)", _with_attributes, picture))


def _with_attributes(match: re.Match[str]) -> str:
    tag, rest = match[1], match[2]
    if tag == "text":
        where = re.search(r'class="(\w+)"', rest)
        anchor = _ANCHORS.get(where[1] if where else "", "start")
        return f'<text{_TEXT} text-anchor="{anchor}"{rest}'
    return f"<{tag}{_LINE if tag == 'path' else _SHAPE}{rest}"


_START = """
const data = JSON.parse(document.getElementById("explorer-data").textContent);
const page = document.getElementById("explorer");
keepAddress(data.options.start ?? "", (callbacks) => mount(page, data, callbacks));
page.querySelector(".ex-stage")?.focus({ preventScroll: true, focusVisible: false });
"""

_CLEAR = """
takeFallback(document.getElementById("explorer"));
"""

_SCREEN_READER_ONLY = "position:absolute;width:1px;height:1px;margin:0;overflow:hidden;clip-path:inset(50%)"
"""style of a heading only for screen readers, since the view shows the title"""
FILLS = "--ex-least:0px !important}#explorer .ex-height-bar{display:none}"
"""end of a style for views whose height follows the window, so that readers cannot drag it"""
_FILL = "#explorer .explorer-view{border:0;border-radius:0;--ex-height:max(420px,100vh) !important;" + FILLS
_FILL += "body:has(.explorer-view){margin:0}"

_BOTH_DIRECTIONS = 20_000
"""maximum number of nodes of a page with both directions; for 100,000 the second one takes 3 s and 0.9 MB"""


def html(
    recording: Recording,
    *,
    theme: str = "auto",
    position: int = 0,
    start: str = "",
    overlays: Iterable[HeatMetric] = (),
    heat: str = "",
    direction: str = "down",
) -> str:
    """Return a complete HTML page that fills its window, and whose policy forbids loading other resources.

    The page opens at ``position``, or at the state in ``start``: step, selection and open boxes, written as in the
    fragment of the page's address (``step=12&node=softmax``), which the page updates as a reader navigates. ``heat`` is
    the name of the metric that colours it at first. Values flow in the ``direction`` "down" or "right"; a page of at
    most 20,000 nodes contains both directions.
    """
    with gc_paused():
        drawing = draw(recording, check_direction(direction))
        data = payload(recording, theme=theme, position=position, drawing=drawing, overlays=overlays)
        data["layout"]["page"] = page_boxes(drawing)
        if len(recording.nodes) <= _BOTH_DIRECTIONS:
            data["layout"]["turned"] = turned(drawing)
        if start:
            data["options"]["start"] = start
        if heat:
            data["options"]["heat"] = heat
        picture = Markup(svg(recording, theme=theme, drawing=drawing, direction=direction))
        return page(recording.title or "recording", data, _START, picture, theme=theme, style=_FILL)


def page(title: str, data: Any, start: str, fallback: Markup, *, theme: str, style: str) -> str:
    """Return a page of the front end with data, the code that starts it, and a fallback.

    Without scripts, or if a server's policy blocks scripts and styles, readers see only the fallback. The script finds
    the data in the element ``explorer-data`` and draws into the element ``explorer``.
    """
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    code = script() + _CLEAR + start
    return "<!doctype html>\n" + element(
        "html",
        element(
            "head",
            Markup('<meta charset="utf-8">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{content_policy(code)}">'),
            Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
            element("title", f"{title} · explorer"),
            Markup(f"<style>{page_style(theme)}{stylesheet()}{style}</style>"),
        ),
        element(
            "body",
            element(
                "main", element("h1", title, style=_SCREEN_READER_ONLY), element("div", plain(fallback), id="explorer")
            ),
            Markup(f'<script type="application/json" id="explorer-data">{inline_json(encoded)}</script>'),
            Markup(f'<script type="module">{code}</script>'),
        ),
        lang="en",
    )


def content_policy(code: str) -> str:
    """Return a policy that allows only this page's script, identified by its digest, and its own styles and images."""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def inline_json(data: str) -> str:
    """Encode JSON so that no string in it can close the script element or fail to be encoded."""
    return re.sub("[<>&\\u2028\\u2029\\ud800-\\udfff]", lambda match: f"\\u{ord(match[0]):04x}", data)
