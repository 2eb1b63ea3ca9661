"""Distribution of a schedule: which pieces run here and which on workers, or why none is sent.

The assignment is that of ``plan.estimate``. Neighbouring chains of a worker become one piece, which begins where a
value of another lane is needed: so the values that a piece needs are there when it begins, and no two pieces wait for
each other.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.types.device import cpu
from explorer.plan.planner import Plan
from explorer.plan.schedule.chain_tasks import ChainTasks, bases, chain_tasks, ends_before_messages
from explorer.plan.schedule.schedule import Kernel
from explorer.plan.schedule.task_assignment import HOME, Assignment, Network, assign
from explorer.record.reasons import counted_text, micros_text
from explorer.run.workers.piece import Piece, sent_leaves, whole_of

_PARTS = 4
"""parts of one tensor up to which they are sent by themselves, each in a message"""


class Distribution(NamedTuple):
    """Pieces in an order in which they can begin; none where everything stays here."""

    pieces: tuple[Piece, ...]
    reason: str
    """why the work is spread, or is not, as a sentence"""


def distribute(planned: Plan, network: Network, always: bool = False) -> Distribution:
    """Distribute a plan over workers; with ``always`` calls go to workers, whatever that costs."""
    schedule = planned.schedule
    work = chain_tasks(
        schedule, at_home=lambda kernel: _at_home(kernel, network, always), away=lambda kernel: _away(kernel, always)
    )
    assignment = assign(work.tasks, work.sizes, work.inputs, work.results, network)
    alone = sum([task.micros for task in work.tasks])
    count = len({lane for lane in assignment.lanes if lane != HOME})
    facts = f"an estimated {micros_text(assignment.micros)} instead of {micros_text(alone)} alone"
    if not count:
        return Distribution((), "Nothing was sent to workers: every kernel ends sooner here than a message arrives.")
    if assignment.micros >= alone and not always:
        return Distribution((), f"Nothing was sent to workers: messages would take longer than they save, {facts}.")
    chains = counted_text(len(work.tasks), "chain")
    return Distribution(
        tuple(_pieces(planned, work, assignment)),
        f"{chains} of kernels on {counted_text(count, 'worker')}: {facts}.",
    )


def all_at_home(planned: Plan) -> tuple[Piece, ...]:
    """Return all of a plan as one piece for the process that asks."""
    schedule = planned.schedule
    work = chain_tasks(schedule)
    kernels = tuple(sorted([index for indices in work.kernels for index in indices]))
    leaves = tuple([leaf.uid for leaf in sent_leaves(planned)])
    return (Piece(HOME, kernels, (), leaves, tuple(work.results)),)


def _at_home(kernel: Kernel, network: Network, always: bool) -> bool:
    return not _away(kernel, always) or (ends_before_messages(kernel, network) if not always else not _is_call(kernel))


def _away(kernel: Kernel, always: bool) -> bool:
    """Whether a kernel may run on a worker: an effect must be seen here, and a device's memory is here.

    With ``always`` only calls do, and views of their results, of which less is sent than of the whole.
    """
    values = (*kernel.nodes, *kernel.reads)
    is_sent = all(node.operation.pure for node in kernel.nodes) and all(value.type.device is cpu for value in values)
    return is_sent and (not always or _is_call(kernel) or kernel.is_view)


def _is_call(kernel: Kernel) -> bool:
    return isinstance(kernel.result.operation, Call)


def _pieces(planned: Plan, work: ChainTasks, assignment: Assignment) -> list[Piece]:
    """Join tasks to pieces; see the module."""
    giver = {value: number for number, task in enumerate(work.tasks) for value in task.gives}
    piece_of: dict[int, int] = {}
    """task → piece"""
    tasks: list[list[int]] = []
    needs: list[set[int]] = []
    open_piece: dict[int, int] = {}
    """lane → its last piece"""
    known: dict[int, set[int]] = {}
    """lane → pieces of other lanes that one of its pieces has waited for"""
    for number in assignment.order:
        lane = assignment.lanes[number]
        others = {piece_of[giver[value]] for value in work.tasks[number].reads if value in giver}
        remote = {piece for piece in others if assignment.lanes[tasks[piece][0]] != lane}
        # Waiting for a piece of another lane is possible only at the beginning of a piece.
        if lane not in open_piece or not remote <= known.setdefault(lane, set()):
            open_piece[lane] = len(tasks)
            tasks.append([])
            needs.append(set())
        piece = piece_of[number] = open_piece[lane]
        tasks[piece].append(number)
        needs[piece] |= others - {piece}
        known.setdefault(lane, set()).update(remote)
    schedule = planned.schedule
    base = bases(schedule)
    leaves = _values_of_leaves(planned)
    pieces = []
    for number, members in enumerate(tasks):
        kernels = tuple(sorted([index for task in members for index in work.kernels[task]]))
        read = {base.get(node.uid, node).uid for index in kernels for node in schedule.kernels[index].reads}
        reads = _with_wholes({value for uid in read for value in leaves.get(uid, ())}, planned)
        wanted = {
            value for task in range(len(work.tasks)) if piece_of[task] != number for value in work.tasks[task].reads
        }
        gives = {value for task in members for value in work.tasks[task].gives} & (wanted | {*work.results})
        lane = assignment.lanes[members[0]]
        pieces.append(Piece(lane, kernels, tuple(sorted(needs[number])), tuple(sorted(reads)), tuple(sorted(gives))))
    return pieces


def _with_wholes(reads: set[int], planned: Plan) -> set[int]:
    """Replace parts of a tensor by the tensor, where they are many, or are no less to send than all of it."""
    parts: dict[int, list[Expr]] = {}
    """uid of a tensor → the parts of it that are read"""
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
    """Return for each leaf, by uid, the leaves to send for it: itself, or those of which it is a view.

    Constants are computed wherever they are read, so they stand for the values that they are computed of.
    """
    values: dict[int, set[int]] = {}
    schedule, sent = planned.schedule, {leaf.uid for leaf in sent_leaves(planned)}
    for leaf in schedule.leaves:
        below = [values.get(operand.uid, set()) for operand in planned.graph.inputs[leaf.uid]]
        values[leaf.uid] = {leaf.uid} if leaf.uid in sent else set().union(*below)
    for kernel in schedule.kernels:
        if kernel.constant:
            values[kernel.result.uid] = set().union(*[values.get(read.uid, set()) for read in kernel.reads])
    return values
