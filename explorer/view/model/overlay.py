"""Overlays: numbers of a reader's own laid over one view's graph, negative ones among them.

A registered heat metric (heat.py) belongs to all views; an overlay belongs to one view.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from explorer.record import Recording
from explorer.record.compare.comparison import compare
from explorer.view.model.heat import METRICS, HeatMetric


def overlay(
    recording: Recording, values: Mapping[int, float], name: str, unit: str, text: str, row: str = ""
) -> HeatMetric:
    """Return numbers of nodes as a metric; a node that replaced others has their sum unless it has one of its own.

    Raises ValueError for a number that is not finite, a node that is not in the recording, or a name that a metric has.
    """
    if name in METRICS:
        raise ValueError(f"the name {name!r} belongs to a metric of all views; an overlay needs a name of its own")
    for node, value in values.items():
        if not 0 <= node < len(recording.nodes):
            raise ValueError(f"node {node} is not in this recording: it has 0 to {len(recording.nodes) - 1}")
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{recording.label(node)} is given {value!r}: an overlay's number must be finite")
    carried = dict(values)
    # In the order of decisions, so that a number is carried on through a replacement of a replacement.
    for _, old, new in recording.substitutions:
        if new not in values and old in carried:
            carried[new] = carried.get(new, 0) + carried[old]
    return HeatMetric(name, unit, row, text, lambda recording, node: carried.get(node, 0))


def time_difference(before: Recording, after: Recording) -> dict[int, float]:
    """Return for kernels of ``after``, by their result, how many µs longer they took than in ``before``.

    Kernels of both sides that compute the same recorded nodes are compared together, since the two plans may fuse them
    otherwise; the difference stands at the last of them. Raises ValueError if either recording lacks a run.
    """
    for recording in (before, after):
        if recording.run is None:
            raise ValueError(f"{recording.title or 'a plan'} has not run: the times of two runs are compared")
    earlier, later = (_micros(recording) for recording in (before, after))
    kernels = after.schedule.kernels if after.schedule else ()
    return {
        kernels[group.after[-1]].nodes[-1]: sum(later[number] for number in group.after)
        - sum(earlier[number] for number in group.before)
        for group in compare(before, after).kernels
        if group.after
    }


def _micros(recording: Recording) -> dict[int, float]:
    """Return the time of each kernel in the run; one that did not run, since its value was known, took none."""
    times = dict.fromkeys(range(len(recording.schedule.kernels) if recording.schedule else 0), 0.0)
    for step in recording.run.steps if recording.run else ():
        times[step.kernel] += step.micros
    return times
