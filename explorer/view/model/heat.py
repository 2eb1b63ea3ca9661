"""Heat metrics: a number for each node, which colours the graph and is summed over boxes; overlays have custom numbers.

Every payload contains the table of metrics, from which the front end builds its menu, legend, help and cost rows. A
metric appears in all views; an overlay appears in one view, and may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from explorer.record import Recording
from explorer.record.compare.comparison import compare
from explorer.record.errors import OperandError


class HeatMetric(NamedTuple):
    """Number for each node, with the strings that the view shows for it."""

    name: str
    """name in the menu and at the start of the legend"""
    unit: str
    """"µs" and "B" are written with larger units, any other unit after a count"""
    row: str
    """heading in the costs of a box and, for an overlay, in the legend; "" for its name"""
    text: str
    """sentence that explains the legend"""
    of: Callable[[Recording, int], float] | None = None
    """recording and node → number; None for the metrics that the front end computes"""
    per: Callable[[Recording, int], float] | None = None
    """recording and node → divisor of a ratio, whose value for a box is the ratio of the two sums; None for a sum"""
    boxes: str = "sum"
    """the value of a box: "sum" for the sum of the values in it, or "max" for the largest; not used for a ratio"""


METRICS: dict[str, HeatMetric] = {
    metric.name: metric
    for metric in (
        HeatMetric("time", "µs", "", "the time of a kernel, shared among its nodes by their flops"),
        HeatMetric("flops", "flops", "", "operations on numbers"),
        HeatMetric("bytes", "B", "written", "bytes of results that are written to memory"),
        HeatMetric(
            "flops/byte",
            "flops/B",
            "",
            "operations per byte of operands and results: many are limited by arithmetic, few by memory",
        ),
    )
}
"""keyed by name, in the order of the menu"""


def heat_json(recording: Recording, overlays: Iterable[HeatMetric] = ()) -> list[dict[str, Any]]:
    """Return the "heat" part of the payload, with a view's overlays, which may be negative.

    Raise OperandError for a metric whose function returns an unusable number.
    """
    rows = [(metric, metric.of and _values(metric, metric.of, recording)) for metric in METRICS.values()]
    nodes = range(len(recording.nodes))
    rows += [(metric, [metric.of(recording, node) for node in nodes]) for metric in overlays if metric.of]
    return [
        {
            "name": metric.name,
            "unit": metric.unit,
            "row": metric.row,
            "text": metric.text,
            "values": values,
            "per": metric.per and _values(metric, metric.per, recording),
            "boxes": metric.boxes,
        }
        for metric, values in rows
    ]


def _values(metric: HeatMetric, of: Callable[[Recording, int], float], recording: Recording) -> list[float]:
    numbers = []
    for node in range(len(recording.nodes)):
        value = of(recording, node)
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise OperandError(
                f"the heat metric {metric.name!r} gives {value!r} for node {node} ({recording.label(node)})",
                rule="a metric's function must return a finite number that is not negative",
                fix="return 0 for nodes without a number",
            )
        numbers.append(value)
    return numbers


def overlay(
    recording: Recording,
    values: Mapping[int, float],
    name: str,
    unit: str,
    text: str,
    row: str = "",
    boxes: str = "sum",
) -> HeatMetric:
    """Return a metric with given numbers.

    A box gets the sum or, with ``boxes="max"``, the maximum of the numbers in it, and a node without a number that of
    the nodes that it replaced. Raise OperandError for a number that is not finite, a node that is not in the recording,
    an existing metric's name, or another value of ``boxes``.
    """
    if boxes not in ("sum", "max"):
        raise OperandError(f"boxes={boxes!r}", rule="a box must have the sum or the maximum", fix='boxes="max"')
    if name in METRICS:
        raise OperandError(
            f"an overlay with the name {name!r}",
            rule="the name must not be the name of an existing metric",
            fix='name="overlay"',
        )
    for node, value in values.items():
        if not 0 <= node < len(recording.nodes):
            raise OperandError(
                f"node {node} is not in this recording",
                rule=f"it has nodes 0 to {len(recording.nodes) - 1}",
                fix="select a node in the view and read view.selected",
            )
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise OperandError(
                f"{recording.label(node)} is given {value!r}",
                rule="an overlay's number must be finite",
                fix="leave the node out of the overlay",
            )
    carried = dict(values)
    # In decision order, so that a number is carried through repeated replacements.
    for _, old, new in recording.substitutions:
        if new not in values and old in carried:
            before = carried.get(new, 0)
            carried[new] = before + carried[old] if boxes == "sum" else max(before, carried[old])
    return HeatMetric(name, unit, row, text, lambda recording, node: carried.get(node, 0), boxes=boxes)


def time_difference(before: Recording, after: Recording) -> dict[int, float]:
    """Map the result of each kernel of ``after`` to the µs that it took longer than in ``before``.

    Kernels of both recordings that compute the same recorded nodes are compared together, since the two plans may fuse
    them differently; the last kernel gets the difference. Raise OperandError if either recording lacks a run.
    """
    for recording in (before, after):
        if recording.run is None:
            raise OperandError(
                f"{recording.title or 'a plan'} has not run",
                rule="both plans must have run, because the times of two runs are compared",
                fix="plan.eval()",
            )
    earlier, later = (_micros(recording) for recording in (before, after))
    kernels = after.schedule.kernels if after.schedule else ()
    return {
        kernels[group.after[-1]].nodes[-1]: sum(later[number] for number in group.after)
        - sum(earlier[number] for number in group.before)
        for group in compare(before, after).kernels
        if group.after
    }


def _micros(recording: Recording) -> dict[int, float]:
    """Return the time in µs of each kernel in every run; 0 for a kernel that is skipped because its value is known."""
    times = dict.fromkeys(range(len(recording.schedule.kernels) if recording.schedule else 0), 0.0)
    once = recording.once_in_run
    for step in recording.run.steps if recording.run else ():
        times[step.kernel] += 0 if step.kernel in once else step.micros
    return times
