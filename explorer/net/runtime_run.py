"""Runs of a net with another runtime, such as onnxruntime, on the operators of the net's file.

A runtime runs the net's own file, or an ONNX file written from the net in a temporary folder. Its values and times
belong to nodes of that file, which are mapped to the net's operators by the names of operands.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Item
from explorer.core.ir.recording_context import operator_of, recording_at
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.core.memory_budget import claim_memory
from explorer.core.progress import Progress, current_callback
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, TupleType
from explorer.net.building.builder import Build, declare
from explorer.net.building.containers import leaves
from explorer.net.building.diagnostics import ends
from explorer.net.definition.declared_types import Lengths
from explorer.net.definition.definition import BlobType, NetDefinition
from explorer.net.definition.operator_definition import OperatorDefinition, memory_dtype
from explorer.net.profile import Profile, ProfileRow
from explorer.net.session import NetSession
from explorer.plan.graph.cost_model import flops_of
from explorer.plan.graph.decisions import PlanStage
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.record import Kernel, Placement, Recording, Run, Schedule, Stage, Step
from explorer.record.gc_pause import gc_paused
from explorer.record.rows import total
from explorer.run.execution.value_capture import summarize
from explorer.run.recording.node_rows import graph_fingerprint
from explorer.run.recording.recorder import recorded_only
from explorer.runtimes import FileNode, Measurement, RuntimeModel, answered, installed

_Result = TypeVar("_Result")


class RuntimeOperator(Operation):
    """Operator of a file that a runtime computes, with the types of its results."""

    kind: str
    """operator type in the file"""
    results: tuple[TensorType, ...]
    """one per output; empty if they are unknown"""
    operator: str
    """name in the file"""
    work: int
    """flops, by Explorer's estimate"""
    takes_tuples = True
    nondifferentiable = "a runtime computes no gradients"
    refuses_gradient = True
    unbatchable = "a runtime computes each operator as in its file"
    pure: ClassVar[bool] = False

    def infer(self, *types: AnyType) -> AnyType:
        """Return the types of the runtime's results."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)

    def kernel(self, out: Any, *operands: Any) -> Any:
        """Raise OperandError, since only the runtime computes the operator."""
        raise OperandError(
            f"operator {self.operator!r} ({self.kind}) of a recorded run",
            rule="an operator of a recorded run must not be evaluated",
            fix="net.run(x, executor=…)",
        )

    def flops(self, result: AnyType, *types: AnyType) -> int:
        """Return Explorer's estimate."""
        return self.work

    @property
    def label(self) -> str:
        """The operator type."""
        return self.kind


class RuntimeRun:
    """A net's file opened by a runtime; ``model`` has the answers of the runtime, by names in its file."""

    def __init__(
        self,
        session: NetSession,
        name: str,
        is_changed: bool,
        save: Callable[[str, Mapping[str, BlobType]], None],
    ) -> None:
        self.session, self.runtime = session, installed(name)
        self.definition = session.definition
        self.is_changed, self._save = is_changed, save
        """whether the net differs from its file, and the function that writes it to a file, with additional types"""
        self.path = self._path()
        """the net's own file, or a file written from the net"""
        self.model: RuntimeModel = self._answer("opening the file", self._open)

    def _open(self) -> RuntimeModel:
        signature = self.definition.signature
        is_selected = signature and self.path == self.definition.source
        return self.runtime.open(self.path, signature) if is_selected else self.runtime.open(self.path)

    @property
    def title(self) -> str:
        """Name and version of the runtime, and its providers: ``onnxruntime 1.32.0, CPUExecutionProvider``."""
        model = self.model
        return f"{self.runtime.name} {model.version}" + f", {model.placement}" * bool(model.placement)

    def _path(self) -> str:
        """Return the path of the net's own file, or of a file written from the net."""
        source, extension = self.definition.source, self.runtime.extension
        if source.endswith(extension) and not self.is_changed:
            return source
        if extension != ".onnx":
            raise OperandError(
                f"net {self.definition.name!r} of {source or 'no file'}",
                rule=f"a net that runs with {self.runtime.name} must have been opened from an {extension} file, "
                "without edits",
                fix='net.run(x, executor="onnxruntime")',
            )
        folder = tempfile.mkdtemp(prefix="explorer-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = str(Path(folder) / "net.onnx")
        self._save(path, self._undeclared_types())
        return path

    def _undeclared_types(self) -> dict[str, BlobType]:
        """Return the runtime's types of inputs and outputs whose dtypes the file does not declare."""
        definition = self.definition
        ends_ = [definition.blob(name) for name in (*definition.inputs, *definition.outputs)]
        names = {blob.blob: blob.name for blob in ends_ if blob.dtype is None and not blob.container}
        if not names or not definition.source.endswith(self.runtime.extension):
            return {}
        whole = answered(self.runtime, lambda: self.runtime.open(definition.source))
        types = answered(self.runtime, lambda: whole.types([*names]))
        return {names[name]: BlobType(shape, dtype) for name, (shape, dtype) in types.items()}

    def outputs(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """Run the net as usual; return its outputs by name."""
        results = self.definition.results
        values = self._answer("a run", lambda: self.model.outputs(self._inputs(arrays)))
        names = [self.definition.blob(blob).blob for blob in results.values()]
        missing = [name for name in names if name not in values and name not in arrays]
        if missing:
            raise OperandError(
                f"{self.runtime.name} returned no {missing[0]!r}",
                rule="a runtime must return all outputs of the net",
                fix="cut the net before this output: net.cut(outputs=[…])",
            )
        return {own: values.get(name, arrays.get(name)) for own, name in zip(results, names, strict=True)}

    def values(self, arrays: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Any]:
        """Return the values of operands by name, including results that are absent or sequences."""
        wanted = [blob for blob in self.definition.blobs if names is None or blob in names]
        return dict(self._answer("all values", lambda: self.model.values(self._inputs(arrays), wanted)))

    def measure(self, arrays: Mapping[str, Any], runs: int | None = None) -> Measurement | None:
        """Return the times and memory of the fastest of several warm runs; None leaves their number to the runtime."""
        return self._answer("measured runs", lambda: self.model.measure(self._inputs(arrays), runs))

    def _answer(self, what: str, call: Callable[[], _Result]) -> _Result:
        """Report the progress of a call of the runtime, and return its result."""
        follow = current_callback()
        if follow is not None:
            follow(Progress("running", f"{what} with {self.runtime.name}"))
        return answered(self.runtime, call)

    def _inputs(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in arrays.items()}

    # -- times -------------------------------------------------------------------------------------------------------

    def profile(self, arrays: Mapping[str, Any], runs: int | None) -> Profile:
        """Return the median time of each kernel over several warm runs, with Explorer's estimates of flops and bytes.

        Raise OperandError if the runtime reports no times of operators.
        """
        measurement = self.measure(arrays, runs)
        if measurement is None or not measurement.kernels:
            raise OperandError(
                f"a profile of net {self.definition.name!r} by {self.runtime.name}",
                rule="the runtime must report the time of each operator",
                fix='net.profile(x), or net.profile(x, executor="onnxruntime")',
            )
        with gc_paused():
            estimated = self.session.recorded(self.session.inputs_for(arrays, cpu), opaque=True)
            flops, owners = _flops(estimated), operators_of(self.definition, self.model.nodes)
        operators = {operator.name: operator for operator in self.definition.ssa.operators}
        rows: dict[tuple[str, ...], ProfileRow] = {}
        counted: set[str] = set()
        for kernel in measurement.kernels:
            names = tuple(dict.fromkeys([owners[index] for index in kernel.nodes if index in owners]))
            new = [name for name in names if name not in counted]
            counted.update(new)
            work = sum([flops.get(name, 0) for name in new])
            moved = _bytes_moved([operators[name] for name in new], estimated)
            micros = kernel.micros if kernel.median is None else kernel.median
            key = names or (f"{kernel.name} of {self.runtime.name}",)
            types = tuple([operators[name].type for name in names]) or (kernel.name,)
            before = rows.get(key, ProfileRow(key, types, 0.0, 0, 0))
            rows[key] = before._replace(
                micros=before.micros + micros, flops=before.flops + work, bytes=before.bytes + moved
            )
        for type, micros in measurement.unplaced:
            key = (f"{type} of {self.runtime.name}",)
            before = rows.get(key, ProfileRow(key, (type,), 0.0, 0, 0))
            rows[key] = before._replace(micros=before.micros + micros)
        return Profile(
            self.definition.name, [*rows.values()], measurement.runs, self.title, outside=_outside(measurement)
        )

    # -- recording ---------------------------------------------------------------------------------------------------

    def record(self, arrays: Mapping[str, Any]) -> Recording:
        """Run the net, and return a recording of its operators with the runtime's values, times and memory."""
        session = self.session
        with gc_paused():
            inputs = session.inputs_for(arrays, cpu)
            estimated = session.recorded(dict(inputs), opaque=True)
            size = sum([node.type.nbytes for node in reachable(ends(estimated)) if node.operands])
            claim_memory(f"the values of all operands of net {self.definition.name!r}", size)
        values = self.values(arrays)
        measurement = self.measure(arrays)
        if estimated.problems or estimated.unsized:
            # The runtime's types are known where Explorer's rules end, so the operators after it have types again.
            types = {name: type_ for name, value in values.items() if (type_ := _type_of(value)) is not None}
            with gc_paused():
                estimated = session.recorded(dict(inputs), opaque=True, known=types)
        with gc_paused():
            return self._recording(inputs, estimated, {**arrays, **values}, measurement)

    def _recording(
        self, inputs: Mapping[str, Any], estimated: Build, values: Mapping[str, Any], measurement: Measurement | None
    ) -> Recording:
        build = self._operators(inputs, estimated, values)
        graph = PlanGraph(ends(build))
        purpose = "The operators of the file. Flops and bytes written are Explorer's estimates."
        graph.stages.append(PlanStage("recorded", "record", purpose, 0, 0, tuple(graph.live), {}, 0.0))
        rows = recorded_only(graph)
        recording, ids = rows.recording, rows.ids
        recording.title, recording.fingerprint = self.definition.name, graph_fingerprint(graph)
        recording.options = {"executor": self.runtime.name, "version": self.model.version}
        build.interface.record(recording, ids, rows.boxes)
        computed = {
            name: ids[value.uid] for name, value in build.values.items() if isinstance(value, Expr) and value.uid in ids
        }
        for row, label in enumerate(recording.nodes.label):
            if recording.operations[recording.nodes.operation[row]] == RuntimeOperator.name:
                if label not in recording.operations:
                    recording.operations.append(label)
                recording.nodes.operation[row] = recording.operations.index(label)
        for name, problem in estimated.problems.items():
            cause = problem.__cause__ if isinstance(problem.__cause__, ExplorerError) else problem
            for blob in self.definition.operator(name).outputs:
                if blob in computed:
                    row = computed[blob]
                    recording.nodes.attributes.setdefault(row, {})["Explorer"] = f"cannot run it: {cause.given}"
                    recording.nodes.flops[row] = None
        for attributes in recording.nodes.attributes.values():
            for hidden in ("kind", "results", "operator", "work"):
                attributes.pop(hidden, None)
        summaries = {
            computed[name]: summarize(np.asarray(value))
            for name, value in values.items()
            if name in computed and _type_of(value) is not None
        }
        for node in reachable(ends(build)):
            if isinstance(node, Tensor) and node.uid in ids:
                summaries[ids[node.uid]] = summarize(np.asarray(node.array))
        steps: tuple[Step, ...] = ()
        kernels: tuple[Kernel, ...] = ()
        placements: dict[int, Placement] = {}
        counts: dict[str, int] = {}
        purpose = f"The operators of the file, computed by {self.title}, which measures no times."
        if measurement is None or not measurement.kernels:
            produced = {name for operator in self.definition.ssa.topological_order for name in operator.outputs}
            for name in produced & values.keys() & computed.keys():
                recording.nodes.attributes.setdefault(computed[name], {})["computed by"] = self.title
        if measurement is not None:
            kernels, steps, placements, counts = self._schedule(recording, ids, build, measurement)
            purpose = f"The operators of the file, measured by {self.title}. {measurement.method}".rstrip()
        recording.placements = placements
        recording.schedule = Schedule(kernels, peak=measurement.peak if measurement is not None else None)
        micros = measurement.micros if measurement is not None else 0.0
        recording.run = Run(self.runtime.name, steps, micros, dict(sorted(summaries.items())), warm=True)
        end = recording.end
        recording.stages.append(Stage("run", "run", end, end, {"steps": len(steps), **counts}, purpose, micros))
        return recording

    def _operators(self, inputs: Mapping[str, Any], estimated: Build, values: Mapping[str, Any]) -> Build:
        """Return one expression for each operator, inside its box, with the types of the runtime's values."""
        definition, builder = self.definition, self.session.builder
        flops = _flops(estimated)
        build = Build(definition, builder.table, dict(inputs), dict(inputs))
        for operator in definition.ssa.topological_order:
            types = [self._type(name, values, estimated) for name in operator.outputs]
            known = tuple([type_ for type_ in types if type_ is not None])
            results = known if len(known) == len(types) else ()
            operands = [
                value
                for value in leaves([build.values.get(name) for name in operator.inputs])
                if isinstance(value, Expr)
            ]
            with recording_at(builder.scope(operator), builder.location(operator)):
                weights = builder.all_weights(operator)
                work = flops.get(operator.name, 0)
                node = RuntimeOperator(operator.type, results, operator.name, work)(*operands, *weights)
                if not types:
                    build.silent.append(node)
                single = len(types) == 1 or not results
                outs = [node] * len(types) if single else [Item(index)(node) for index in range(len(types))]
            build.values.update(zip(operator.outputs, outs, strict=True))
        shapes: dict[str, Shape] = {name: node.shape for name, node in inputs.items() if isinstance(node, Expr)}
        declare(definition, build.values, Lengths.of(definition, shapes))
        return build

    def _type(self, name: str, values: Mapping[str, Any], estimated: Build) -> TensorType | None:
        """Return the type of an operand: of the runtime's value, or by Explorer's rules."""
        if (known := _type_of(values.get(name))) is not None:
            return known
        node = estimated.values.get(name)
        return node.type if isinstance(node, Expr) and isinstance(node.type, TensorType) else None

    def _schedule(
        self, recording: Recording, ids: Mapping[int, int], build: Build, measurement: Measurement
    ) -> tuple[tuple[Kernel, ...], tuple[Step, ...], dict[int, Placement], dict[str, int]]:
        """Return the kernels, steps and placements of a measurement, and counts.

        A node belongs to the first kernel of its operator.
        """
        owners = operators_of(self.definition, self.model.nodes)
        node_of: dict[str, int] = {}
        for operator in self.definition.ssa.topological_order:
            value = next(
                (build.values[name] for name in operator.outputs if isinstance(build.values.get(name), Expr)), None
            )
            if isinstance(value, Expr):
                maker = value.operands[0] if isinstance(value.operation, Item) else value
                if maker.uid in ids:
                    node_of[operator.name] = ids[maker.uid]
        nodes = recording.nodes
        kernels: list[Kernel] = []
        placements: dict[int, Placement] = {}
        steps: list[Step] = []
        kernel_of: dict[int, int] = {}
        left: list[tuple[str, float]] = [*measurement.unplaced]
        inexact = conversions = 0
        for measured in measurement.kernels:
            operators = dict.fromkeys([owners[index] for index in measured.nodes if index in owners])
            members = [node_of[name] for name in operators if name in node_of]
            new = tuple([node for node in members if node not in kernel_of])
            inexact += not measured.is_exact
            conversions += measured.conversions
            if not members:
                left.append((measured.name, measured.micros))
                continue
            live = measured.live
            if not new:
                # several kernels of one operator
                at = kernel_of[members[-1]]
                steps.append(Step(at, measured.start, measured.micros, live))
                continue
            kernel_of.update(dict.fromkeys(new, len(kernels)))
            by = f"{self.runtime.name} {self.model.version}"
            placements[len(kernels)] = Placement(measured.name, by, measured.placement, measured.device)
            steps.append(Step(len(kernels), measured.start, measured.micros, live))
            flops = total(nodes.flops[node] for node in new)
            kernels.append(Kernel(new, flops=flops, bytes=nodes.bytes[new[-1]], live=live))
        counts = {"kernels": len(kernels)}
        folded = {owners[index] for index in measurement.folded if index in owners}
        folded -= {name for name, node in node_of.items() if node in kernel_of}
        for name in folded:
            if name in node_of:
                nodes.attributes.setdefault(node_of[name], {})["computed by"] = f"{self.runtime.name}, before the run"
        if folded:
            counts["computed_before_the_run"] = len(folded)
        if inexact:
            counts["partly_matched"] = inexact
        if conversions:
            counts["conversions"] = conversions
        if left:
            counts["unmatched"] = len(left)
            counts["unmatched_us"] = round(sum([micros for _, micros in left]))
        if measurement.between is not None and measurement.around is not None:
            # With these counts, the times of kernels add up to the time of the run.
            counts["in_kernels_us"] = round(measurement.micros - measurement.between - measurement.around)
            counts["between_kernels_us"] = round(measurement.between)
            counts["around_kernels_us"] = round(measurement.around)
        return tuple(kernels), tuple(sorted(steps, key=lambda step: step.start)), placements, counts


def _outside(measurement: Measurement) -> str:
    """Return where the rest of the fastest run was, as a line of a profile; "" if it is unknown."""
    if measurement.between is None or measurement.around is None:
        return ""
    return (
        f"outside kernels, in the fastest run: {measurement.between:,.0f} µs between kernels, where the profiler "
        f"records each of them, and {measurement.around:,.0f} µs before the first and after the last one"
    )


def operators_of(definition: NetDefinition, nodes: Sequence[FileNode]) -> dict[int, str]:
    """Return node of the file → operator of the net; a written file may have several nodes for an operator.

    A node whose results have no names in the net belongs to the operator that reads them.
    """
    blobs = definition.ssa.blobs
    owners: dict[int, str] = {}
    reader: dict[str, str] = {}
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        own = next((blobs[name].producer for name in node.outputs if name in blobs and blobs[name].producer), None)
        owner = own or next((reader[name] for name in node.outputs if name in reader), None)
        if owner is not None:
            owners[index] = owner
            for name in node.inputs:
                if name not in blobs:
                    reader.setdefault(name, owner)
    return owners


def _type_of(value: Any) -> TensorType | None:
    """Return the type of a runtime's value; None if it is no tensor, such as a sequence or the handle of a variable."""
    if not hasattr(value, "dtype") or value.dtype.kind in "OV":
        return None
    array: Array = np.asarray(value)
    return TensorType(array.shape, array.dtype)


def _flops(estimated: Build) -> dict[str, int]:
    """Return the flops of each operator, by Explorer's estimate."""
    flops: dict[str, int] = {}
    for node in reachable(ends(estimated)):
        operator = operator_of(node.scope)
        if operator is not None and node.operands:
            flops[operator.name] = flops.get(operator.name, 0) + flops_of(node, node.operands)
    return flops


def _bytes_moved(operators: Sequence[OperatorDefinition], estimated: Build) -> int:
    """Return the bytes that operators of one kernel read and write, without values that stay inside the kernel."""
    made = {name for operator in operators for name in operator.outputs}
    outer = {name for operator in operators for name in operator.inputs} ^ made
    values = [value for name in outer if isinstance(value := estimated.values.get(name), Expr)]
    weights = [each for operator in operators for each in operator.weights.values()]
    stored = sum([math.prod(each.shape) * memory_dtype(each.dtype).itemsize for each in weights])
    return stored + sum([value.type.nbytes for value in values])
