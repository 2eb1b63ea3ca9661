"""Order: the ready set at each pick, recomputed from the schedule; reverse depth-first search against a simple one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.plan import Options, Plan, plan
from explorer.plan.passes.order import HEURISTICS
from explorer.plan.schedule.schedule import Kernel, Schedule
from tests.support.execution import run
from tests.support.programs import programs


def producers(schedule: Schedule) -> list[set[int]]:
    """Return, for each kernel, the numbers of the kernels that it reads."""
    number = {kernel.result.uid: index for index, kernel in enumerate(schedule.kernels)}
    return [{number[read.uid] for read in kernel.reads if read.uid in number} for kernel in schedule.kernels]


def moments(schedule: Schedule, lanes: int) -> Iterator[tuple[Kernel, set[int], set[int]]]:
    """Yield each kernel with the ready uids and those waiting for running kernels, simulated with the estimates."""
    kernels, before = schedule.kernels, producers(schedule)
    ends: dict[int, float] = {}
    now = 0.0
    for index, kernel in enumerate(kernels):
        left = range(index, len(kernels))
        if lanes > 1:
            while True:
                running = sorted(end for end in ends.values() if end > now)
                there = {number for number, end in ends.items() if end <= now}
                if len(running) < lanes and any(before[other] <= there for other in left):
                    break
                now = running[0]
        else:
            there = set(range(index))
        ready = {kernels[other].result.uid for other in left if before[other] <= there}
        begun = {kernels[other].result.uid for other in left if before[other] <= {*range(index)}}
        yield kernel, ready, begun - ready
        ends[index] = now + kernel.cost.estimate


@pytest.mark.spec("P-7", "P-11", headline=True)
@given(roots=programs(), lanes=st.sampled_from((1, 2, 4)), order=st.sampled_from(HEURISTICS), fused=st.booleans())
def test_what_is_ready_at_a_pick_is_what_has_its_operands_there(
    roots: Any, lanes: int, order: str, fused: bool
) -> None:
    """Choose the next kernel among all whose operands are available, and give the reason for the choice."""
    planned = plan(roots, Options(lanes=lanes, order=order, without=() if fused else ("fuse",)))
    constant = {kernel.result.uid for kernel in planned.schedule.kernels if kernel.constant}
    picks = planned.schedule.picks
    for (kernel, ready, waiting), pick in zip(moments(planned.schedule, lanes), picks, strict=True):
        uid = kernel.result.uid
        assert pick.ready_count == len(ready)
        assert pick.waiting_count == len(waiting)
        assert {priority[2] for priority in pick.candidates} <= ready
        assert {priority[2] for priority in pick.waiting} <= waiting
        assert len(pick.candidates) == min(8, len(ready))
        assert uid in {priority[2] for priority in pick.candidates}
        assert bool(pick.waiting) == bool(waiting)
        assert (pick.reason == "only") is (len(ready) == 1 and not waiting)
        assert (pick.reason == "ready_first") is (len(ready) == 1 and bool(waiting))
        assert (pick.reason == "constant") is (len(ready) > 1 and uid in constant and not ready <= constant)
        assert min(pick.candidates)[2] == uid


@pytest.mark.spec("P-7", "P-11")
def test_kernels_waiting_for_running_ones_are_reported() -> None:
    """With four equal chains on two lanes, two start, two more are ready, and no pick claims that nothing else was."""
    x = ex.tensor(np.ones((40, 40)))
    ways = [ex.cumsum(ex.cumsum(x * float(n + 2), 0), 1) for n in range(4)]
    picks = plan([ex.add_n(*ways)], Options(lanes=2, without=("batch",))).schedule.picks
    assert [pick.ready_count for pick in picks[:2]] == [4, 3]
    assert [pick.reason for pick in picks[-2:]] == ["only", "only"]  # the last chain's end and the join of all chains
    assert all(pick.reason != "only" for pick in picks[:-2])


def placed(planned: Plan) -> dict[int, int]:
    return {kernel.result.uid: place for place, kernel in enumerate(planned.schedule.kernels)}


def reversed_postorder(schedule: Schedule) -> list[int]:
    """Return InferFramework's ReverseTopo order: readers are visited by name, and the last node left comes first."""
    kernels = sorted(schedule.kernels, key=lambda kernel: kernel.result.uid)
    left: list[int] = []
    seen: set[int] = set()

    def visit(node: ex.Expr) -> None:
        for kernel in sorted(
            [k for k in kernels if any(read is node for read in k.reads)], key=lambda k: k.result.label
        ):
            if kernel.result.uid not in seen:
                seen.add(kernel.result.uid)
                visit(kernel.result)
                left.append(kernel.result.uid)

    for leaf in sorted(schedule.leaves, key=lambda leaf: leaf.label):
        visit(leaf)
    return left[::-1]


@pytest.mark.spec("P-7")
def test_the_order_can_be_a_reverse_depth_first_search() -> None:
    """With order="depth_first", readers are visited by name, and the last one's branch runs first."""
    a, b = ex.tensor(np.ones((3, 4)), name="a"), ex.tensor(np.ones((3, 4)), name="b")
    ways = [ex.tanh(ex.sin(a)), ex.cumsum(ex.softmax(a), 1), ex.square(ex.cos(b))]
    roots = [ways[0] @ ex.transpose(ways[1]) + 1.0, ways[2]]
    apart = ("fuse", "batch", "simplify")
    planned = plan(roots, Options(order="depth_first", without=apart))
    names = [kernel.result.label for kernel in planned.schedule.kernels]
    assert names == ["cos", "square", "softmax", "cumsum", "transpose", "sin", "tanh", "matmul", "add"]
    assert [kernel.result.uid for kernel in planned.schedule.kernels] == reversed_postorder(planned.schedule)
    assert {pick.reason for pick in planned.schedule.picks if pick.ready_count > 1} == {"depth_first"}
    assert {pick.reason for pick in planned.schedule.picks if pick.ready_count == 1} == {"only"}
    shared = ex.tanh(a)  # its readers are recorded in another order than their names
    readers = plan([ex.sin(shared), ex.exp(shared), ex.cos(shared)], Options(order="depth_first", without=apart))
    assert [kernel.result.label for kernel in readers.schedule.kernels] == ["tanh", "sin", "exp", "cos"]
    assert [kernel.result.uid for kernel in readers.schedule.kernels] == reversed_postorder(readers.schedule)
    earliest = [kernel.result.label for kernel in plan(roots, Options(without=apart)).schedule.kernels]
    assert earliest[:4] == ["sin", "tanh", "softmax", "cumsum"]
    for result, root in zip(run(planned), roots, strict=True):
        np.testing.assert_allclose(result, ex.evaluate(root))
    with pytest.raises(ex.UnknownNameError, match="known: depth_first, earliest"):
        Options(order="widest")


@pytest.mark.spec("P-7", "I-3")
def test_depth_first_search_uses_operator_names_of_a_file() -> None:
    """In a file's net, the branch of the operator whose name sorts last runs first."""
    net = ex.Net("n")
    net.input("x", (2, 3))
    for name in ("right", "left", "middle"):
        net.Relu(net.Tanh("x", f"{name}_tanh", name=f"{name}_tanh"), name, name=name)
    net.output(net.Add([net.Add(["right", "left"], "sum", name="sum"), "middle"], "y", name="y"))
    planned = net.plan(order="depth_first", without=("dedup", "batch", "fuse", "simplify")).planned
    names = [repr(kernel.result.scope) for kernel in planned.schedule.kernels]
    branches = ["right_tanh", "right", "middle_tanh", "middle", "left_tanh", "left"]
    assert [name for name in names if name in branches] == branches


@pytest.mark.spec("P-7")
@given(roots=programs())
def test_the_depth_first_order_is_topological(roots: Any) -> None:
    places = placed(planned := plan(roots, Options(order="depth_first")))
    for kernel in planned.schedule.kernels:
        assert all(places.get(read.uid, -1) < places[kernel.result.uid] for read in kernel.reads)


class Turn(NamedTuple):
    """A kernel's position in the order."""

    level: int
    chain: int
    runs_until: int


def alone(*roots: ex.Expr, lanes: int = 1) -> dict[str, Turn]:
    """Return the turns of a plan without fusion, by the name of the computed node."""
    schedule = plan(roots, Options(lanes=lanes, without=("fuse", "batch"))).schedule
    turns = map(Turn, schedule.levels, schedule.chains, schedule.runs_until)
    return {kernel.result.operation.name: turn for kernel, turn in zip(schedule.kernels, turns, strict=True)}


@pytest.mark.spec("P-7")
def test_the_level_of_a_kernel_is_one_more_than_the_highest_level_that_it_reads() -> None:
    x = ex.tensor(np.ones(3))
    kernels = alone(ex.sin(ex.tanh(x)) + ex.cos(x))
    assert {name: kernel.level for name, kernel in kernels.items()} == {"tanh": 1, "cos": 1, "sin": 2, "add": 3}


@pytest.mark.spec("P-7")
def test_branches_from_one_kernel_are_separate_chains() -> None:
    """A chain continues if the only reader of a kernel reads nothing else."""
    x = ex.tanh(ex.tensor(np.ones(3)))
    kernels = alone(ex.exp(ex.sin(x)) + ex.cos(x))
    assert kernels["exp"].chain == kernels["sin"].chain
    assert len({kernels[name].chain for name in ("tanh", "sin", "cos", "add")}) == 4


@pytest.mark.spec("P-7", "P-11")
def test_a_kernel_runs_until_the_last_kernel_that_starts_before_it_ends() -> None:
    """Two long kernels start together, and a third when the shorter one ends."""
    long, short = ex.tensor(np.ones((2000, 2000))), ex.tensor(np.ones((1000, 1000)))
    roots = ex.sin(long), ex.cos(short), ex.tanh(short), ex.exp(long)
    kernels = alone(*roots, lanes=2)
    assert kernels["cos"].runs_until == 1
    assert kernels["sin"].runs_until >= 2
    assert [kernel.runs_until for kernel in alone(*roots).values()] == [0, 1, 2, 3]


@pytest.mark.spec("P-7")
def test_the_earliest_recorded_ready_kernel_is_picked_and_the_ready_set_is_recorded() -> None:
    """The decision has the other ready kernels and the reason for the pick."""
    late, early = ex.tensor(np.ones((3, 3))), ex.tensor(np.ones((3, 3)))
    first, second, third = early @ early, late @ late, early @ late
    planned = plan([third @ (second @ first)])
    kernels, picks = planned.schedule.kernels, planned.schedule.picks
    assert [kernel.result.uid for kernel in kernels] == sorted(kernel.result.uid for kernel in kernels)
    assert planned.schedule.levels == (1, 1, 1, 2, 3)
    assert [(pick.ready_count, pick.reason) for pick in picks] == [
        (3, "earliest"), (2, "earliest"), (2, "earliest"), (1, "only"), (1, "only")
    ]  # fmt: skip
    assert [len(pick.candidates) for pick in picks] == [3, 2, 2, 1, 1]
    assert [min(pick.candidates)[2] for pick in picks] == [kernel.result.uid for kernel in kernels]


@pytest.mark.spec("P-7")
def test_a_run_of_kernels_with_single_readers_is_one_chain() -> None:
    a = ex.tensor(np.ones((3, 3)))
    left, right = ((a @ a) @ a) @ a, (a + 1.0) @ a
    planned = plan([left @ right])
    chains = planned.schedule.chains
    assert len(set(chains)) == 3
    assert max(chains.count(chain) for chain in chains) == 3
