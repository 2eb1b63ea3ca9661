"""Serialized programs: bodies, views, tuples and all other parts run to the same bits after deserialization."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import explorer as ex
from explorer.plan import Options, plan
from explorer.plan.passes import Inline
from explorer.plan.schedule.task_assignment import Network
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from explorer.run.workers.distributed_run import _Attempt, distribute
from explorer.run.workers.program_piece import Outcome, PieceRunner, Replica, Values, sent_leaves
from explorer.run.workers.serialization import receive, ship
from tests.support.programs import limits, programs, subsets


def in_pieces(roots: Any, options: Options, workers: int) -> tuple[list[Any], list[Any], int]:
    """Return a plan's results from a whole run and from pieces on replicas, and the number of pieces sent."""
    planned = plan(roots, options)
    simple, home = Program(planned), Program(planned)
    run_simple(simple)
    pieces = distribute(planned, Network(workers, bandwidth=1e9, latency=0.0)).pieces
    data = ship(planned)
    replicas = [Replica(data) for _ in range(workers + 1)]
    runner = PieceRunner(home)
    leaves = {leaf.uid: home.values[home.slots[leaf.uid]] for leaf in sent_leaves(planned)}
    outcomes: list[Outcome] = []
    for piece in pieces:
        sources = [{uid: leaves[uid] for uid in piece.reads}, *[outcomes[need].values for need in piece.needs]]
        outcome = replicas[piece.lane].run(piece, sources, "") if piece.lane else runner.run(piece, sources)
        assert outcome.failure is None, outcome.failure
        assert {*outcome.values} == {*piece.outputs}
        outcomes.append(outcome)
    values = {uid: value for outcome in outcomes for uid, value in outcome.values.items()}
    if not pieces:
        run_simple(home)
    else:
        runner.finish({**leaves, **values})
    return simple.take(), home.take(), len(pieces)


@pytest.mark.spec("C-14", "P-11")
@given(roots=programs(), without=subsets, limit=limits)
def test_pieces_on_replicas_give_the_same_bits(roots: Any, without: Any, limit: int) -> None:
    """Random programs, cut into pieces for three workers, each with memory of its own: the bits of one run."""
    options = Options(without=without, inline=Inline(limit))
    expected, result, _ = in_pieces(roots, options, 3)
    for value, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize("count", [2, 3, 18])
def test_parts_of_a_tensor_are_sent_without_the_whole(count: int) -> None:
    """Each worker receives the rows that it uses, and a view of them; if they are many, the whole tensor."""
    x = ex.tensor(np.random.default_rng(0).normal(size=(9 * count, 40, 40)))
    rows = [x[9 * n : 9 * n + 9] for n in range(count)]
    roots = [ex.tanh(part @ part).sum() + part.reshape((360, 40)).sum() for part in rows]
    options = Options(without=("batch", "fuse"))
    pieces = distribute(plan(roots, options), Network(2, bandwidth=1e9, latency=0.0)).pieces
    leaves = {leaf.uid: leaf for leaf in plan(roots, options).schedule.leaves}
    reads = [{*piece.reads} for piece in pieces if piece.lane]
    assert reads
    for read in reads:
        assert read == {x.uid} or sum(leaves[uid].type.nbytes for uid in read) < x.type.nbytes
    assert any(x.uid in read for read in reads) or count < 18
    assert all(x.uid not in read for read in reads) or count > 2
    results, expected, number = in_pieces(roots, options, 2)[:3]
    assert number
    for value, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_branches_become_separate_pieces() -> None:
    """Three joining branches use three workers, and values are passed between them."""
    x = ex.tensor(np.random.default_rng(0).normal(size=(200, 200)))
    branches = [ex.tanh(x * n @ x) for n in (1, 2, 3)]
    roots = [ex.exp(branches[0] @ branches[1]), branches[2].sum(axis=0)[3:9].reshape(2, 3), x.T]
    expected, result, pieces = in_pieces(roots, Options(without=("batch",)), 3)
    assert pieces > 3
    for value, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(value, other)


def test_a_program_is_deserialized_without_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of unopened calls include their plans, so that a worker needs no rules of the sender."""

    @ex.function
    def both(a: ex.Expr, b: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return ex.tanh(a @ b), (a * b).sum()

    x = ex.tensor(np.random.default_rng(0).normal(size=(30, 30)))
    first, second = both(*both(x, x)[:1], x)
    planned = plan([first + 1, second], Options(inline=Inline(0)))
    data = ship(planned)
    monkeypatch.setattr("explorer.plan.planner.plan", lambda *_: pytest.fail("planned anew"))
    received = receive(data)
    assert [len(kernel.nodes) for kernel in received.schedule.kernels] == [
        len(kernel.nodes) for kernel in planned.schedule.kernels
    ]
    assert len(data) < 30 * 30 * 8 * 2  # without the values of tensors


def test_values_arrive_aligned() -> None:
    """BLAS needs alignment: products would otherwise take fifty times as long."""
    odd = np.frombuffer(b"x" + np.arange(6.0).tobytes(), np.uint8)[1:].view(np.float64)
    assert not odd.flags.aligned or odd.ctypes.data % 8 == 0
    restore, arguments = Values({3: odd, 4: (odd, odd)}).__reduce__()
    result = restore(*arguments)
    assert all(part.flags.aligned for part in (result[3], *result[4]))
    assert np.array_equal(result[4][1], np.arange(6.0))


def test_small_values_inside_a_message_arrive_aligned_too() -> None:
    """Unaligned products round differently, so that trained weights differed between runs."""
    attempt = SimpleNamespace(names=["worker"], bytes=0, messages=0)
    small = {3: np.arange(6.0)}
    sent = _Attempt._scatter(attempt, small, "worker")  # type: ignore[arg-type]  # all that it reads
    restore, (values,) = sent.__reduce__()[:2]
    assert attempt.messages == 0
    odd = np.frombuffer(b"x" + values[3].tobytes(), np.uint8)[1:].view(np.float64)
    assert restore({3: odd})[3].flags.aligned
