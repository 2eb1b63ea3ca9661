"""The planner: roots in, schedule out, with every decision on the way. Pure: it computes no values."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import explorer.plan.links  # noqa: F401  # makes the chain of links
from explorer.core.adjusted import under
from explorer.core.arguments import check_name, check_type
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.expr import Expr
from explorer.core.function import Body, Call
from explorer.core.progress import Progress, follower
from explorer.core.stack import one_deeper
from explorer.ops.conv import Conv2d
from explorer.plan.closed import alone
from explorer.plan.cost import REFERENCE, Prices
from explorer.plan.graph import Graph
from explorer.plan.passes import (
    Algorithms,
    Buffers,
    Constants,
    Dedup,
    Fuse,
    Group,
    Layout,
    Open,
    Order,
    Prune,
    Recall,
    Simplify,
)
from explorer.plan.passes.order import RULES
from explorer.plan.rule import Link
from explorer.plan.schedule import Schedule

PASSES = (
    "simplify",
    "dedup",
    "prune",
    "group",
    "open",
    "constants",
    "algorithms",
    "fuse",
    "order",
    "layout",
    "buffers",
)
_NEEDED = ("open", "order", "buffers")


@dataclass(frozen=True)
class Options:
    """What a plan may do: passes left out, and the options of each pass."""

    without: tuple[str, ...] = ()
    lanes: int = 1
    """how many kernels may run at a time: memory that one of them still reads is not used again by another"""
    order: str = "earliest"
    """which of the ready kernels is picked: "earliest", the one recorded first, or "depth_first", InferFramework's
    order, in which of two branches the one that comes last by name runs to its end before the other"""
    prices: Prices = REFERENCE
    """what groups and the order are priced with"""
    group: Group = field(default_factory=Group)
    open: Open = field(default_factory=Open)

    def __post_init__(self) -> None:
        check_name(self.order, "order", RULES)
        if type(self.lanes) is not int or self.lanes < 1:
            raise OperandError(f"lanes={self.lanes!r}", rule="one kernel or more runs at a time", fix="lanes=1")
        check_type(self.prices, "prices", Prices, "a table of prices", 'costs="measured", or prices=ex.calibrate()')
        check_type(self.group, "group", Group, "the pass that groups", "group=Group(), of explorer.plan.passes")
        check_type(self.open, "open", Open, "the pass that opens calls", "open=Open(), of explorer.plan.passes")
        names = f"the names of passes to leave out ({', '.join(PASSES)})"
        check_type(self.without, "without", tuple, names, 'without="fuse", or without=["fuse", "simplify"]')
        for name in self.without:
            check_type(name, "without", str, names, 'without=["fuse", "simplify"]')
            if name not in PASSES:
                raise UnknownNameError(name, kind="pass", known=PASSES)
            if name in _NEEDED:
                raise OperandError(
                    f"a plan without {name}",
                    rule=f"{' and '.join(_NEEDED)} make the schedule",
                    fix="leave out another pass",
                )

    def with_(self, *further: str, **changes: Any) -> Options:
        """The options with some of them changed; ``further`` are options that stand beside them, to be told of."""
        known = [item.name for item in fields(self)]
        for name in changes:
            if name not in known:
                raise UnknownNameError(name, kind="plan option", known=[*known, *further])
        return replace(self, **changes)


@dataclass(slots=True)
class Planned:
    """A finished plan: the graph with its story, and the schedule."""

    graph: Graph
    schedule: Schedule
    options: Options
    micros: float


@under({})
def plan(roots: Sequence[Expr], options: Options | None = None, recall: Recall | None = None) -> Planned:
    """Plan the evaluation of expressions; ``recall`` takes values that are known already."""
    options = options or Options()
    started = time.perf_counter()
    graph = Graph(roots)
    graph.chapter("recorded", "record", "What the program wrote down, in order; nothing is computed.", 0, started)
    without = options.without
    if recall is not None:
        _run(recall, graph)
    first_round = [p for p in (Simplify(), Dedup(), Prune()) if p.name not in without]
    for each in first_round:
        _run(each, graph)
    if "group" not in without:
        _run(replace(options.group, prices=options.prices), graph)
    calls = any(isinstance(node.operation, Call) for node in graph.live)
    if calls:
        _run(options.open, graph)
    if calls or any(cluster.kind == "batch" for cluster in graph.clusters):
        for each in first_round:
            _run(each, graph, again=True)
    if recall is not None and recall.has_waiting(graph):
        for late in (replace(recall, simplified=True), *[each for each in first_round if isinstance(each, Prune)]):
            _run(late, graph, again=True)
    if "constants" not in without and graph.has_parameters:
        _run(Constants(), graph)
    if "algorithms" not in without and any(isinstance(node.operation, Conv2d) for node in graph.live):
        _run(Algorithms(), graph)
    if "fuse" not in without:
        _run(Fuse(), graph)
    _tell(Order.name, graph)
    began, first = time.perf_counter(), len(graph.choices)
    order = Order(options.prices, options.lanes, options.order)
    schedule = order.run(graph)
    _plan_bodies(schedule, options)
    counts = {"kernels": len(schedule.kernels), "levels": max([k.level for k in schedule.kernels], default=0)}
    graph.chapter(order.name, "schedule", _purpose(order), first, began, counts)
    if "layout" not in without:
        began, first = time.perf_counter(), len(graph.choices)
        layout = Layout()
        layout.run(schedule, graph)
        if len(graph.choices) > first:
            graph.chapter(layout.name, "schedule", _purpose(layout), first, began)
    began, first = time.perf_counter(), len(graph.choices)
    buffers = Buffers()
    _tell(buffers.name, graph)
    buffers.run(schedule, graph)
    counts = {
        "buffers": len(schedule.buffers),
        "peak": schedule.peak,
        "peak_arena": schedule.arena,
        "peak_results": schedule.results,
        "peak_working": schedule.working,
        "peak_bound": schedule.bound,
        "peak_without_reuse": schedule.peak_without_reuse,
    }
    graph.chapter(buffers.name, "schedule", _purpose(buffers), first, began, counts)
    return Planned(graph, schedule, options, (time.perf_counter() - started) * 1e6)


def plan_closed(body: Body, options: Options) -> tuple[Planned, tuple[Expr, ...]]:
    """The plan of a body, and the parameters that stand for a call's operands, in their order; made once.

    A call is one kernel: those of its body run one at a time.
    """
    options = replace(options, lanes=1) if options.lanes > 1 else options
    key = ("closed", options, tuple(Link.chain))
    held: tuple[Planned, tuple[Expr, ...]] | None = body.derived.get(key)
    if held is None:
        inputs, outputs = alone(body)
        with one_deeper(f"a plan of {body.name}"):
            held = body.derived.setdefault(key, (plan(outputs, options), inputs))
    return held


def _plan_bodies(schedule: Schedule, options: Options) -> None:
    """Plan the calls that stayed closed: what a body needs beside its results is the workspace of its call."""
    for kernel in schedule.kernels:
        operation = kernel.result.operation
        if isinstance(operation, Call):
            inner = plan_closed(operation.body, options)[0].schedule
            kernel.workspace, kernel.scratch = max(0, inner.peak - kernel.bytes), inner.arena


def _tell(name: str, graph: Graph) -> None:
    follow = follower()
    if follow is not None:
        follow(Progress("planning", f"{name} ({len(graph.live):,} nodes)"))


def _run(each: Any, graph: Graph, again: bool = False) -> None:
    _tell(each.name, graph)
    began, first = time.perf_counter(), len(graph.choices)
    each.run(graph)
    graph.refresh()
    graph.chapter(each.name + " again" * again, "pass", _purpose(each), first, began)


def _purpose(each: Any) -> str:
    return (inspect.getdoc(type(each)) or "").split("\n")[0]
