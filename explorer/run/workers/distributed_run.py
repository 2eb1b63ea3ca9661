"""Distributed runs: the pieces of a program run on Dask workers and locally, even if workers are lost.

A piece is a group of kernels that depends only on the values it reads, so everything lost with a worker can be computed
again. Dask does this if the piece's operands are still on another worker; otherwise, all pieces run again. Parameters
stay in this process until the run has ended, so losing the scheduler only loses the run.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple
from uuid import uuid4

from explorer.core.errors import RunError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.tensor import Tensor
from explorer.core.progress import Progress, current_callback
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.planner import Plan
from explorer.plan.schedule.chain_tasks import ChainTasks, bases, chain_tasks, ends_before_messages
from explorer.plan.schedule.schedule import Kernel
from explorer.plan.schedule.task_assignment import HOME, Assignment, Network, assign
from explorer.record.reasons import bytes_text, counted_text, micros_text
from explorer.run.execution.kernel_failure import failure
from explorer.run.execution.program import Program
from explorer.run.runtime.timing import Note, Timing
from explorer.run.workers.program_piece import Outcome, Piece, PieceRunner, Replica, Values, sent_leaves, whole_of
from explorer.run.workers.serialization import ship
from explorer.run.workers.workers import Workers

_ATTEMPTS = 4
_TICK = 0.25
"""seconds between two checks of the scheduler while workers run"""
_SMALL = 1 << 14
"""maximum number of bytes of a leaf that is sent separately to each piece that reads it"""
_INLINE = 1 << 18
"""maximum bytes of values in the message that starts a piece, which saves a message through the scheduler"""


class Spread:
    """Program that was sent to workers; a run continues if some workers are lost."""

    def __init__(self, planned: Plan, workers: Workers) -> None:
        self.workers = workers
        self._planned = planned
        self._distributions: dict[tuple[Network, bool], Distribution] = {}
        self._replica: Any = None
        self._resident: dict[int, tuple[Any, Any]] = {}
        """uid of a tensor → its array and the array's future; an array that never changes is sent only once"""

    def distribution(self, network: Network) -> Distribution:
        """Return the pieces for the workers of ``network``, computed once for each number of workers."""
        key = network, self.workers.always
        if key not in self._distributions:
            distribution = distribute(self._planned, network, self.workers.always)
            if distribution.pieces and self._replica is None:
                try:
                    self._data = ship(self._planned)
                except (pickle.PicklingError, TypeError, AttributeError) as error:
                    reason = f"Nothing was sent to workers: the program cannot be written as bytes ({error})."
                    distribution = Distribution((), reason)
            self._distributions[key] = distribution
        return self._distributions[key]

    def run(self, program: Program, names: list[str]) -> Timing:
        """Run all pieces of a program on the workers ``names``, or on the remaining ones if some are lost.

        Raises RunError if a kernel fails or the scheduler is lost.
        """
        workers, home = self.workers, PieceRunner(program)
        nodes = sent_leaves(self._planned)
        leaves = {node.uid: program.values[program.slots[node.uid]] for node in nodes}
        cause: BaseException | None = None
        for _ in range(_ATTEMPTS):
            attempt = _Attempt(home, workers, names, leaves, self._resident)
            sent = self.distribution(workers.network(names)).pieces
            # If too few workers remain, messages would take more time than they save.
            pieces = sent or all_at_home(self._planned)
            try:
                if sent and self._replica is None:
                    (self._replica,) = workers.scatter([Replica(self._data)], None)
                timing = attempt.run(pieces, self._replica)
                workers.note_lost(names)
                return timing._replace(notes=self._notes(attempt, pieces))
            except workers.losses() as error:
                workers.check(error)
                workers.note_lost(names)
                cause = error
                self._replica = None  # sent again, since the last copy may have been lost
                self._resident.clear()
                names = workers.ready()
            finally:
                attempt.release()
                if attempt.failed:
                    program.forget()
        raise RunError(
            f"workers lost in {_ATTEMPTS} consecutive runs ({', '.join(workers.lost) or 'their connections'})",
            rule="a worker must live until its piece has ended",
            fix="look at the workers' logs: they may be out of memory",
        ) from cause

    def _notes(self, attempt: _Attempt, pieces: Iterable[Piece]) -> tuple[Note, ...]:
        distribution = self.distribution(self.workers.network(attempt.names))
        counts = {"workers": len(attempt.names), "pieces_sent": sum([piece.lane != HOME for piece in pieces])}
        sent = f"{counted_text(attempt.messages, 'message')} with {bytes_text(attempt.bytes)} were sent."
        notes = [
            Note(distribution.reason, counts),
            Note(sent, {"messages": attempt.messages, "bytes_sent": attempt.bytes}),
        ]
        if lost := self.workers.lost:
            count = "1 worker has been" if len(lost) == 1 else f"{len(lost)} workers have been"
            text = f"{count} lost since they were opened ({', '.join(lost)}): others computed what they had to."
            notes.append(Note(text, {"workers_lost": len(lost)}))
        return tuple(notes)


class _Attempt:
    """One run of all pieces, which ends when all have run or a worker is lost."""

    def __init__(
        self,
        home: PieceRunner,
        workers: Workers,
        names: list[str],
        leaves: Mapping[int, Any],
        resident: dict[int, tuple[Any, Any]],
    ) -> None:
        self._home, self._workers, self.names, self._leaves = home, workers, names, leaves
        self._resident = resident
        self._futures: dict[int, Any] = {}
        self._outcomes: dict[int, Outcome] = {}
        planned = home.program.planned
        self._tensors = {leaf.uid for leaf in sent_leaves(planned) if isinstance(whole_of(leaf, planned), Tensor)}
        """uids of tensors, and of parts of tensors, whose elements never change"""
        self._follow = current_callback()
        self._kernels = home.program.planned.schedule.kernels
        self.messages, self.bytes = 0, 0
        self.failed = True

    def run(self, pieces: tuple[Piece, ...], replica: Any) -> Timing:
        """Run pieces as soon as the values that they read are available."""
        began = time_ns()
        run_name = uuid4().hex
        sent = self._send_leaves(pieces)
        waiting = dict(enumerate(pieces))
        while waiting:
            for index, piece in [*waiting.items()]:
                if piece.lane != HOME and all(need in self._futures or need in self._outcomes for need in piece.needs):
                    self._submit(index, waiting.pop(index), sent, replica, run_name)
            next_index = next(
                (n for n, piece in waiting.items() if piece.lane == HOME and waiting.keys().isdisjoint(piece.needs)), -1
            )
            if next_index >= 0:
                piece = waiting.pop(next_index)
                self._collect([need for need in piece.needs if need in self._futures])
                sources = [self._leaves, *[self._outcomes[need].values for need in piece.needs]]
                self._add_outcome(next_index, self._home.run(piece, sources))
        self._collect([*self._futures])
        values = {uid: value for outcome in self._outcomes.values() for uid, value in outcome.values.items()}
        self._home.finish({**self._leaves, **values})
        self.failed = False
        return self._timing(pieces, began)

    def _send_leaves(self, pieces: tuple[Piece, ...]) -> dict[int, Any]:
        """Send tensors, and values that several workers read, unless they were sent before; return uid → future."""
        lanes: dict[int, set[int]] = {}
        for piece in pieces:
            if piece.lane != HOME:
                for uid in piece.reads:
                    lanes.setdefault(uid, set()).add(piece.lane)
        sent: dict[int, Any] = {}
        changing: dict[int, Any] = {}
        for uid, readers in lanes.items():
            value = self._leaves[uid]
            if value.nbytes <= _SMALL:
                continue
            if uid in self._tensors:
                if uid not in self._resident or not _is_same(self._resident[uid][0], value):
                    name = self._name(*readers) if len(readers) == 1 else None
                    self._resident[uid] = value, self._scatter({uid: value}, name)
                sent[uid] = self._resident[uid][1]
            elif len(readers) > 1:
                changing[uid] = value
        if changing:
            sent |= dict.fromkeys(changing, self._scatter(changing, None))
        return sent

    def _scatter(self, values: Mapping[int, Any], name: str | None) -> Any:
        """Send values to one worker, or to all workers; return a future, or the values themselves if they are small."""
        size = _bytes(values)
        count = len(self.names) if name is None else 1
        self.bytes += size * count
        if size <= _INLINE:
            return Values(values)
        self.messages += count
        (future,) = self._workers.scatter([Values(values)], name)
        return future

    def _name(self, lane: int) -> str:
        return self.names[(lane - 1) % len(self.names)]

    def _submit(self, index: int, piece: Piece, sent: Mapping[int, Any], replica: Any, run_name: str) -> None:
        values = {uid: self._leaves[uid] for uid in piece.reads if uid not in sent}
        for need in piece.needs:
            if need in self._outcomes:
                values |= self._outcomes[need].values
        sources = [*{id(sent[uid]): sent[uid] for uid in piece.reads if uid in sent}.values()]
        if values:
            sources.append(self._scatter(values, self._name(piece.lane)))
        sources += [self._futures[need] for need in piece.needs if need not in self._outcomes]
        self.messages += 1
        self._futures[index] = self._workers.client.submit(
            _run_piece,
            replica,
            piece,
            sources,
            # Dask treats results with equal keys as equal, so each run uses new keys.
            key=f"explorer-piece-{index}-{run_name}",
            workers=[self._name(piece.lane)],
            # The worker is only preferred: if it dies, Dask runs the piece on another one.
            allow_other_workers=True,
            pure=False,
        )

    def _collect(self, indices: Iterable[int]) -> None:
        """Wait for pieces on workers, and fetch their outcomes."""
        indices = [index for index in indices if index not in self._outcomes]
        if not indices:
            return
        self._workers.wait_for([self._futures[index] for index in indices], _TICK, self._report)
        try:
            outcomes = self._workers.client.gather([self._futures[index] for index in indices])
        except self._workers.losses():
            raise
        except Exception as error:  # pieces return kernel failures, so this is a different error
            raise RunError(
                f"a worker that could not run its piece: {type(error).__name__}: {error}",
                rule="workers must have the packages and modules that the program's operations come from",
                fix="install them there, or declare the operations in the notebook itself",
            ) from error
        self.messages += len(indices)
        for index, outcome in zip(indices, outcomes, strict=True):
            self.bytes += _bytes(outcome.values)
            self._add_outcome(index, outcome)

    def _add_outcome(self, number: int, outcome: Outcome) -> None:
        self._outcomes[number] = outcome
        if outcome.failure is not None:
            index, error = outcome.failure
            program = self._home.program
            raise failure(program.planned, index, program.runners[index][0], error) from error
        self._report()

    def _report(self) -> None:
        if self._follow is not None:
            done = sum([len(outcome.ended) for outcome in self._outcomes.values()])
            self._follow(Progress("running", "on workers", done, len(self._kernels)))

    def _timing(self, pieces: tuple[Piece, ...], began: int) -> Timing:
        """Return the times of all kernels by this process's clock; views created by workers get the run's start
        time."""
        offset, end = perf_counter_ns() - time_ns(), time_ns()
        timing = self._home.program.blank_timing()
        for index in range(len(timing.began)):
            timing.began[index] = timing.ended[index] = began + offset
        lanes = {name: lane for lane, name in enumerate(self.names, 1)}
        for index_of_piece, piece in enumerate(pieces):
            outcome = self._outcomes[index_of_piece]
            for index, start, stop in zip(piece.kernels, outcome.began, outcome.ended, strict=True):
                timing.threads[index] = HOME if piece.lane == HOME else lanes.get(outcome.worker, piece.lane)
                # The clocks of other machines may differ.
                timing.began[index] = min(max(start, began), end) + offset
                timing.ended[index] = min(max(stop, began), end) + offset
        return timing

    def release(self) -> None:
        """Release the pieces that have not ended."""
        if self.failed and self._futures and not self._workers.is_lost:
            self._workers.client.cancel([*self._futures.values()], force=True)
        self._futures.clear()


def _is_same(a: Array, b: Array) -> bool:
    """Return whether ``a`` and ``b`` are the same object, or views of the same elements of one array."""
    if a is b:
        return True
    is_same_memory = a.base is not None and a.base is b.base and a.ctypes.data == b.ctypes.data
    return is_same_memory and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)


def _run_piece(replica: Replica, piece: Piece, sources: list[Any]) -> Outcome:
    """Run a piece on a worker."""
    from distributed import get_worker

    for source in sources:
        if isinstance(source, Outcome) and source.failure is not None:
            return Outcome(Values(), [], [], source.worker, source.failure)
    tables = [source.values if isinstance(source, Outcome) else source for source in sources]
    return replica.run(piece, tables, get_worker().address)


def _bytes(values: Mapping[int, Any]) -> int:
    return sum([part.nbytes for value in values.values() for part in (value if isinstance(value, tuple) else (value,))])


_PARTS = 4
"""maximum number of parts of one tensor that are sent separately, each in one message"""


class Distribution(NamedTuple):
    """Pieces, in an order in which they can start; none if all kernels run in this process."""

    pieces: tuple[Piece, ...]
    reason: str
    """sentence that explains why the work is distributed or not"""


def distribute(planned: Plan, network: Network, always: bool = False) -> Distribution:
    """Distribute a plan over the workers of ``network``; with ``always``, send calls regardless of the cost."""
    schedule = planned.schedule
    work = chain_tasks(
        schedule, at_home=lambda kernel: _at_home(kernel, network, always), away=lambda kernel: _away(kernel, always)
    )
    assignment = assign(work.tasks, work.sizes, work.inputs, work.results, network)
    local_us = sum([task.micros for task in work.tasks])
    count = len({lane for lane in assignment.lanes if lane != HOME})
    facts = f"an estimated {micros_text(assignment.micros)} instead of {micros_text(local_us)} alone"
    if not count:
        return Distribution((), "Nothing was sent to workers: every kernel ends sooner here than a message arrives.")
    if assignment.micros >= local_us and not always:
        return Distribution((), f"Nothing was sent to workers: messages would take longer than they save, {facts}.")
    chains = counted_text(len(work.tasks), "chain")
    return Distribution(
        tuple(_pieces(planned, work, assignment)),
        f"{chains} of kernels on {counted_text(count, 'worker')}: {facts}.",
    )


def all_at_home(planned: Plan) -> tuple[Piece, ...]:
    """Return the whole plan as one piece for the calling process."""
    schedule = planned.schedule
    work = chain_tasks(schedule)
    kernels = tuple(sorted([index for indices in work.kernels for index in indices]))
    leaves = tuple([leaf.uid for leaf in sent_leaves(planned)])
    return (Piece(HOME, kernels, (), leaves, tuple(work.results)),)


def _at_home(kernel: Kernel, network: Network, always: bool) -> bool:
    return not _away(kernel, always) or (ends_before_messages(kernel, network) if not always else not _is_call(kernel))


def _away(kernel: Kernel, always: bool) -> bool:
    """Return whether a kernel may run on a worker; kernels with effects or device memory run in this process.

    With ``always``, only calls, and smaller views of their results, may run on workers.
    """
    values = (*kernel.nodes, *kernel.reads)
    is_sent = all(node.operation.pure for node in kernel.nodes) and all(value.type.device is cpu for value in values)
    return is_sent and (not always or _is_call(kernel) or kernel.is_view)


def _is_call(kernel: Kernel) -> bool:
    return isinstance(kernel.result.operation, Call)


def _pieces(planned: Plan, work: ChainTasks, assignment: Assignment) -> list[Piece]:
    """Join tasks of one lane into pieces, which wait for other lanes only when they start."""
    producer = {value: number for number, task in enumerate(work.tasks) for value in task.outputs}
    piece_of: dict[int, int] = {}
    """task → piece"""
    tasks: list[list[int]] = []
    needs: list[set[int]] = []
    open_piece: dict[int, int] = {}
    """lane → last piece of the lane"""
    waited_for: dict[int, set[int]] = {}
    """lane → pieces of other lanes for which a piece of the lane has waited"""
    for number in assignment.order:
        lane = assignment.lanes[number]
        producer_pieces = {piece_of[producer[value]] for value in work.tasks[number].reads if value in producer}
        remote = {piece for piece in producer_pieces if assignment.lanes[tasks[piece][0]] != lane}
        if lane not in open_piece or not remote <= waited_for.setdefault(lane, set()):
            open_piece[lane] = len(tasks)
            tasks.append([])
            needs.append(set())
        piece = piece_of[number] = open_piece[lane]
        tasks[piece].append(number)
        needs[piece] |= producer_pieces - {piece}
        waited_for.setdefault(lane, set()).update(remote)
    schedule = planned.schedule
    base = bases(schedule)
    leaves = _values_of_leaves(planned)
    pieces = []
    for number, members in enumerate(tasks):
        kernels = tuple(sorted([index for task in members for index in work.kernels[task]]))
        read = {base.get(node.uid, node).uid for index in kernels for node in schedule.kernels[index].reads}
        reads = _with_wholes({value for uid in read for value in leaves.get(uid, ())}, planned)
        requested = {
            value for task in range(len(work.tasks)) if piece_of[task] != number for value in work.tasks[task].reads
        }
        outputs = {value for task in members for value in work.tasks[task].outputs} & (requested | {*work.results})
        lane = assignment.lanes[members[0]]
        pieces.append(Piece(lane, kernels, tuple(sorted(needs[number])), tuple(sorted(reads)), tuple(sorted(outputs))))
    return pieces


def _with_wholes(reads: set[int], planned: Plan) -> set[int]:
    """Return ``reads`` with whole tensors instead of parts, if there are many parts or they are not smaller."""
    parts: dict[int, list[Expr]] = {}
    """uid of a tensor → parts of it that are read"""
    for leaf in planned.schedule.leaves:
        if leaf.uid in reads and (whole := whole_of(leaf, planned)) is not leaf:
            parts.setdefault(whole.uid, []).append(leaf)
    for leaf in planned.schedule.leaves:
        read = parts.get(leaf.uid, [])
        size = sum([part.type.nbytes for part in read])
        if read and (leaf.uid in reads or len(read) > _PARTS or size >= leaf.type.nbytes):
            reads = reads - {part.uid for part in read} | {leaf.uid}
    return reads


def _values_of_leaves(planned: Plan) -> dict[int, set[int]]:
    """Return, by uid, the leaves sent for each leaf: itself, or the leaves of which it is a view.

    A constant is computed wherever it is read, so the values from which it is computed are sent.
    """
    values: dict[int, set[int]] = {}
    schedule, sent = planned.schedule, {leaf.uid for leaf in sent_leaves(planned)}
    for leaf in schedule.leaves:
        operand_leaves = [values.get(operand.uid, set()) for operand in planned.graph.inputs[leaf.uid]]
        values[leaf.uid] = {leaf.uid} if leaf.uid in sent else set().union(*operand_leaves)
    for kernel in schedule.kernels:
        if kernel.constant:
            values[kernel.result.uid] = set().union(*[values.get(read.uid, set()) for read in kernel.reads])
    return values
