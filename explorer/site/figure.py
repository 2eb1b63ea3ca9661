"""Figure of a stored view in a page: an image and text, which the page's script replaces by the interactive view."""

from __future__ import annotations

import json
from typing import Any

from explorer.view.base.markup import Markup, element
from explorer.view.export.html_page import inline_json
from explorer.view.payload.stored import restored


def view_figure(number: int, data: dict[str, str], picture: Markup, text: Markup) -> Markup:
    """Return the figure of view ``number`` with its data, a picture until the view is drawn, and its text.

    Raise ValueError if ``data`` is not a stored view.
    """
    options = restored(data).get("options")
    height = options.get("height") if isinstance(options, dict) else None
    if type(height) is not int:
        raise ValueError(f"this is not a stored view: its height is {height!r}")
    as_text = element("details", element("summary", "as text"), text) if text else Markup("")
    stored = Markup(f'<script type="application/json">{inline_json(json.dumps(data))}</script>')
    place = element("div", picture, class_="book-place", style=f"--book-height:{height}px")
    label: dict[str, Any] = {"id": f"view-{number}", "aria_label": f"view {number}"}
    return element("figure", place, as_text, stored, class_="book-view", **label)
