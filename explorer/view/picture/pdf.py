"""PDF export: the static picture as vectors with fonts, written by Typst, which needs no browser and no system library.

Typst reads SVG with the library that also draws our PNG. svglib and fpdf2 support neither the style sheet nor the text
of the picture.
"""

from __future__ import annotations

from explorer.view.picture.paper import NATURAL, size, with_outlines_below

_MAX_SIDE = 14_400
"""maximum length in pt of a side of a page in PDF readers"""
_DOCUMENT = """\
#set document(title: sys.inputs.title)
#set page(width: {}pt, height: {}pt, margin: 0pt)
#image("picture.svg", width: 100%, alt: sys.inputs.title)
"""


def pdf(picture: str, title: str, points: float = NATURAL) -> bytes:
    """Return a picture without CSS variables as PDF with ``points`` pt per unit.

    The same picture gives the same bytes with the same fonts. Raise ModuleNotFoundError without typst.
    """
    import typst

    points = min(points, _MAX_SIDE / max(size(picture)))
    page = _DOCUMENT.format(*(round(side * points, 2) for side in size(picture)))
    files = {"main.typ": page.encode(), "picture.svg": with_outlines_below(picture).encode()}
    return bytes(typst.compile(files, format="pdf", sys_inputs={"title": title}, timestamp=0))
