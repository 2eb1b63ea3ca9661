"""Counts of two recordings with their units and differences."""

from __future__ import annotations

from typing import NamedTuple

from explorer.record.compare.comparison import Comparison
from explorer.view.model.decision_facts import count_value
from explorer.view.model.estimates import CHANCE

_LEAST = 0.05
"""smallest difference in percent that is shown"""
_TIMES = 10
"""ratio from which on a factor is shown instead of a percentage"""


class Count(NamedTuple):
    """Count as text; "–" if a side has none, and a difference of "" if there is none."""

    name: str
    before: str
    after: str
    difference: str


def counted(comparison: Comparison, *, measured: bool) -> list[Count]:
    """Return the counts as text, for those that a side has; times of runs only if ``measured``."""
    counts = []
    for name, (before, after) in comparison.counts.items():
        if (before is not None or after is not None) and (measured or name != "measured_us"):
            counts.append(
                Count(
                    _NAMES.get(name, name), _count(name, before), _count(name, after), _difference(name, before, after)
                )
            )
    return counts


_NAMES = {
    "bytes": "bytes written",
    "temporary_bytes": "bytes of temporaries",
    "peak_bytes": "peak memory",
    "estimated_us": "estimated time",
    "measured_us": "measured time",
}


def _count(name: str, value: float | None) -> str:
    return "–" if value is None else count_value(name, value)


def _difference(name: str, before: float | None, after: float | None) -> str:
    """Format a difference, absolute and relative: ``−188 KB (−55 %)``, ``+1,992 (×200)``."""
    if before is None or after is None or before == after:
        return ""
    if name == "measured_us" and max(before, after) < CHANCE * min(before, after):
        return "no more than two runs of one program differ by"
    said = f"{'+' if after > before else '−'}{_count(name, abs(after - before))}"
    if not before or not after:
        return said
    if max(before, after) >= _TIMES * min(before, after):
        return f"{said} ({'×' if after > before else '÷'}{max(before, after) / min(before, after):,.0f})"
    percent = 100 * (after - before) / before
    if abs(percent) < _LEAST:
        return said
    return f"{said} ({'+' if after > before else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 1}f} %)"
