"""Dependencies of kernels: in any order that respects them, each kernel reads what it would without memory reuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.plan import Options, Plan, plan
from explorer.plan.passes import Inline
from explorer.run.execution.executors import run_simple
from explorer.run.execution.kernel_dependencies import _Memory as Memory
from explorer.run.execution.kernel_dependencies import chains, dependencies
from explorer.run.execution.program import Program
from tests.support.execution import without_reuse
from tests.support.programs import limits, programs, sized, subsets

graphs = st.one_of(sized(), programs())


def copied(value: Any) -> Any:
    return tuple(part.copy() for part in value) if isinstance(value, tuple) else np.array(value)


def same(found: Any, expected: Any) -> bool:
    if isinstance(found, tuple):
        return all(same(a, b) for a, b in zip(found, expected, strict=True))
    return np.array_equal(found, expected, equal_nan=True)


def values_without_reuse(planned: Plan) -> dict[int, Any]:
    """Return all values by uid, each in its own memory."""
    program = Program(without_reuse(planned))
    run_simple(program)
    return {uid: copied(program.values[slot]) for uid, slot in program.slots.items()}


@pytest.mark.spec("P-7", "P-8", "P-11")
@given(roots=graphs, without=subsets, limit=limits, lanes=st.sampled_from((1, 2, 4)), data=st.data())
def test_in_any_order_kernels_read_what_they_would_without_reuse(
    roots: Any, without: Any, limit: int, lanes: int, data: st.DataObject
) -> None:
    """Random graphs, passes, lanes and orders: every operand of every kernel holds the bits of a run without reuse."""
    planned = plan(roots, Options(without=without, inline=Inline(limit), lanes=lanes))
    expected = values_without_reuse(planned)
    program = Program(planned)
    order = program.chains
    needs = [*order.tasks.needs]
    ready = [number for number, count in enumerate(needs) if not count]
    run: list[int] = []
    with np.errstate(all="ignore"):
        while ready:
            number = ready.pop(data.draw(st.integers(0, len(ready) - 1)))
            for index in order.kernels[number]:
                for read in planned.schedule.kernels[index].reads:
                    assert same(program.values[program.slots[read.uid]], expected[read.uid])
                runner, slot = program.runners[index]
                program.values[slot] = runner(program.values)
                run.append(index)
            for user in order.tasks.users[number]:
                needs[user] -= 1
                if not needs[user]:
                    ready.append(user)
    assert sorted(run) == [*range(len(planned.schedule.kernels))]
    for root, value in zip(planned.schedule.roots, program.take(), strict=True):
        assert same(value, expected[root.uid])


@pytest.mark.spec("P-7", "M-E8")
def test_independent_branches_are_chains_without_dependencies() -> None:
    """Branches planned to run concurrently share no memory: each is one execution chain, and only their sum waits."""
    branches = []
    for number in range(4):
        y = ex.tensor(np.full((64, 64), number + 2.0))
        for _ in range(3):
            y = ex.tanh(y @ y)
        branches.append(y)
    program = Program(plan([ex.concatenate(branches)], Options(without=("batch",), lanes=4)))
    assert [len(members) for members in program.chains.kernels] == [3, 3, 3, 3, 1]
    assert program.chains.tasks.needs == [0, 0, 0, 0, 4]
    assert program.chains.tasks.users == [[4], [4], [4], [4], []]


@pytest.mark.spec("C-10")
def test_chains_are_run_one_by_one_and_return_whether_they_ran() -> None:
    """`program.run_at(chain)` runs a chain if its parents are done; chains have a start and parents."""
    x = ex.tensor(np.full((8, 8), 0.5))
    first, second = (ex.tanh(x @ x) @ x, ex.exp(x @ (x + 1)) @ x)
    program = Program(plan([ex.concatenate([first, second])], Options(without=("batch", "fuse"), lanes=2)))
    run_simple(program)
    (expected,) = program.take()
    order, timing = program.chains, program.blank_timing()
    starts = [index for index in range(len(program.runners)) if order.is_chain_start(index)]
    assert starts == [members[0] for members in order.kernels]
    assert 1 < len(starts) < len(program.runners)
    counts = [order.runtime_parent_count(chain) for chain in range(len(starts))]
    assert counts == [sum(chain in users for users in order.tasks.users) for chain in range(len(starts))]
    assert program.run_at(0, timing, begins=lambda index: index == order.kernels[0][0]) is (len(order.kernels[0]) == 1)
    assert [program.run_at(chain, timing) for chain in range(len(starts))] == [True] * len(starts)
    np.testing.assert_array_equal(program.take()[0], expected)


def test_a_branch_waits_if_memory_is_planned_for_sequential_kernels() -> None:
    """Without lanes the second branch reuses the first one's memory, so it waits for its readers."""
    first, second = [ex.exp(ex.tensor(np.full((8, 8), number)) @ np.eye(8)).sum() for number in (1.0, 2.0)]
    planned = plan([first, second], Options(without=("batch", "fuse", "simplify")))
    result = dependencies(planned.schedule, {})
    producers = {kernel.result.uid: index for index, kernel in enumerate(planned.schedule.kernels)}
    read = [{producers[r.uid] for r in kernel.reads if r.uid in producers} for kernel in planned.schedule.kernels]
    assert any(waits - reads for waits, reads in zip(result, read, strict=True))
    apart = plan([first, second], Options(without=("batch", "fuse", "simplify"), lanes=2))
    assert all(len(waits) <= 1 for waits in dependencies(apart.schedule, {}))


def test_a_long_chain_is_one_task() -> None:
    """A chain of 20,000 operations is found without recursion."""
    y = ex.tensor(np.ones(1))
    for _ in range(10_000):
        y = ex.tanh(y).reshape((1, 1)).reshape((1,))
    schedule = plan([y], Options(without=("fuse", "simplify"), lanes=4)).schedule
    tasks = chains(schedule, dependencies(schedule, {}))
    assert tasks.kernels == [[*range(len(schedule.kernels))]]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=25))
def test_the_owners_of_memory_are_the_last_writers_of_each_byte(taken: list[tuple[int, int]]) -> None:
    memory, owners = Memory(), [-1] * 20
    for number, (start, size) in enumerate(taken):
        result = memory.take(start, size, number)
        assert set(result) == {owner for owner in owners[start : start + size] if owner >= 0}
        owners[start : start + size] = [number] * size


@pytest.mark.spec("P-8")
def test_calls_that_share_a_value_table_never_run_concurrently() -> None:
    """Calls of one body without their own memory share a program, so that the later one waits."""

    @ex.function
    def shifted(x: Any) -> Any:
        return ex.tanh(x)

    ends = [shifted(ex.tensor(np.full(3, float(number)))) for number in range(2)]
    planned = plan(ends, Options(inline=Inline(0), without=("batch",), lanes=2))
    schedule = planned.schedule
    calls = [index for index, kernel in enumerate(schedule.kernels) if kernel.result.operation.name == "call"]
    assert [schedule.placements[index].scratch_offset for index in calls] == [-1, -1]
    assert len({schedule.chains[index] for index in calls}) == 2
    assert calls[0] in dependencies(schedule, {})[calls[1]]
