"""Lanes of a schedule on several workers: what each does when, as plain data.

``plan.estimate`` makes them. They are drawn in two forms: as text here, for a terminal, and as a picture in
view/picture/lanes_svg.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.record.reasons import micros_text

_BUSY, _RECEIVING, _IDLE = "█", "▒", "·"


class Span(NamedTuple):
    """Piece of a lane, in µs from the beginning."""

    start: float
    end: float
    label: str
    receiving: bool = False
    """whether values are received, while the lane may compute, too"""


class Lane(NamedTuple):
    """Lane of one worker."""

    name: str
    spans: tuple[Span, ...]

    @property
    def busy(self) -> float:
        """µs in which it computes."""
        return sum([span.end - span.start for span in self.spans if not span.receiving])


def lanes_text(lanes: Sequence[Lane], micros: float, width: int = 60, most: int = 16) -> str:
    """Return lanes as lines of text: █ computes, ▒ receives and does not compute, · waits; ``most`` lanes are shown."""
    wide = max([len(lane.name) for lane in lanes], default=0)
    lines = []
    for lane in lanes[:most]:
        cells = [_IDLE] * width
        # Receiving first: where a lane computes meanwhile, the cell says that it does.
        for mark in (_RECEIVING, _BUSY):
            for span in lane.spans:
                if micros > 0 and span.receiving == (mark == _RECEIVING) and span.end > span.start:
                    first = min(width - 1, int(span.start / micros * width))
                    last = max(first + 1, min(width, round(span.end / micros * width)))
                    cells[first:last] = [mark] * (last - first)
        share = lane.busy / micros if micros else 0.0
        lines.append(f"  {lane.name:<{wide}} {''.join(cells)} {share:4.0%}")
    if len(lanes) > most:
        rest = lanes[most:]
        lines.append(f"  … and {len(rest)} more, busy {micros_text(sum([lane.busy for lane in rest]))} together")
    return "\n".join(lines)
