"""Lanes of a schedule on several workers: activities with times, as plain data.

``plan.estimate`` creates the lanes. `lanes_text` displays them as text, and view/picture/lanes_svg.py as an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.record.reasons import micros_text

_BUSY, _RECEIVING, _IDLE = "█", "▒", "·"


class Span(NamedTuple):
    """Activity in a lane; times are in µs from the start of the run."""

    start: float
    end: float
    label: str
    receiving: bool = False
    """whether the worker receives values, possibly while it also computes"""


class Lane(NamedTuple):
    """Activities of one worker."""

    name: str
    spans: tuple[Span, ...]

    @property
    def busy(self) -> float:
        """Time in µs during which the worker computes."""
        return sum([span.end - span.start for span in self.spans if not span.receiving])


def lanes_text(lanes: Sequence[Lane], micros: float, width: int = 60, most: int = 16) -> str:
    """Return lanes as lines of text: █ for computing, ▒ for only receiving, · for waiting.

    At most ``most`` lanes are shown.
    """
    name_width = max([len(lane.name) for lane in lanes], default=0)
    lines = []
    for lane in lanes[:most]:
        cells = [_IDLE] * width
        # Draw receiving first, because computing at the same time must overwrite it.
        for mark in (_RECEIVING, _BUSY):
            for span in lane.spans:
                if micros > 0 and span.receiving == (mark == _RECEIVING) and span.end > span.start:
                    first = min(width - 1, int(span.start / micros * width))
                    last = max(first + 1, min(width, round(span.end / micros * width)))
                    cells[first:last] = [mark] * (last - first)
        fraction = lane.busy / micros if micros else 0.0
        lines.append(f"  {lane.name:<{name_width}} {''.join(cells)} {fraction:4.0%}")
    if len(lanes) > most:
        hidden = lanes[most:]
        lines.append(f"  … and {len(hidden)} more, busy {micros_text(sum([lane.busy for lane in hidden]))} together")
    return "\n".join(lines)
