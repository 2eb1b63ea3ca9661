"""Net: a model file's program, to inspect, build, run, cut and plan.

The class that ``ex.open`` returns, on top of editing (editable.py) and building (buildable.py).
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, Self, Unpack, overload

import numpy as np

from explorer.core.argument_checks import check_name, named_methods
from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.explore_options import ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import ComparedPlans, View, hooks
from explorer.core.ir.policy_operations import in_force
from explorer.core.ir.recording_context import Scope
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor, stored_tensor
from explorer.core.memory_budget import claim_memory
from explorer.core.progress import long_running
from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, Array, TensorType, TupleType
from explorer.net.buildable import BuildableNet, keep
from explorer.net.building.builder import Build, NetBuilder
from explorer.net.building.containers import key_of, leaves, named_leaves
from explorer.net.building.diagnostics import ends, find_problems, nodes_of
from explorer.net.building.example_shapes import assumptions, whole_shapes
from explorer.net.building.inputs import as_value, is_shape, is_symbolic, named_inputs
from explorer.net.building.interface import interface
from explorer.net.definition.definition import BlobDefinition, NetDefinition, graph_error
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.definition.shape_notes import check_inputs, shape_text
from explorer.net.definition.subgraph import cut
from explorer.net.operator_handle import NetOperator
from explorer.net.operators.table import OperatorTable
from explorer.net.pattern_edits import with_replacements
from explorer.net.profile import Profile, profile
from explorer.net.value_comparison import OperandValues, Take, ValueComparison, compare_values
from explorer.plan.options import Options
from explorer.plan.passes import ShapeValues
from explorer.plan.pipeline import Step
from explorer.plan.planner import Plan, plan
from explorer.plan.rewrite.pattern import Match
from explorer.plan.rewrite.rule import Rule
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.fork_locks import renew_in_children
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.run.evalplan import EvalPlan
from explorer.run.execution.binding import copying_binding
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from explorer.run.runtime.marshalling import on_host


@functools.lru_cache
def _options(lanes: int) -> Options:
    """Return the options of a net's plan; hashed once, not in each run."""
    return Options(lanes=lanes, inference=True)


def _left_on_device(root: Expr, value: Any) -> Any:
    """Return a result: an array of cpu, or a tensor of the array of another device."""
    device = root.type.device
    if device is cpu or isinstance(value, tuple):
        return value
    return stored_tensor(Storage(value, device, shared="a result of a net uses it"), root.tensor_type, "")


def _passes(build: Build, passes: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the passes of a plan of a build; the first one tells of values that were computed for it."""
    return (ShapeValues(build.values_first), *passes) if build.values_first else passes


_logger = logging.getLogger("explorer.net")


class RunLog:
    """An observer of a run that logs a line a kernel: the operators that it computes, their operands, result, time."""

    def __init__(self, program: Program, builder: NetBuilder) -> None:
        operators = builder.definition.operators
        self._kernels = program.planned.schedule.kernels
        self._operators = {id(builder.scope(operator)): operator.name for operator in operators}
        self._began = [0] * len(self._kernels)

    def before_kernel(self, index: int) -> None:
        """Note when a kernel begins."""
        self._began[index] = perf_counter_ns()

    def after_kernel(self, index: int) -> None:
        """Log a kernel that has run."""
        micros = (perf_counter_ns() - self._began[index]) / 1000
        kernel = self._kernels[index]
        names = dict.fromkeys(self._name(node) for node in kernel.nodes)
        operands = ", ".join(_text(node.type) for node in kernel.reads) or "nothing"
        _logger.debug("%s: %s → %s, %.1f µs", " + ".join(names), operands, _text(kernel.result.type), micros)

    def _name(self, node: Expr) -> str:
        """The operator that recorded a node, quoted; the node's operation where no operator did."""
        scope: Scope | None = node.scope
        while scope is not None and id(scope) not in self._operators:
            scope = scope.parent
        return repr(self._operators[id(scope)]) if scope is not None else node.operation.label


def _text(type_: AnyType) -> str:
    if isinstance(type_, TupleType):
        return f"({', '.join(map(_text, type_.parts))})"
    return f"{dtype_name(type_.dtype)} {type_.shape}"


def run_log(program: Program, builder: NetBuilder) -> RunLog | None:
    """The log of a run; None where the logger "explorer.net" leaves out DEBUG."""
    return RunLog(program, builder) if _logger.isEnabledFor(logging.DEBUG) else None


@named_methods
class Net(BuildableNet):
    """Net of operators over named operands, from a definition and the table of its operator types.

    Everything is found by name: operators ``net["conv1"]``, inputs, outputs and operands. Looking at a net computes
    nothing and needs no known operator types. ``Net("mlp")`` is an empty one, to be written by operators' names
    (``net.types()``, ``help(net.FC)``):

    >>> net = ex.Net("mlp")
    >>> net.input("x", (None, 2))
    'x'
    >>> blobs = net.GivenTensorFill([], "w", values=np.eye(2)), net.GivenTensorFill([], "b", values=np.array([0, -3.0]))
    >>> net.Relu(net.FC(["x", "w", "b"], "h"), "h")  # in place, as its result has the operand's name
    'h'
    >>> net.output("h")
    >>> net.run(np.array([[1, 2]], dtype="float32"))
    array([[1., 0.]])

    Every net is edited by ``add``, ``insert``, ``remove``, ``replace``, ``rewire``, ``rename`` and ``prune``.
    """

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, BlobDefinition]:
        """The operands given from outside, by name in the file's order, with their noted types."""
        return {name: self.definition.input(name) for name in self.definition.inputs}

    @property
    def outputs(self) -> dict[str, BlobDefinition]:
        """The operands that the net returns, by name in the file's order."""
        return {name: self.definition.blob(blob) for name, blob in self.definition.results.items()}

    @property
    def operands(self) -> Mapping[str, BlobDefinition]:
        """All operands by name: shape and dtype notes, producer, consumers."""
        return self.definition.blobs

    @property
    def operators(self) -> dict[str, NetOperator]:
        """All operators by name, in the file's order."""
        return {operator.name: self[operator.name] for operator in self.definition.operators}

    def __getitem__(self, name: str) -> NetOperator:
        definition = self.definition
        return NetOperator(definition.operator(name), self.weights, definition, self.table)

    def __iter__(self) -> Iterator[str]:
        return iter(self.operators)

    def __contains__(self, name: object) -> bool:
        return any(operator.name == name for operator in self.definition.operators)

    def problems(self) -> dict[str, ExplorerError]:
        """Return the reasons why operators cannot run, by name: unknown types, misfit operands or arguments."""
        return self._preview_build().problems

    def unsized(self) -> list[str]:
        """Return the names of the operators whose results have shapes that depend on values of the inputs.

        They run, and are planned once the inputs are arrays; without these they are drawn with unknown shapes.
        """
        return [*self._preview_build().unsized]

    def check(self) -> list[str]:
        """Return all problems that keep the net from running, and contradictions to the file; verifies all weights."""
        with gc_paused():
            return find_problems(self._preview_build(), self.table)

    def nodes(self, name: str) -> list[Expr]:
        """Return the expressions in ``preview_plan()`` of an operator, operand, weight or box, by name."""
        return nodes_of(name, self._preview_build(), self._builder)

    def text(self) -> str:
        """Return the program as text: a line for each input, each operator in order, and the outputs.

        >>> net = ex.Net("positive")
        >>> net.input("x", (2,))
        'x'
        >>> net.output(net.Relu("x", "y"))
        >>> print(net.text())
        net positive
          input x: (2,) float32
          y = Relu(x)  # relu
          output y
        """
        return net_text(self.definition)

    # -- showing ---------------------------------------------------------------------------------------------------

    def preview_plan(self, *, unknown: int | None = None, **options: Any) -> EvalPlan:
        """Return a prepared plan of every operator, for viewing, including those that cannot run; nothing is computed.

        ``unknown`` is used for every unknown length; None uses the lengths of ``example_shapes()``. The title names
        them.
        """
        build = self._preview_build(unknown)
        assumed = assumptions(self.definition, {name: node.shape for name, node in named_leaves(build.inputs)})
        title = f"{self.name} ({assumed})" if assumed else self.name
        plan = EvalPlan(**{"title": title, "record": "off", "inference": True, **options})
        roots = ends(build)
        if not roots:
            raise graph_error(
                self.definition.source,
                None,
                f"net {self.name!r} holds no tensor that could be drawn",
                rule="an output, or a result of an operator, must have a type",
                fix="give it an operator, or a weight of numbers",
            )
        for node in roots:
            plan.register(node)
        return plan.prepare(interface=interface(build))

    @long_running
    def explore(self, x: Any = None, **options: Unpack[ViewOptions]) -> View:
        """Return a view of the net's graph and plan; with inputs (an array, a dict, or a tuple) also of all values.

        A shape as input, as for ``plan``, has no values: nothing is run.
        """
        hooks.check_view(**options)
        if x is None:
            with hooks.preview(**options):
                previewed = self.preview_plan()
            return hooks.explore(previewed, **options)
        # A tuple is the inputs, or one shape. (2, 3) of a net with two inputs is read as two inputs.
        is_one = not isinstance(x, tuple) or (is_shape(x) and len(x) != len(self.inputs))
        operands = (x,) if is_one else x
        with hooks.preview(**options):
            plan = self.plan(*operands, record="values")
        values = operands[0].values() if len(operands) == 1 and isinstance(operands[0], Mapping) else operands
        return hooks.explore(plan if any(is_shape(value) for value in values) else plan.eval(), **options)

    @overload
    def compare(self, other: Net | EvalPlan | Recording) -> ComparedPlans: ...

    @overload
    def compare(
        self, other: Any, *inputs: Any, tolerance: float | None = None, executor: str = "simple", **named: Any
    ) -> ValueComparison: ...

    @long_running
    def compare(
        self, other: Any, *inputs: Any, tolerance: float | None = None, executor: str = "simple", **named: Any
    ) -> ComparedPlans | ValueComparison:
        """Compare this net with another net, a plan or a recording; with inputs compare values, operator by operator.

        With inputs, ``other`` is a reference for the same inputs: a net, ``"onnxruntime"`` or ``"onnx.reference"``,
        which run the net's own .onnx file, an InferenceSession, or arrays by operand's name (which may hold the
        inputs). The result says which operator is the first whose value differs, and shows it: ``print(it)``,
        ``it.explore()``. Operands are matched by name, outputs of another net also by order. ``tolerance`` is the
        largest relative error: by default 1e-4, 1e-2 for floats of 16 bits, and 0 for whole numbers.

        Without inputs the graphs, the plans and the weights are compared, as text, pictures and views; a recording has
        no weights. ``net.preview_plan().compare(other.preview_plan())`` reads none.
        """
        if not inputs and not named and isinstance(other, (Net, EvalPlan, Recording)):
            after = other.preview_plan() if isinstance(other, Net) else other
            return hooks.compare(self.preview_plan(), after, weights=True)
        if isinstance(other, Mapping) and not inputs and not named:
            named = {name: other[name] for name in self.definition.inputs if name in other}
        elif not inputs and not named and self.definition.inputs:
            raise OperandError(
                f"comparing net {self.name!r} with {other!r:.80}, without inputs",
                rule="without inputs the other must be a net, a plan or a recording; a reference needs the inputs",
                fix="net.compare(reference, x), or net.compare(other_net)",
            )
        arrays = self._checked_arrays(inputs, named)
        name, values = self._reference(other, arrays, executor)
        return compare_values(
            self.definition,
            name,
            values,
            tolerance,
            lambda names, take: self._watch_operands(arrays, names, take, executor),
            lambda **options: self.explore(arrays, **options),
        )

    def _reference(self, other: Any, arrays: Mapping[str, Array], executor: str) -> tuple[str, Mapping[str, Array]]:
        """Return what a reference is called, and its values by operand for some inputs."""
        if isinstance(other, Mapping):
            return "the given values", {str(name): np.asarray(value) for name, value in other.items()}
        if not isinstance(other, Net):
            return hooks.reference_values(self, other, arrays)
        values: dict[str, Array] = {}

        def keep(name: str, value: Array) -> None:
            values[name] = value.copy()

        try:
            theirs = other._checked_arrays((*arrays.values(),), {})
        except OperandError as error:
            raise OperandError(
                f"net {other.name!r} as a reference of net {self.name!r}: {error.given}",
                rule=f"a reference must take the inputs of the net; {error.rule}",
                fix="compare with another file of this model; graphs of other models: explorer diff A B",
            ) from error
        other._watch_operands(theirs, list(other.definition.ssa.blobs), keep, executor)
        # Another exporter names outputs otherwise; their order is the interface of a model, and stays.
        for own, name in zip(self.definition.ssa.outputs, other.definition.ssa.outputs, strict=False):
            if name in values:
                values.setdefault(own, values[name])
        return other.name, values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the net with its weights: ``x.json`` and ``x.npz``, or ``x.param`` and ``x.bin`` of PNNX."""
        hooks.save(self, path)

    def cut(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Net:
        """Return the net between operands: ``inputs`` are given, ``outputs`` returned; None keeps the net's own."""
        return self.with_definition(cut(self.definition, inputs, outputs))

    def with_definition(self, definition: NetDefinition) -> Self:
        """Return a net of another definition, such as a part of this one, with the same weights, on the same device."""
        net = type(self)(definition, self.table)
        net._weights, net._device = self.weights, self._device
        return net

    # -- patterns --------------------------------------------------------------------------------------------------

    def pattern_roots(self) -> list[Expr]:
        """Return the expressions of all operators, as ``ex.pattern(…).find(net)`` searches them."""
        return ends(self._preview_build())

    def with_replacements(self, formula: str, matches: Sequence[Match]) -> Self:
        """Return an edited copy, of the same weights, in which a formula of operator types replaces each match.

        ``ex.pattern(…).replace(net, formula)`` calls it. Raises OperandError where a replacement does not fit.
        """
        before = self._preview_build()
        net = self.with_definition(self.definition)
        net._adopt(with_replacements(before, self.table, formula, matches), {})
        net._assumed = self._assumed
        after = net._recorded(net._shaped(self.example_shapes()), opaque=True)
        for name, problem in after.problems.items():
            if name not in before.problems:
                raise problem
        for name, value in before.values.items():
            new = after.values.get(name)
            if isinstance(value, Expr) and isinstance(new, Expr) and value.type != new.type:
                raise OperandError(
                    f"blob {name!r} of {value.type} replaced by {new.type} in {formula!r}",
                    rule="a replacement must have the type of the value that it replaces",
                    fix="where={…} that keeps the pattern from such values, or another formula",
                )
        return net

    def __repr__(self) -> str:
        reads = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.inputs.items())
        writes = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.outputs.items())
        if self.definition.is_table:
            return visible(f"<net {self.name!r}: {counted_text(len(self.definition.blobs), 'weight')}, no graph>")
        count = counted_text(len(self.definition.operators), "operator")
        flow = f"{reads or 'nothing'} → {writes or 'nothing'}"
        return visible(f"<net {self.name!r}: {count}, {flow}; {self.state.words}>")

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._plans: dict[Any, Plan] = {}
        self._programs: dict[Any, tuple[Program, Build]] = {}
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Leave programs behind in a forked process: a thread of its parent may have been running one."""
        self._programs = {}
        self._lock = threading.Lock()

    @long_running
    def run(self, *inputs: Any, executor: str = "simple", **named: Any) -> Any:
        """Return the outputs for arrays given in order or by name (keywords, or one dict): a single one, or a dict.

        An output that the file lists twice is returned twice: as ``y`` and ``y_2``.
        A list of samples is stacked to one array. Where a file's input is a map, a dict of its keys is given. Number,
        names, shapes and dtypes are checked before anything is computed. The plan is kept for the next run.
        ``executor`` is that of a plan; an input of this name must be given in order, or in a dict. With the logger
        "explorer.net" at level DEBUG each operator is logged as it runs.
        """
        check_name(executor, "executor", EXECUTORS)
        results = self._results(self._arrays(inputs, named), self._device_of(inputs, named), executor, on_host)
        return next(iter(results.values())) if len(results) == 1 else results

    @long_running
    def run_on_device(self, inputs: Mapping[str, Any], executor: str = "simple") -> dict[str, Any]:
        """Return the outputs by name, for inputs as of ``run``; those on other devices than cpu stay there, as tensors.

        >>> net = ex.Net("positive")
        >>> net.input("x", (2,))
        'x'
        >>> net.output(net.Relu("x", "y"))
        >>> net.run_on_device({"x": [1.0, -1.0]})
        {'y': array([1., 0.], dtype=float32)}
        """
        check_name(executor, "executor", EXECUTORS)
        return self._results(self._arrays((), inputs), self._device_of((), inputs), executor, _left_on_device)

    def _results(
        self, arrays: dict[str, Any], device: Device, executor: str, returned: Callable[[Expr, Any], Any]
    ) -> dict[str, Any]:
        """Run on arrays; return the outputs by name, each as ``returned`` makes it of its expression and value."""
        # A program has one table of values and one arena, so that a net runs for one thread at a time.
        with self._lock:
            program, build = self._program(arrays, device, _options(EXECUTORS[executor].lanes))
            program.bind(build.bound(arrays))
            log = run_log(program, self._builder)
            program.wait_for_devices(log is not None)
            EXECUTORS[executor].run(program, log)
            values = [returned(root, value) for root, value in zip(build.roots, program.take(), strict=True)]
        return build.results(values)

    @long_running
    def profile(self, *inputs: Any, runs: int = 5, executor: str = "simple", **named: Any) -> Profile:
        """Return the times of the operators in some warm runs, with arithmetic and bytes; ``print`` shows two tables.

        Inputs and executor are those of ``run``.
        """
        if type(runs) is not int or runs < 1:
            raise OperandError(f"runs={runs!r}", rule="runs must be a whole number of 1 or more", fix="runs=5")
        self.run(*inputs, executor=executor, **named)
        arrays, device = self._arrays(inputs, named), self._device_of(inputs, named)
        with self._lock:
            program, build = self._program(arrays, device, _options(EXECUTORS[executor].lanes))
            timings = []
            program.wait_for_devices(True)
            # Not the first run, which `run` above has made: it computes constants, and allocates memory.
            for _ in range(runs):
                program.bind(build.bound(arrays))
                timings.append(EXECUTORS[executor].run(program, None))
                program.forget()
        return profile(program, self._builder, timings)

    def _arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raises OperandError for a wrong number or name.

        Shapes and dtypes are checked where a build is made for them, so that a run that has one does not pay for it.
        """
        self.init()
        values = named_inputs(self.definition, inputs, named)
        return {name: as_value(self.definition.input(name), value) for name, value in values.items()}

    def _checked_arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raises OperandError for a wrong number, name, shape or dtype."""
        arrays = self._arrays(inputs, named)
        types = [(name, TensorType(array.shape, array.dtype)) for name, array in named_leaves(arrays)]
        check_inputs(self.definition, types)
        return arrays

    def _device_of(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Device:
        """Return the device that the net was moved to, else the one of inputs that are tensors there."""
        if self._device is not None:
            return self._device
        values = [*inputs, *named.values()]
        values += [value for each in inputs if isinstance(each, Mapping) for value in each.values()]
        return self._device_for([value for value in values if isinstance(value, Tensor) and value.device is not cpu])

    def _watch_operands(self, arrays: Mapping[str, Any], names: Iterable[str], take: Take, executor: str) -> None:
        """Run on arrays; hand the values of operands on while they are in memory."""
        check_name(executor, "executor", EXECUTORS)
        with self._lock:
            self._refresh()
            build = self._built_for(arrays, self.device)
            self._grant(build)
            # A program that has run has computed its constants, and let go of most.
            program = Program(self._plan(build, _options(EXECUTORS[executor].lanes)))
            program.bind(build.bound(arrays))
            EXECUTORS[executor].run(program, OperandValues(program, build, names, take))

    def _program(self, arrays: Mapping[str, Any], device: Device, options: Options) -> tuple[Program, Build]:
        self._refresh()
        # Whatever a plan depends on besides the net itself, whose changes empty the table.
        key: Any = (
            key_of(arrays.values(), lambda array: (array.shape, array.dtype)),
            device,
            options,
            tuple(Rule.rules),
            in_force(),
        )
        if key in self._programs:
            return self._programs[key]
        build = self._built_for(arrays, device)
        if build.values_first:
            # Only the values tell which build it is, so that they are asked for in every run.
            key = build, options, tuple(Rule.rules)
            if key in self._programs:
                return self._programs[key]
        self._grant(build)
        planned = self._plan(build, options)
        keep(self._programs, key, (Program(planned, copying_binding(planned)), build))
        return self._programs[key]

    def _built_for(self, arrays: Mapping[str, Any], device: Device) -> Build:
        """The expressions for arrays, which are the values of parameters on a device."""
        parameters = {name: self._parameters_for(name, value, device) for name, value in arrays.items()}
        return self._build(parameters, dict(zip(leaves(parameters.values()), leaves(arrays.values()), strict=True)))

    def _grant(self, build: Build) -> None:
        """Allow the outputs to be computed; one that is the same everywhere counts in full: who gets it reads it."""
        size = sum([node.type.nbytes for node in build.roots])
        claim_memory(f"net {self.name!r}, whose outputs are {', '.join(map(repr, self.definition.outputs[:8]))},", size)

    def _plan(self, build: Build, options: Options) -> Plan:
        """The one plan of a build's outputs: of what runs, and of what is shown."""
        outputs = build.roots
        options = replace(options, passes=_passes(build, options.passes))
        key = tuple([node.uid for node in outputs]), options, tuple(Rule.rules)
        if key not in self._plans:
            with gc_paused():
                keep(self._plans, key, plan(outputs, options))
        return self._plans[key]

    def _forget(self) -> None:
        super()._forget()
        self._plans.clear()
        self._programs.clear()

    @long_running
    def plan(self, *inputs: Any, **options: Any) -> EvalPlan:
        """Return a prepared plan of all outputs, the one that ``run`` uses; ``options`` are those of EvalPlan.

        ``inputs`` are those of ``build``, in order. Arrays become the values of parameters at each ``plan.eval()``.
        """
        values = named_inputs(self.definition, inputs, {}) if inputs else whole_shapes(self.definition)
        arrays, nodes = dict[str, Any](), dict[str, Any]()
        for name, value in values.items():
            blob = self.definition.input(name)
            if is_symbolic(blob, value):
                nodes[name] = self._expression(name, value, self.device)
            else:
                arrays[name] = as_value(blob, value)
                nodes[name] = self._parameters_for(name, arrays[name], self.device)
        bound = dict(zip(leaves([nodes[name] for name in arrays]), leaves(arrays.values()), strict=True))
        build = self._build(nodes, bound)
        if arrays:
            self._grant(build)
        plan = EvalPlan(**{"title": self.name, "inference": True, **options})
        for node in build.roots:
            plan.register(node)
        plan.prepare(self._plan(build, plan.options), interface(build))
        plan.bind(bound)
        return plan


_SHOWN = 60
"""most characters of one argument"""


def net_text(definition: NetDefinition) -> str:
    """Return a definition as text, one line an operator; text of a file is made visible."""
    lines = [f"net {definition.name}"]
    for name in definition.inputs:
        blob = definition.input(name)
        lines.append(f"  input {name}: {shape_text(blob.shape)} {blob.dtype or ''}".rstrip())
    shown = _stored if definition.is_table else _operator
    lines += [f"  {shown(operator)}" for operator in definition.operators]
    if definition.outputs:
        lines.append(f"  output {', '.join(definition.outputs)}")
    return "\n".join([visible(line) for line in lines])


def _operator(operator: OperatorDefinition) -> str:
    passed = {blob: name for name, blob in operator.input_names.items()}
    reads = [f"{passed[blob]}={blob}" if blob in passed else blob for blob in operator.inputs]
    arguments = [f"{name}={_short(repr(value))}" for name, value in operator.arguments.items()]
    arguments += [f"{name}: {weight.dtype} {weight.shape}" for name, weight in operator.weights.items()]
    written = f"{', '.join(operator.outputs)} = " if operator.outputs else ""
    return f"{written}{operator.type}({', '.join([*reads, *arguments])})  # {operator.name}"


def _stored(operator: OperatorDefinition) -> str:
    """Return the line of stored tensors with the types that the file states."""
    return operator.text or _operator(operator)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
