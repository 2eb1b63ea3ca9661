"""Dask workers on which plans run: processes on this machine, or a cluster at a given address.

Workers are opened explicitly, because starting processes takes seconds. Dask handles messages, retries and the cluster;
distributed_run.py decides which kernels run where.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError, RunError, StateError
from explorer.plan.schedule.task_assignment import BANDWIDTH, LATENCY, OVERHEAD, Network
from explorer.record.fork_locks import renew_in_children
from explorer.record.reasons import counted_text

_FIX = "pip install 'explorer-graphs[dask]'"
PATIENCE = 10.0
"""seconds without an answer from the scheduler after which a run is aborted"""
_START = 60.0
"""maximum seconds for a process of this machine to start or end, even if the machine is busy"""


@named_methods
class Workers:
    """Workers that ``executor="dask"`` and ``ex.parallelize`` use while they are open.

    ``workers`` is a number of processes to start on this machine, which accept no other connections, or the address of
    a Dask scheduler, whose workers must have explorer installed. Work is distributed according to ``bandwidth`` (MB/s),
    ``latency`` and ``overhead`` (µs); the defaults are for processes on one machine. Plans made while workers are open
    divide calls of ``ex.map`` between them if this saves time.

    >>> with ex.Workers(1, processes=False) as workers:
    ...     len(workers), float(ex.evaluate(ex.tensor(2.0) * 3.0, executor="dask"))
    (1, 6.0)
    """

    _open: list[Workers] = []  # noqa: RUF012  # all open workers, in the process that opened them

    def __init__(
        self,
        workers: int | str | None = None,
        *,
        processes: bool = True,
        bandwidth: float = BANDWIDTH,
        latency: float = LATENCY,
        overhead: float = OVERHEAD,
    ) -> None:
        count = workers if workers is not None else max(2, os.cpu_count() or 2)
        if isinstance(count, bool) or not isinstance(count, (int, str)) or (isinstance(count, int) and count < 1):
            raise OperandError(
                f"ex.Workers({workers!r})",
                rule="workers must be a number of at least 1, or the address of a scheduler",
                fix='ex.Workers(2), or ex.Workers("tcp://10.0.0.1:8786")',
            )
        distributed = _distributed()
        self.prices = bandwidth, latency, overhead
        self._cluster: Any = None
        if isinstance(count, int):
            self._cluster = _local_cluster(distributed, count, processes)
        try:
            self.client: Any = (
                distributed.Client(count, timeout=PATIENCE, set_as_default=False)
                if self._cluster is None
                else distributed.Client(self._cluster, timeout=_START, set_as_default=False)
            )
        except (OSError, TimeoutError) as error:
            raise RunError(
                f"the scheduler at {count!r}: {error or type(error).__name__}",
                rule="a Dask scheduler must answer at the address",
                fix="start one: dask scheduler",
            ) from error
        self.always = False
        """whether calls are sent at any cost, as in training"""
        self.lost: list[str] = []
        """addresses of workers that were lost while they had work"""
        self.address: str = self.client.scheduler.address
        renew_in_children(self)
        # Last, because plans use every entry of this list, so it must be completely set up.
        self._open.append(self)

    def renew(self) -> None:
        """Forget the workers in a forked process, since they belong to the process that opened them."""
        self._open.clear()

    def __len__(self) -> int:
        return len(self.names())

    def names(self) -> list[str]:
        """Return the addresses of the current workers, in a fixed order; raise StateError if the workers are closed."""
        if self not in self._open:
            raise StateError(
                f"the workers at {self.address}, which are closed",
                rule="workers must be open while something runs on them",
                fix="with ex.Workers(2) as workers: …",
            )
        # client.scheduler_info() may return the reply to Dask's periodic request, which lists no workers.
        return sorted(self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"])

    def network(self, names: list[str]) -> Network:
        """Return the network of the workers ``names``, with the costs of its connections."""
        return Network(len(names), *self.prices)

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler does not answer."""
        return bool(self.client.status != "running")

    def check(self, cause: BaseException | None = None) -> None:
        """Raise RunError if the scheduler does not answer."""
        if self.is_lost:
            raise RunError(
                f"the scheduler at {self.address}, which does not answer",
                rule="the scheduler must keep running until the workers are closed",
                fix="open others: ex.Workers(…); values and parameters are unchanged by this run",
            ) from cause

    def losses(self) -> tuple[type[BaseException], ...]:
        """Return the error classes with which Dask reports lost workers or a lost scheduler."""
        distributed = _distributed()
        errors = distributed.client.FutureCancelledError, distributed.scheduler.KilledWorker
        return (*errors, distributed.CancelledError, distributed.comm.CommClosedError, OSError, TimeoutError)

    def note_lost(self, names: list[str]) -> None:
        """Record which of the workers ``names`` are lost."""
        current = self.names()
        self.lost += [name for name in names if name not in current]

    def ready(self) -> list[str]:
        """Return the workers' names; if there are none, wait for one, since Dask replaces workers that died.

        Raises RunError if the scheduler does not answer, or no worker appears.
        """
        cause: BaseException | None = None
        names: list[str] = []
        self.check()
        try:
            if not (names := self.names()):
                self.client.wait_for_workers(1, timeout=PATIENCE if self._cluster is None else _START)
                names = self.names()
        except self.losses() as error:
            cause = error
        if names:
            return names
        # A scheduler that has just stopped has no workers either.
        self.check(cause)
        raise RunError(
            f"the scheduler at {self.address}, which has no workers",
            rule="a scheduler must have at least one worker",
            fix=f"start one: dask worker {self.address}",
        ) from cause

    def wait_for(self, futures: list[Any], tick: float, report: Callable[[], None]) -> None:
        """Wait until futures have ended; raise one of ``losses()`` if the scheduler stays lost.

        ``report`` is called every ``tick`` seconds.
        """
        distributed = _distributed()
        silence = 0.0
        while True:
            try:
                with self.client.as_current():
                    distributed.wait(futures, timeout=tick)
                return
            except (TimeoutError, distributed.TimeoutError):
                silence = silence + tick if self.is_lost else 0.0
                if silence >= PATIENCE:
                    raise
                report()

    def scatter(self, values: list[Any], name: str | None) -> list[Any]:
        """Send values to the worker ``name``, or to all workers if it is None; return a future for each value."""
        futures: list[Any] = self.client.scatter(
            values,
            workers=None if name is None else [name],
            broadcast=name is None,
            hash=False,
            direct=True if self._cluster is not None else None,
        )
        return futures

    def close(self) -> None:
        """Close the connection, and end the processes started for it."""
        if self in self._open:
            self._open.remove(self)
        self.client.close(timeout=PATIENCE)
        if self._cluster is not None:
            # Dask may just be starting a replacement, which must be ended too.
            self._cluster.close(timeout=_START)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = counted_text(len(self), "worker") if self in self._open and not self.is_lost else "closed"
        return f"<{state} at {self.address}>"


def current() -> Workers:
    """Return the workers that were opened last; raise StateError if none are open."""
    if not Workers._open:
        raise StateError(
            'executor="dask" without workers',
            rule="workers must be open while a plan runs on them",
            fix="with ex.Workers(2): …",
        )
    return Workers._open[-1]


def open_network() -> Network | None:
    """Return the network of the workers opened last; None if there are none or the scheduler does not answer."""
    if not Workers._open or Workers._open[-1].is_lost:
        return None
    workers = Workers._open[-1]
    try:
        return workers.network(workers.names())
    except workers.losses():  # the run reports that the scheduler is lost
        return None


def _local_cluster(distributed: Any, count: int, processes: bool) -> Any:
    """Start workers on this machine; raise RunError if their processes do not start.

    Each process imports the user's script, so workers opened at its top level would be opened again in each process.
    """
    description = f"{counted_text(count, 'process')} of ex.Workers({count})"
    rule = "a script must open workers below its main guard, because each worker's process imports the script again"
    fix = 'write ex.Workers(…) and ex.parallelize(…) below: if __name__ == "__main__":'
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing does
        raise RunError(f"{description}, opened in a worker's process", rule=rule, fix=fix)
    try:
        return distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=processes,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # address of its HTTP server; None would make it listen on all interfaces
            silence_logs=50,
        )
    except RuntimeError as error:
        raise RunError(f"{description}: {error}", rule=rule, fix=fix) from error


def _distributed() -> Any:
    """Import Dask and return it; only workers need it."""
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise StateError("workers without Dask", rule="distributed must be installed", fix=_FIX) from error
    return distributed
