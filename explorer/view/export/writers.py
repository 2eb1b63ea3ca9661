"""Writers of a recording; the file extension chooses a page, a picture, a graph, text or data.

``view.save`` and ``explorer show`` write through explorer/save_view.py, which uses this table. A writer imports its
dependencies when it is called, because a page needs the whole front end and text needs none of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import ceil
from pathlib import PurePath
from typing import Any
from urllib.parse import urlencode

from explorer.record import Recording
from explorer.view.base.markup import Markup
from explorer.view.model.heat import HeatMetric
from explorer.view.replay.steps import position_at, whole_stage

_WIDEST = 25
"""largest width in cm that is tried: the text of a page in landscape format"""


@dataclass(frozen=True)
class ViewState:
    """State of a view when it was saved, which the saved file shows again when it is opened."""

    theme: str = "auto"
    step: int | None = None
    """step of the view; None is the first one for a page, and the last one for a picture"""
    stage: str = ""
    """name of the step's stage; if it is the stage after the step, that stage is shown as a whole"""
    selected: int = -1
    open_boxes: Collection[int] | None = None
    """open boxes; None leaves the choice to the layout"""
    overlays: tuple[HeatMetric, ...] = ()
    """overlays of a page's graph"""
    heat: str = ""
    """name of the metric that colours a page at first; "" for the last overlay, if there is one"""
    direction: str = "down"
    """flow direction of values: "down" or "right" """
    depth: int | None = None
    """depth down to which boxes are open, instead of ``open_boxes``; 0 closes all boxes"""
    edge_types: bool = False
    """whether a picture shows value types next to edges; a page shows them when zoomed in"""
    width: float | None = None
    """width in cm of a picture for a paper, with text of at least 6 pt; None keeps the natural size"""

    def position(self, recording: Recording) -> int:
        """Return the number of decisions taken at the step; for step None, all of them."""
        return recording.end if self.step is None else position_at(recording, self.step, self.stage)

    def address(self) -> str:
        """Return the state as the fragment of a page's address, which static/controls/view_address.js parses."""
        boxes = None if self.open_boxes is None else ",".join(map(str, sorted(self.open_boxes)))
        parts = {
            "stage": self.stage or None,
            "step": self.step,
            "node": self.selected if self.selected >= 0 else None,
            "depth": self.depth,
            "open": boxes if self.depth is None else None,
        }
        return urlencode({name: value for name, value in parts.items() if value is not None}, safe=",")


def _html(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.html_page import html

    start = state.address()
    return html(
        recording,
        theme=state.theme,
        start=start,
        overlays=state.overlays,
        heat=state.heat,
        direction=state.direction,
    )


def _svg(recording: Recording, state: ViewState) -> str:
    from explorer.view.picture.paper import sized

    if state.width is None:
        return _picture(recording, state)
    picture, points = _printed(recording, state)
    return sized(picture, points)


def _png(recording: Recording, state: ViewState) -> bytes:
    from explorer.view.picture.png import png

    picture, points = _printed(recording, state)
    return png(picture, None if state.width is None else points)


def _pdf(recording: Recording, state: ViewState) -> bytes:
    from explorer.view.picture.pdf import pdf

    picture, points = _printed(recording, state)
    return pdf(picture, recording.title or "recording", points)


def _printed(recording: Recording, state: ViewState) -> tuple[Markup, float]:
    """Return the picture for programs other than browsers, and its scale in pt per unit; theme "auto" is light."""
    from explorer.view.picture.paper import NATURAL, points_per_unit, printable

    picture = printable(_picture(recording, replace(state, theme="dark" if state.theme == "dark" else "light")))
    return picture, NATURAL if state.width is None else points_per_unit(picture, state.width)


def legible(recording: Recording, state: ViewState) -> tuple[int | None, float | None]:
    """Return the largest depth at which a state's picture is legible at its width, or None and a width for depth 0."""
    from explorer.view.picture.paper import IllegibleError

    fitting, drawn = None, ""
    for depth in count():
        at_depth = replace(state, depth=depth, open_boxes=None)
        picture = _picture(recording, at_depth)
        if picture == drawn or depth == state.depth:
            return fitting, None
        try:
            _printed(recording, at_depth)
        except IllegibleError as error:
            return fitting, error.needed if fitting is None else None
        fitting, drawn = depth, picture
    raise AssertionError("unreachable")


def legible_width(recording: Recording, state: ViewState) -> float | None:
    """Return a larger width in cm at which a state's picture is legible, or None; rows become fewer with the width."""
    from explorer.view.picture.paper import IllegibleError

    for width in range(ceil(state.width or 0) + 1, _WIDEST + 1):
        try:
            _printed(recording, replace(state, width=width))
        except IllegibleError:
            continue
        return float(width)
    return None


def _picture(recording: Recording, state: ViewState) -> str:
    from explorer.view.layout.placed_model import draw
    from explorer.view.picture.paper import widest
    from explorer.view.picture.svg import svg

    drawn: dict[str, Any] = {
        name: getattr(state, name) for name in ("theme", "open_boxes", "direction", "depth", "edge_types")
    }
    if state.width is not None:
        # With the shapes of weights, a net of a few layers would be too high for a page.
        drawn |= {"wrap": widest(state.width), "drawing": draw(recording, has_weights=False)}
    whole = None if state.step is None else whole_stage(recording, state.step, state.stage)
    return svg(recording, state.position(recording), stage=whole, **drawn)


def _dot(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.dot import to_graphviz

    return str(to_graphviz(recording, state.position(recording)).source)


def _mermaid(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.mermaid import mermaid

    return mermaid(recording, state.position(recording), state.direction)


def _graphml(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.graphml import graphml

    return graphml(recording, state.position(recording))


def _text(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.text import text

    return text(recording)


def _json(recording: Recording, state: ViewState) -> str:
    from explorer.record import to_json

    return json.dumps(to_json(recording), ensure_ascii=False, separators=(",", ":")) + "\n"


def _trace(recording: Recording, state: ViewState) -> str:
    from explorer.view.export.chrome_trace import chrome_trace

    return chrome_trace(recording)


def _c(recording: Recording, state: ViewState) -> str:
    functions: dict[str, str] = {}
    for code in recording.codes.values():
        if code.language == "C":
            # Kernels with equal code share a function.
            functions.setdefault(code.text.partition("(")[0].rpartition(" ")[2], code.text)
    return "\n".join(functions.values())


WRITERS: Mapping[str, Callable[[Recording, ViewState], str | bytes]] = {
    ".html": _html,
    ".svg": _svg,
    ".png": _png,
    ".pdf": _pdf,
    ".dot": _dot,
    ".mmd": _mermaid,
    ".graphml": _graphml,
    ".txt": _text,
    ".json": _json,
    ".trace.json": _trace,
    ".c": _c,
}
"""file extension → writer; text and data contain all steps, regardless of the view's step"""


def extension_of(name: str) -> str:
    """Return the extension of a file name in lower case: ".trace.json" of "run.trace.json", else the last suffix."""
    lowered = name.lower()
    return ".trace.json" if lowered.endswith(".trace.json") else PurePath(lowered).suffix
