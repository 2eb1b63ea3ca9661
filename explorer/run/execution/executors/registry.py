"""Table of executors, to which users can add their own.

EvalPlan and Net look up executors by name. Every run of a user-defined executor is checked: each kernel must have run
once, and its times must be recorded.
"""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from explorer.core.argument_checks import check_type, named
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.interrupts import interrupt_behind
from explorer.core.registry import Registry
from explorer.record.reasons import counted_text
from explorer.run.execution.executors.dag import run_async, run_dag
from explorer.run.execution.executors.dask import run_dask
from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.thread_pool import single_threaded_products
from explorer.run.runtime.timing import Timing


class Executor(Protocol):
    """Function that runs all kernels of a program once, in an order that it chooses, and returns their times.

    No other thread runs the program at the same time. The program provides:

    - ``runners``: for each kernel, (function of the table of values, slot of its result in this table).
      ``program.run_kernel(index, timing, observer)`` calls the function, stores its value, records its times in the
      result of ``program.blank_timing()``, and calls the observer;
    - ``values``: the table that all kernels read and write. Operands are in it before a run. Results stay in it for
      the caller, which reads them with ``take()``; an executor never calls ``take()``;
    - ``chains``: the required order. ``chains.kernels[c]`` are kernels that run in sequence with ``program.run_at(c,
      timing, observer)``, which returns whether all of them ran; ``chains.is_chain_start(index)`` returns whether a
      kernel is the first. ``chains.runtime_parent_count(c)`` is the number of chains that chain ``c`` waits for,
      ``chains.tasks.users[c]`` are the chains that wait for it. Chains wait for values and for memory that is reused:
      in any order that respects them, every kernel reads the same values as in the planned order 0, 1, 2, …, which is
      always allowed;
    - ``planned.schedule``: the planner's decisions. ``kernels`` have their nodes and their ``cost`` (``cost.estimate``
      in µs); ``levels``, ``chains`` and ``placements`` have the same indices.

    A kernel that fails raises RunError, which names the operation and its line. The executor must not catch this error,
    and must return or raise only when no kernel is running on any thread. The same applies to an interrupt (Ctrl-C).
    After any exception the caller drops the values of the run (``forget()``), so the program can be run again.
    Floating-point events are not errors: NumPy's warnings are off on the calling thread, and must be turned off
    (``np.errstate(all="ignore")``) on threads that an executor starts.

    Example: see ``ex.register_executor``.
    """

    def __call__(self, program: Program, observer: Observer | None, /) -> Timing:
        """Run all kernels; call the methods of ``observer``, if it is not None, before and after each kernel."""


class RegisteredExecutor(NamedTuple):
    """Executor, and the default number of concurrent kernels for which memory is planned."""

    function: Executor
    lanes: int

    def run(self, program: Program, observer: Observer | None) -> Timing:
        """Run a program; if kernels could not be compiled, the first run that needs them warns."""
        timing = self.function(program, observer)
        for library in program.libraries:
            library.warn()
        return timing


ExecutorName: TypeAlias = Literal["simple", "dag", "async", "dask"]
"""names of the built-in executors"""
EXECUTORS: Registry[str, RegisteredExecutor] = Registry(
    "executor",
    {
        "simple": RegisteredExecutor(run_simple, 1),
        "dag": RegisteredExecutor(run_dag, 4),
        "async": RegisteredExecutor(run_async, 4),
        "dask": RegisteredExecutor(run_dask, 1),
    },
)
"""executors by name; the number of lanes is the same on every machine, because plans depend on it"""


def run_program(name: str, program: Program, observer: Observer | None, wait: bool) -> Timing:
    """Run a program with the executor ``name``; with ``wait``, a kernel ends when its device has finished.

    An interrupt is raised as such, even if a kernel turned it into another error.
    """
    program.wait_for_devices(wait)
    handled = sys.exc_info()[1]
    try:
        timing = EXECUTORS[name].run(program, observer)
    except Exception as error:
        if (interrupt := interrupt_behind(error, handled)) is not None:
            raise interrupt from None
        raise
    if program.notes:
        timing = timing._replace(notes=(*timing.notes, *program.notes))
    return timing if program.waits else timing._replace(of_work=False)


def executors() -> dict[str, str]:
    """Return a description of each executor by name, for ``ex.EvalPlan(executor=…)`` and ``net.run(…, executor=…)``.

    >>> [name for name in ex.executors() if name in ("simple", "dag")]
    ['simple', 'dag']
    """
    return {name: _summary(entry.function) for name, entry in EXECUTORS.items()}


@named
def register_executor(name: str, run: Executor, *, lanes: int = 1, replace: bool = False) -> None:
    """Register an executor: ``ex.EvalPlan(executor=name)`` then calls ``run(program, observer)``; see ``ex.Executor``.

    ``lanes`` is the maximum number of concurrent kernels, which get separate memory. Raises DeclarationError for an
    existing name, unless ``replace`` is True, and for an object that is not callable.

    >>> def in_planned_order(program, observer):
    ...     timing = program.blank_timing()
    ...     for index in range(len(program.runners)):
    ...         program.run_kernel(index, timing, observer)
    ...     return timing
    >>> ex.register_executor("one by one", in_planned_order)
    >>> ex.evaluate(ex.tensor([1.0, 2.0]) + 1, executor="one by one")
    array([2., 3.])
    """
    check_type(name, "name", str, "a string", 'name="reversed"')
    check_type(replace, "replace", bool, "True or False", "replace=True")
    if not name.strip():
        raise DeclarationError("an executor without a name", rule="an executor must have a name", fix='name="reversed"')
    if not callable(run):
        raise DeclarationError(
            f"run={run!r} for the executor {name!r}",
            rule="run must be a function of a program and an observer that returns its kernels' times",
            fix=f"ex.register_executor({name!r}, function)",
        )
    if isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1:
        raise OperandError(f"lanes={lanes!r}", rule="lanes must be an integer of 1 or more", fix="lanes=1")
    EXECUTORS.register(name, RegisteredExecutor(functools.partial(_run_checked, name, run), lanes), replace=replace)


def _run_checked(name: str, run: Executor, program: Program, observer: Observer | None) -> Timing:
    """Run a user's executor, and check that all kernels ran; after a failed run, no values remain."""
    try:
        with np.errstate(all="ignore"), single_threaded_products() if program.single_threaded else nullcontext():
            timing = run(program, observer)
        _check_timing(name, timing, len(program.runners))
    except BaseException:
        program.forget()
        raise
    return timing


def _check_timing(name: str, timing: Any, kernels: int) -> None:
    """Raise StateError if an executor does not return the times of every kernel."""
    if not isinstance(timing, Timing):
        raise StateError(
            f"the executor {name!r} returned a {type(timing).__name__}",
            rule="an executor must return the times of its kernels",
            fix="timing = program.blank_timing(), which program.run_kernel(index, timing, observer) fills; return it",
        )
    if len(timing.began) != kernels or len(timing.ended) != kernels or len(timing.threads) not in (0, kernels):
        raise StateError(
            f"the executor {name!r} returned times of {counted_text(len(timing.ended), 'kernel')}, "
            f"of which there are {kernels}",
            rule="an executor must return one beginning and one end for each kernel",
            fix="timing = program.blank_timing()",
        )
    # A clock reading is never 0, the value that `blank_timing` wrote.
    missing = [index for index, end in enumerate(timing.ended) if not end]
    if missing:
        raise StateError(
            f"the executor {name!r} left out {len(missing)} of {counted_text(kernels, 'kernel')}, "
            f"the first is kernel {missing[0]}",
            rule="an executor must run every kernel once",
            fix="run all of range(len(program.runners)), in an order that program.chains allows",
        )


def _summary(run: Executor) -> str:
    """Return the first line of an executor's docstring."""
    function = run.args[1] if isinstance(run, functools.partial) else run
    lines = (getattr(function, "__doc__", None) or "").strip().splitlines()
    return lines[0] if lines else ""
