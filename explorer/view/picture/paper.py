"""Pictures for a paper: a width in cm with legible text, and markup that programs other than browsers can read."""

from __future__ import annotations

import re

from explorer.view.base.markup import Markup

LEGIBLE = 6.0
"""smallest size in pt of legible text"""
PAGE_HEIGHT = 24.0
"""height in cm of the text on a page of A4 or Letter paper"""
NATURAL = 0.75
"""pt per unit of a picture in its natural size: a unit is a CSS pixel"""
POINTS_PER_CM = 72 / 2.54
_SMALLEST = 9.5
"""smallest text of a printed picture, in units; 9 on a screen, where one can zoom in"""

_SIZE = re.compile(r' width="([\d.]+)" height="([\d.]+)" style="[^"]*"')
_VALUE = re.compile(r"--([\w-]+):([^;}]+)")
_HALO = re.compile(r'<text( [^>]*class="(?:number|title|fused|port|label)")>(.*?)</text>')
"""text with an outline in the colour of the ground, which keeps it legible over edges"""


class IllegibleError(ValueError):
    """Error for a picture whose text is illegible at a width; ``points`` is its size, ``needed`` a legible width."""

    def __init__(self, points: float, needed: float | None) -> None:
        super().__init__(f"text of {points:.1f} pt")
        self.points, self.needed = points, needed


def size(picture: str) -> tuple[float, float]:
    """Return the width and height of a picture in units."""
    wide, high = map(float, _SIZE.findall(picture)[0])
    return wide, high


def points_per_unit(picture: str, width: float) -> float:
    """Return the scale at which a picture fits into a width in cm, and a page; it is never enlarged.

    Raise IllegibleError if its smallest text has less than 6 pt; ``needed`` is None if it is too high for a page.
    """
    wide, high = size(picture)
    scale = min(NATURAL, width * POINTS_PER_CM / wide, PAGE_HEIGHT * POINTS_PER_CM / high)
    if scale * _SMALLEST < LEGIBLE:
        legible = LEGIBLE / _SMALLEST
        is_too_high = high * legible > PAGE_HEIGHT * POINTS_PER_CM
        raise IllegibleError(scale * _SMALLEST, None if is_too_high else wide * legible / POINTS_PER_CM)
    return scale


def widest(width: float) -> float:
    """Return the number of units at which the smallest text of a picture is legible at a width in cm."""
    return width * POINTS_PER_CM * _SMALLEST / LEGIBLE


def sized(picture: str, points: float) -> Markup:
    """Return a picture with its width and height in cm, for a scale in pt per unit."""
    wide, high = (f"{side * points / POINTS_PER_CM:.3f}cm" for side in size(picture))
    return Markup(_SIZE.sub(f' width="{wide}" height="{high}"', picture, count=1))


def printable(picture: str) -> Markup:
    """Return a picture without CSS variables, which few programs support, and with its smallest text enlarged."""
    style, end, drawing = picture.partition("</style>")
    values = dict(_VALUE.findall(style))
    style = style.replace("font-size:9px", f"font-size:{_SMALLEST}px")
    return Markup(re.sub(r"var\(--([\w-]+)\)", lambda name: values[name[1]], style) + end + drawing)


def with_outlines_below(picture: str) -> Markup:
    """Return a picture with outlines of text as separate elements, since PDF has no ``paint-order``."""
    below = r'<text\1 style="fill:none">\2</text><text\1 style="stroke:none">\2</text>'
    return Markup(_HALO.sub(below, picture))
