"""Executors: how a program is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from explorer.run.execution.executors.dag import run_dag
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Timing


class Executor(NamedTuple):
    """A way to run programs, and how many kernels at a time their memory is planned for unless a plan says so."""

    run: Callable[[Program, Observer | None], Timing]
    lanes: int


EXECUTORS = {"simple": Executor(run_simple, 1), "dag": Executor(run_dag, 4)}
"""by name; lanes are the same on every machine, so that plans are"""

__all__ = ["EXECUTORS", "Executor", "run_dag", "run_simple"]
