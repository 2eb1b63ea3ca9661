"""Estimates for several workers: the simulated assignment, its bounds, and its display."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.plan import plan
from explorer.plan.passes import Inline
from explorer.plan.schedule.chain_tasks import chain_tasks
from explorer.plan.schedule.task_assignment import HOME, Network, Task, assign, critical_path
from explorer.record.worker_lanes import Lane, Span, lanes_text
from tests.support.programs import programs
from tests.support.refusals import refused

networks = st.builds(
    Network,
    st.integers(1, 5),
    st.sampled_from((0.5, 100.0, math.inf)),
    st.sampled_from((0.0, 3.0, 1000.0)),
    st.sampled_from((0.0, 20.0)),
)


def branches(count: int = 8, size: int = 400) -> ex.EvalPlan:
    x = ex.tensor(np.ones((size, size)))
    plan = ex.EvalPlan(without="batch")
    for number in range(1, count + 1):
        plan.register(ex.tanh(x * number @ x).sum())
    return plan.prepare()


@pytest.mark.spec("P-11")
@given(roots=programs(), network=networks)
def test_an_assignment_is_one_that_could_be_run(roots: Any, network: Network) -> None:
    """Random programs and networks: a lane does one task at a time, with its values there; ports carry one message."""
    work = chain_tasks(plan(roots).schedule)
    assigned = assign(work.tasks, work.sizes, work.inputs, work.results, network)
    assert sorted(assigned.order) == [*range(len(work.tasks))]
    there = {(value, HOME): 0.0 for value in work.inputs}
    for number, task in enumerate(work.tasks):
        assert 1 <= assigned.lanes[number] <= network.workers
        took = assigned.ends[number] - assigned.starts[number]
        assert took in (pytest.approx(task.micros), pytest.approx(task.micros + network.overhead))
        there |= {(value, assigned.lanes[number]): assigned.ends[number] for value in task.outputs}
    values = {value for value, _ in there}
    for number, task in enumerate(work.tasks):
        for value in task.reads:
            assert value in values
            begun = [time for (held, lane), time in there.items() if held == value]
            assert assigned.starts[number] >= min(begun) - 1e-6
    for lane in range(network.workers + 1):
        spans = sorted(
            (assigned.starts[n], assigned.ends[n]) for n in range(len(work.tasks)) if assigned.lanes[n] == lane
        )
        assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(spans))
        for port in ("source", "target"):
            used = sorted((t.start, t.end) for t in assigned.transfers if getattr(t, port) == lane)
            assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(used))
    for transfer in assigned.transfers:
        took = network.latency + transfer.bytes / network.bandwidth
        assert transfer.end - transfer.start == pytest.approx(took)
    assert assigned.micros >= critical_path(work.tasks) - 1e-6
    assert assigned.micros * network.workers >= sum(task.micros for task in work.tasks) - 1e-6


def test_free_messages_leave_only_the_work() -> None:
    """Equal tasks over n workers with free messages take 1/n of the time; the longest path is the minimum."""
    tasks = [Task(10.0, (0,), (number + 1,)) for number in range(12)]
    sizes = dict.fromkeys(range(13), 1000)
    for workers in (1, 2, 3, 4, 6, 12, 64):
        assert assign(tasks, sizes, [0], range(1, 13), Network(workers)).micros == max(120 / workers, 10.0)
    line = [Task(10.0, (number,), (number + 1,)) for number in range(12)]
    assert assign(line, sizes, [0], [12], Network(64)).micros == critical_path(line) == 120.0


def test_a_value_that_was_sent_is_forwarded() -> None:
    """With one port for each lane, one input reaches eight workers in three rounds and one more, not in eight."""
    tasks = [Task(1000.0, (0,), (number + 1,)) for number in range(8)]
    assigned = assign(tasks, dict.fromkeys(range(9), 100), [0], (), Network(8, bandwidth=1.0))
    assert len(assigned.transfers) == 8
    assert {transfer.source for transfer in assigned.transfers} > {HOME}
    assert max(transfer.end for transfer in assigned.transfers) == 400.0


@pytest.mark.spec("P-11")
def test_a_plan_estimates_its_time_on_workers() -> None:
    """``plan.estimate(workers=4, bandwidth=…)`` has time, bytes, idle time and lanes; expensive messages do not pay
    off."""
    roots = branches()
    cheap = roots.estimate(workers=4, bandwidth=1000, latency=100, overhead=100)
    assert cheap.worthwhile
    assert 2 < cheap.speedup < 4
    assert cheap.critical < cheap.micros < cheap.alone
    assert cheap.bytes == 4 * 400 * 400 * 8 + 8 * 8  # the operand once for each worker, eight sums
    assert [lane.name for lane in cheap.lanes] == ["here", "worker 1", "worker 2", "worker 3", "worker 4"]
    assert sum(lane.busy for lane in cheap.lanes) == pytest.approx(cheap.alone + 4 * 100)
    assert cheap.idle == pytest.approx(1 - (cheap.alone + 400) / (4 * cheap.micros))
    dear = roots.estimate(workers=4, bandwidth=10)
    assert not dear.worthwhile
    assert "not worth it: alone it takes" in str(dear)
    assert roots.estimate(workers=64, bandwidth=math.inf, latency=0, overhead=0).micros == pytest.approx(cheap.critical)
    assert branches().estimate(workers=4).lanes == roots.estimate(workers=4).lanes  # independent of the machine


def mapped(size: int, **options: Any) -> ex.EvalPlan:
    weight = ex.tensor(np.ones((size, size), np.float32))

    @ex.function
    def layers(x: ex.Expr) -> ex.Expr:
        return ex.tanh(ex.tanh(x @ weight) @ weight)

    plan = ex.EvalPlan(**options)
    plan.register(ex.map(layers, ex.tensor(np.ones((16, size, size), np.float32))))
    return plan.prepare()


@pytest.mark.spec("P-11", "C-14")
def test_estimates_divide_members_of_a_map_as_workers_do() -> None:
    """There is one part for each worker if that pays off; "alone" is the time of all members in one process."""
    network = Network(4, 1000.0, 100.0, 100.0)
    plan = mapped(400)
    estimate = plan.estimate(4, 1000, 100, 100)
    labels = [[span.label for span in lane.spans if not span.receiving] for lane in estimate.lanes[1:]]
    assert [lane[0] for lane in labels] == ["layers ×4"] * 4
    assert [label for lane in labels for label in lane].count("layers ×4") == 4
    assert estimate.speedup > 2
    assert estimate.alone == sum([kernel.cost.estimate for kernel in plan.planned.schedule.kernels])
    for inline in (Inline(network=network), Inline(network=Network(2))):
        again = mapped(400, inline=inline).estimate(4, 1000, 100, 100)
        assert (again.micros, again.alone, again.bytes) == (estimate.micros, estimate.alone, estimate.bytes)
    assert not mapped(8).estimate(4, 1000, 100, 100).worthwhile


@pytest.mark.spec("C-14")
def test_nodes_that_only_copy_stay_local_if_the_link_is_slower_than_memory() -> None:
    """Parts of a stack are sent directly; otherwise one worker would receive the whole stack and forward it."""
    rows = [ex.tensor(np.ones((400, 400), np.float32)) for _ in range(8)]
    weight = ex.tensor(np.ones((400, 400), np.float32))

    @ex.function
    def layers(x: ex.Expr) -> ex.Expr:
        return ex.tanh(ex.tanh(x @ weight) @ weight)

    plan = ex.EvalPlan()
    plan.register(ex.stack(list(ex.map(layers, rows))))
    here = plan.prepare().estimate(2, 1000, 100, 100).lanes[0]
    assert [span.label.startswith("stack") for span in here.spans if not span.receiving][:1] == [True]


def test_an_estimate_has_a_text_form_and_an_image() -> None:
    shown = branches().estimate(workers=2, bandwidth=1000, latency=100)
    text = str(shown)
    assert repr(shown) == text.rstrip()
    assert text.splitlines()[0].startswith("2 workers, 1000 MB/s, 100 µs a message: an estimated ")
    assert "  worker 2 " in text
    assert text.count("█") > 60
    picture = ET.fromstring(shown._repr_svg_())
    bars = [bar.get("class") for bar in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars.count("wait") == 3
    assert bars.count("work") == 8
    assert bars.count("receive") == shown.messages
    assert "1 more lane" not in shown._repr_svg_()
    assert "1 more lane not drawn" in branches(2, 8).estimate(workers=64)._repr_svg_()


def test_lanes_are_drawn_to_scale() -> None:
    lanes = [Lane("a", (Span(0, 50, "f"),)), Lane("bb", (Span(0, 25, "x", True), Span(25, 100, "g")))]
    first, second = lanes_text(lanes, 100.0, width=8).splitlines()
    assert first == "  a  ████····  50%"
    assert second == "  bb ▒▒██████  75%"
    assert lanes_text(lanes, 100.0, width=8, most=1).splitlines()[1] == "  … and 1 more, busy 75 µs together"
    assert lanes_text([Lane("a", ())], 0.0, width=4) == "  a ····   0%"


@pytest.mark.parametrize(
    ("name", "value"),
    [("workers", 0), ("workers", 10**9), ("workers", 2.0), ("workers", True), ("bandwidth", 0), ("bandwidth", "fast"),
     ("latency", -1), ("overhead", math.inf), ("latency", math.nan)],
)  # fmt: skip
def test_an_invalid_network_raises_an_error(name: str, value: Any) -> None:
    with refused(ex.OperandError, name, "must be"):
        branches(2, 4).estimate(**{"workers": 2, name: value})
