"""Executors: how a program is run."""

from explorer.run.executors.simple import run_simple

EXECUTORS = {"simple": run_simple}
"""executor name → function(program, observer) that runs it and returns (start, stop) of each kernel in ns"""

__all__ = ["EXECUTORS", "run_simple"]
