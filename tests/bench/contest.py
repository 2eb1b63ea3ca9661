"""Contests: several implementations of one task, interleaved in one run and compared by median time."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

PAUSE = 0.06
"""seconds between contestants, because idle worker threads of one library slow down the next one"""


Clock: TypeAlias = Callable[[], float]
"""clock in seconds: ``time.perf_counter``, or ``time.process_time`` for one thread's work on a shared machine"""


def contest(
    contestants: Mapping[str, Callable[[], Any]], rounds: int = 5, burst: int = 1, clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Return the median time of each contestant in ms, without the first round."""
    return {name: statistics.median(spent) for name, spent in samples(contestants, rounds, burst, clock).items()}


def samples(
    contestants: Mapping[str, Callable[[], Any]], rounds: int = 5, burst: int = 1, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Return the times of each contestant in ms, without the first round.

    In each round a contestant runs ``burst`` times; if that is more than once, its first run wakes its threads and is
    not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(rounds + 1):
        for name, run in contestants.items():
            gc.collect()
            time.sleep(PAUSE)
            spent = []
            for _ in range(burst):
                start = clock()
                run()
                spent.append((clock() - start) * 1000)
            if turn:
                times[name].extend(spent[1:] or spent)
    return times


def micros(work: Callable[[], Any], count: int, rounds: int = 3) -> float:
    """Return the minimum CPU time of several rounds, in µs for each of ``count``."""
    spent = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent) / count * 1e6


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], packages: Sequence[str]) -> str:
    """Return a table with a line about the machine."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in [header, *rows]]
    return "\n".join(["", title, machine(packages), *lines, ""])


def compared(title: str, times: Mapping[str, float], packages: Sequence[str], ours: int) -> str:
    """Return a table of times in ms; the first ``ours`` contestants are explorer's, with their ratios to each other
    one."""
    own = [*times][:ours]
    rows = [[name, f"{spent:.2f}", *[f"{times[each] / spent:.2f}" for each in own]] for name, spent in times.items()]
    return table(title, ["", "ms", *[f"{each} : it" for each in own]], rows, packages)


def machine(packages: Sequence[str]) -> str:
    """Return processor, cores, Python and package versions in one line."""
    results = [f"{name} {_version(name)}" for name in packages]
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(results)}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
