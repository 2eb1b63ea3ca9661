"""Executors, which run programs."""

from explorer.run.execution.executors.dag import run_async, run_dag
from explorer.run.execution.executors.dask import run_dask, run_spread
from explorer.run.execution.executors.registry import (
    EXECUTORS,
    Executor,
    ExecutorName,
    RegisteredExecutor,
    executors,
    register_executor,
    run_program,
)
from explorer.run.execution.executors.simple import run_simple

__all__ = [
    "EXECUTORS",
    "Executor",
    "ExecutorName",
    "RegisteredExecutor",
    "executors",
    "register_executor",
    "run_async",
    "run_dag",
    "run_dask",
    "run_program",
    "run_simple",
    "run_spread",
]
