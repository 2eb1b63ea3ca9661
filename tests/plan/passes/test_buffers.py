"""Buffers, checked independently: lifetimes recomputed from the schedule, memory from the offsets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from assets import seeded
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TupleType
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.plan import Options, Plan, plan
from explorer.plan.passes import Inline
from explorer.plan.schedule.blocked_kernel import BLOCK_BYTES
from explorer.plan.schedule.schedule import ALIGNMENT, Kernel, Placement, Schedule, align_up
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.support.decisions import codes, facts
from tests.support.execution import run, without_reuse
from tests.support.interpreter import reference
from tests.support.programs import programs, sized

MODELS = Path(__file__).parents[3] / "assets" / "models"


def nbytes(node: ex.Expr) -> int:
    parts = node.type.parts if isinstance(node.type, TupleType) else (node.type,)
    return sum(-(-part.nbytes // ALIGNMENT) * ALIGNMENT for part in parts)


class Step(NamedTuple):
    """Kernel, its placement, and the last kernel that starts before this one ends."""

    kernel: Kernel
    placement: Placement
    runs_until: int


def steps(schedule: Schedule) -> list[Step]:
    return [*map(Step, schedule.kernels, schedule.placements, schedule.runs_until)]


class Life(NamedTuple):
    """Result in the arena: its kernel, and the range of kernels that start while the result is in use."""

    kernel: Kernel
    placement: Placement
    runs_until: int
    first: int
    last: int
    readers: dict[int, list[int]]
    """kernel → uids through which it reads the memory, one for each operand"""


def lifetimes(schedule: Schedule) -> dict[int, Life]:
    """Return the results in the arena by uid."""
    results: dict[int, Life] = {}
    holder: dict[int, int] = {}
    for index, (kernel, placement, runs_until) in enumerate(steps(schedule)):
        uid = kernel.result.uid
        for read in kernel.reads:
            held = holder.get(read.uid, -1)
            if held in results:
                results[held].readers.setdefault(index, []).append(read.uid)
                results[held] = results[held]._replace(last=max(results[held].last, runs_until))
        if placement.offset >= 0:
            results[uid] = Life(kernel, placement, runs_until, index, runs_until, {})
        holder[uid] = holder.get(kernel.reads[0].uid, -1) if kernel.is_view and kernel.reads else uid
    return results


def alive(schedule: Schedule) -> tuple[list[int], int, int]:
    """Return live bytes at each kernel, and the maximum result bytes and working memory outside the arena."""
    kernels, every = schedule.kernels, steps(schedule)
    holder: dict[int, int] = {}
    spans: dict[int, list[int]] = {}
    for index, (kernel, _, runs_until) in enumerate(steps(schedule)):
        uid = kernel.result.uid
        for read in kernel.reads:
            if (held := holder.get(read.uid, -1)) in spans:
                spans[held][1] = max(spans[held][1], runs_until)
        if kernel.cost.bytes and not kernel.constant:
            spans[uid] = [index, runs_until]
        holder[uid] = holder.get(kernel.reads[0].uid, -1) if kernel.is_view and kernel.reads else uid
    for root in schedule.roots:
        if (held := holder.get(root.uid, -1)) in spans:
            spans[held][1] = len(kernels) - 1
    bytes_of = {kernel.result.uid: kernel.cost.bytes for kernel in kernels}
    offset_of = {kernel.result.uid: placement.offset for kernel, placement, _ in steps(schedule)}
    over = {place.reuses.uid: kernel.result.uid for kernel, place, _ in steps(schedule) if place.reuses is not None}
    moments, outside, working = [], [], []
    for moment in range(len(kernels)):
        there = [uid for uid, (first, last) in spans.items() if first <= moment <= last]
        there = [uid for uid in there if over.get(uid) not in there]  # overwritten in place: one buffer
        running = [step.kernel for index, step in enumerate(every) if index <= moment <= step.runs_until]
        moments.append(sum(bytes_of[uid] for uid in there) + sum(kernel.cost.workspace for kernel in running))
        outside.append(sum(bytes_of[uid] for uid in there if offset_of[uid] < 0))
        working.append(sum(kernel.cost.workspace - kernel.cost.scratch for kernel in running))
    return moments, max(outside, default=0), max(working, default=0)


def check(schedule: Schedule) -> None:
    """Check that live results do not overlap, that all are inside the arena, and that the plan's figures are
    consistent.

    A kernel that overwrites an operand reads it once, not through a view, after all other readers have ended.
    """
    lives = lifetimes(schedule)
    places = []
    for life in lives.values():
        kernel, last, reuses = life.kernel, life.last, life.placement.reuses
        over = None if reuses is None else lives[reuses.uid]
        if over is not None:
            assert over.placement.offset == life.placement.offset
            assert over.readers.pop(life.first) == [reuses.uid]
            assert all(schedule.runs_until[reader] < life.first for reader in over.readers)
            assert over.runs_until < life.first
            lives[reuses.uid] = over._replace(last=life.first - 1)
        places.append((life.placement.offset, nbytes(kernel.result), life.first, last, kernel.result.uid))
    places = [(start, size, first, lives[uid].last, uid) for start, size, first, _, uid in places]
    for index, (kernel, placement, runs_until) in enumerate(steps(schedule)):
        if kernel.cost.scratch:
            places.append((placement.scratch_offset, kernel.cost.scratch, index, runs_until, -1))
    for number, (start, size, first, last, _) in enumerate(places):
        assert start % ALIGNMENT == 0
        assert 0 <= start <= start + size <= schedule.arena
        for other_start, other_size, other_first, other_last, _ in places[:number]:
            if first <= other_last and other_first <= last:
                assert start + size <= other_start or other_start + other_size <= start
    assert schedule.peak_lower_bound == max([placement.live for placement in schedule.placements], default=0)
    assert schedule.peak_lower_bound <= schedule.peak <= schedule.peak_without_reuse
    moments, results, working = alive(schedule)
    assert [placement.live for placement in schedule.placements] == moments
    assert (schedule.results, schedule.working) == (results, working)
    assert schedule.peak == schedule.arena + results + working


def large() -> list[ex.Expr]:
    """Draw roots over operands of more than one block, with chains of short-lived values and views of them."""
    random = np.random.default_rng(1)
    a, b = [ex.tensor(random.normal(size=(300, 300)) / 300) for _ in range(2)]
    assert a.type.nbytes > BLOCK_BYTES
    x, y = a @ b, b @ a
    z = (x + ex.transpose(x)) * 2.0 - y
    joined = ex.concatenate([x, y])
    return [z @ a, (ex.tanh(y) + y[::-1]) * 3.0, ex.exp(z - 1.0).sum(axis=0), (ex.tanh(joined * 2.0) - 1.0) @ a]


@pytest.mark.spec("P-8", "P-11")
def test_an_operand_is_overwritten_only_after_its_other_readers_end() -> None:
    """In another lane, a long product still reads the operand when an elementwise operation ends its life."""
    random = np.random.default_rng(0)
    a = ex.tensor(random.normal(size=(200, 200)))
    wide = ex.tensor(random.normal(size=(200, 2000)))
    y = a @ a
    roots = [(y @ wide) @ wide.T, ex.tanh(y) @ a]
    alone, beside = [plan(roots, Options(lanes=lanes, without=("batch", "fuse"))).schedule for lanes in (1, 2)]
    for schedule, in_place in ((alone, True), (beside, False)):
        check(schedule)
        (tanh,) = [place for kernel, place, _ in steps(schedule) if kernel.result.operation.name == "tanh"]
        assert (tanh.reuses is not None) == in_place


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("without", [(), ("fuse",), ("simplify", "fuse")])
def test_values_of_large_operands_do_not_depend_on_placement(lanes: int, without: tuple[str, ...]) -> None:
    """For operands of many blocks, results are written in place without changing any value."""
    roots = large()
    planned = plan(roots, Options(lanes=lanes, without=without))
    check(planned.schedule)
    assert any(placement.reuses is not None for placement in planned.schedule.placements)
    assert_same_apart(planned)


def assert_same_apart(planned: Plan) -> None:
    """Assert that values equal those of a run in which every result has its own memory."""
    shared = run(planned)
    apart = without_reuse(planned)
    program = Program(apart)
    assert all(program.memory.result(kernel, placement) is None for kernel, placement, _ in steps(apart.schedule))
    run_simple(program)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(shared, program.take(), strict=True))


@pytest.mark.spec("P-8")
@given(
    roots=st.one_of(sized(), programs()),
    limit=st.sampled_from((0, 60, 500_000)),
    fused=st.booleans(),
    lanes=st.sampled_from((1, 1, 2, 4)),
)
def test_live_results_share_no_memory(roots: Any, limit: int, fused: bool, lanes: int) -> None:
    """In random graphs, live results do not overlap, and the peak is between its bound and the size without reuse."""
    options = Options(without=() if fused else ("fuse",), inline=Inline(limit), lanes=lanes)
    check(plan(roots, options).schedule)


@pytest.mark.spec("P-8")
@given(roots=st.one_of(sized(), programs()))
def test_values_equal_those_of_a_run_without_memory_reuse(roots: Any) -> None:
    """Random graphs give the same bits, whether results share an arena or each has its own memory."""
    assert_same_apart(plan(roots))


@pytest.mark.spec("P-8", headline=True)
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "encoder_open"])
def test_models_need_little_more_memory_than_the_peak_of_live_values(name: str, batch: int) -> None:
    """Reuse memory within live ranges: models need at most 1.05 times the largest live memory, plus a workspace."""
    definition = pnnx.read(MODELS / f"{name}.pnnx.param")
    held = [weight for operator in definition.operators for weight in operator.weights.values()]
    weights = {weight.key: seeded.weight(weight.key, weight.shape) for weight in held}
    net = Net(replace(definition, weights=weights), TABLE)
    (blob,) = net.inputs.values()
    size = 224 if name in ("resnet18", "mobilenet_v2") else 32
    assert blob.shape is not None
    schedule = net.plan((batch, 3, size, size) if len(blob.shape) == 4 else (batch, 32)).planned.schedule
    check(schedule)
    assert schedule.peak <= 1.05 * schedule.peak_lower_bound + max(kernel.cost.workspace for kernel in schedule.kernels)
    assert schedule.arena <= 0.4 * sum(kernel.cost.bytes for kernel in schedule.kernels)


@pytest.mark.spec("P-8", "P-17")
def test_working_memory_that_raises_the_peak_is_reported_with_both_figures() -> None:
    """If a fused kernel's block takes more than its separate operations, the stage states the difference."""
    x = ex.tensor(np.ones((256, 128), np.float32))
    w = ex.tensor(np.ones((128, 128), np.float32))
    h = x
    for _ in range(3):
        centred = h - h.mean(axis=1, keepdims=True)
        scaled = centred / (ex.square(centred).mean(axis=1, keepdims=True) + 1e-5)
        h = h + ex.relu(scaled @ w)
    planned, apart = plan([h]), plan([h], Options(without=("fuse",)))
    (decision,) = [decision for decision in planned.graph.decisions if decision.code == "block_memory"]
    assert decision.facts["live_bytes"] == planned.schedule.peak_lower_bound > apart.schedule.peak_lower_bound
    assert apart.schedule.peak_lower_bound - 1024 <= decision.facts["apart_bytes"] <= apart.schedule.peak_lower_bound
    assert decision.facts["working_bytes"] == planned.schedule.working == 256 * 128 * 4
    assert not [decision for decision in apart.graph.decisions if decision.code == "block_memory"]


@pytest.mark.spec("P-8")
def test_results_of_several_sizes_are_packed_and_the_saving_is_reported() -> None:
    """Packed offsets avoid the waste of separate buffers; the decision has both sizes and the live bytes."""
    random = np.random.default_rng(0)

    def times(x: ex.Expr, rows: int) -> ex.Expr:
        return ex.tensor(random.normal(size=(rows, x.size))) @ x

    x = ex.tensor(random.normal(size=64))
    for rows in (8, 64, 128, 256, 512, 1024):
        x = times(x, rows)
    planned = plan([times(x, 1)])
    schedule = planned.schedule
    (decision,) = [decision for decision in planned.graph.decisions if decision.code == "packed"]
    assert decision.facts["arena_bytes"] == schedule.arena == 8 * (512 + 1024)
    assert decision.facts["beside_bytes"] > schedule.arena
    assert decision.facts["live_bytes"] == schedule.peak_lower_bound == schedule.arena


def overlapping(schedule: Schedule) -> list[tuple[int, int]]:
    """Return pairs of concurrent kernels whose scratch memory overlaps."""
    using = [(index, step) for index, step in enumerate(steps(schedule)) if step.kernel.cost.scratch]
    return [
        (first, second)
        for place, (first, one) in enumerate(using)
        for second, other in using[place + 1 :]
        if second <= one.runs_until
        and one.placement.scratch_offset < other.placement.scratch_offset + other.kernel.cost.scratch
        and other.placement.scratch_offset < one.placement.scratch_offset + one.kernel.cost.scratch
    ]


@pytest.mark.spec("P-8", "P-11")
@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("lengths", [(1 << 20, 1 << 20, 1 << 20), (1 << 22, 1 << 20, 1 << 21), (1 << 20, 1 << 22)])
def test_concurrent_kernels_have_separate_scratch_memory(lanes: int, lengths: tuple[int, ...]) -> None:
    """Partial reductions store their values there; a shared slot has the size of its largest user."""
    roots = [ex.sin(ex.tensor(np.ones(length))).sum() for length in lengths]
    schedule = plan(roots, Options(lanes=lanes, without=("batch",))).schedule
    assert len([kernel for kernel in schedule.kernels if kernel.cost.scratch]) == len(lengths)
    assert not overlapping(schedule)
    for kernel, placement, _ in steps(schedule):
        assert placement.scratch_offset + kernel.cost.scratch <= schedule.arena


@pytest.mark.spec("P-8", "P-11")
@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("sums", [1, 2])
@pytest.mark.parametrize("rows", [(8, 64, 128, 256, 512, 1024), (1024, 8, 2048, 64, 512, 4096)])
def test_packed_results_do_not_overlap_scratch_memory_in_use(rows: tuple[int, ...], sums: int, lanes: int) -> None:
    """Results of several sizes are packed while long reductions run in other lanes."""
    random = np.random.default_rng(0)
    long = ex.tensor(np.ones(1 << 20))
    x = ex.tensor(random.normal(size=64))
    for count in rows:
        x = ex.tensor(random.normal(size=(count, x.size))) @ x
    planned = plan(
        [ex.tensor(random.normal(size=(1, x.size))) @ x, *[ex.sin(long * (2.0 + n)).sum() for n in range(sums)]],
        Options(lanes=lanes, without=("batch",)),
    )
    schedule = planned.schedule
    assert [decision for decision in planned.graph.decisions if decision.code == "packed"]
    assert len([kernel for kernel in schedule.kernels if kernel.cost.scratch]) == sums
    scratch = [(index, step) for index, step in enumerate(steps(schedule)) if step.kernel.cost.scratch]
    beside = [step for index, step in scratch if step.runs_until > index]
    assert bool(beside) == (lanes > 1)
    check(schedule)


@pytest.mark.spec("P-8")
def test_memory_of_a_requested_view_is_not_reused() -> None:
    """Neither a later kernel nor the next run reuses it, because the user has it."""
    x = ex.tensor(np.arange(12.0).reshape(3, 4))
    shown = ex.tanh(x).T
    program = Program(plan([shown, (ex.sin(x) @ np.ones((4, 4))).sum(), ex.cos(x)[1:]], Options(without=("fuse",))))
    results = []
    for _ in range(2):
        run_simple(program)
        results.append(program.take())
    for values in results:
        np.testing.assert_array_equal(values[0], np.tanh(x.array).T)
        np.testing.assert_array_equal(values[2], np.cos(x.array)[1:])


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("other", ["int64", "float64"])
def test_a_result_overwrites_only_an_operand_of_its_own_type(other: str) -> None:
    """Another type may have the same size, but the operation could read elements that it has overwritten."""
    x, numbers = ex.tensor(np.ones((3, 5))), ex.tensor(np.arange(15.0).reshape(3, 5))
    whole = ex.cumsum(numbers.astype(other), 0)
    value = ex.cumsum(whole * x, 1)
    schedule = plan([value], Options(without=("fuse", "simplify"))).schedule
    (product,) = [place for kernel, place, _ in steps(schedule) if kernel.result.operation.name == "multiply"]
    assert (product.reuses is not None) == (other == "float64")
    for kernel, placement, _ in steps(schedule):
        assert placement.reuses is None or placement.reuses.type is kernel.result.type


@pytest.mark.spec("P-8")
@pytest.mark.parametrize("turned", [False, True])
def test_images_overwrite_only_images_with_the_same_layout(turned: bool) -> None:
    """A sum of a row-major and a channels-last image is channels-last, and so is the operand that it overwrites."""
    random = np.random.default_rng(0)
    rows, pixels = random.normal(size=(2, 8, 128, 128)), random.normal(size=(2, 8, 128, 128))
    assert rows.nbytes > 2 * BLOCK_BYTES
    a = ex.cumsum(ex.tensor(rows), 3)
    early = ex.cumsum(a, 2)  # a is considered before b
    b = ex.conv2d(ex.tensor(pixels), np.eye(8)[:, :, None, None])
    apart = ex.cumsum(b, 3)  # because it is read there, too, b cannot join the sum's kernel
    both = b + ex.tanh(a) * 2.0 if turned else ex.tanh(a) * 2.0 + b
    planned = plan([ex.cumsum(both, 3), apart, early])
    (step,) = [step for step in steps(planned.schedule) if step.placement.reuses is not None]
    assert step.kernel.channels_last
    assert step.placement.reuses is b
    result, *_ = run(planned)
    np.testing.assert_allclose(result, np.cumsum(np.tanh(np.cumsum(rows, 3)) * 2 + pixels, 3), rtol=1e-10, atol=1e-9)


x = ex.tensor(np.arange(12.0).reshape(3, 4), name="x")


@pytest.mark.spec("P-8")
def test_dead_memory_is_reused_and_elementwise_results_are_written_in_place() -> None:
    a = ex.tensor(np.random.default_rng(0).normal(size=(50, 50)))
    y = a
    for _ in range(10):
        y = ex.tanh(y @ a)
    planned = plan([y], Options(without=("fuse",)))
    assert codes(planned, "buffers") == ["reused", "reused", "in_place"]
    schedule = planned.schedule
    assert len(schedule.buffers) == 2
    in_place = facts(planned, "in_place")
    assert (in_place["count"], in_place["saved_bytes"]) == (9, 9 * 20_000)
    assert [getattr(node, "operation", node) for node in in_place["written"]][-1] == "6 more"
    assert [written.operands[0] for written in in_place["written"][:3]] == in_place["operands"][:3]
    assert (schedule.peak_lower_bound, schedule.peak_without_reuse) == (40_000, 19 * align_up(20_000) + 20_000)
    assert schedule.arena == sum(schedule.buffers) == 2 * align_up(20_000)
    assert schedule.peak == schedule.arena + 20_000  # requested results have their own memory
    assert max(placement.live for placement in schedule.placements) == schedule.peak_lower_bound
    np.testing.assert_array_equal(run(planned)[0], reference([y])[0])


@pytest.mark.spec("P-8")
def test_an_operand_is_not_overwritten_while_a_view_of_it_is_read() -> None:
    """With operands of more than one block, later blocks would read the overwritten elements."""
    side = 300
    assert side * side * 8 > BLOCK_BYTES
    a = ex.tensor(np.random.default_rng(0).normal(size=(side, side)) / side)
    hidden, other, third = a @ a, ex.tanh(a @ a + 1.0), a @ a @ a
    roots = [
        ((hidden + ex.transpose(hidden)) * 2.0 - 1.0) @ a,
        ((other[::-1] * other) * 2.0 - 1.0) @ a,
        (ex.tanh(third - ex.transpose(third)) + third) @ a,
    ]
    for without in ((), ("fuse",), ("fuse", "simplify"), ("dedup",)):
        for result, expected in zip(run(plan(roots, Options(without=without))), reference(roots), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.spec("P-7")
def test_views_of_leaves_need_no_kernel() -> None:
    """A transposed or reshaped weight takes no step of the schedule; a view of an input or a result does."""
    parameter = Parameter(x.type, "input")()
    program = ex.tanh(x.T.reshape(2, 6)) + ex.transpose(ex.exp(parameter)).reshape(2, 6)
    planned = plan([program])
    assert [leaf.operation.name for leaf in planned.schedule.leaves] == ["tensor", "transpose", "reshape", "parameter"]
    names = [kernel.result.operation.name for kernel in planned.schedule.kernels]
    assert sorted(names) == ["add", "exp", "reshape", "tanh", "transpose"]


@pytest.mark.spec("P-8")
def test_temporaries_of_kernels_count_toward_the_peak() -> None:
    images, filters = ex.tensor(np.ones((2, 3, 16, 16))), ex.tensor(np.ones((4, 3, 3, 3)))
    y = ex.conv2d(images, filters)
    schedule = plan([y]).schedule
    (kernel,), (placement,) = schedule.kernels, schedule.placements
    columns = y.operation.workspace(images.type, filters.type)
    assert columns >= 3 * 9 * 14 * 8  # at least the windows of one row
    assert (kernel.cost.workspace, placement.live) == (columns, columns + y.type.nbytes)
    (fused,) = plan([ex.exp(ex.tanh(y)) * ex.sin(y)], Options(without=("simplify",))).schedule.kernels[1:]
    assert fused.cost.workspace == 2 * 8 * y.size  # exp overwrites tanh, sin has a register, the product is the result
    chain = plan([ex.square(y).sum() + images.sum()]).schedule
    assert chain.peak_lower_bound == columns + y.type.nbytes
    assert chain.peak_lower_bound <= chain.peak <= chain.peak_without_reuse
