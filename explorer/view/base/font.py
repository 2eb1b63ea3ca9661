"""Text metrics: advance widths of DejaVu Sans, the widest font of the views, and spacing around text."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

FAMILY = '"DejaVu Sans", Verdana, system-ui, sans-serif'
"""font stack of every view; text is measured in its widest font, so that it fits in all of them"""

# px next to edges and nodes; the front end gets them from payload/script_bundle.py.
PORT_CHARACTER, PORT_BESIDES = 5, 12
"""width of a character of a port name, and the space next to the name"""
LEVEL = 24
"""maximum height difference between the ends of a level edge, along which port names are drawn"""
SHORT = 58
"""px between the heights of an edge's ends below which its ✗ is near its start, where no kernel's title is"""
NUMBER_BESIDES = 4
"""px between a number and the item to its right; one digit fits into the padding of the box around the item"""

# Thousandths of an em for U+0020 to U+007E.
_REGULAR = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557,
    863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550,
    635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525,
    636, 337, 636, 838,
)  # fmt: skip
_BOLD = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696,
    696, 696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775,
    637, 995, 837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675,
    716, 593, 716, 678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924,
    645, 652, 582, 712, 365, 712, 838,
)  # fmt: skip
_NARROW = {"·": 0.38, "°": 0.5, "²": 0.44, "³": 0.44, "’": 0.38, "‘": 0.38, "⟨": 0.46, "⟩": 0.46, "–": 0.5, "∘": 0.63}


def _advance(character: str, bold: bool) -> float:
    if " " <= character <= "~":
        return (_BOLD if bold else _REGULAR)[ord(character) - 32] / 1000
    if character in _NARROW:
        return _NARROW[character]
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.84 if ord(character) < 0x530 or character in "×−→≤≥✓✗" else 1.0


class _Advances(dict[str, float]):
    """Table from a character to its advance width in em, filled at the first use of each character."""

    def __init__(self, bold: bool) -> None:
        super().__init__()
        self._bold = bold

    def __missing__(self, character: str) -> float:
        self[character] = advance = _advance(character, self._bold)
        return advance


_ADVANCES = _Advances(False), _Advances(True)
"""advance widths of the regular and the bold font"""


@lru_cache(maxsize=8192)
def width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of a line of text in px at a font size in px."""
    return size * sum(map(_ADVANCES[bold].__getitem__, text))


@lru_cache(maxsize=8192)
def shorten(text: str, limit: float, size: float, bold: bool = False) -> str:
    """Return the text, or its beginning and end joined by "…" so that it is at most ``limit`` px wide."""
    if len(text) <= 400 and width(text, size, bold) <= limit:
        return text
    remaining, advances = limit - width("…", size, bold), _ADVANCES[bold]
    head, tail = [], []
    for front, back in zip(text[:400], reversed(text[-400:]), strict=False):
        remaining -= size * advances[front]
        if remaining < 0:
            break
        head.append(front)
        remaining -= size * advances[back]
        if remaining < 0:
            break
        tail.append(back)
    return "".join(head) + "…" + "".join(reversed(tail))
