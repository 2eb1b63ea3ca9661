"""Execution of kernel chains on Dask workers, if that saves time.

Each run decides whether to send work, since workers may start and end at any time. Sent data stays on the workers
(`Spread`), keyed by program, so later runs send only changes.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from explorer.run.execution.executors.simple import run_simple
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Note, Timing
from explorer.run.workers.distributed_run import Spread
from explorer.run.workers.workers import Workers, current

_spreads: WeakKeyDictionary[Program, Spread] = WeakKeyDictionary()


def run_dask(program: Program, watch: Observer | None = None) -> Timing:
    """Run chains on Dask workers (``ex.Workers``) if they save more time than the messages take, otherwise locally.

    Recorded steps name their worker instead of a thread; worker 0 is this process. The run's stage reports why work was
    sent or not, how many bytes were sent, and which workers were lost.
    """
    return run_spread(program, watch, current())


def run_spread(program: Program, watch: Observer | None, workers: Workers) -> Timing:
    """Run the chains of a program on ``workers``."""
    names = workers.ready()
    spread = _spreads.get(program)
    if spread is None or spread.workers is not workers:
        spread = _spreads[program] = Spread(program.planned, workers)
    distribution = spread.distribution(workers.network(names))
    reason = distribution.reason
    if watch is not None:
        reason = "Nothing was sent to workers: values are summarised between kernels, and would all have to come back."
    if watch is None and distribution.pieces:
        return spread.run(program, names)
    return run_simple(program, watch)._replace(notes=(Note(reason, {"pieces_sent": 0}),))
