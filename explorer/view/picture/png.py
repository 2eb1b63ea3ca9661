"""PNG export: the static picture rendered by resvg, which needs no browser and no system library.

CairoSVG would need the Cairo library, and drops the outlines of text.
"""

from __future__ import annotations

import io
import math

from explorer.view.base.font import FAMILY
from explorer.view.picture.paper import size

SCALE = 2.0
"""pixels per unit of the picture, so that text of 9 units is legible"""
MAX_SIDE = 16_384
"""maximum number of pixels per side, which every viewer can show; 16,384 × 16,384 take 1 GiB in memory"""
PRINTED = 300
"""pixels per inch on paper"""

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


def png(picture: str, points: float | None = None) -> bytes:
    """Return a picture without CSS variables as PNG.

    It has 2 px per unit; for paper, with ``points`` pt per unit, it has 300 px per inch. Raise ModuleNotFoundError
    without resvg-py, PictureSizeError for too many pixels, and FontError without fonts.
    """
    import resvg_py

    scale = SCALE if points is None else points * PRINTED / 72
    width, height = (math.ceil(side * scale) for side in size(picture))
    if max(width, height) > MAX_SIDE:
        raise PictureSizeError(width, height)
    letter, blank = (bytes(resvg_py.svg_to_bytes(svg_string=_LETTER.format(text))) for text in ("M", ""))
    if letter == blank:
        raise FontError(f"no font of {FAMILY}")
    content = bytes(resvg_py.svg_to_bytes(svg_string=picture, zoom=scale))
    return content if points is None else _with_resolution(content)


def _with_resolution(content: bytes) -> bytes:
    """Return a PNG that states its pixels per inch, from which LaTeX computes its size."""
    from PIL import Image

    written = io.BytesIO()
    with Image.open(io.BytesIO(content)) as image:
        image.save(written, "PNG", dpi=(PRINTED, PRINTED))
    return written.getvalue()
