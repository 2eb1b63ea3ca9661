"""PNG export: the static picture rendered by resvg, which needs no browser and no system library.

resvg supports neither CSS variables nor media queries, so the picture's colours are substituted first. CairoSVG would
need the Cairo library, and drops the outlines of text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection

from explorer.record import Recording
from explorer.view.base.font import FAMILY
from explorer.view.base.palette import DARK, LIGHT
from explorer.view.layout.placed_model import PlacedModel
from explorer.view.picture.svg import svg

SCALE = 2
"""pixels per unit of the picture, so that text of 9 units is legible"""
MAX_SIDE = 16_384
"""maximum number of pixels per side, which every viewer can show; 16,384 × 16,384 take 1 GiB in memory"""


_SIZE = re.compile(r' width="([\d.]+)" height="([\d.]+)" style=')
_LETTER = (
    f"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><text y='9' font-family='{FAMILY}'>{{}}</text></svg>"
)


class PictureSizeError(ValueError):
    """Error for a picture with more pixels than a PNG may have here; ``width`` and ``height`` are in pixels."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__(f"a picture of {width:,} × {height:,} px: a PNG may have {MAX_SIDE:,} px a side")
        self.width, self.height = width, height


class FontError(RuntimeError):
    """Error for a machine without fonts, on which a picture would have no text."""


def png(
    recording: Recording,
    position: int | None = None,
    *,
    theme: str = "auto",
    drawing: PlacedModel | None = None,
    open_boxes: Collection[int] | None = None,
    direction: str = "down",
    depth: int | None = None,
    edge_types: bool = False,
) -> bytes:
    """Return a recording at a position (None: the end) as PNG with 2 px per unit; theme "auto" is light, for paper.

    Raise ModuleNotFoundError without resvg-py, PictureSizeError for too many pixels, and FontError without fonts.
    """
    import resvg_py

    palette = DARK if theme == "dark" else LIGHT
    theme = "dark" if theme == "dark" else "light"
    picture = svg(
        recording,
        position,
        theme=theme,
        drawing=drawing,
        open_boxes=open_boxes,
        direction=direction,
        depth=depth,
        edge_types=edge_types,
    )
    width, height = (math.ceil(float(side) * SCALE) for side in _SIZE.findall(picture)[0])
    if max(width, height) > MAX_SIDE:
        raise PictureSizeError(width, height)
    letter, blank = (bytes(resvg_py.svg_to_bytes(svg_string=_LETTER.format(text))) for text in ("M", ""))
    if letter == blank:
        raise FontError(f"no font of {FAMILY}")
    plain = re.sub(r"var\(--([\w-]+)\)", lambda name: palette[name[1]], picture)
    return bytes(resvg_py.svg_to_bytes(svg_string=plain, zoom=SCALE))
