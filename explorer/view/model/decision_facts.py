"""Facts of decisions in words, and counts of stages: the same on paper, in the panel and in comparisons."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from explorer.record import Decision, Stage
from explorer.record.reasons import bytes_text, count_text, counted_text, micros_text, short_counted_text
from explorer.view.model.memory_text import PARTS

_UNIT = re.compile(r"_(?:bytes|flops|us)$")
_COUNTS = {
    **PARTS,
    "bytes": "written",
    "peak_lower_bound": "most live",
    "peak_without_reuse": "without reuse",
}
"""names of counts, where they are not those of the recording"""
_PRICES = ("separate_us", "together_us")
NOT_RUN = (
    "computing them one by one was not measured: to time that, too, register the same expressions in "
    'other = ex.EvalPlan(without=["batch"]), run it, and print plan.compare(other)'
)
"""note below the facts of a measured batch"""


def is_measured(decision: Decision) -> bool:
    """Tell whether the plan ran and the decision's batch was measured, so that its prices are marked as estimates."""
    return "measured_us" in decision.facts


def fact_labels(decision: Decision) -> dict[str, str]:
    """Return the labels of facts: ``count``, ``size`` of ``size_bytes``, ``together, estimated``."""
    return _labels(tuple(decision.facts), is_measured(decision))


@lru_cache(maxsize=1024)
def _labels(names: tuple[str, ...], measured: bool) -> dict[str, str]:
    """Label facts without their units, which stand with the values, unless two would have one label."""
    stems = {name: _UNIT.sub("", name) for name in names}
    counts = Counter(stems.values())
    labels = {}
    for name, stem in stems.items():
        unit = name[len(stem) + 1 :].replace("us", "time")
        label = f"{stem} {unit}".rstrip() if counts[stem] > 1 else stem
        labels[name] = label.replace("_", " ") + ", estimated" * (measured and name in _PRICES)
    return labels


def note(decision: Decision) -> str:
    """Return the note below the facts of a decision, or ""."""
    return NOT_RUN if is_measured(decision) else ""


def stage_counts(stage: Stage) -> list[tuple[str, str]]:
    """Return the counts of a stage with their units: ``[("nodes", "12"), ("written", "6 KB")]``."""
    return [
        (_COUNTS.get(name) or name.replace("_", " "), count_value(name, value)) for name, value in stage.counts.items()
    ]


def count_value(name: str, value: float) -> str:
    """Format a count by its name: bytes, a time in µs, flops, or else a number with commas."""
    if name.endswith("_us"):
        return micros_text(value)
    if name == "flops":
        return count_text(value)
    is_size = name == "bytes" or name.startswith("peak") or name.endswith("_bytes")
    return bytes_text(value) if is_size else f"{value:,}"


def stage_cost(stage: Stage) -> str:
    """Return the cost of the graph after a stage: ``3.64 G flops · 12 MB written``, or ""."""
    flops, size = stage.counts.get("flops", 0), stage.counts.get("bytes", 0)
    parts = [short_counted_text(flops, "flop") if flops else "", f"{bytes_text(size)} written" if size else ""]
    return " · ".join(filter(None, parts))


def stage_size(stage: Stage) -> str:
    """Return how large the graph or the schedule is after a stage: ``1,234`` nodes, ``12 kernels``, ``12 steps``."""
    counted = {"record": "nodes", "rewrite": "nodes", "order": "kernels", "run": "steps"}.get(stage.kind, "")
    if counted not in stage.counts:
        return ""
    count = stage.counts[counted]
    return f"{count:,}" if counted == "nodes" else counted_text(count, counted.removesuffix("s"))
