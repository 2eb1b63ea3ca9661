"""Executors: how a program is run."""

from explorer.run.execution.executors.dag import run_dag
from explorer.run.execution.executors.registry import EXECUTORS, Executor, executors, register_executor
from explorer.run.execution.executors.simple import run_simple

__all__ = ["EXECUTORS", "Executor", "executors", "register_executor", "run_dag", "run_simple"]
