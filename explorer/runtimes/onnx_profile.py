"""Profiles that onnxruntime writes: the kernels of each run, their times, and the bytes in use."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from statistics import median
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
"""row of a profile, with its start "ts" and duration "dur" in µs"""
Run: TypeAlias = tuple[list[Event], float]
"""kernels of a run in order, and its time in µs"""


def warm_runs(events: list[Event]) -> list[Run]:
    """Return the kernels, in order, and the time in µs of each run in a profile; the first run only warms up."""
    kernels = [event for event in events if event["cat"] == "Node" and event["name"].endswith("_kernel_time")]
    kernels.sort(key=lambda event: (event["ts"], -event["dur"]))
    starts = [event["ts"] for event in kernels]
    runs = [event for event in events if event["name"] == "SequentialExecutor::Execute"]
    outermost = [run for run in runs if not any(_contains(other, run) for other in runs if other is not run)]
    return [
        (
            _outermost(kernels[bisect_left(starts, run["ts"]) : bisect_right(starts, run["ts"] + run["dur"])], run),
            float(run["dur"]),
        )
        for run in outermost[1:] or outermost
    ]


def _outermost(kernels: list[Event], run: Mapping[str, Any]) -> list[Event]:
    """Return the kernels of a run; those of inner graphs run inside a kernel, whose time includes them."""
    top: list[Event] = []
    for event in kernels:
        if _contains(run, event) and (not top or event["ts"] >= top[-1]["ts"] + top[-1]["dur"]):
            top.append(event)
    return top


def medians(steps: list[Event], runs: list[Run]) -> list[float]:
    """Return the median time of each kernel over the runs that have the same kernels in the same order."""
    names = [step["name"] for step in steps]
    equal = [others for others, _ in runs if [other["name"] for other in others] == names]
    return [median([others[index]["dur"] for others in equal]) for index in range(len(steps))]


def _contains(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> bool:
    return bool(outer["ts"] <= inner["ts"]) and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def _bytes(event: Mapping[str, Any], name: str) -> int:
    return int(event["args"].get(name, 0))


def bytes_before(event: Mapping[str, Any]) -> int:
    """Return the bytes in use before a kernel; before the first one, these are weights."""
    return _bytes(event, "mem_bytes_requested_in_use") - _bytes(event, "mem_requested_in_use_delta")


def bytes_in_use(event: Mapping[str, Any], floor: int) -> int:
    """Return the bytes that intermediate results use at the end of a kernel."""
    return max(0, _bytes(event, "mem_bytes_requested_in_use") - floor)
