"""Campaigns of many cases in several processes, with reduced failures and counts of applied rules."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tests.soak.numbers import contract, programs
from tests.soak.numbers.programs import Program, seeded

SHARES = {"programs": 0.25, "rules": 0.45, "updates": 0.219, "logs": 0.04, "gradients": 0.04, "large": 0.001}
"""campaign → its fraction of a run of all campaigns"""
CHUNK = 100
_MAKERS = {"programs": programs.random_program, "rules": programs.around_a_rule, "large": programs.large_program}
"""campaigns whose programs are judged by the contract; the others contain modules"""


class Campaign(NamedTuple):
    """Generator and judge of cases; the judge returns the fault, or "", and the names of what was applied."""

    make: Callable[[np.random.Generator], Any]
    judge: Callable[[Any], tuple[str, tuple[str, ...]]]


def campaign(name: str) -> Campaign:
    """Return a campaign by name; the one for gradients needs torch."""
    if name in _MAKERS:
        return Campaign(_MAKERS[name], contract.judge)
    module = import_module(f"tests.soak.numbers.{name}")
    return Campaign(module.make, module.judge)


def judged(name: str, case: Program) -> tuple[str, tuple[str, ...]]:
    """Return the fault of a case, which may be an exception, and what was applied."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return campaign(name).judge(case)
        except Exception as error:
            cause = f" from {type(error.__cause__).__name__}" if error.__cause__ else ""
            return f"{type(error).__name__}{cause}: {str(error).partition(chr(10))[0][:200]}", ()


@dataclass
class Result:
    """Findings of some cases, and how often each rule or pass was applied."""

    cases: int = 0
    seconds: float = 0.0
    found: list[tuple[int, str]] = field(default_factory=list)
    applied: Counter[str] = field(default_factory=Counter)


def chunk(name: str, seed: int, first: int, last: int) -> Result:
    """Judge the cases with the given numbers."""
    begin, result = time.perf_counter(), Result()
    for number in range(first, last):
        case = campaign(name).make(seeded(name, seed, number))
        found, applied = judged(name, case)
        result.applied.update(applied)
        result.cases += 1
        if found:
            result.found.append((number, found))
    result.seconds = time.perf_counter() - begin
    return result


def run(name: str, cases: int, seed: int, first: int = 0, jobs: int = 1) -> Result:
    """Judge many cases in chunks, distributed among processes."""
    starts = range(first, first + cases, CHUNK)
    stops = [min(start + CHUNK, first + cases) for start in starts]
    whole = Result()
    with ProcessPoolExecutor(jobs) as pool:
        parts = pool.map(chunk, [name] * len(stops), [seed] * len(stops), starts, stops)
        for part in parts:
            whole.cases += part.cases
            whole.seconds += part.seconds
            whole.found += part.found
            whole.applied += part.applied
    return whole


def small(name: str, case: Program, limit: float = 30.0) -> tuple[Program, str]:
    """Return the smallest failing program found, and its fault."""
    end = time.monotonic() + limit
    found, _ = judged(name, case)
    kind = found.split(":")[0] if "Error" in found else ""
    shrunk = True
    while shrunk and time.monotonic() < end:
        shrunk = False
        for candidate in case.smaller():
            now, _ = judged(name, candidate)
            if now and (now.split(":")[0] if "Error" in now else "") == kind:
                case, found, shrunk = candidate, now, True
                break
    return case, found
