"""Session of a net, which caches everything derived from one definition, its weights, operator types and device.

A net gets a new session when any of these changes, so a session is never out of date. Expressions are cached per input
type, since recording a large file again would take longer than the run. Plans and programs are cached per build.

The shapes of some results depend on values of the inputs. A builder requests such a value (``OperatorContext.value``),
or a property of values (``OperatorContext.ask``), which is computed immediately from the input arrays and recorded as a
constant. Expressions therefore depend only on the input types and on these answers. Builds are cached in a tree: each
inner node is a question, each branch is an answer, and each leaf is a build. A later run with known answers reaches a
leaf and builds nothing.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.explore_options import Kernels
from explorer.core.ir.expr import Expr, runs_on
from explorer.core.ir.function import Parameter
from explorer.core.ir.policy_operations import in_force
from explorer.core.ir.recording_context import Scope, operator_of, placed_on, recording_at
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.ir.traversal import reachable
from explorer.core.memory_budget import claim_memory
from explorer.core.progress import long_running
from explorer.core.types.custom_dtypes import dtype_name, is_text
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, TupleType
from explorer.net.building.builder import Build, NetBuilder
from explorer.net.building.containers import EXAMPLE_LENGTH, each_leaf, key_of, leaves, named_leaves, with_leaves
from explorer.net.building.example_shapes import Shapes, declared_shapes, fitting_shapes, impossible_shape, same_shapes
from explorer.net.building.inputs import as_array, as_value, is_shape, is_symbolic, named_inputs
from explorer.net.building.weights import NetWeights
from explorer.net.definition.declared_types import cast_floats, check_inputs, declared_dtype
from explorer.net.definition.definition import NetDefinition, OperatorDefinition, graph_error
from explorer.net.operators.context import Answer, unknown_shape
from explorer.net.operators.table import OperatorTable
from explorer.net.profile import Profile, profile
from explorer.net.quantized_operands import quantized_inputs
from explorer.net.value_comparison import OperandValues, Take
from explorer.plan.options import Options
from explorer.plan.passes import ShapeValues
from explorer.plan.passes.shape_values import ComputedFirst
from explorer.plan.planner import Plan, plan
from explorer.plan.rewrite.rule import Rule
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.run.execution.binding import copying_binding
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from explorer.run.runtime.marshalling import on_host

CACHE_SIZE = 4
"""maximum number of builds that a session caches, and maximum number of plans"""
_ASSUMED_STRING = np.dtype((np.str_, 16))
"""dtype of a string input with unknown values"""
_logger = logging.getLogger("explorer.net")


class NetSession:
    """Expressions, plans and programs of one definition with fixed weights and a fixed device."""

    def __init__(
        self, definition: NetDefinition, table: OperatorTable, weights: NetWeights, device: Device | None
    ) -> None:
        self.definition, self.table, self.weights = definition, table, weights
        self.device = device
        """requested device; None means the device of the inputs"""
        self._versions = table.version, weights.version
        self._builds: dict[Any, Any] = {}
        """key of inputs → build, or first question about values of the inputs"""
        self._plans: dict[Any, _Planned] = {}
        """key of a build and options → plan and program"""
        self._parameters: dict[Any, Expr] = {}
        self.runtime_runs: dict[tuple[str, bool], Any] = {}
        """(name of a runtime, whether with edits) → the file that it has opened"""
        self._fitting: dict[Any, dict[str, Shape]] = {}
        """key of assumed shapes → shapes of all inputs"""

    def __repr__(self) -> str:
        return f"<session of net {self.definition.name!r}: {counted_text(len(self._builds), 'build')}>"

    def is_current(self, weights: NetWeights, device: Device | None) -> bool:
        """Return whether the session is valid for these weights and this device; every edit creates new weights."""
        versions = self.table.version, weights.version
        return weights is self.weights and device is self.device and versions == self._versions

    @property
    def is_built(self) -> bool:
        """Whether expressions have been recorded."""
        return bool(self._builds)

    @cached_property
    def builder(self) -> NetBuilder:
        """The builder, whose boxes all builds share."""
        return NetBuilder(self.definition, self.table, self.weights)

    def drop_programs(self) -> None:
        """Remove programs and their memory in a forked process, since they belong to the parent process."""
        for planned in self._plans.values():
            planned.program = None

    # -- inputs ----------------------------------------------------------------------------------------------------

    def arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raise OperandError for a wrong number or name.

        Shapes and dtypes are checked only when a build is created, because a cached build accepts only equal types.
        """
        values = named_inputs(self.definition, inputs, named)
        return {name: as_value(self.definition.input(name), value) for name, value in values.items()}

    def checked_arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raise OperandError also for a wrong shape or dtype."""
        return self._checked(self.arrays(inputs, named))

    def _checked(self, arrays: dict[str, Any]) -> dict[str, Any]:
        types = [(name, TensorType(array.shape, array.dtype)) for name, array in named_leaves(arrays)]
        check_inputs(self.definition, types)
        return arrays

    def cast_arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any], casts: list[str]) -> dict[str, Any]:
        """Return checked arrays, with floats cast to the declared floating dtype, or quantized to a declared integer
        dtype; ``casts`` gets a line for each."""
        arrays: dict[str, Any] = self.arrays(inputs, named)
        for convert in (cast_floats, quantized_inputs):
            arrays, notes = convert(self.definition, arrays)
            casts += notes
        return self._checked(arrays)

    def expressions(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return expressions for inputs, which may be expressions, arrays or shapes; by default the file's shapes."""
        if not inputs and not named:
            return self.shaped(declared_shapes(self.definition))
        values = named_inputs(self.definition, inputs, named)
        device = self._first_device(values.values())
        return {name: self._expression(name, value, device) for name, value in values.items()}

    def bindable(self, inputs: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return expressions for inputs, in which parameters replace arrays, and a dict of these arrays by name."""
        values = named_inputs(self.definition, inputs, {}) if inputs else declared_shapes(self.definition)
        device = self.device or cpu
        nodes, arrays = dict[str, Any](), dict[str, Any]()
        for name, value in values.items():
            blob = self.definition.input(name)
            if is_symbolic(blob, value):
                nodes[name] = self._expression(name, value, device)
            else:
                arrays[name] = as_value(blob, value)
                nodes[name] = self._parameters_for(name, arrays[name], device)
        return nodes, arrays

    def shaped(self, shapes: Shapes) -> dict[str, Any]:
        """Return a parameter for each shape by input name; a sequence gets several parameters of its shape."""
        inputs = {}
        for name, shape in shapes.items():
            try:
                type_ = self.declared_type(name, shape)
            except OperandError as error:
                raise impossible_shape(self.definition, name, error) from error
            is_sequence = self.definition.input(name).is_sequence
            example: Any = (type_,) * EXAMPLE_LENGTH if is_sequence else type_
            inputs[name] = each_leaf(name, example, self._parameter)
        return inputs

    def declared_type(self, name: str, shape: Shape) -> TensorType:
        """Return the type of an input with the given shape and the declared dtype."""
        dtype = declared_dtype(self.definition.input(name))
        if dtype is not None and is_text(dtype):
            dtype = _ASSUMED_STRING
        dtype = np.dtype(np.float32) if dtype is None else dtype
        return TensorType(shape, dtype, _device_of(dtype, self.device or cpu))

    def _expression(self, name: str, value: Any, device: Device) -> Any:
        """Return an input's expression: a parameter for a shape, a tensor for an array, else ``value`` itself."""
        blob = self.definition.input(name)
        if blob.is_sequence and is_shape(value) and value:
            value = (value,) * EXAMPLE_LENGTH
        elif not is_symbolic(blob, value):
            value = as_value(blob, value)

        def leaf(own: str, value: Any) -> Expr:
            if isinstance(value, Expr):
                return value
            if is_shape(value):
                return self._parameter(own, self.declared_type(name, value))
            with recording_at(None, None):
                return tensor(as_array(blob, value), name=own, device=device)

        if not blob.is_sequence:
            return None if value is None else leaf(name, value)
        return value and tuple([leaf(f"{name}[{index}]", element) for index, element in enumerate(value)])

    def _parameters_for(self, name: str, value: Any, device: Device) -> Any:
        """Return the parameter for an input's array, or a tuple of parameters for the arrays of a sequence."""
        if value is None:
            return None
        if isinstance(value, tuple):
            return each_leaf(name, value, lambda own, array: self._parameters_for(own, array, device))
        dtype = value.dtype
        # In all runs except the first, the parameter is cached and no type is created.
        known = self._parameters.get((name, value.shape, dtype, device))
        if known is None:
            return self._parameter(name, TensorType(value.shape, dtype, _device_of(dtype, device)))
        return known

    def _parameter(self, name: str, type_: TensorType) -> Expr:
        """Return the parameter for an input of this type, which is the same node at every call."""
        key = name, type_.shape, type_.dtype, type_.device
        if key not in self._parameters:
            with recording_at(None, None):
                # Recorded outside any scope, since all builds use the node, and it must not be in a box of the first
                # build.
                self._parameters[key] = Parameter(type_, name)()
        return self._parameters[key]

    # -- devices ---------------------------------------------------------------------------------------------------

    def device_of(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Device:
        """Return the device the net was moved to, else the device of input tensors."""
        if self.device is not None:
            return self.device
        values = [*inputs, *named.values()]
        values += [value for each in inputs if isinstance(each, Mapping) for value in each.values()]
        return self._device_for([value for value in values if isinstance(value, Tensor) and value.device is not cpu])

    def _device_for(self, values: Iterable[Any]) -> Device:
        """Return the device the net was moved to, else the device of tensors and expressions among its inputs.

        Raise OperandError if a tensor or expression is on a different device.
        """
        numbers = [value for value in values if isinstance(value, Expr) and not is_text(value.dtype)]
        device = self._first_device(numbers)
        other = next((value for value in numbers if value.device is not device), None)
        if other is not None:
            raise OperandError(
                f"an input on {other.device.name}, {other!r}, for net {self.definition.name!r} on {device.name}",
                rule="all inputs that are tensors or expressions must be on the device on which the net runs",
                fix=f"x.to_device({device.name!r})",
            )
        return device

    def _first_device(self, values: Iterable[Any]) -> Device:
        """Return the device the net was moved to, else the first device of ``values`` other than cpu, else cpu."""
        devices = (value.device for value in values if isinstance(value, Expr))
        return self.device or next((device for device in devices if device is not cpu), cpu)

    # -- building --------------------------------------------------------------------------------------------------

    def has_build(self, inputs: Mapping[str, Any]) -> bool:
        """Return whether expressions over these inputs are cached."""
        return isinstance(self._builds.get(_key(inputs)), Build)

    def build(self, inputs: dict[str, Any], arrays: Mapping[str, Any] | None = None) -> Build:
        """Return the net's expressions for ``inputs``; ``arrays`` are the values of parameters by input name.

        Raise UnknownShapeError, with the operator's location, if a shape depends on a parameter without a value.
        """
        key = _key(inputs)
        cached = self._builds.get(key)
        return cached if isinstance(cached, Build) else self._new_build(key, inputs, arrays or {})

    @long_running
    def _new_build(self, key: Any, inputs: dict[str, Any], arrays: Mapping[str, Any]) -> Build:
        """Return the expressions of the net for ``inputs`` after computing the values that determine shapes."""
        self._check_program()
        questions = _Questions(self._builds, key, bound(inputs, arrays))
        if questions.build is not None:
            return questions.build
        check_inputs(self.definition, [(name, node.tensor_type) for name, node in named_leaves(inputs)])
        build = self.recorded(inputs, ask=questions.ask)
        build.values_first = questions.values_first(build)
        questions.keep(build)
        return build

    def build_for(self, arrays: Mapping[str, Any], device: Device) -> Build:
        """Return the expressions of the net for arrays by name, with parameters on ``device`` as inputs."""
        return self.build(self.inputs_for(arrays, device), arrays)

    def inputs_for(self, arrays: Mapping[str, Any], device: Device) -> dict[str, Any]:
        """Return parameters on ``device`` for arrays by name."""
        return {name: self._parameters_for(name, value, device) for name, value in arrays.items()}

    def recorded(self, inputs: dict[str, Any], **options: Any) -> Build:
        """Return new, uncached expressions for ``inputs``, with weights and constants on the device of the inputs."""
        device = self._device_for(leaves(inputs.values()))
        with placed_on(device):
            build = self.builder.build(inputs, **options)
        if device is not cpu and not options.get("opaque"):
            _check_kernels(build)
        return build

    def _check_program(self) -> None:
        """Raise an error for a net that computes nothing, or whose results are not returned."""
        definition = self.definition
        if not definition.operators and not definition.outputs:
            raise graph_error(
                definition.source,
                None,
                f"net {definition.name!r} has no operators",
                rule="a net that is built must have an operator, or return an input",
                fix='net.Relu("x", "y"), or open the file that the exporter wrote',
            )
        if not definition.outputs:
            raise OperandError(
                f"net {definition.name!r} has no outputs",
                rule="a net must have an output to be built",
                fix='net.output("y")',
            )

    # -- looking ---------------------------------------------------------------------------------------------------

    def example_shapes(self, assumed: Shapes) -> dict[str, Shape]:
        """Return all input shapes: assumed ones, else declared ones with lengths that operators accept."""
        key = tuple(assumed.items())
        if key not in self._fitting:

            def build(shapes: Shapes) -> Build:
                return self.recorded(self.shaped(shapes), opaque=True)

            cache(self._fitting, key, fitting_shapes(self.definition, self.table, build, assumed))
        return self._fitting[key]

    @long_running
    def preview_build(self, assumed: Shapes, unknown: int | None = None) -> Build:
        """Return expressions for viewing, which may contain opaque operations; ``unknown`` replaces unknown lengths."""
        shapes = self.example_shapes(assumed) if unknown is None else same_shapes(self.definition, unknown, assumed)
        # A build for viewing is never run.
        key = "look", *shapes.values(), in_force()
        if key not in self._builds:
            cache(self._builds, key, self.recorded(self.shaped(shapes), opaque=True))
        build: Build = self._builds[key]
        return build

    # -- planning and running --------------------------------------------------------------------------------------

    def plan(self, build: Build, options: Options) -> Plan:
        """Return the plan of a build's outputs, which runs and views share."""
        return self._planned(build, options).plan

    def run(
        self,
        arrays: Mapping[str, Any],
        device: Device,
        executor: str = "simple",
        returned: Callable[[Expr, Any], Any] = on_host,
        kernels: Kernels = "numpy",
    ) -> dict[str, Any]:
        """Run the net on arrays; return the outputs by name, each as ``returned(expression, value)``."""
        build = self.build_for(arrays, device)
        program = self.program(build, executor, kernels)
        program.bind(build.bound(arrays))
        log = RunLog(program, self.builder) if _logger.isEnabledFor(logging.DEBUG) else None
        program.wait_for_devices(log is not None)
        program.timed = False
        EXECUTORS[executor].run(program, log)
        outputs = build.outputs
        pairs = zip(leaves(outputs.values()), program.take(), strict=True)
        return with_leaves(outputs, [returned(root, value) for root, value in pairs])

    def profile(self, arrays: Mapping[str, Any], device: Device, runs: int, executor: str, kernels: Kernels) -> Profile:
        """Return the times of the operators in ``runs`` warm runs."""
        # The first run computes constants and allocates memory.
        self.run(arrays, device, executor, kernels=kernels)
        build = self.build_for(arrays, device)
        program = self.program(build, executor, kernels)
        timings = []
        program.wait_for_devices(True)
        program.timed = True
        for _ in range(runs):
            program.bind(build.bound(arrays))
            timings.append(EXECUTORS[executor].run(program, None))
            program.forget()
        return profile(program, self.builder, timings)

    def watch_operands(
        self, arrays: Mapping[str, Any], names: Iterable[str], take: Take, executor: str, kernels: Kernels
    ) -> None:
        """Run the net on arrays, and pass each named operand and its value to ``take`` while the value is in memory."""
        build = self.build_for(arrays, self.device or cpu)
        self.claim(build)
        # A new program, because one that has run has released most of its constants.
        program = Program(self.plan(build, _options(EXECUTORS[executor].lanes, kernels)))
        program.bind(build.bound(arrays))
        EXECUTORS[executor].run(program, OperandValues(program, build, names, take))

    def claim(self, build: Build) -> None:
        """Check the size of the outputs against the memory budget, including outputs that are constants."""
        size = sum([node.type.nbytes for node in build.roots])
        outputs = ", ".join(map(repr, self.definition.outputs[:8]))
        claim_memory(f"net {self.definition.name!r}, whose outputs are {outputs},", size)

    def _planned(self, build: Build, options: Options) -> _Planned:
        key = _plan_key(build, options)
        if key not in self._plans:
            if build.values_first:
                options = replace(options, passes=(ShapeValues(build.values_first), *options.passes))
            with gc_paused():
                cache(self._plans, key, _Planned(plan(build.roots, options)))
        return self._plans[key]

    def program(self, build: Build, executor: str = "simple", kernels: Kernels = "numpy") -> Program:
        """Return the program for a build's outputs; all runs use the same program and its memory."""
        options = _options(EXECUTORS[executor].lanes, kernels)
        planned = self._plans.get(_plan_key(build, options))
        if planned is None or planned.program is None:
            self.claim(build)
            planned = self._planned(build, options)
            planned.program = Program(planned.plan, copying_binding(planned.plan))
        return planned.program


@dataclass(slots=True)
class _Planned:
    """Plan of a build, and its program, which is None before the first run."""

    plan: Plan
    program: Program | None = None


@functools.lru_cache
def _options(lanes: int, kernels: Kernels = "numpy") -> Options:
    """Return the options of a net's plan; the object is cached, so its hash is not computed in each run."""
    return Options(lanes=lanes, inference=True, kernels=kernels)


def _key(inputs: Mapping[str, Any]) -> Any:
    """Return the inputs and the current policies, on which a build depends in addition to the session.

    Inputs are identified by uid; arrays with equal types have the same parameters, and therefore the same key.
    """
    return key_of(inputs.values(), lambda node: node.uid), in_force()


def _plan_key(build: Build, options: Options) -> Any:
    """Return the values on which a plan depends in addition to the session."""
    return build, options, tuple(Rule.rules)


def bound(nodes: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[Expr, Any]:
    """Return the arrays of inputs by their parameters."""
    return dict(zip(leaves([nodes[name] for name in arrays]), leaves(arrays.values()), strict=True))


def _device_of(dtype: np.dtype[Any], device: Device) -> Device:
    """Return the device for an input with this dtype: cpu for strings, else ``device``."""
    return cpu if is_text(dtype) else device


def _check_kernels(build: Build) -> None:
    """Raise an error that names the first operator that its device cannot compute, if there is one.

    Without this check, a net on a GPU could fail after minutes, with an error that lacks the operator's line.
    """
    for node in reachable(build.roots):
        device = node.type.device
        if device is cpu or runs_on(node.operation, device):
            continue
        operator = operator_of(node.scope)
        prefix = "" if operator is None else f"operator {operator.name!r} ({operator.type}): "
        raise graph_error(
            build.definition.source,
            operator,
            f"{prefix}{node.operation.name} on {device.name}",
            rule="an operation must have a kernel registered for the device on which it runs",
            fix=f"net.to_device('cpu'), or @explorer.kernel({node.operation.name!r}, on={device.name})",
        )


def cache(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Add a value to a table, and remove the oldest if there are too many."""
    table[key] = value
    if len(table) > CACHE_SIZE:
        # Dicts keep insertion order, so the first key is the oldest.
        del table[next(iter(table))]


@dataclass(slots=True)
class _Question:
    """Request of a builder for values: the program that computes them and, for each answer, the next question or the
    finished build."""

    program: Program
    operator: str
    name: str
    answer: Answer
    operations: int
    """number of operations that compute the values"""
    next: dict[Hashable, Any] = field(default_factory=dict)
    """answer → next question, or build"""

    def can_be_asked(self, inputs: Mapping[Expr, Array]) -> bool:
        """Return whether all inputs on which the values depend have arrays."""
        return all(node in inputs for node in self.program.parameters)

    def ask(self, inputs: Mapping[Expr, Array]) -> Hashable:
        """Compute the values from the net's inputs; return the answer."""
        self.program.bind({node: inputs[node] for node in self.program.parameters})
        EXECUTORS["simple"].run(self.program, None)
        roots = self.program.planned.schedule.roots
        return self.answer([on_host(root, value) for root, value in zip(roots, self.program.take(), strict=True)])


class _Questions:
    """Path through a tree of questions for given inputs; unknown answers extend the tree."""

    def __init__(self, table: dict[Any, Any], key: Any, inputs: Mapping[Expr, Array]) -> None:
        self._table, self._key, self._inputs = table, key, inputs
        self.values: list[ComputedFirst] = []
        answers: list[Hashable] = []
        while isinstance(question := self._table.get(self._key), _Question) and question.can_be_asked(inputs):
            answers.append(self._follow(question))
        self._known = iter(answers)

    @property
    def build(self) -> Build | None:
        """Return the build for these answers, or None if there is none yet."""
        end = self._table.get(self._key)
        return end if isinstance(end, Build) else None

    def keep(self, build: Build) -> None:
        """Store a build for these answers."""
        cache(self._table, self._key, build)

    def values_first(self, build: Build) -> tuple[ComputedFirst, ...]:
        """Return records of the values computed for a build, with the results of the operators that requested them."""
        results: dict[str, list[int]] = {}
        for operator in build.definition.ssa.operators if self.values else ():
            values = [build.values[blob] for blob in operator.outputs]
            results[operator.name] = [value.uid for value in values if isinstance(value, Expr)]
        # Operators of inner graphs have no results in this graph.
        return tuple([value._replace(results=tuple(results.get(value.operator, ()))) for value in self.values])

    def ask(
        self, operator: OperatorDefinition, name: str, nodes: Sequence[Expr], answer: Answer, operations: int
    ) -> Hashable:
        """Return ``answer`` applied to the values of ``nodes``; raise UnknownShapeError if an input has no value."""
        # Builders ask in recording order, which depends on the previous answers, so the n-th question has the n-th
        # answer.
        for known in self._known:
            return known
        recorded = reachable(nodes)
        if any(isinstance(node.operation, Parameter) and node not in self._inputs for node in recorded):
            raise unknown_shape(operator.type, name)
        operations += len([node for node in recorded if node.operands])
        question = _Question(Program(plan(list(nodes))), operator.name, name, answer, operations)
        cache(self._table, self._key, question)
        return self._follow(question)

    def _follow(self, question: _Question) -> Hashable:
        answer = question.ask(self._inputs)
        self.values.append(ComputedFirst(question.operator, question.name, str(answer), question.operations))
        # The next question or build is stored for this answer.
        self._table, self._key = question.next, answer
        return answer


class RunLog:
    """Observer of a run that logs a line for each kernel with its operators, operands, result and time."""

    def __init__(self, program: Program, builder: NetBuilder) -> None:
        operators = builder.definition.operators
        self._kernels = program.planned.schedule.kernels
        self._operators = {id(builder.scope(operator)): operator.name for operator in operators}
        self._began = [0] * len(self._kernels)

    def before_kernel(self, index: int) -> None:
        """Record the start time of a kernel."""
        self._began[index] = perf_counter_ns()

    def after_kernel(self, index: int) -> None:
        """Log a kernel that has run."""
        micros = (perf_counter_ns() - self._began[index]) / 1000
        kernel = self._kernels[index]
        names = dict.fromkeys(self._name(node) for node in kernel.nodes)
        operands = ", ".join(_text(node.type) for node in kernel.reads) or "nothing"
        _logger.debug("%s: %s → %s, %.1f µs", " + ".join(names), operands, _text(kernel.result.type), micros)

    def _name(self, node: Expr) -> str:
        """Return the quoted operator that recorded a node, or the node's operation if there is none."""
        scope: Scope | None = node.scope
        while scope is not None and id(scope) not in self._operators:
            scope = scope.parent
        return repr(self._operators[id(scope)]) if scope is not None else node.operation.label


def _text(type_: AnyType) -> str:
    if isinstance(type_, TupleType):
        return f"({', '.join(map(_text, type_.parts))})"
    return f"{dtype_name(type_.dtype)} {type_.shape}"
