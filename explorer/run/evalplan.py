"""EvalPlan: register expressions, look at the plan, evaluate all of them together, read the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.blas import CHOSEN
from explorer.core.argument_checks import check_name, check_type
from explorer.core.errors import OperandError, RunError, StateError
from explorer.core.hooks import hooks
from explorer.core.ir.expr import Expr
from explorer.core.progress import long_running
from explorer.core.types.device import Device, check_device, cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.passes import Recall
from explorer.plan.pipeline import PIPELINE, pass_names
from explorer.plan.planner import Options, Plan, plan
from explorer.record import Decision, Recording, Summary
from explorer.record.gc_pause import gc_paused
from explorer.run.calibrate import measured_cost_model
from explorer.run.diagnosis.reproducer import reproducer
from explorer.run.diagnosis.what_if import WhatIf, what_if
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueCapture
from explorer.run.handle import Handle
from explorer.run.plan_cache import CachedProgram, Structure, cache, structure
from explorer.run.recording import recorder, stage_rows
from explorer.run.result_cache import recall, remember
from explorer.run.runtime.sealed_arrays import sealed
from explorer.run.runtime.timing import Timing

COSTS = ("reference", "measured")
RECORDS = ("times", "values", "off")


class EvalPlan:
    """Evaluates what was registered: one plan, each value once, every decision kept (MetaNN: EvalPlan).

    ``without`` names passes to leave out; ``record`` is "times", "values" (a summary of every value) or "off";
    ``executor`` says how the schedule is run, "simple" (one kernel after the other) or "dag" (independent ones at a
    time, on threads); with a ``device`` the plan takes only what lives there; with ``recall`` values that such a plan
    of equal options has given before, for this expression or an equal one, are not computed again while somebody holds
    them; ``costs`` are those of the reference table, the same on every machine, or "measured" here (ex.calibrate);
    ``passes`` are those that plan, in their order (ex.default_passes); further options are those of the planner.
    """

    def __init__(
        self,
        *,
        without: str | tuple[str, ...] | list[str] = (),
        record: str = "times",
        executor: str = "simple",
        title: str = "",
        device: Device | None = None,
        recall: bool = False,
        costs: str = "reference",
        **options: Any,
    ) -> None:
        check_name(record, "record", RECORDS)
        check_name(executor, "executor", EXECUTORS)
        check_name(costs, "costs", COSTS)
        check_type(title, "title", str, "a text", f'title="{title}"')
        check_type(recall, "recall", bool, "True or False", "recall=True")
        if device is not None:
            check_device(device)
        if costs == "measured":
            options = {"cost_model": measured_cost_model(), **options}
        if isinstance(options.get("passes"), list):
            options["passes"] = tuple(options["passes"])
        self.options = Options().with_changes(
            "record",
            "executor",
            "title",
            "device",
            "recall",
            "costs",
            **{"without": _names(without), "lanes": EXECUTORS[executor].lanes, **options},
        )
        self.record, self.executor, self.title, self.device = record, executor, title, device
        self.recall, self.costs = recall, costs
        self._handles: list[Handle] = []
        self._planned: Plan | None = None
        self._fresh = False
        self._bound: dict[Expr, Array] = {}
        self._roots: list[Expr] = []
        """what was evaluated without being planned, by a program for another graph of its structure or by recall"""
        self._taken: Recall | None = None
        """how values were recalled, where all of them were there"""
        self.running = False
        """whether it is planned or run just now"""
        self._timing: Timing | None = None
        self._values: dict[int, Summary] = {}
        self._recording: Recording | None = None
        self._views: list[Any] = []

    def __repr__(self) -> str:
        state = "evaluated" if self._timing is not None else "prepared" if self._planned is not None else "not planned"
        return f"<plan {self.title!r}: {len(self._handles)} registered, {state}>"

    def register(self, value: Any) -> Handle:
        """Ask for the value of an expression, or of data of any type; returns the handle that will give it."""
        expr = value.__expr__() if hasattr(type(value), "__expr__") else value
        if not isinstance(expr, Expr):
            raise OperandError(
                f"register of a {type(expr).__name__}",
                rule="a plan evaluates expressions",
                fix="wrap it: ex.tensor(value)",
            )
        if self.device not in (None, expr.type.device):
            raise OperandError(
                f"register of {expr!r} in the plan of {self.device.name}",
                rule=f"what a plan of a device evaluates lives there, this on {expr.type.device.name}",
                fix="register a copy: x.to_device(…), or use a plan without a device",
            )
        expr.mark_used()
        handle = Handle(expr)
        self._handles.append(handle)
        self._fresh = False
        return handle

    @long_running()
    def prepare(self, planned: Plan | None = None) -> EvalPlan:
        """Plan what is registered, without running it; ``recording`` and ``explain()`` then tell the plan.

        ``planned`` is a plan that was made before of just these expressions with these options.
        """
        if not self._handles:
            raise StateError(
                "a plan with nothing registered", rule="there is something to plan", fix="plan.register(expression)"
            )
        if planned is None:
            planned = self._plan([handle.expr for handle in self._handles])
        self._planned = planned
        self._roots, self._taken, self._timing, self._values, self._recording = [], None, None, {}, None
        self._views = []  # they keep showing the program that they were made for
        self._fresh = True
        return self

    def _plan(self, roots: list[Expr]) -> Plan:
        """A plan of expressions, of which those are recalled whose values are there."""
        before, self.running = self.running, True
        try:
            with gc_paused():
                known = structure(roots, self.options) if self.recall else None
                found = recall(known)
                return plan(roots, self.options, found.as_pass() if found is not None else None)
        finally:
            self.running = before

    def bind(self, inputs: Mapping[Expr, Array]) -> EvalPlan:
        """Give parameters the values that they have at each ``eval()`` that gives them no other."""
        check_type(inputs, "inputs", Mapping, "values by parameter", "plan.bind({parameter: value})")
        self._bound.update(inputs)
        return self

    @long_running()
    def eval(self, inputs: Mapping[Expr, Array] | None = None) -> EvalPlan:
        """Run the plan and give the handles their values; registrations are emptied, also on failure.

        ``inputs`` gives parameters their values. With nothing registered this does nothing. A failing kernel raises
        RunError; its cause is the kernel's own error.
        """
        if inputs is not None:
            check_type(inputs, "inputs", Mapping, "values by parameter", "plan.eval({parameter: value})")
        if not self._handles:
            return self
        if self.running:
            raise StateError(
                "eval() of a plan that is running",
                rule="a kernel, or a rule, must not run the plan that runs it",
                fix="evaluate in a plan of its own: ex.EvalPlan(), or ex.evaluate(x)",
            )
        handles, self.running = self._handles, True
        try:
            results, timing = self._run({**self._bound, **(inputs or {})})
            for handle, value in zip(handles, results, strict=True):
                handle._value = value
            self._timing = timing
        except BaseException as error:
            for handle in handles:
                handle._failure = type(error).__name__
            raise
        finally:
            self._handles, self._fresh, self._recording, self.running = [], False, None, False
            if self._planned is not None:
                for view in self._views:
                    view.update(self.recording)
        return self

    def _run(self, inputs: Mapping[Expr, Array]) -> tuple[list[Any], Timing]:
        """Results and times: by recall, of a program for this structure that is there, else of a new one."""
        roots = [handle.expr for handle in self._handles]
        cached = not self._fresh and self.record != "values"
        known = structure(roots, self.options) if cached or self.recall else None
        found = recall(known) if self.recall else None
        if found is not None:
            cached = False
            values = found.roots(roots)
            if values is not None and not self._fresh:
                self._planned, self._roots, self._views, self._values = None, roots, [], {}
                self._taken = found.as_pass()
                return [*values], Timing([], [], [])
        results, timing = self._run_program(known if cached else None, inputs)
        results = [
            value if root.type.device is cpu else _read(root, value) for root, value in zip(roots, results, strict=True)
        ]
        if found is not None:
            there = found.values
            remember(known, [None if root in there else value for root, value in zip(roots, results, strict=True)])
            results = [there.get(root, value) for root, value in zip(roots, results, strict=True)]
        elif self.recall:
            remember(known, results)
        return results, timing

    def _run_program(self, known: Structure | None, inputs: Mapping[Expr, Array]) -> tuple[list[Any], Timing]:
        """Results and times of a program that is there for a structure, or of a new one."""
        held = cache.take(known) if known is not None else None
        if known is not None and held is not None:
            try:
                timing = EXECUTORS[self.executor].run(held.program, None)
            except RunError:  # planned anew it fails again, and names this graph's own lines
                self.prepare()
            else:
                results = held.program.take()
                cache.put(known.key, held)
                self._planned, self._views, self._values, self._taken = None, [], {}, None
                self._roots = [handle.expr for handle in self._handles]
                return results, timing
        if not self._fresh:
            self.prepare()
        program = Program(self.planned, reusable=known is not None)
        program.bind(inputs)
        watch = ValueCapture(program) if self.record == "values" else None
        timing = EXECUTORS[self.executor].run(program, watch)
        if watch is not None:
            self._values = watch.summaries
        results = program.take()
        if known is not None:
            cache.put(known.key, CachedProgram(program, known))
        return results, timing

    @property
    def reused(self) -> bool:
        """Whether the last run was that of a program planned before, for a graph of the same structure."""
        return bool(self._roots) and self._taken is None

    @property
    def planned(self) -> Plan:
        """The plan itself: schedule and story; raises StateError before prepare() or eval()."""
        if self._planned is None and self._roots:
            self._planned = plan(self._roots, self.options, self._taken)
        if self._planned is None:
            raise StateError(
                "a plan that was not made yet", rule="a plan is made by prepare() or eval()", fix="plan.prepare()"
            )
        return self._planned

    @property
    def recording(self) -> Recording:
        """Everything that happened, as plain data; before eval() without the run."""
        planned = self.planned
        if self._recording is None:
            run = None
            if self._timing is not None and self.record != "off":
                run = stage_rows.measured(planned, self.executor, self._timing)
            options: dict[str, Any] = {
                "without": list(self.options.without),
                "record": self.record,
                "executor": self.executor,
                "costs": self.costs,
            }
            if self.options.passes is not PIPELINE:
                options["passes"] = list(pass_names(self.options.passes))
            if self.options.lanes > 1:
                options["lanes"] = self.options.lanes
            if CHOSEN is not None:
                options["blas"] = str(CHOSEN)
            with gc_paused():
                self._recording = recorder.build(planned, self.title, options, run, self._values, self.reused)
        return self._recording

    def explain(self, what: Expr | None = None) -> str:
        """The decisions as text, after a run with what batches took: all, or those about one expression."""
        text: str = hooks.explain(self, what)
        return text

    def to_graphviz(self, stage: str | None = None) -> Any:
        """Return the graph after a stage ("recorded", "fuse", …; None: the end) as a ``graphviz.Digraph``.

        Fused kernels are clusters; ``.source`` is the text. Raises UnknownNameError for a stage that is not there.
        """
        return hooks.to_graphviz(self, stage)

    def compare(self, other: EvalPlan | Recording) -> Any:
        """This plan and another one, of the same graph or of another, side by side: text, pictures, and views."""
        return hooks.compare(self, other)

    def what_if(self, what: Decision | Expr) -> WhatIf:
        """What it would take: the smallest change that makes a declined rule apply, tried, with prices before and
        after.

        ``what`` is one of ``recording.declined``, or an expression: then its costliest declined decision.
        """
        return what_if(self.planned, self.recording, what)

    def reproducer(self, decision: Decision) -> str:
        """Python source of a cell that shows one of ``recording.decisions`` again, on the smallest part of the graph.

        The cell needs ``explorer as ex`` and ``numpy as np`` only, and asserts the decision.
        """
        return reproducer(self.planned, self.recording, decision)

    def explore(self, **options: Any) -> Any:
        """The plan as a widget to step through; after eval() the same widget shows what was measured."""
        hooks.check_view(**options)
        if self._planned is None or (self._handles and not self._fresh):
            self.prepare()
        view = hooks.explore(self, **options)
        self._views.append(view)
        return view


def _names(without: Any) -> Any:
    """One or several names as a tuple; what is neither is left for the planner to refuse."""
    if isinstance(without, str):
        return (without,)
    return tuple(without) if isinstance(without, (list, set, frozenset)) else without


def _read(expr: Expr, value: Any) -> Any:
    """Another device's value in NumPy's memory, which nobody can write to."""
    return value if isinstance(value, tuple) else sealed(expr.type.device.read(value))
