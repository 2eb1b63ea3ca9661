"""Facts of decisions as text, the same in exports, in the panel and in comparisons."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from explorer.record import Decision

_UNIT = re.compile(r"_(?:bytes|flops|us)$")
_PRICES = ("separate_us", "together_us")
NOT_RUN = (
    "computing them one by one was not measured: to time that, too, run a plan without this stage, and compare both"
)
"""note below the facts of a measured batch"""


def is_measured(decision: Decision) -> bool:
    """Return whether the decision's batch was measured in a run; its costs are then marked as estimates."""
    return "measured_us" in decision.facts


def fact_labels(decision: Decision) -> dict[str, str]:
    """Return the labels of facts: ``count``, ``size`` of ``size_bytes``, ``together, estimated``."""
    return _labels(tuple(decision.facts), is_measured(decision))


@lru_cache(maxsize=1024)
def _labels(names: tuple[str, ...], measured: bool) -> dict[str, str]:
    """Label facts without their units, which follow the values, unless two labels would be equal."""
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
