"""``explore``, which records expressions, layers or plans and shows the recording in a view."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import IO, TYPE_CHECKING, Any, TypeAlias, Unpack

from explorer.cell_outputs import preview
from explorer.core.argument_checks import (
    check_integer,
    check_name,
    check_type,
    named,
    named_methods,
    options_of,
    refuse_option,
)
from explorer.core.attributes import as_written
from explorer.core.errors import DeclarationError, ExplorerError, OperandError, class_text
from explorer.core.ir.explore_options import ExploreOptions, Kernels, RecordOption, ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import View
from explorer.core.ir.recording_context import operator_of
from explorer.core.pytree import flatten
from explorer.plan.rewrite.pattern import Pattern
from explorer.record import Recording
from explorer.record.gc_pause import gc_paused
from explorer.record.json_form import validate
from explorer.record.listings import without_source
from explorer.record.renamed import renamed_options
from explorer.record.view_choices import DIRECTIONS, THEMES
from explorer.run.diagnosis.leaf_values import leaf_answer, small_leaf_values
from explorer.run.evalplan import EvalPlan
from explorer.run.recording.recorder import expressions, node_id
from explorer.save_view import check_package, check_width, page, save
from explorer.view.model.heat import METRICS, HeatMetric, overlay, time_difference
from explorer.view.replay.steps import stage_start
from explorer.view.widget.widget import GraphView

if TYPE_CHECKING:
    import networkx

    from explorer.layers import Layer
    from explorer.net import Net, NetOperator
    from explorer.view.export.pandas_tables import Tables

_VIEW = tuple(ViewOptions.__annotations__)
"""names of the options of a view"""
_PLANNED: dict[str, Any] = {"run": True, "record": "values", "kernels": "numpy", "plan": None}
"""planning options of ``explore`` and their defaults"""


Node: TypeAlias = "Expr | NetOperator | int | str"
"""node as an argument of a view's methods: an expression, an operator of a net, the id of a node, or a name of an
operator, layer, scope, variable or operation"""


def check_view(**options: Any) -> None:
    """Raise UnknownNameError for an unknown view option, and OperandError for an invalid value."""
    check_options(options)


def check_options(options: Mapping[str, Any], *further: str) -> None:
    """Raise UnknownNameError, with suggestions, for an unknown option, and OperandError for an invalid value.

    ``further`` names options that are allowed in addition to the view options.
    """
    for name in options:
        if name not in _VIEW:
            refuse_option(name, "explore", (*_VIEW, *further))
    if "theme" in options:
        check_name(options["theme"], "theme", THEMES)
    if "direction" in options:
        check_name(options["direction"], "direction", DIRECTIONS)
    if "source" in options:
        check_type(options["source"], "source", bool, "True or False", "source=False")
    for name, example in (("height", 560), ("position", 0), ("depth", 1)):
        if name in options:
            check_type(options[name], name, int, "an integer", f"{name}={example}")


@named_methods
class ExpressionView(GraphView):
    """View of a recording whose methods accept and return expressions as nodes; ``plan`` may be None.

    ``view.stage = "fuse"`` and ``view.step = 3`` select what is shown, ``view.focus("conv1")`` selects a node,
    ``print(view.why("conv1", "relu"))`` explains decisions, and ``view.save("model.html")`` writes a page. With
    ``source=False``, neither the view nor files saved from it contain the program's source code.
    """

    @gc_paused()
    def __init__(
        self, recording: Recording, plan: EvalPlan | None = None, *, source: bool = True, **options: Any
    ) -> None:
        self._has_source = source
        self.planned = None if plan is None else plan.planned
        super().__init__(self._shown(recording), **options)

    def _shown(self, recording: Recording) -> Recording:
        return recording if self._has_source else without_source(recording)

    def update(self, recording: Recording) -> None:
        """Show a newer recording of the same plan, for example after a run, and keep the step, stage and selection."""
        super().update(self._shown(recording))

    def save(
        self,
        path: str | os.PathLike[str] | IO[Any],
        *,
        format: str | None = None,
        stage: str | None = None,
        depth: int | None = None,
        width: float | None = None,
    ) -> None:
        """Save the view with its current step, selection and open boxes; the extension of ``path`` selects the format.

        ``.html`` is an interactive page, and ``.svg``, ``.png`` and ``.pdf`` are images. ``.dot``, ``.mmd`` and
        ``.graphml`` contain the graph for Graphviz, Mermaid and other programs. ``.txt`` (the decisions), ``.json``
        (the recording) and ``.trace.json`` (the times of a run, for ui.perfetto.dev) contain all steps. ``.c`` is the
        code of compiled kernels. Raises FileError for any other extension, for ``.png`` without the extra
        ``explorer-graphs[png]``, and for ``.pdf`` without the extra ``pdf``.

        ``path`` may also be a file that is open for writing, with the format by name:
        ``view.save(io.BytesIO(), format="png")``.

        ``stage`` shows the result of a stage, and ``depth`` opens boxes down to a depth, instead of what the view
        shows. ``width`` is the width in cm of an image for a paper, on which text has at least 6 pt; if it has less,
        FileError states which depth and width are legible.

        Example: ``plan.explore().save("model.pdf", stage="fuse", depth=0, width=8.5)``.
        """
        state = self.state
        if stage is not None:
            check_type(stage, "stage", str, "the name of a stage", 'stage="fuse"')
            state = replace(state, stage=stage, step=stage_start(self.recording, stage))
        if depth is not None:
            state = replace(state, depth=check_integer(depth, "depth", "depth=0", minimum=0), open_boxes=None)
        if width is not None:
            check_width(width)
            state = replace(state, width=width)
        is_page = format == "html" or str(path).lower().endswith(".html")
        save(self._on_page if is_page else self.recording, path, state, format)

    def to_html(self) -> str:
        """Return the page that ``save`` writes to an ``.html`` file, for example to embed it in an app or a website.

        Example: ``streamlit.components.v1.html(view.to_html(), height=600)``.
        """
        return page(self._on_page, self.state)

    @property
    def _on_page(self) -> Recording:
        """The recording with the values of small weights, which a page cannot request later."""
        if self.planned is None:
            return self.recording
        try:
            values = small_leaf_values(self.planned)
        except (ExplorerError, OSError):
            # Pages are also saved without weights; the panel then states that they were not read.
            return self.recording
        known = self.recording.run.values if self.recording.run is not None else {}
        values = {node: summary for node, summary in values.items() if node not in known}
        return replace(self.recording, leaf_values={**values, **self.recording.leaf_values})

    def to_networkx(self, *, stage: str | None = None) -> networkx.MultiDiGraph[Any]:
        """Return the graph at the view's step, or the result of a stage, for graph algorithms; needs NetworkX.

        Nodes are node ids with attributes such as "label", "operation", "type", "flops", "scope" and "kernel". The key
        of an edge is the index of the value among the operands of its reader. Raises StateError if NetworkX is not
        installed.

        Example: ``networkx.dag_longest_path(view.to_networkx(stage="fuse"))``.
        """
        check_package("networkx", "view.to_networkx()")
        from explorer.view.export.networkx_graph import to_networkx

        state = self.state
        if stage is not None:
            check_type(stage, "stage", str, "the name of a stage", 'stage="fuse"')
            state = replace(state, stage=stage, step=stage_start(self.recording, stage))
        return to_networkx(self.recording, state.position(self.recording))

    def to_pandas(self) -> Tables:
        """Return the data frames ``nodes``, ``decisions`` and ``kernels`` of all steps; needs pandas.

        A value that is unknown is missing (NA), and times are in µs. Raises StateError if pandas is not installed.

        Example: ``view.to_pandas().kernels.nlargest(5, "time_us")``.
        """
        check_package("pandas", "view.to_pandas()")
        from explorer.view.export.pandas_tables import to_pandas

        return to_pandas(self.recording)

    def _node_of(self, what: Node) -> int | str:
        if isinstance(what, Expr) and self.planned is not None:
            return node_id(self.planned, what)
        node: Any = what
        if not isinstance(what, (int, str)):
            from explorer.net import NetOperator  # only needed for views of nets

            rule = "an expression, an operator, a node's number, or a name"
            check_type(node, "node", (int, str, NetOperator), rule, 'view.focus(net["conv1"]), view.why(x, "conv1")')
            node = node.name
        self._nodes_of(node)  # raises the error for an unknown node
        return node  # type: ignore[no-any-return]  # checked above

    def focus(self, what: Node) -> None:
        """Select a node, open the boxes that contain it, and scroll to it.

        ``what`` is an expression, an operator (``net["conv2"]``), a node id, or the name of an operator, layer, scope,
        variable or operation; the other methods accept the same values. If it is an operator or a scope, its last node
        is selected. To select a node without scrolling, assign to ``view.selected``.
        """
        super().focus(self._node_of(what))

    @renamed_options(way="direction")
    def trace(self, node: Node, direction: str = "inputs") -> None:
        """Select a node and highlight all nodes from which it is computed.

        ``direction="outputs"`` instead highlights all nodes computed from it. ``node`` is as in ``focus``.

        Example: ``view.trace(y, "outputs")``.
        """
        super().trace(self._node_of(node), direction)

    def why(self, one: Node, other: Node | None = None) -> str:
        """Return the decisions about node ``one`` as text.

        If ``other`` is given, return the decisions that affect both nodes or, if there are none, the history of each
        node. Nodes are specified as in ``focus``.

        Example: ``print(view.why(x, y))``.
        """
        return super().why(self._node_of(one), None if other is None else self._node_of(other))

    def select_line(self, line: int | str, cell: str | int | None = None) -> list[int]:
        """Return the ids of the nodes recorded at a line, and select the first one; see ``GraphView.select_line``."""
        check_type(
            line, "line", (int, str), "a line's number, or a part of its text", 'view.select_line("tanh", cell=3)'
        )
        return super().select_line(line, cell)

    def overlay(
        self,
        values: Mapping[Any, float] | Pattern,
        *,
        name: str = "overlay",
        unit: str = "",
        text: str = "",
        boxes: str = "sum",
    ) -> None:
        """Colour nodes by the given values, or by the matches of a pattern.

        Keys of ``values`` are nodes as in ``focus``: ``view.overlay({y: 0.25, "conv1": 0.5})``. A box has the sum of
        the values in it or, with ``boxes="max"``, the largest. For a pattern, as in
        ``view.overlay(ex.pattern("x * sigmoid(x)"))``, a node's value is the number of its match, counted from 1.
        """
        if isinstance(values, Pattern):
            if self.planned is None:
                raise OperandError(
                    "a pattern as the overlay of a recording",
                    rule="a pattern must be shown in the view of a plan, whose nodes are expressions",
                    fix="plan.explore().overlay(pattern), net.explore().overlay(pattern)",
                )
            values = values.overlay(*self.planned.graph.recorded_roots)
        check_type(values, "values", Mapping, "numbers by node, or a pattern", 'view.overlay({"conv1": 0.5})')
        numbers = {self._node_of(key): value for key, value in values.items()}
        super().overlay(numbers, name=name, unit=unit, text=text, boxes=boxes)

    def _value(self, node: int) -> dict[str, Any]:
        """Return a summary of a leaf's value, read from its file if necessary, and store it in the recording."""
        if self.planned is None:
            return super()._value(node)
        summary, problem = leaf_answer(self.planned, node)
        if summary is not None:
            self.recording.leaf_values[node] = summary
        return {"summary": summary and asdict(summary), "problem": problem}

    @property
    def selected_expression(self) -> Expr | None:
        """Expression of the selected node, or None if nothing is selected or the view has no plan."""
        return None if self.planned is None or self.selected < 0 else expressions(self.planned)[self.selected]

    @property
    def selected_operator(self) -> str | None:
        """Name of the net operator that recorded the selected node, as in ``net[view.selected_operator]``, or None."""
        expression = self.selected_expression
        operator = None if expression is None else operator_of(expression.scope)
        return None if operator is None else str(operator.name)

    def overlay_times(self, before: EvalPlan | Recording) -> None:
        """Colour each kernel by how much slower it is than in an earlier run of the same or a similar graph.

        Raises ValueError if either plan has not been run. Example: ``plan.explore().overlay_times(other)``.
        """
        check_type(before, "before", (EvalPlan, Recording), "a plan, or a recording", "view.overlay_times(plan)")
        earlier = before if isinstance(before, Recording) else before.recording
        other = earlier.title or "the other run"
        text = f"the time of a kernel, minus that of its counterpart in {other}: negative where this run is faster"
        times = time_difference(earlier, self.recording)
        self._lay_over(overlay(self.recording, times, "Δ time", "µs", text, "Δ time, this run − the other"))


@options_of(ExploreOptions)
def explore(what: Any, *more: Any, **options: Unpack[ExploreOptions]) -> View:
    """Return an interactive view of expressions, a container of expressions, a layer, a plan, a net or a recording.

    All views accept the options ``theme`` ("auto", "light" or "dark"), ``position`` (the initial step), ``height`` (in
    pixels), ``selected`` (a node id), ``open_boxes`` (box ids) or ``depth`` (open all boxes down to this depth),
    ``direction`` of the data flow ("down" or "right"), ``layout`` (as in Jupyter widgets), and ``source`` (False omits
    source code). Expressions also accept ``run``, ``record`` and ``plan`` (options of `EvalPlan`), and layers accept
    ``inputs``. Raises UnknownNameError for any other option.

    >>> view = ex.explore(ex.tanh(ex.tensor([1.0])), theme="dark", position=0)
    >>> view.theme
    'dark'

    With ``compiler``, such as "xla", the view shows what another compiler does with a program, called with the further
    arguments: ``ex.explore(jax.jit(f), x, compiler="xla")``; see `explorer.compilers.record`.
    """
    if "compiler" in options:
        return _compiled(what, more, **options)
    return _explore([what, *more] if more else what, **options)


def _compiled(program: Any, args: Sequence[Any], *, compiler: str, run: bool = True, **options: Any) -> View:
    from explorer.compilers import record  # only needed for views of other compilers

    check_type(run, "run", bool, "True or False", "run=False")
    check_options(options)
    return ExpressionView(record(compiler, program, *args, run=run), **options)


def _explore(
    what: Any,
    *,
    run: bool = True,
    record: RecordOption = "values",
    kernels: Kernels = "numpy",
    plan: Mapping[str, Any] | None = None,
    **options: Any,
) -> View:
    check_type(run, "run", bool, "True or False", "run=False")
    if plan is not None:
        check_type(plan, "plan", Mapping, "options of ex.EvalPlan by name", 'plan={"without": "fuse"}')
    if isinstance(what, os.PathLike) or (isinstance(what, str) and os.path.splitext(what)[1]):
        what = _opened(what)
    is_planned = isinstance(what, (Recording, EvalPlan))
    leaves = [] if is_planned else [as_written(leaf) for leaf in flatten(what)[0]]
    if not leaves or not all(isinstance(leaf, Expr) for leaf in leaves):
        of_expressions = {"run": run, "record": record, "kernels": kernels, "plan": plan}
        if not is_planned:
            return _explore_named(what, of_expressions, options)
        _refuse_planning(what, of_expressions)
        check_options(options, *_PLANNED)
        if not isinstance(what, Recording):
            return _view(what, options)
        _check_recording(what)
        return ExpressionView(what, **options)
    check_options(options, *_PLANNED)
    fresh_plan = _fresh_plan(record, kernels, plan or {})
    for leaf in leaves:
        fresh_plan.register(leaf)
    with preview(**options):
        fresh_plan.prepare()
    if run:
        fresh_plan.eval()
    return _view(fresh_plan, options)


def _fresh_plan(record: RecordOption, kernels: Kernels, further: Mapping[str, Any]) -> EvalPlan:
    """Return a plan with options of ``explore``; raise OperandError if ``further`` contains another value of one."""
    options = {"record": record, "kernels": kernels}
    for name, value in options.items():
        if value not in (_PLANNED[name], further.get(name, value)):
            raise OperandError(
                f"explore with {name}={value!r} and plan={{{name!r}: {further[name]!r}}}",
                rule="an option may be given only once",
                fix=f"{name}={value!r}",
            )
    return EvalPlan(**{**options, **further})


def _check_recording(recording: Recording) -> None:
    """Raise OperandError for a recording that views cannot show, such as one whose operands form a cycle."""
    try:
        validate.check(recording)
    except ValueError as error:
        raise OperandError(
            f"this recording cannot be shown: {error}",
            rule="rows refer to existing rows, operands form no cycle, and stages follow each other",
            fix="explorer.compilers.recording_of(title, snapshots) makes a valid recording of a compiler's graphs",
        ) from None


def _view(plan: EvalPlan, options: Mapping[str, Any]) -> ExpressionView:
    return ExpressionView(plan.recording, plan, **options)


def _opened(path: str | os.PathLike[str]) -> Recording | Net:
    from explorer.formats import open  # slow to import, but not needed for expressions
    from explorer.formats.recording_file import stored_recording

    recording = stored_recording(path)
    return open(path) if recording is None else recording


def _explore_named(what: Any, of_expressions: Mapping[str, Any], options: Mapping[str, Any]) -> View:
    from explorer.layers import Layer
    from explorer.net import Net

    if isinstance(what, Layer):
        return explore_layer(what, **of_expressions, **options)
    if isinstance(what, Net):
        _refuse_planning(what, {**of_expressions, "kernels": "numpy"})
        return what.explore(kernels=of_expressions["kernels"], **options)
    check_options(options, *_PLANNED)
    from explorer.formats.open_save import is_torch

    models = [each for each in (what if isinstance(what, list) else [what]) if is_torch(each)]
    if models:
        raise OperandError(
            f"explore of {class_text(models[0])}",
            rule="a torch module must be opened first, with example inputs, because torch traces a call",
            fix="ex.explore(ex.open(module, example_inputs))",
        )
    raise OperandError(
        f"explore of {class_text(what)}",
        rule="ex.explore must be given an expression, a container of them, a layer, a net, a plan, a recording "
        "or a path",
        fix="ex.explore(ex.tensor(array))" if hasattr(what, "__array__") else "y = ex.tanh(x); ex.explore(y)",
    )


def _refuse_planning(what: Any, of_expressions: Mapping[str, Any]) -> None:
    """Raise OperandError if a planning option is given for an object that is already planned."""
    changed = [name for name, value in of_expressions.items() if value != _PLANNED[name]]
    if changed:
        raise OperandError(
            f"explore of {class_text(what)} with {changed[0]}=…",
            rule="run, record and plan may be given only for expressions and layers, and kernels also for nets; "
            "anything else is already planned",
            fix="ex.EvalPlan(record=…, kernels=…), net.plan(x, record=…)",
        )


def explore_layer(
    layer: Layer,
    *,
    inputs: Any = None,
    run: bool = True,
    record: RecordOption = "values",
    kernels: Kernels = "numpy",
    plan: Mapping[str, Any] | None = None,
    **options: Any,
) -> ExpressionView:
    """Return a view of a layer's graph and, for a training layer, of its gradients.

    ``inputs`` maps ports to types or values; if the layer has one port, it may be a single type or value. An inference
    layer is run if all inputs and parameters have values.
    """
    from explorer.layers.framework.expanded_layer import expand

    check_options(options, *_PLANNED, "inputs")
    expanded = expand(layer, inputs)
    title = f"{layer.name} · {type(layer).__name__}"
    fresh_plan = _fresh_plan(record, kernels, {"title": title, **(plan or {})})
    for root in (*expanded.outputs.values(), *expanded.gradients.values()):
        fresh_plan.register(root)
    with preview(**options):
        fresh_plan.prepare()
    if run and expanded.valued:
        fresh_plan.eval()
    return _view(fresh_plan, {"position": 0, **options})


@named
def register_heat(
    name: str,
    of: Callable[[Recording, int], float],
    *,
    unit: str,
    text: str = "",
    per: Callable[[Recording, int], float] | None = None,
    replace: bool = False,
) -> None:
    """Register a quantity by which views can colour nodes; it appears in the menu of all views created later.

    ``of(recording, node)`` returns the quantity as a finite nonnegative number, such as ``recording.nodes.flops[node] /
    8``. A box shows the sum over its nodes that exist at the displayed step. ``unit`` is appended to the number, and
    "µs" and "B" are scaled to larger units. ``text`` explains the legend. Raises DeclarationError if the name is
    already in use, unless ``replace`` is True; the built-in quantities cannot be replaced.

    ``per`` makes the quantity a ratio, ``of`` divided by ``per``: a box shows the ratio of the two sums. Boxes also
    show the maximum, and the mean of a quantity that is not a ratio.

    >>> ex.register_heat("words", lambda recording, node: recording.nodes.flops[node] / 8, unit="words")
    >>> ex.register_heat(
    ...     "flops per byte",
    ...     lambda recording, node: recording.nodes.flops[node],
    ...     per=lambda recording, node: recording.nodes.bytes[node],
    ...     unit="flops/B",
    ... )
    """
    for argument, value in (("name", name), ("unit", unit), ("text", text)):
        check_type(value, argument, str, "a text", f'{argument}="reads"')
    check_type(replace, "replace", bool, "True or False", "replace=True")
    metric = METRICS.get(name)
    if not name.strip() or not callable(of) or not (per is None or callable(per)):
        raise DeclarationError(
            f"a heat metric {name!r} of {of!r}" + (f" per {per!r}" if per is not None else ""),
            rule="a heat metric must have a name, and a function of a recording and a node id, or two for a ratio",
            fix='ex.register_heat("reads", lambda recording, node: …, unit="operands")',
        )
    if metric is not None and (metric.of is None or not replace):
        raise DeclarationError(
            f"a second heat metric {name!r}",
            rule=f"a heat metric's name must be new; there are {', '.join(METRICS)}",
            fix="choose another name" + (f", or ex.register_heat({name!r}, …, replace=True)" if metric.of else ""),
        )
    METRICS[name] = HeatMetric(name, unit, "", text, of, per)
