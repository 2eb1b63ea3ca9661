"""The counts of two recordings beside each other, with their units and what they differ by."""

from __future__ import annotations

from typing import NamedTuple

from explorer.record.compare.comparison import Comparison
from explorer.record.reasons import bytes_text, count_text, micros_text

_LEAST = 0.05
"""percent that are not worth a word"""
_TIMES = 10
"""from so many times as much on, a factor says more than a percentage"""


class Count(NamedTuple):
    """One count as text; "–" where a side has none, and a difference of "" where there is nothing to tell."""

    name: str
    before: str
    after: str
    difference: str


def counted(comparison: Comparison, *, measured: bool) -> list[Count]:
    """Return the counts as text; those that a side has, and times of runs only where ``measured`` asks."""
    found = []
    for name, (one, two) in comparison.counts.items():
        if (one is not None or two is not None) and (measured or name != "measured_us"):
            found.append(
                Count(_NAMES.get(name, name), _count(name, one), _count(name, two), _difference(name, one, two))
            )
    return found


_NAMES = {
    "bytes": "bytes written",
    "temporary_bytes": "bytes of temporaries",
    "peak_bytes": "peak memory",
    "estimated_us": "estimated time",
    "measured_us": "measured time",
}


def _count(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name.endswith("_us"):
        return micros_text(value)
    if name == "bytes" or name.endswith("_bytes"):
        return bytes_text(value)
    return count_text(value) if name == "flops" else f"{value:,}"


def _difference(name: str, one: float | None, two: float | None) -> str:
    """Say how much more or less it is, and in proportion: ``−188 KB (−55 %)``, ``+1,992 (×200)``."""
    if one is None or two is None or one == two:
        return ""
    said = f"{'+' if two > one else '−'}{_count(name, abs(two - one))}"
    if not one or not two:
        return said
    if max(one, two) >= _TIMES * min(one, two):
        return f"{said} ({'×' if two > one else '÷'}{max(one, two) / min(one, two):,.0f})"
    percent = 100 * (two - one) / one
    if abs(percent) < _LEAST:
        return said
    return f"{said} ({'+' if two > one else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 1}f} %)"
