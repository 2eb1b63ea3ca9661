"""EvalPlan: register expressions, inspect the plan, evaluate all of them together, read their values.

This is the class that users and the default plans of a thread work with. It plans only where neither the result cache
nor the plan cache has an answer, and makes the recording and the views only when somebody asks for them, so that
evaluating a small expression stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Never, Unpack, overload

from explorer.core.argument_checks import check_type
from explorer.core.checked_functions import named_methods
from explorer.core.errors import OperandError, RunError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import View, hooks
from explorer.core.ir.view_options import RecordOption, ViewOptions
from explorer.core.progress import long_running
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.graph.numerics import Level
from explorer.plan.passes import Recall
from explorer.plan.pipeline import PIPELINE, pass_names
from explorer.plan.planner import Plan, plan
from explorer.record import Recording, Summary
from explorer.record.gc_pause import gc_paused
from explorer.run.diagnosis.inspectable_plan import InspectablePlan
from explorer.run.execution.executors import EXECUTORS, ExecutorName, run_program
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueCapture
from explorer.run.execution.warm_run import warm_timing
from explorer.run.handle import Handle, expression_of
from explorer.run.one_thread import Use, by_one_thread
from explorer.run.plan_cache import CachedProgram, Structure, cache, structure
from explorer.run.plan_options import CostsOption, Without, plan_options
from explorer.run.plan_text import plan_text
from explorer.run.recording import recorder, stage_rows
from explorer.run.recording.interface_table import InterfaceValue
from explorer.run.result_cache import Recalled, recall, remember
from explorer.run.runtime.marshalling import on_host
from explorer.run.runtime.timing import Timing


@named_methods
class EvalPlan(InspectablePlan):
    """Plan of registered expressions: computes each value once and keeps every decision (MetaNN: EvalPlan).

    It computes all that it shows; values that are still held are reused by ``ex.evaluate`` and with ``recall=True``.

    ``without`` names passes to leave out. ``record`` is "times", "values" (a summary of every value) or "off". On a GPU
    the first run waits for each kernel, so that its time is that of its work; later runs of the same program wait once
    and have no times until ``explore()`` measures them.
    ``executor`` is "simple" (one kernel after the other) or another of ``ex.executors()``: see ex.register_executor.
    With a ``device`` the plan accepts only expressions on that device. ``recall=True`` keeps values while you hold
    them, and reuses them in later plans of equal options. ``costs`` are of the reference table, the same everywhere, or
    "measured" here (ex.calibrate). ``numerics="fast"`` allows rewrites that change the order of operations and may
    overflow, underflow or cancel; "safe" declines them, with the time that they would save. ``passes`` are the planning
    passes, in order (ex.default_passes); further options are the planner's. While ``register``, ``bind``, ``prepare``,
    ``eval`` or ``explore`` runs, they raise StateError in another thread; any thread may read handles.

    >>> plan = ex.EvalPlan(without="fuse")
    >>> handle = plan.register(ex.tensor([1.0, 2.0]) + 1)
    >>> plan.eval() is plan, handle.data()
    (True, array([2., 3.]))
    """

    def __init__(
        self,
        *expressions: Never,
        without: Without = (),
        record: RecordOption = "times",
        executor: ExecutorName | str = "simple",
        title: str = "",
        device: Device | None = None,
        recall: bool = False,
        costs: CostsOption = "reference",
        numerics: Level = "safe",
        **options: Any,
    ) -> None:
        if expressions:
            raise OperandError(
                f"a plan of {expressions[0]!r}",
                rule="expressions must be registered in a plan, which returns the handle of their value",
                fix="plan = ex.EvalPlan(); plan.register(loss)",
            )
        self.options = plan_options(
            options, without=without, record=record, executor=executor, title=title, device=device, recall=recall,
            costs=costs, numerics=numerics,
        )  # fmt: skip
        self.record, self.executor, self.title, self.device = record, executor, title, device
        self.recall, self.costs = recall, costs
        self._handles: list[Handle] = []
        self._planned: Plan | None = None
        self._interface: Sequence[InterfaceValue] = ()
        self._fresh = False
        self._bound: dict[Expr, Array] = {}
        self._roots: list[Expr] = []
        """expressions evaluated without planning: by a cached program, or with results that were still held"""
        self._taken: Recall | None = None
        """the pass that recalled the values, if all of them were still held"""
        self._use = Use()
        self.running = False
        """True while the plan is being built or run"""
        self._timing: Timing | None = None
        self._inputs: Mapping[Expr, Array] = {}
        """values of the parameters in the last run"""
        self._program: Program | None = None
        """the program of the last run, while it may run once more"""
        self._values: dict[int, Summary] = {}
        self._recording: Recording | None = None
        self._views: list[View] = []

    def __repr__(self) -> str:
        done = len(self._roots or self.planned.graph.recorded_roots) if self._timing is not None else 0
        return plan_text(self.title, len(self._handles), self._planned is not None and self._fresh, done)

    @overload
    def register(self, value: Any, /) -> Handle: ...

    @overload
    def register(self, value: Any, second: Any, /, *others: Any) -> tuple[Handle, ...]: ...

    @by_one_thread
    def register(self, value: Any, /, *others: Any) -> Handle | tuple[Handle, ...]:
        """Ask for the value of an expression, or of data of any type; return the handle that will hold it.

        For several values it returns a tuple of their handles. Raises OperandError, and registers none of them, if one
        is no expression or is on another device than the plan.
        """
        exprs = [self._expression(each) for each in (value, *others)]
        handles = []
        for expr in exprs:
            expr.mark_used()
            handles.append(Handle(expr))
        self._handles += handles
        self._fresh = False
        return tuple(handles) if others else handles[0]

    def _expression(self, value: Any) -> Expr:
        """Return the expression of a value; OperandError if it is on another device than the plan."""
        expr = value if isinstance(value, Expr) else expression_of(value)
        if self.device not in (None, expr.type.device):
            raise OperandError(
                f"register of {expr!r} in the plan of {self.device.name}",
                rule=f"the expression must be on the plan's device, but it is on {expr.type.device.name}",
                fix="plan.register(x.to_device(device)), or use a plan without a device: ex.EvalPlan()",
            )
        return expr

    @by_one_thread
    @long_running
    def prepare(self, planned: Plan | None = None, interface: Sequence[InterfaceValue] = ()) -> EvalPlan:
        """Plan the registered expressions without running them; ``recording`` and ``explain()`` then show the plan.

        ``planned`` is a plan built before from exactly these expressions and options, ``interface`` names inputs and
        outputs as the file of a model does. Raises StateError if nothing is registered.
        """
        if not self._handles:
            raise StateError(
                "a plan with nothing registered",
                rule="at least one expression must be registered",
                fix="plan.register(expression)",
            )
        if planned is None:
            roots = [handle.expr for handle in self._handles]
            with gc_paused():
                recalled = recall(structure(roots, self.options)) if self.recall else None
            planned = self._plan(roots, recalled)
        self._set_planned(planned, interface)
        return self

    def _set_planned(self, planned: Plan, interface: Sequence[InterfaceValue] = ()) -> None:
        self._planned, self._interface = planned, interface
        self._roots, self._taken, self._timing, self._values, self._recording = [], None, None, {}, None
        self._views = []  # open views keep showing the program that they were opened for
        self._fresh = True

    def _plan(self, roots: list[Expr], recalled: Recalled | None) -> Plan:
        """Plan expressions; use the values that are still held for those that have one."""
        was_running, self.running = self.running, True
        try:
            with gc_paused():
                return plan(roots, self.options, recalled.as_pass() if recalled is not None else None)
        finally:
            self.running = was_running

    @by_one_thread
    def bind(self, inputs: Mapping[Expr, Array]) -> EvalPlan:
        """Set values of parameters; ``eval()`` uses them unless it is called with others."""
        check_type(inputs, "inputs", Mapping, "values by parameter", "plan.bind({parameter: value})")
        self._bound.update(inputs)
        return self

    @by_one_thread
    @long_running
    def eval(self, inputs: Mapping[Expr, Array] | None = None) -> EvalPlan:
        """Run the plan and store the values in the handles; the registrations are cleared, also after a failure.

        ``inputs`` maps parameters to their values. Does nothing if nothing is registered. Raises RunError if a kernel
        fails; its cause is the kernel's own error.
        """
        if inputs is not None:
            check_type(inputs, "inputs", Mapping, "values by parameter", "plan.eval({parameter: value})")
        if not self._handles:
            return self
        if self.running:
            raise StateError(
                "eval() of a plan that is running",
                rule="a kernel, or a rule, must not run the plan that runs it",
                fix="evaluate in another plan: ex.EvalPlan(), or ex.evaluate(x)",
            )
        handles, self.running = self._handles, True
        self._inputs = {**self._bound, **(inputs or {})}
        try:
            results, timing = self._run(self._inputs)
            for handle, value in zip(handles, results, strict=True):
                handle._value = value
            self._timing = timing
        except BaseException as error:  # an interrupt, too: the handle then says why it has no value
            for handle in handles:
                handle._failure = type(error).__name__
            raise
        else:
            if self._views or self.record == "values":
                self._measure_warm()
        finally:
            self._handles, self._fresh, self._recording, self.running = [], False, None, False
            if self._planned is not None:
                for view in self._views:
                    view.update(self.recording)
        return self

    def _run(self, inputs: Mapping[Expr, Array]) -> tuple[list[Any], Timing]:
        """Return results and times: from held results, from a cached program, or from a new one."""
        roots = [handle.expr for handle in self._handles]
        # A prepared plan runs as it was shown. Values are captured by node, and a cached program has the nodes of the
        # graph that it was planned for.
        cached = not self._fresh and self.record != "values" and not self.options.inference
        known = structure(roots, self.options) if cached or self.recall else None
        recalled = recall(known) if self.recall else None
        if recalled is not None:
            cached = False  # a program of the whole structure would compute values that are held already
            values = recalled.roots(roots)
            if values is not None and not self._fresh:
                self._planned, self._interface, self._roots, self._views, self._values = None, (), roots, [], {}
                self._taken = recalled.as_pass()
                return [*values], Timing([], [], [])
        results, timing = self._run_program(roots, known if cached else None, recalled, inputs)
        if self.device is not cpu:
            results = [on_host(root, value) for root, value in zip(roots, results, strict=True)]
        if recalled is not None:
            # The others were remembered when they were computed.
            there = recalled.values
            remember(known, [None if root in there else value for root, value in zip(roots, results, strict=True)])
            results = [there.get(root, value) for root, value in zip(roots, results, strict=True)]
        elif self.recall:
            remember(known, results)
        return results, timing

    def _run_program(
        self, roots: list[Expr], known: Structure | None, recalled: Recalled | None, inputs: Mapping[Expr, Array]
    ) -> tuple[list[Any], Timing]:
        """Return results and times of a cached program of the same structure, or of a new one."""
        cached = cache.take(known) if known is not None else None
        if known is not None and cached is not None:
            try:
                timing = run_program(self.executor, cached.program, None, False)._replace(warm=True)
            except RunError:  # the second failure names the lines of this graph, not of the one first planned
                pass
            else:
                results = cached.program.take()
                cache.put(known.key, cached)
                self._planned, self._interface, self._views, self._values, self._taken = None, (), [], {}, None
                self._roots = roots
                return results, timing
        if not self._fresh:
            self._set_planned(self._plan(roots, recalled))
        program = Program(self.planned, reusable=known is not None)
        program.bind(inputs)
        watch = ValueCapture(program) if self.record == "values" else None
        timing = run_program(self.executor, program, watch, self.record != "off")
        results = program.take()
        if watch is not None:
            # Sorted, since threads end their kernels in any order: a saved notebook stays the same.
            self._values, self._program = dict(sorted(watch.summaries.items())), program
            timing = timing._replace(watched=True)
        if known is not None:
            cache.put(known.key, CachedProgram(program, known))
        return results, timing

    @property
    def reused(self) -> bool:
        """Whether the last run used a program that was planned before, for a graph of the same structure."""
        return bool(self._roots) and self._taken is None

    @property
    def planned(self) -> Plan:
        """The planned graph, its schedule and its decisions; raises StateError before prepare() or eval()."""
        # A run that needed no plan: it is planned now that somebody asks for it.
        if self._planned is None and self._roots:
            self._planned = plan(self._roots, self.options, self._taken)
        if self._planned is None:
            raise StateError(
                "a plan that is not built yet", rule="prepare() or eval() must be called first", fix="plan.prepare()"
            )
        return self._planned

    @property
    def recording(self) -> Recording:
        """Everything that happened, as plain data; without a run before eval()."""
        planned, timing = self.planned, self._timing
        if self._recording is None:
            run = None
            if timing is not None and timing.of_work and self.record != "off":
                run = stage_rows.measured(planned, self.executor, timing)
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
            with gc_paused():
                notes = timing.notes if timing is not None else ()
                facts = self._values, self.reused, notes, self._interface
                self._recording = recorder.build(planned, self.title, options, run, *facts)
        return self._recording

    def _measure_warm(self) -> None:
        """Measure a warm run for a reader of times, where only a first run was measured and another one may be."""
        program, self._program = self._program, None
        if self._timing is not None and self.record != "off":
            self._timing = warm_timing(self.planned, program, EXECUTORS[self.executor].run, self._inputs, self._timing)
            self._recording = None

    @by_one_thread
    def explore(self, **options: Unpack[ViewOptions]) -> View:
        """Return a widget that steps through the plan; after eval() the same widget shows the measured run.

        Its times are those of a warm run: a plan that has run once, in less than a second, runs again for it, a short
        one five times, of which the fastest is shown, unless one of its operations is not ``pure``.
        """
        hooks.check_view(**options)
        if (self._planned is None and not self._roots) or (self._handles and not self._fresh):
            with hooks.preview(**options):
                self.prepare()
        self._measure_warm()
        view = hooks.explore(self, **options)
        self._views.append(view)
        return view
