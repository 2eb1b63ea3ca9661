"""The table of heat metrics: numbers of nodes that can colour the graph, summed over boxes.

The front end draws its choice, legend, help and cost rows from this table, which stands in every payload.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from explorer.record import Recording


class HeatMetric(NamedTuple):
    """A number of each node, and its words on the screen."""

    name: str
    """as it is chosen, and as the legend begins"""
    unit: str
    """"µs" and "B" are written with their larger units, any other one after a count"""
    row: str
    """its heading among the costs of a box and, of an overlay, in the legend; "" for its name"""
    text: str
    """a sentence for the reader of the legend"""
    of: Callable[[Recording, int], float] | None = None
    """recording and node → number; None for one of the three that the front end has by itself, from step to step"""


METRICS: dict[str, HeatMetric] = {
    metric.name: metric
    for metric in (
        HeatMetric("time", "µs", "", "the time of a kernel, shared among its nodes by their flops"),
        HeatMetric("flops", "flops", "", "operations on numbers"),
        HeatMetric("bytes", "B", "written", "bytes of results that are written to memory"),
    )
}
"""by name, in the order of the choice"""


def heat_json(recording: Recording, overlays: Iterable[HeatMetric] = ()) -> list[dict[str, Any]]:
    """Return the "heat" part of the payload, with a view's overlays, which may be negative.

    Raises ValueError for a metric whose function gives no usable number.
    """
    return [
        {
            "name": metric.name,
            "unit": metric.unit,
            "row": metric.row,
            "text": metric.text,
            "values": None if metric.of is None else _values(metric, metric.of, recording),
        }
        for metric in METRICS.values()
    ] + [
        {
            "name": metric.name,
            "unit": metric.unit,
            "row": metric.row,
            "text": metric.text,
            "values": [metric.of(recording, node) for node in range(len(recording.nodes))],
        }
        for metric in overlays
        if metric.of
    ]


def _values(metric: HeatMetric, of: Callable[[Recording, int], float], recording: Recording) -> list[float]:
    numbers = []
    for node in range(len(recording.nodes)):
        value = of(recording, node)
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise ValueError(
                f"the heat metric {metric.name!r} gives {value!r} for node {node} ({recording.label(node)}); "
                "a metric's function must return a finite number that is not negative"
            )
        numbers.append(value)
    return numbers
