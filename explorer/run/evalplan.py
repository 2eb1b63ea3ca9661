"""EvalPlan: register expressions, inspect the plan, evaluate them together, and read their values.

To evaluate small expressions fast, a plan is built only if the result cache lacks the values and the plan cache has no
program for the graph. Recordings and views are created on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, TypeAlias, Unpack, get_args, overload

from explorer.core.argument_checks import check_name, check_type, named_methods, options_of
from explorer.core.errors import OperandError, RunError, StateError, UnknownNameError
from explorer.core.ir.explore_options import RecordOption, ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import ComparedPlans, View, hooks
from explorer.core.ir.traversal import reachable
from explorer.core.progress import long_running
from explorer.core.types.device import Device, check_device, cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.graph.numerics import Level
from explorer.plan.options import OPTIONS, Options, PlannerOptions
from explorer.plan.passes import Codegen, Inline, Order
from explorer.plan.passes.recall import ReusableValues
from explorer.plan.pipeline import PIPELINE, PassName, pass_names
from explorer.plan.planner import Plan, plan
from explorer.plan.schedule.task_assignment import BANDWIDTH, LATENCY, OVERHEAD
from explorer.record import Decision, Recording, Summary
from explorer.record.gc_pause import gc_paused
from explorer.run.calibrate import measured_cost_model
from explorer.run.diagnosis.reproducer import reproducer
from explorer.run.diagnosis.scale_estimate import ScaleEstimate, scale_estimate
from explorer.run.diagnosis.what_if import WhatIf, what_if
from explorer.run.execution.binding import Binding, rebound_binding
from explorer.run.execution.executors import EXECUTORS, ExecutorName, run_program
from explorer.run.execution.program import Program
from explorer.run.execution.value_capture import ValueCapture
from explorer.run.execution.warm_timing import warm_timing
from explorer.run.handle import Handle, expression_of
from explorer.run.one_thread import Use, by_one_thread
from explorer.run.plan_cache import Structure, cache, entry, structure
from explorer.run.recording import recorder, stage_rows
from explorer.run.recording.interface_table import NO_INTERFACE, Interface
from explorer.run.result_cache import Recalled, recall, remember
from explorer.run.runtime.marshalling import on_host
from explorer.run.runtime.timing import Timing
from explorer.run.workers.workers import open_network

if TYPE_CHECKING:
    import graphviz  # type: ignore[import-untyped]  # the package has no types


class PlanRun(NamedTuple):
    """Expressions that were planned or run together, and the run's measurements."""

    roots: list[Expr]
    planned: Plan | None = None
    """None if a cached program ran or all results were recalled; the plan is then built on request"""
    recalled: ReusableValues | None = None
    """the recalled results, if all of them were recalled"""
    reused: bool = False
    """whether the program had already been planned for a graph with the same structure"""
    interface: Interface = NO_INTERFACE
    awaited: tuple[Handle, ...] = ()
    """handles for which the plan was built, before the run"""
    timing: Timing | None = None
    """None before the run"""
    inputs: Mapping[Expr, Array] = MappingProxyType({})
    """values of the parameters"""
    program: Program | None = None
    """the program, as long as it can be run again"""
    values: Mapping[int, Summary] = MappingProxyType({})
    recording: Recording | None = None
    """None until requested"""
    views: tuple[View, ...] = ()
    """views of this program, which each run updates"""

    @property
    def measured(self) -> Timing | None:
        """Times of the run, which was warm if the program had been planned for another graph."""
        return self.timing._replace(warm=True) if self.timing is not None and self.reused else self.timing


@named_methods
class EvalPlan:
    """Plan of registered expressions, which computes each value once and records every decision (MetaNN: EvalPlan).

    A plan computes every value that it shows, unless ``recall=True``.

    ``without`` names passes to omit. ``record`` is "times", "values" (a summary of every value) or "off". On a GPU, the
    first run waits for each kernel, so each time includes the kernel's work. Later runs of the same program wait only
    once, and have no times until ``explore()`` measures them. ``executor`` is "simple" (kernels in sequence) or another
    name from ``ex.executors()``; see ex.register_executor. If a ``device`` is given, the plan accepts only expressions
    on that device. ``recall=True`` keeps values while references to them exist, and reuses them in later plans with
    equal options. ``costs`` is "reference" (equal on all machines) or "measured" (on this machine, see ex.calibrate).
    ``numerics="fast"`` allows rewrites that reorder operations, which may cause overflow, underflow or cancellation;
    "safe" declines such rewrites and reports the time that they would save. ``passes`` are the planning passes, in
    order (ex.default_passes). Other options belong to the planner. If two threads call ``register``, ``bind``,
    ``prepare``, ``eval`` or ``explore`` at the same time, the second call raises StateError. Any thread may read
    handles.

    >>> plan = ex.EvalPlan(without="fuse")
    >>> handle = plan.register(ex.tensor([1.0, 2.0]) + 1)
    >>> plan.eval() is plan, handle.data()
    (True, array([2., 3.]))
    """

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name):
            instead = {
                **dict.fromkeys(("run", "execute", "compute", "evaluate", "forward"), "plan.eval()"),
                **dict.fromkeys(("show", "view", "draw", "plot", "display"), "plan.explore()"),
                **dict.fromkeys(("add", "append"), "plan.register(y)"),
                **dict.fromkeys(("build", "compile", "optimize"), "plan.prepare()"),
                **dict.fromkeys(("decisions", "nodes", "kernels", "stages"), "plan.recording"),
            }
            hint = f": use {instead[name]}" if name in instead else ""
            raise AttributeError(f"a plan has no attribute {name!r}{hint}", name=name, obj=self)

    @options_of(PlannerOptions)
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
        **options: Unpack[PlannerOptions],
    ) -> None:
        if expressions:
            raise OperandError(
                f"a plan of {expressions[0]!r}",
                rule="expressions must be registered in a plan, which returns handles to their values",
                fix="plan = ex.EvalPlan(); plan.register(loss)",
            )
        self.options = plan_options(
            options, without=without, record=record, executor=executor, title=title, device=device, recall=recall,
            costs=costs, numerics=numerics,
        )  # fmt: skip
        self.record, self.executor, self.title, self.device = record, executor, title, device
        self.recall, self.costs = recall, costs
        self.without = names_of(without)
        self.passes = tuple(options["passes"]) if "passes" in options else PIPELINE
        self._handles: list[Handle] = []
        self._bound: dict[Expr, Array] = {}
        self._latest: PlanRun | None = None
        """the run that the plan shows: the last run, or a later preparation"""
        self._use = Use()
        self.running = False
        """True while the plan is being built or run"""

    def __repr__(self) -> str:
        latest = self._latest
        done = len(latest.roots) if latest is not None and latest.timing is not None else 0
        return plan_text(self.title, len(self._handles), self._prepared is not None, done)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return hooks.cell_result(self, self._drawn)

    def _drawn(self) -> Recording | list[Expr]:
        """Return what a cell shows: the plan if it exists and is of moderate size, else the registered expressions."""
        latest = self._latest
        pending = [handle.expr for handle in self._handles]
        if latest is None or (pending and self._prepared is None):
            return pending
        return latest.roots if self.running or len(reachable(latest.roots)) > _DRAWN else self.recording

    @overload
    def register(self, value: Any, /) -> Handle: ...

    @overload
    def register(self, value: Any, second: Any, /, *others: Any) -> tuple[Handle, ...]: ...

    @by_one_thread
    def register(self, value: Any, /, *others: Any) -> Handle | tuple[Handle, ...]:
        """Request the value of an expression, or of data of any type; return its handle.

        For several values, return a tuple of handles. Raises OperandError, and registers nothing, if a value is not an
        expression or is not on the plan's device.
        """
        exprs = [self._expression(item) for item in (value, *others)]
        handles = []
        for expr in exprs:
            expr.mark_used()
            handles.append(Handle(expr))
        self._handles += handles
        return tuple(handles) if others else handles[0]

    def _expression(self, value: Any) -> Expr:
        """Return the expression for ``value``; raise OperandError if it is not on the plan's device."""
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
    def prepare(self, planned: Plan | None = None, interface: Interface = NO_INTERFACE) -> EvalPlan:
        """Plan the registered expressions without running them, for ``recording`` and ``explain()``.

        ``planned`` is an existing plan for exactly these expressions and options. ``interface`` describes
        the model file. Raises StateError if nothing is registered.
        """
        if not self._handles:
            raise StateError(
                "a plan with nothing registered",
                rule="at least one expression must be registered",
                fix="plan.register(expression)",
            )
        roots = [handle.expr for handle in self._handles]
        if planned is None:
            with gc_paused():
                recalled = recall(structure(roots, self.options)) if self.recall else None
            planned = self._plan(roots, recalled)
        self._latest = PlanRun(roots, planned, interface=interface, awaited=tuple(self._handles))
        return self

    @property
    def _prepared(self) -> PlanRun | None:
        """Prepared plan, or None if other expressions are registered; if prepared, the displayed plan is run."""
        latest = self._latest
        if latest is None or not latest.awaited or latest.awaited != tuple(self._handles):
            return None
        return latest

    def _plan(self, roots: list[Expr], recalled: Recalled | None) -> Plan:
        """Plan the expressions ``roots``, with recalled values as constants."""
        was_running, self.running = self.running, True
        try:
            with gc_paused():
                return plan(roots, self.options, recalled.as_tensors() if recalled is not None else None)
        finally:
            self.running = was_running

    @by_one_thread
    def bind(self, inputs: Mapping[Expr, Array]) -> EvalPlan:
        """Set the values of parameters, which ``eval()`` uses unless other values are passed to it."""
        check_type(inputs, "inputs", Mapping, "values by parameter", "plan.bind({parameter: value})")
        self._bound.update(inputs)
        return self

    @by_one_thread
    @long_running
    def eval(self, inputs: Mapping[Expr, Array] | None = None) -> EvalPlan:
        """Run the plan and store the values in the handles; then clear the registrations, even after a failure.

        ``inputs`` maps parameters to their values. Does nothing if nothing is registered. If a kernel fails, raises
        RunError, caused by the kernel's own error.
        """
        if inputs is not None:
            check_type(inputs, "inputs", Mapping, "values by parameter", "plan.eval({parameter: value})")
        if not self._handles:
            return self
        if self.running:
            raise StateError(
                "eval() of a plan that is running",
                rule="a kernel or a rule must not run the plan that runs it",
                fix="evaluate in another plan: ex.EvalPlan(), or ex.evaluate(x)",
            )
        handles, self.running = self._handles, True
        try:
            results, run = self._run({**self._bound, **(inputs or {})})
            for handle, value in zip(handles, results, strict=True):
                handle._value = value
            self._latest = run
        except BaseException as error:  # includes interrupts, so the handle can report why it has no value
            for handle in handles:
                handle._failure = type(error).__name__
            raise
        else:
            if run.views or self.record == "values":
                self._measure_warm()
        finally:
            self._handles, self.running = [], False
            if self._latest is not None:
                for view in self._latest.views:
                    view.update(self.recording)
        return self

    def _run(self, inputs: Mapping[Expr, Array]) -> tuple[list[Any], PlanRun]:
        """Return a run's results, recalled or computed by a cached or new program, and its record."""
        roots, prepared = [handle.expr for handle in self._handles], self._prepared
        # A prepared plan must run as displayed, and value capture needs this graph's nodes, which a cached program
        # lacks.
        cached = prepared is None and self.record != "values" and not self.options.inference
        graph_structure = structure(roots, self.options) if cached or self.recall else None
        recalled = recall(graph_structure) if self.recall else None
        if recalled is not None:
            cached = False  # a program for the whole graph would recompute the recalled values
            values = recalled.roots(roots)
            if values is not None and prepared is None:
                return [*values], PlanRun(roots, recalled=recalled.as_tensors(), timing=Timing([], [], []))
        cached_run = (
            self._run_cached(roots, graph_structure, inputs) if graph_structure is not None and cached else None
        )
        results, run = cached_run or self._run_planned(
            prepared or PlanRun(roots, self._plan(roots, recalled)), graph_structure if cached else None, inputs
        )
        if self.device is not cpu:
            results = [on_host(root, value) for root, value in zip(roots, results, strict=True)]
        if recalled is not None:
            # Recalled results need not be remembered again.
            recalled_values = recalled.values
            remember(
                graph_structure,
                [None if root in recalled_values else value for root, value in zip(roots, results, strict=True)],
            )
            results = [recalled_values.get(root, value) for root, value in zip(roots, results, strict=True)]
        elif self.recall:
            remember(graph_structure, results)
        return results, run

    def _run_cached(
        self, roots: list[Expr], graph_structure: Structure, inputs: Mapping[Expr, Array]
    ) -> tuple[list[Any], PlanRun] | None:
        """Return the results of a cached program for a graph of the same structure; None if this is impossible."""
        cached = cache.take(graph_structure)
        if cached is None:
            return None
        try:
            timing = run_program(self.executor, cached.program, None, False)
        except RunError:  # the second failure names the lines of this graph, not those of the cached graph
            return None
        results = cached.program.take()
        cache.put(graph_structure.key, cached)
        return results, PlanRun(roots, reused=True, timing=timing, inputs=inputs)

    def _run_planned(
        self, run: PlanRun, graph_structure: Structure | None, inputs: Mapping[Expr, Array]
    ) -> tuple[list[Any], PlanRun]:
        """Return the results of a new program, and cache the program if the graph has a known structure."""
        self._latest = run  # displayed if the run fails
        assert run.planned is not None
        with gc_paused():
            program = Program(run.planned, Binding() if graph_structure is None else rebound_binding(run.planned))
        program.bind(inputs)
        watch = ValueCapture(program) if self.record == "values" else None
        timing = run_program(self.executor, program, watch, self.record != "off")
        results = program.take()
        run = run._replace(awaited=(), timing=timing, inputs=inputs, recording=None)
        if watch is not None:
            # Sorted, because threads finish kernels in any order, and a saved notebook must not change.
            values = dict(sorted(watch.summaries.items()))
            run = run._replace(timing=timing._replace(watched=True), values=values, program=program)
        if graph_structure is not None:
            cache.put(graph_structure.key, entry(program, graph_structure))
        return results, run

    @property
    def reused(self) -> bool:
        """Whether the last run used a program planned earlier for a graph of the same structure."""
        return self._latest is not None and self._latest.reused

    @property
    def planned(self) -> Plan:
        """The planned graph, its schedule and its decisions; raises StateError before prepare() or eval()."""
        latest = self._latest
        if latest is None:
            raise StateError(
                "a plan that is not built yet", rule="prepare() or eval() must be called first", fix="plan.prepare()"
            )
        if latest.planned is None:
            latest = self._latest = latest._replace(planned=plan(latest.roots, self.options, latest.recalled))
        assert latest.planned is not None
        return latest.planned

    @property
    def recording(self) -> Recording:
        """Everything that happened, as plain data; it contains no run before eval()."""
        planned, latest = self.planned, self._latest
        assert latest is not None
        recording, timing = latest.recording, latest.measured
        if recording is None:
            run = None
            if timing is not None and timing.of_work and self.record != "off":
                run = stage_rows.measured(planned, self.executor, timing)
            options: dict[str, Any] = {
                "without": list(self.without),
                "record": self.record,
                "executor": self.executor,
                "costs": self.costs,
            }
            if self.passes is not PIPELINE:
                options["passes"] = list(pass_names(self.passes))
            lanes = self.options.find(Order).lanes
            if lanes > 1:
                options["lanes"] = lanes
            if any(isinstance(step, Codegen) for step in self.options.passes):
                options["kernels"] = "native"
            with gc_paused():
                notes = timing.notes if timing is not None else ()
                facts = latest.values, latest.reused, notes, latest.interface
                recording = recorder.build(planned, self.title, options, run, *facts)
            self._latest = latest._replace(recording=recording)
        return recording

    def _measure_warm(self) -> None:
        """Measure a warm run if only a first run was measured and the program can run again."""
        run = self._latest
        if run is not None and run.measured is not None and self.record != "off":
            execute = EXECUTORS[self.executor].run
            timing = warm_timing(self.planned, run.program, execute, run.inputs, run.measured)
            self._latest = run._replace(planned=self.planned, timing=timing, program=None, recording=None)

    @by_one_thread
    @options_of(ViewOptions)
    def explore(self, **options: Unpack[ViewOptions]) -> View:
        """Return a widget that steps through the plan; after eval(), the same widget shows the measured run.

        To show warm times, a plan that has run once, in less than a second, runs again. A short plan runs five times,
        and the fastest run is shown. Plans with an operation that is not ``pure`` never run again.
        """
        hooks.check_view(**options)
        if self._latest is None or (self._handles and self._prepared is None):
            with hooks.preview(**options):
                self.prepare()
        self._measure_warm()
        view = hooks.explore(self, **options)
        if self._latest is not None:
            self._latest = self._latest._replace(views=(*self._latest.views, view))
        return view

    def why(self, one: Expr | str, other: Expr | str) -> str:
        """Return the decisions about two expressions or names as text: for example, why they are not fused.

        The text also states in which kernels they run, and which edge between them is not fused.
        """
        return hooks.why(self, one, other)

    def explain(self, what: Expr | str | None = None) -> str:
        """Return all decisions as text, or the decisions about ``what``; after a run, include each batch's time.

        ``what`` is an expression, or the name of an operator in a file, a layer, a scope, a variable or an operation.
        """
        return hooks.explain(self, what)

    def code(self, what: Expr | str | None = None) -> str:
        """Return the C code of the kernels that compute ``what``, or of all kernels that have code.

        ``what`` is as in ``explain``. The names in it are those of the program. Raises StateError, with the reason
        of the stage *codegen*, if no kernel has code: only plans with ``kernels="native"`` generate code.

        >>> x = ex.tensor(np.ones((100, 100), np.float32))
        >>> plan = ex.EvalPlan(kernels="native")
        >>> handle = plan.register(ex.tanh(x * 2) + x)
        >>> "f32 tanh = tanh_f32(multiply);" in plan.prepare().code("tanh")
        True
        """
        return hooks.code(self, what)

    def to_graphviz(self, stage: str | None = None) -> graphviz.Digraph:
        """Return the graph after ``stage`` ("recorded", "fuse", …; None: the last stage) as a ``graphviz.Digraph``.

        Fused kernels are clusters; ``.source`` is the DOT source. Raises UnknownNameError for an unknown stage.
        """
        return hooks.to_graphviz(self, stage)

    def compare(self, other: EvalPlan | Recording) -> ComparedPlans:
        """Compare this plan with a plan of any graph, as text, images and side-by-side views."""
        return hooks.compare(self, other)

    def what_if(self, what: Decision | Expr) -> WhatIf:
        """Find the smallest change that would apply a declined decision, with the costs before and after the change.

        ``what`` is an element of ``recording.declined``, or an expression, which stands for its costliest declined
        decision.
        """
        return what_if(self.planned, self.recording, what)

    def estimate(
        self, workers: int, bandwidth: float = BANDWIDTH, latency: float = LATENCY, overhead: float = OVERHEAD
    ) -> ScaleEstimate:
        """Estimate the plan's time, critical path, bytes sent and idle times on several workers, without running it.

        ``bandwidth`` of each worker's connection is in MB/s; ``latency`` of a message and ``overhead`` of a task are in
        µs. The defaults were measured for Dask processes on one machine. A chain of kernels is assigned to the worker
        that would finish it first. Calls of ``ex.map`` are divided between workers if this saves time. A batch is one
        kernel; plan with ``without="batch"`` to distribute its elements. Raises OperandError for invalid arguments.

        >>> x = ex.tensor(np.ones((400, 400)))
        >>> plan = ex.EvalPlan(without="batch")
        >>> handles = [plan.register(ex.tanh(x * n @ x).sum()) for n in range(1, 9)]
        >>> estimate = plan.prepare().estimate(workers=4, bandwidth=1000, latency=100, overhead=100)
        >>> estimate.worthwhile, estimate.network.workers
        (True, 4)
        """
        return scale_estimate(self.planned, workers, bandwidth, latency, overhead)

    def reproducer(self, decision: Decision) -> str:
        """Return the source of a notebook cell that reproduces ``decision`` on a minimal graph.

        ``decision`` is an element of ``recording.decisions``. The cell asserts it, and needs only explorer and NumPy.
        """
        return reproducer(self.planned, self.recording, decision)


_DRAWN = 600
"""maximum number of nodes in a plan that a cell shows as planned, without a view"""
CostsOption: TypeAlias = Literal["reference", "measured"]
Without: TypeAlias = PassName | str | Sequence[PassName | str]


class PlanOptions(PlannerOptions, total=False):
    """Options of `EvalPlan`, for type checkers and editor completion of functions that pass them on."""

    without: Without
    """names of passes to omit"""
    record: RecordOption
    executor: ExecutorName | str
    title: str
    device: Device | None
    """the device of all expressions, or None for any device"""
    recall: bool
    """whether values of earlier plans are reused"""
    costs: CostsOption
    numerics: Level
    """"fast" allows rewrites that may cause overflow, underflow or cancellation"""


def plan_options(
    planner_options: Mapping[str, Any],
    *,
    without: Without,
    record: str,
    executor: str,
    title: str,
    device: Device | None,
    recall: bool,
    costs: str,
    numerics: str,
) -> Options:
    """Return the planner's options for an EvalPlan's options; ``planner_options`` are passed on unchanged.

    Raises UnknownNameError or OperandError, which names the wrong option.
    """
    check_name(record, "record", get_args(RecordOption))
    check_name(executor, "executor", EXECUTORS)
    check_name(costs, "costs", get_args(CostsOption))
    check_type(title, "title", str, "a string", f'title="{title}"')
    check_type(recall, "recall", bool, "True or False", "recall=True")
    if device is not None:
        check_device(device)
    for name in planner_options:
        if name not in OPTIONS:
            known = [*OPTIONS, "record", "executor", "title", "device", "recall", "costs"]
            is_pass = name in {getattr(step, "name", "") for step in PIPELINE}
            fix = f"passes are left out by name: ex.EvalPlan(without=[{name!r}])" if is_pass else ""
            raise UnknownNameError(name, kind="plan option", known=known, fix=fix)
    settings = {
        "without": names_of(without),
        "lanes": EXECUTORS[executor].lanes,
        "numerics": numerics,
        **planner_options,
    }
    if costs == "measured":
        settings = {"cost_model": measured_cost_model(), **settings}
    # Options must be hashable, since they are part of the plan cache's key.
    if isinstance(settings.get("passes"), list):
        settings["passes"] = tuple(settings["passes"])
    options = Options(**settings)
    if executor == "dask" and options.find(Inline).network is None:
        options = options.with_fields(Inline, network=open_network())  # mapped calls are divided between these workers
    return options


def names_of(without: Any) -> Any:
    """Return one or several names as a tuple; return other types unchanged, for the planner to reject."""
    if isinstance(without, str):
        return (without,)
    return tuple(without) if isinstance(without, (list, set, frozenset)) else without


def plan_text(title: str, registered: int, is_prepared: bool, evaluated: int) -> str:
    """Return the state of a plan: ``<plan 'loss': 2 evaluated>``, ``<plan: 1 registered, not planned>``."""
    parts = [f"{evaluated:,} evaluated"] * (evaluated > 0)
    if registered or not evaluated:
        parts.append(f"{registered:,} registered, {'prepared' if is_prepared else 'not planned'}")
    return f"<plan{f' {title!r}' if title else ''}: {'; '.join(parts)}>"
