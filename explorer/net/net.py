"""Nets, which are programs of named operators that can be inspected, edited, run and planned.

This module contains the user interface. A net's editor (editor.py) replaces its immutable definition at each edit, and
its session (session.py) caches the definition's expressions, plans and programs.

Write a net in explorer's operator types, or edit a net from a file::

    net = ex.Net("mlp")
    net.input("x", (None, 4))
    net.GivenTensorFill([], "w", values=w)
    net.Relu(net.FC(["x", "w"], "h"), "h")      # in place: h is written twice
    net.output(net.Softmax("h", "y"))

    net = ex.open("model.pnnx.param")
    net.replace("relu1", "nn.Sigmoid")
    net.insert("nn.ReLU6", "5")                 # between blob 5 and its readers
    net.remove("softmax", instead={"15": "14"})
    net.save("edited.pnnx.param")
"""

from __future__ import annotations

import difflib
import enum
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Self, Unpack, get_args, overload

import numpy as np

from explorer.core.argument_checks import check_name, named_methods, options_of
from explorer.core.errors import ExplorerError, OperandError, StateError, UnknownNameError
from explorer.core.ir.explore_options import Kernels, ViewOptions
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import ComparedPlans, View, hooks
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import stored_tensor
from explorer.core.progress import long_running
from explorer.core.tracing.captures import note
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType
from explorer.net.building.builder import Build
from explorer.net.building.containers import named_leaves
from explorer.net.building.diagnostics import (
    UnknownType,
    ends,
    find_problems,
    nodes_of,
    unknown_types,
    unknown_types_error,
)
from explorer.net.building.example_shapes import Shapes, assumptions, guesses, unknown_input
from explorer.net.building.inputs import is_shape
from explorer.net.building.weights import NetWeights
from explorer.net.definition import edits
from explorer.net.definition.declared_types import check_inputs, is_open, shape_text
from explorer.net.definition.definition import BlobDefinition, BlobType, Dimension, NetDefinition, graph_error
from explorer.net.definition.operator_definition import OperatorDefinition, memory_dtype
from explorer.net.definition.subgraph import cut
from explorer.net.editor import Names, NetEditor, OperatorCall, names_of
from explorer.net.gradients import GradientOperators
from explorer.net.input_shapes import given_shapes, with_input_shapes
from explorer.net.net_operator import NetOperator
from explorer.net.operand_matching import Operands, ReferenceValues, in_terms_of, precision
from explorer.net.operators.caffe2 import TABLE
from explorer.net.operators.table import OperatorTable
from explorer.net.own_error import OwnNet
from explorer.net.pattern_edits import with_replacements
from explorer.net.profile import Profile
from explorer.net.runtime_run import RuntimeRun
from explorer.net.session import NetSession, bound
from explorer.net.value_comparison import Take, ValueComparison, compare_values
from explorer.plan.rewrite.pattern import Match
from explorer.record import Recording
from explorer.record.compare.operators import ComparedOperator
from explorer.record.escape import visible
from explorer.record.fork_locks import renew_in_children
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.run.evalplan import EvalPlan, PlanOptions
from explorer.run.execution.executors import EXECUTORS
from explorer.run.recording.recorder import file_operator
from explorer.run.runtime.marshalling import on_host
from explorer.runtimes import RUNTIMES

_logger = logging.getLogger("explorer.net")
_DRAWN = 1000
"""maximum number of operators of a net that a cell shows with a picture"""
_FILES = (".param", ".bin", ".onnx", ".json")
"""extensions of model files"""
_OTHER_NAMES = {
    **dict.fromkeys(("to", "cuda", "cpu"), "net.to_device('cuda')"),
    **dict.fromkeys(("nodes", "layers", "modules", "ops", "node"), "net.operators"),
    **dict.fromkeys(("blobs", "tensors", "values", "value_info"), "net.operands"),
    **dict.fromkeys(("initializers", "initializer", "parameters", "state_dict"), "net.weights"),
    **dict.fromkeys(("forward", "predict", "eval"), "net.run(x)"),
    "why": "net.preview_plan().why('conv1', 'relu1')",
    "explain": "net.preview_plan().explain('conv1')",
}
"""attribute in other libraries, or of plans → what to use instead"""


class NetState(enum.Enum):
    """State of a net: ``init`` checks types and weights, and ``build`` records expressions."""

    NEED_INIT = "NeedInit"
    NEED_BUILD = "NeedBuild"
    COMPLETE = "Complete"

    @property
    def words(self) -> str:
        """The state in words, as shown by ``repr``."""
        return {"NeedInit": "not checked yet", "NeedBuild": "checked", "Complete": "built"}[self.value]


def _checked_table(definition: NetDefinition | str, table: OperatorTable | None) -> OperatorTable:
    """Return the operator table of a new net; raise OperandError for a file name, or for a table of another dialect."""
    if isinstance(table, (str, os.PathLike)) or (
        isinstance(definition, (str, os.PathLike)) and os.fspath(definition).endswith(_FILES)
    ):
        weights = f", weights={os.fspath(table)!r}" if isinstance(table, (str, os.PathLike)) else ""
        raise OperandError(
            f"a net of the file {str(definition)!r}",
            rule="the argument must be the name of a new net; files are opened with ex.open",
            fix=f"ex.open({str(definition)!r}{weights})",
        )
    if isinstance(definition, str):
        return TABLE if table is None else table
    if table is None and definition.dialect == TABLE.format:
        return TABLE
    if table is None or definition.dialect not in ("", table.format):
        raise OperandError(
            f"net {definition.name!r} of the dialect {definition.dialect!r} with "
            f"{f'the table of {table.format!r}' if table else 'no table'}",
            rule="the table must be the one for the definition's dialect",
            fix="pass the table of its format: Net(definition, table)",
        )
    return table


@named_methods
class Net:
    """Program of named operators and operands, from a definition and a table of operator types.

    ``net["conv1"]`` is the operator with this name. A net can be inspected even if its operator types are unknown, and
    inspecting it computes nothing. Each operator type is a method that appends an operator (see ``net.types()`` and
    ``help(net.FC)``):

    >>> net = ex.Net("mlp")
    >>> net.input("x", (None, 2))
    'x'
    >>> blobs = net.GivenTensorFill([], "w", values=np.eye(2)), net.GivenTensorFill([], "b", values=np.array([0, -3.0]))
    >>> net.Relu(net.FC(["x", "w", "b"], "h"), "h")  # in place, as its result has the operand's name
    'h'
    >>> net.output("h")
    >>> net.run(np.array([[1, 2]], dtype="float32"))
    array([[1., 0.]])

    Every net is edited by ``add``, ``insert``, ``remove``, ``replace``, ``rewire``, ``rename``, ``resize_inputs`` and
    ``prune``.
    """

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        table = _checked_table(definition, table)
        if isinstance(definition, str):
            definition = NetDefinition.of(definition, [], [], [], dialect=table.format, rewrites=table.rewrites)
        if not definition.dialect:
            definition = replace(definition, dialect=table.format)
        self._editor = NetEditor(definition, table)
        self._session: NetSession | None = None
        self._device: Device | None = None
        """the requested device; None follows the inputs"""
        self._is_part = False
        """whether the net is a part of the net that its file contains, so that the file cannot run in its place"""
        self._assumed: dict[str, Shape] = {}
        """input shapes that ``assume`` has set for inspecting the net"""
        self._initialized = -1
        """version of the operator table when types were last checked; −1 before"""
        self._lock = threading.Lock()
        """lock that lets only one thread run the net at a time, because all runs of a program use the same memory"""
        renew_in_children(self)

    def renew(self) -> None:
        """Remove programs in a forked process, since a thread of the parent may have been running one."""
        if self._session is not None:
            self._session.drop_programs()
        self._lock = threading.Lock()

    def __copy__(self) -> Self:
        return self.with_definition(self.definition)

    @property
    def definition(self) -> NetDefinition:
        """The current program; edits create new definitions and do not modify this one."""
        return self._editor.definition

    @property
    def table(self) -> OperatorTable:
        """The table of its operator types."""
        return self._editor.table

    @property
    def weights(self) -> NetWeights:
        """The weights of all operators."""
        return self._editor.weights

    @property
    def session(self) -> NetSession:
        """Session with the expressions, plans and programs of the current net; any change creates a new session."""
        session, weights = self._session, self._editor.weights
        if session is None or not session.is_current(weights, self._device):
            session = self._session = NetSession(self.definition, self.table, weights, self._device)
        return session

    def _checked_session(self) -> NetSession:
        """Return the session of a net whose types and weights are checked."""
        self.init()
        note(lambda: self.session)
        return self.session

    def __repr__(self) -> str:
        reads = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.inputs.items())
        writes = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.outputs.items())
        if self.definition.is_table:
            return visible(f"<net {self.name!r}: {counted_text(len(self.definition.blobs), 'weight')}, no graph>")
        count = counted_text(len(self.definition.operators), "operator")
        flow = f"{reads or 'nothing'} → {writes or 'nothing'}"
        return visible(f"<net {self.name!r}: {count}, {flow}; {self.state.words}>")

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        is_large = len(self.definition.operators) > _DRAWN
        return hooks.cell_result(self, lambda: [] if is_large else ends(self._preview_build()))

    # -- inspecting ------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, BlobDefinition]:
        """The net's inputs by name, in file order, with their declared types."""
        return {name: self.definition.input(name) for name in self.definition.inputs}

    @property
    def outputs(self) -> dict[str, BlobDefinition]:
        """The net's outputs by name, in file order."""
        return {name: self.definition.blob(blob) for name, blob in self.definition.results.items()}

    @property
    def operands(self) -> Mapping[str, BlobDefinition]:
        """All operands by name, with declared shape and dtype, producer and consumers."""
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
        """Return the operators that cannot run, as a dict from their names to errors with the reason."""
        return self._preview_build().problems

    def unsized(self) -> list[str]:
        """Return the names of the operators whose result shapes depend on values of the inputs.

        These operators can be planned and run if the inputs are arrays; otherwise, their shapes are drawn as unknown.
        """
        return [*self._preview_build().unsized]

    def check(self) -> list[str]:
        """Return descriptions of all problems that prevent a run, and of operands and weights that contradict the
        file."""
        with gc_paused():
            build = self._preview_build()
            shapes = {name: node.shape for name, node in named_leaves(build.inputs) if name not in self._assumed}
            return find_problems(build, self.table, guesses(self.definition, shapes))

    def nodes(self, name: str) -> list[Expr]:
        """Return the expressions in ``preview_plan()`` that belong to the operator, operand, weight or box ``name``."""
        return nodes_of(name, self._preview_build(), self.session.builder)

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

    @options_of(PlanOptions)
    def preview_plan(self, *, unknown: int | None = None, **options: Unpack[PlanOptions]) -> EvalPlan:
        """Return a prepared plan for viewing, with all operators, including those that cannot run; nothing is computed.

        ``unknown`` is used for every unknown length; by default, the lengths of ``example_shapes()``, listed in the
        title.
        """
        build = self._preview_build(unknown)
        assumed = assumptions(self.definition, {name: node.shape for name, node in named_leaves(build.inputs)})
        title = f"{self.name} ({assumed})" if assumed else self.name
        settings: PlanOptions = {"title": title, "record": "off", "inference": True, **options}
        plan = EvalPlan(**settings)
        roots = ends(build)
        if not roots:
            raise graph_error(
                self.definition.source,
                None,
                f"net {self.name!r} has no tensor that can be drawn",
                rule="an output, or a result of an operator, must have a type",
                fix="give it an operator, or a weight of numbers",
            )
        for node in roots:
            plan.register(node)
        return plan.prepare(interface=build.interface)

    @long_running
    @options_of(ViewOptions)
    def explore(
        self, x: Any = None, *, executor: str = "simple", kernels: Kernels = "numpy", **options: Unpack[ViewOptions]
    ) -> View:
        """Return a view of the net's graph and plan; if ``x`` contains arrays, run the net and show its values.

        ``x`` is an array, a tuple of inputs, or a dict of inputs by name. If an input is a shape, nothing is run. With
        ``executor="onnxruntime"`` or another runtime, the view shows the file's operators with the values and times of
        the runtime. With ``kernels="native"``, kernels are compiled, and the view shows their C code.
        """
        hooks.check_view(**options)
        _check_kernels(kernels, executor)
        if executor in RUNTIMES:
            return hooks.explore(self.recorded_by(executor, x), **options)
        if x is None:
            with hooks.preview(**options):
                previewed = self.preview_plan(kernels=kernels)
            return hooks.explore(previewed, **options)
        # A tuple is one shape, or contains the inputs: for a net with two inputs, (2, 3) contains two inputs.
        is_one = not isinstance(x, tuple) or (is_shape(x) and len(x) != len(self.inputs))
        operands = (x,) if is_one else x
        with hooks.preview(**options):
            plan = self.plan(*operands, record="values", executor=executor, kernels=kernels)
        values = operands[0].values() if len(operands) == 1 and isinstance(operands[0], Mapping) else operands
        return hooks.explore(plan if any(is_shape(value) for value in values) else plan.eval(), **options)

    def recorded_by(self, runtime: str, x: Any) -> Recording:
        """Return a recording of a run of the file's operators by a runtime, such as "onnxruntime".

        The recording has a node for each operator of the file, with the values, times and memory that the runtime
        reports. ``x`` is an array, a tuple of inputs, or a dict of inputs by name.
        """
        check_name(runtime, "runtime", RUNTIMES)
        inputs = x if isinstance(x, tuple) else () if x is None else (x,)
        return self._runtime_run(runtime).record(self.session.checked_arrays(inputs, {}))

    def _runtime_run(self, name: str, *, as_in_file: bool = False) -> RuntimeRun:
        """Return the net, or its file without later edits, as opened by a runtime; it is opened again after an edit."""
        with self._lock:
            session, is_changed = self.session, self._is_part or (self._is_changed and not as_in_file)
            if (name, is_changed) not in session.runtime_runs:
                session.runtime_runs[name, is_changed] = RuntimeRun(session, name, is_changed, self._save_typed)
            run: RuntimeRun = session.runtime_runs[name, is_changed]
            return run

    def _save_typed(self, path: str, types: Mapping[str, BlobType]) -> None:
        """Save the net, with types of inputs and outputs that the file does not declare."""
        definition = self.definition
        net = self.with_definition(cut(definition, definition.inputs, definition.outputs, types)) if types else self
        net.save(path)

    @property
    def _is_changed(self) -> bool:
        """Whether operators or weights differ from the file's."""
        return self._editor.is_edited or bool(self.weights.version)

    @overload
    def compare(self, other: Net | EvalPlan | Recording) -> ComparedPlans: ...

    @overload
    def compare(
        self,
        other: Any,
        *inputs: Any,
        tolerance: float | None = None,
        executor: str = "simple",
        kernels: Kernels = "numpy",
        **named: Any,
    ) -> ValueComparison: ...

    @long_running
    def compare(
        self,
        other: Any,
        *inputs: Any,
        tolerance: float | None = None,
        executor: str = "simple",
        kernels: Kernels = "numpy",
        **named: Any,
    ) -> ComparedPlans | ValueComparison:
        """Compare this net with another net, a plan or a recording, or its values for ``inputs`` with a reference.

        With inputs, ``other`` is the reference: a net, an InferenceSession, or a dict of arrays by operand name, which
        may include the inputs. ``"onnxruntime"``, ``"onnx.reference"`` and ``"litert"`` run the net's file without
        later edits, or an ONNX file written from a part of a net or from a net of another format. The result contains
        the first operator whose value differs, which ``print`` and ``explore()`` of the result show. Operands are
        matched by name, through quantization and casts, and outputs of another net also by order. ``tolerance`` is the
        maximum relative error; the default is 1e-4, 1e-2 for 16-bit floats, 0.1 between a net of at most 8 bits and one
        of more, and 0 for other integers. Floats in [-1, 1] may differ by 4 ulp of 1. With ``kernels="native"``,
        compiled C code computes elementwise kernels of this net, but not of the reference.

        The reference may have another precision: floating inputs are cast or quantized to the dtypes of both nets
        (``casts`` of the result), and quantized integers are compared as real numbers. Then each operator is also
        computed from the reference's operands, ``ranked`` orders operators by this own error, and ``keep_in_float(k)``
        names those that a quantizer should skip.

        Without inputs, the result is ``net.diff(other)``.
        """
        _check_kernels(kernels, executor)
        if not inputs and not named and isinstance(other, (Net, EvalPlan, Recording)):
            return self.diff(other)
        if isinstance(other, Mapping) and not inputs and not named:
            named = {name: other[name] for name in self.definition.inputs if name in other}
        elif not inputs and not named and self.definition.inputs:
            raise OperandError(
                f"comparing net {self.name!r} with {other!r:.80}, without inputs",
                rule="without inputs, other must be a net, a plan or a recording; a reference also needs inputs",
                fix="net.compare(reference, x), or net.compare(other_net)",
            )
        casts: list[str] = []
        arrays = self._checked_session().cast_arrays(inputs, named, casts)
        reference = self._reference(other, arrays, executor, casts)
        return compare_values(
            self.definition,
            reference,
            tolerance,
            lambda names, take: self._watch_operands(arrays, names, take, executor, kernels),
            lambda: self._types(arrays, executor),
            lambda own, more, names, take: self._watch_own(own, {**arrays, **more}, names, take, executor, kernels),
            lambda **options: self.explore(arrays, kernels=kernels, **options),
            casts,
        )

    @long_running
    def diff(self, other: Net | EvalPlan | Recording, *, weights: bool = True) -> ComparedPlans:
        """Return what changed from this net to ``other``: operators first, then plans, and values of weights.

        ``print`` lists the operators of the two files that differ, and those that became others, such as a Conv and a
        BatchNormalization that became a Conv. ``text(nodes=True)`` also lists recorded nodes, decisions and kernels.
        ``explore()`` shows both graphs, with the first difference in view. With ``weights=False``, no weights are read;
        a recording has none.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (2,)), "y"))
        >>> other = net.with_definition(net.definition)
        >>> other.insert("Tanh", "y")
        'tanh'
        >>> print(net.diff(other).text().splitlines()[1])
        operators: 1 as before, 1 added (Tanh)
        """
        after = other.preview_plan() if isinstance(other, Net) else other
        operators = (self._compared_operators(), other._compared_operators()) if isinstance(other, Net) else None
        return hooks.compare(self.preview_plan(), after, weights=weights, operators=operators)

    def _compared_operators(self) -> tuple[ComparedOperator, ...]:
        """Return the operators in topological order, with the default values of omitted arguments."""
        compared = []
        for operator in self.definition.ssa.topological_order:
            arguments = {**self.table.defaults(operator.type), **operator.arguments}
            row = file_operator(-1, replace(operator, arguments=arguments))
            attributes = tuple(sorted(row.attributes))
            compared.append(
                ComparedOperator(operator.type, operator.name, attributes, row.weights, row.inputs, row.outputs)
            )
        return tuple(compared)

    def _reference(self, other: Any, arrays: Mapping[str, Array], executor: str, casts: list[str]) -> ReferenceValues:
        """Return the values of a reference for ``arrays``; add descriptions of casts of its inputs to ``casts``."""
        if isinstance(other, Mapping):
            return ReferenceValues("the given values", {str(name): np.asarray(value) for name, value in other.items()})
        if not isinstance(other, Net):
            return ReferenceValues(*self._values_of_runtime(other, arrays))
        values: dict[str, Array] = {}

        def keep(name: str, value: Array) -> None:
            values[name] = value.copy()

        passed = [*arrays.values()]
        ours, other_inputs = Operands(self.definition), other.inputs.values()
        for index, (name, blob) in enumerate(zip(ours.definition.inputs, other_inputs, strict=False)):
            if "float" in (blob.dtype or ""):
                passed[index] = ours.real(name, passed[index])
        try:
            theirs = other._checked_session().cast_arrays((*passed,), {}, casts)
        except OperandError as error:
            raise OperandError(
                f"net {other.name!r} as a reference of net {self.name!r}: {error.given}",
                rule=f"a reference must accept the inputs of the net; {error.rule}",
                fix="compare with another file of this model; graphs of other models: explorer diff A B",
            ) from error
        program = other.definition.ssa
        # Inputs are compared with their quantized forms; a runtime does not return them.
        given = zip(program.inputs, theirs.values(), strict=True)
        values.update((name, value) for name, value in given if isinstance(value, np.ndarray))
        other._watch_operands(theirs, [name for name in program.blobs if name not in values], keep, executor)
        rest = [name for operator in program.operators for name in operator.outputs if name not in values]
        if rest and precision(ours) != precision(Operands(other.definition)):
            # An operand that the plan has removed may be the result of a fused operator of the other file.
            other.with_definition(edits.changed(program, outputs=rest))._watch_operands(theirs, rest, keep, executor)
        return in_terms_of(self.definition, other.definition, values)

    def _values_of_runtime(self, reference: Any, arrays: Mapping[str, Array]) -> tuple[str, Mapping[str, Array]]:
        """Return the name of a runtime and its values; an InferenceSession returns only its outputs."""
        if hasattr(reference, "get_outputs") and hasattr(reference, "run"):
            names = [output.name for output in reference.get_outputs()]
            return "onnxruntime", dict(zip(names, reference.run(names, dict(arrays)), strict=True))
        if not isinstance(reference, str) or reference not in RUNTIMES:
            known = ", ".join(map(repr, RUNTIMES))
            raise OperandError(
                f"a reference of type {type(reference).__name__}: {reference!r:.80}",
                rule=f"a reference must be a net, {known}, an InferenceSession of onnxruntime, or a dict of arrays",
                fix='net.compare("onnx.reference", x)',
            )
        values = self._runtime_run(reference, as_in_file=True).values(arrays)
        # Results that are sequences of arrays, or None, are skipped.
        return reference, {name: np.asarray(value) for name, value in values.items() if hasattr(value, "dtype")}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the net with its weights: ``x.json`` and ``x.npz``, ``x.onnx``, or ``x.param`` and ``x.bin`` of PNNX.

        Example: ``net.cut(outputs=["relu_3"]).save("part.onnx")``.
        """
        hooks.save(self, path)

    def cut(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Net:
        """Return the part of the net that computes ``outputs`` from ``inputs``; None means all of the net's."""
        blobs = [self.definition.blob(name) for name in inputs or ()]
        undeclared = [blob.name for blob in blobs if blob.shape is None or blob.dtype is None]
        return self.with_definition(cut(self.definition, inputs, outputs, self._inferred(undeclared)))

    def _inferred(self, names: Sequence[str]) -> dict[str, BlobType]:
        """Return the types of operands that the file does not declare; lengths are unknown if inputs have unknown
        lengths."""
        if not names:
            return {}
        values, is_known = self._preview_build().values, not is_open(self.definition)
        types = {name: value.type for name in names if isinstance(value := values.get(name), Expr)}
        return {
            name: BlobType(type.shape if is_known else (None,) * len(type.shape), type.dtype.name)
            for name, type in types.items()
            if isinstance(type, TensorType)
        }

    def with_definition(self, definition: NetDefinition) -> Self:
        """Return a net with the same weights and device, but another definition, such as a part of this one."""
        net = type(self)(definition, self.table)
        net._editor, net._device = NetEditor(net.definition, self.table, self.weights), self._device
        net._editor.is_edited = self._editor.is_edited
        net._is_part = self._is_part or definition is not self.definition
        return net

    def _watch_operands(
        self,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        take: Take,
        executor: str,
        kernels: Kernels = "numpy",
    ) -> None:
        """Run the net on arrays, and pass each named operand and its value to ``take`` while the value is in memory."""
        if executor in RUNTIMES:
            for name, value in self._runtime_run(executor).values(arrays, [*names]).items():
                if hasattr(value, "dtype"):
                    take(name, value)
            return
        check_name(executor, "executor", (*EXECUTORS, *RUNTIMES))
        with self._lock:
            self._checked_session().watch_operands(arrays, names, take, executor, kernels)

    def _types(self, arrays: Mapping[str, Any], executor: str) -> dict[str, AnyType]:
        """Return the types of the operands that are tensors; a runtime may have operators that Explorer lacks."""
        session = self._checked_session()
        if executor in RUNTIMES:
            build = session.recorded(session.inputs_for(arrays, cpu), opaque=True)
        else:
            build = session.build_for(arrays, self.device)
        return {name: value.type for name, value in build.values.items() if isinstance(value, Expr)}

    def _watch_own(
        self,
        own: OwnNet,
        arrays: Mapping[str, Any],
        names: Iterable[str],
        take: Take,
        executor: str,
        kernels: Kernels,
    ) -> None:
        """Run the net of own errors, which has the weights of this net."""
        net = self.with_definition(own.definition)
        net._editor = NetEditor(own.definition, self.table, self.weights.for_definition(own.definition, own.copies))
        net._watch_operands(arrays, names, take, executor, kernels)

    # -- patterns --------------------------------------------------------------------------------------------------

    def pattern_roots(self) -> list[Expr]:
        """Return the expressions of all operators, which ``ex.pattern(…).find(net)`` searches."""
        return ends(self._preview_build())

    def with_replacements(self, formula: str, matches: Sequence[Match]) -> Self:
        """Return a copy of the net with the same weights, in which a formula of operator types replaces each match.

        ``ex.pattern(…).replace(net, formula)`` calls it. Raise OperandError if a replacement does not fit.
        """
        before = self._preview_build()
        net = self.with_definition(self.definition)
        net._editor.adopt(with_replacements(before, self.table, formula, matches))
        net._assumed = self._assumed
        session = net.session
        after = session.recorded(session.shaped(self.example_shapes()), opaque=True)
        for name, problem in after.problems.items():
            if name not in before.problems:
                raise problem
        for name, value in before.values.items():
            new = after.values.get(name)
            if isinstance(value, Expr) and isinstance(new, Expr) and value.type != new.type:
                raise OperandError(
                    f"blob {name!r} of {value.type} replaced by {new.type} in {formula!r}",
                    rule="a replacement must have the type of the value that it replaces",
                    fix="use where={…} to exclude such values from the pattern, or another formula",
                )
        return net

    # -- writing ---------------------------------------------------------------------------------------------------

    def types(self) -> list[str]:
        """Return the known operator types, sorted; ``help(net.FC)`` shows the arguments of the type FC."""
        return self.table.types()

    def __getattr__(self, name: str) -> OperatorCall:
        # self.table would call this method again if __init__ has not created the editor yet.
        editor = None if name.startswith("_") else self.__dict__.get("_editor")
        table = editor and editor.table
        if table is not None and name in table:
            return OperatorCall(name, table, self.add)
        known = [each for each in dir(self) if not each.startswith("_")] if table else []
        near = difflib.get_close_matches(name, known, n=4)
        hint = f"; near names: {', '.join(near)}" if near else ""
        if name in _OTHER_NAMES:
            hint = f": use {_OTHER_NAMES[name]}"
        raise AttributeError(f"a net has no attribute and no operator type {name!r}{hint}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self.table.types() if name.isidentifier())]

    def input(self, name: str, shape: Sequence[Dimension] | None = None, dtype: Any = "float32") -> str:
        """Add an input, whose ``shape`` may contain None or a name for an unknown length; return its name."""
        definition = self.definition
        try:
            element_dtype = memory_dtype(np.dtype(dtype).name)
        except TypeError:
            raise OperandError(
                f"input({name!r}, …, dtype={dtype!r})",
                rule="the dtype must be boolean or numeric",
                fix=f'net.input({name!r}, …, "float32")',
            ) from None
        type = BlobType(None if shape is None else tuple(shape), element_dtype.name)
        self._editor.adopt(edits.changed(definition, inputs=[*definition.inputs, name], types={name: type}))
        return name

    def output(self, *names: str) -> None:
        """Add these blobs, in their final versions, to the outputs."""
        definition = self.definition
        self._editor.adopt(edits.changed(definition, outputs=[*definition.outputs, *names]))

    def set_inputs(self, names: Sequence[str]) -> None:
        """Select these inputs, in this order, and remove all others."""
        for name in names:
            if name not in self.definition.inputs:
                raise UnknownNameError(
                    name, kind="input of the net", known=self.definition.inputs, fix=f"net.input({name!r}, shape)"
                )
        self._editor.adopt(edits.changed(self.definition, inputs=names))

    def set_outputs(self, names: Sequence[str]) -> None:
        """Make these blobs the only outputs, in this order."""
        self._editor.adopt(edits.changed(self.definition, outputs=names_of(names, "outputs")))

    def add(
        self,
        type: str,
        inputs: Names = (),
        outputs: Names | None = None,
        *,
        name: str | None = None,
        before: str | None = None,
        after: str | None = None,
        weights: Mapping[str, Any] | None = None,
        doc: str = "",
        **arguments: Any,
    ) -> Any:
        """Add an operator at the end, or before or after another operator; return the name or names of its outputs.

        If ``outputs`` is not given, the outputs get unused names. ``weights`` maps attributes to arrays. Raise an error
        and add nothing if the type is unknown, if the schema rejects the arguments, or if a blob is missing.
        """
        options = {"name": name, "weights": weights, "doc": doc, "arguments": arguments}
        outputs = self._editor.add(type, inputs, outputs, before, after, **options).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def add_gradient_operators(self, outputs: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
        """Append operators that compute gradients of ``outputs``, such as a loss; return a dict from blobs to
        gradients.

        ``outputs`` is a name, names, or a dict from names to blobs with known gradients. The gradient of ``x`` is the
        blob ``x_grad``. Raise StateError, and add nothing, if an operator has no gradient or needs an overwritten
        version.
        """
        definition = self.definition
        added = GradientOperators(definition, self.table, outputs)
        self._editor.adopt(edits.changed(definition, operators=[*definition.operators, *added.operators]))
        return added.gradients

    # -- editing ---------------------------------------------------------------------------------------------------

    def insert(
        self,
        type: str,
        blob: str,
        *,
        others: Names = (),
        output: str | None = None,
        readers: Sequence[str] | None = None,
        name: str | None = None,
        weights: Mapping[str, Any] | None = None,
        doc: str = "",
        **arguments: Any,
    ) -> str:
        """Insert an operator between a blob and its ``readers`` (by default all readers and outputs); return its
        output.

        The operator reads ``blob`` and ``others``, and is placed directly after the producer of ``blob``.
        """
        options = {"name": name, "weights": weights, "doc": doc, "arguments": arguments}
        return self._editor.insert(type, blob, others, output, readers, **options).outputs[0]

    def remove(self, operator: str, *, instead: Mapping[str, str] | None = None) -> None:
        """Remove an operator; ``instead`` maps each of its outputs that is read to the blob that replaces it."""
        self._editor.adopt(edits.remove(self.definition, operator, instead))

    def replace(
        self, operator: str, type: str, *, weights: Mapping[str, Any] | None = None, doc: str = "", **arguments: Any
    ) -> None:
        """Replace an operator by one of another type, keeping its name, inputs and outputs, but no arguments or
        weights."""
        self._editor.replace(operator, type, weights, doc, arguments)

    def rewire(self, blob: str, to: str, *, readers: Sequence[str] | None = None) -> None:
        """Make ``readers`` of a blob, by default all readers and the net's outputs, read the blob ``to`` instead."""
        self._editor.adopt(edits.rewire(self.definition, blob, to, readers))

    def rename(self, old: str, new: str) -> None:
        """Rename an operator or, if no operator has the name, a blob."""
        if old not in self and self.definition.has_blob(old):
            self.rename_blob(old, new)
        else:
            self._editor.adopt(edits.rename_operator(self.definition, old, new), {new: old})

    def rename_blob(self, blob: str, name: str) -> None:
        """Rename a blob, also if an operator has the same name."""
        self._editor.adopt(edits.rename_blob(self.definition, blob, name))

    def resize_inputs(self, shapes: Mapping[str, Shape] | None = None, **named: Shape) -> None:
        """Change the declared shapes of inputs, such as the batch size, and of the operands that depend on them.

        Shapes are passed by the names of their inputs, as keywords or as one dict. The net is built with the new shapes
        as a check. Raise OperandError with the name of the first operator that does not accept them, such as a Reshape
        to a fixed batch size, and UnknownNameError for a name that is not an input.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (1, 2)), "y"))
        >>> net.resize_inputs(x=(8, 2))
        >>> net.inputs["x"].shape
        (8, 2)
        """
        wanted = {**given_shapes(self.definition, shapes), **named}

        def build(definition: NetDefinition) -> Build:
            return self.with_definition(definition)._preview_build()

        self._editor.adopt(with_input_shapes(self.definition, wanted, build))
        self._assumed = {name: shape for name, shape in self._assumed.items() if name not in wanted}

    def prune(self) -> list[str]:
        """Remove all operators that no output needs; return their names."""
        before = self.definition
        after = edits.prune(before)
        kept = {operator.name for operator in after.operators}
        self._editor.adopt(after)
        return [operator.name for operator in before.operators if operator.name not in kept]

    # -- files, types, states and builds -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The net's name, by default its file's name without extensions."""
        return self.definition.name

    @property
    def source(self) -> str:
        """File of the graph, or "" for a net written in Python; it can be set before ``init`` is called.

        Setting it also loads the weights from the file next to it.
        """
        return self.definition.source

    @source.setter
    def source(self, path: str | os.PathLike[str]) -> None:
        self._open(path, None)

    @property
    def weights_source(self) -> str:
        """File of the weights, or "" if there is none; it can be set before ``init`` is called."""
        definition = self.definition
        if not definition.source or not any(operator.weights for operator in definition.operators):
            return ""
        return str(getattr(definition.weights, "path", definition.source))

    @weights_source.setter
    def weights_source(self, path: str | os.PathLike[str]) -> None:
        self._open(self.source, path)

    def _open(self, path: str | os.PathLike[str], weights: str | os.PathLike[str] | None) -> None:
        """Load the graph and weights from other files; if the files cannot be opened, the net does not change."""
        if not self.definition.source or self._editor.is_edited or self.weights.version or self._initialized >= 0:
            state = (
                "written, not opened"
                if not self.definition.source
                else "edited"
                if self._editor.is_edited or self.weights.version
                else "initialized"
            )
            raise StateError(
                f"another file for net {self.name!r}, which was {state}",
                rule="a net's files must be changed between opening and init, before any edit",
                fix="net = ex.open(path, weights=path)",
            )
        opened = hooks.open(path, weights=weights)
        # Assigned after everything that may fail, so the net is either unchanged or completely replaced.
        self._editor = NetEditor(opened.definition, opened.table, opened.weights)

    def unknown(self) -> list[UnknownType]:
        """Return all unknown operator types of the net, with their operators and similar known types."""
        return unknown_types(self.definition, self.table)

    @property
    def state(self) -> NetState:
        """State of the net; an edit, a replaced weight or a newly registered operator type resets it."""
        if self._initialized != self.table.version:
            return NetState.NEED_INIT
        return NetState.COMPLETE if self.session.is_built else NetState.NEED_BUILD

    def init(self) -> Self:
        """Check, before anything is computed, that every operator type is known and every weight exists.

        Raises one error that lists all problems.
        """
        if self._initialized == self.table.version:
            return self
        if self.definition.is_table:
            first = self.definition.operators[0]
            array = f"net[{first.name!r}].weights[{next(iter(first.weights), 'weight')!r}].array"
            raise graph_error(
                self.definition.source,
                None,
                f"net {self.name!r} contains only weights",
                rule="a net that is built or run must have operators that compute with its weights",
                fix=f"open the file of the graph, or read an array: {array}",
            )
        unknown = self.unknown()
        if unknown:
            raise unknown_types_error(self.definition.source, unknown, self.table)
        check = getattr(self.definition.weights, "error", None)
        if check is not None and not self.weights.are_replaced:
            raise check()
        self._initialized = self.table.version
        return self

    def build(self, *inputs: Any, **named: Any) -> Any:
        """Return the expression of the output, or a dict of expressions by name if there are several outputs.

        Inputs are expressions, arrays or shapes, passed in order, as keywords, or as one dict. A shape becomes a
        parameter with the file's dtype, whose value is passed at evaluation. Without inputs, the shapes in the file are
        used. ``build`` calls ``init`` if necessary. For the same inputs, it returns the same expressions again.
        """
        outputs = self._built(inputs, named).outputs
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def operand(self, name: str, *inputs: Any, **named: Any) -> Expr | tuple[Expr, ...] | None:
        """Return the expression of the operand ``name``; inputs are as in ``build``.

        For a sequence, return a tuple of expressions; for an absent optional, return None.
        """
        self.definition.blob(name)
        return self._built(inputs, named).output(name)

    def _built(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Build:
        """Return the build for inputs, which are as in ``build``."""
        session = self._checked_session()
        nodes = session.expressions(inputs, named)
        if session.has_build(nodes):
            _logger.info("net %r is built already for these inputs", self.name)
        return session.build(nodes)

    def build_for(self, shapes: Shapes) -> Build:
        """Return an uncached build for inputs of the given shapes; writers of files use it."""
        session = self._checked_session()
        return session.recorded(session.shaped(shapes))

    def example_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the inputs in the file, in which unknown lengths have values that the operators accept.

        Inputs that may be images get the shape of one image of a common size, and other inputs a batch of one. The
        shapes are tested by building the net, which computes nothing. ``preview_plan()`` uses them.
        """
        return dict(self.session.example_shapes(self._assumed))

    def assume(self, shapes: Mapping[str, Shape] | None = None, **named: Shape) -> Self:
        """Use the given input shapes for inspecting the net; without arguments, remove all assumptions.

        The shapes also determine named lengths of other inputs. Runs are not affected. Raise UnknownNameError for a
        name that is not an input, and OperandError for a shape that contradicts the file.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (None, 2)), "y"))
        >>> net.assume(x=(576, 2)).example_shapes()
        {'x': (576, 2)}
        """
        assumed = {**(shapes or {}), **named}
        for name, shape in assumed.items():
            if name not in self.definition.inputs:
                raise unknown_input(self.definition, name)
            if not is_shape(shape) or min(shape, default=0) < 0:
                raise OperandError(
                    f"the shape {shape!r} of input {name!r}",
                    rule="a shape must be a tuple of lengths",
                    fix=f"net.assume({{{name!r}: (1, 576)}})",
                )
        types = [(name, self.session.declared_type(name, tuple(shape))) for name, shape in assumed.items()]
        fix = "give only lengths that the file does not declare, or export the model again with an unknown length"
        check_inputs(self.definition, types, fix)
        self._assumed = {name: tuple(shape) for name, shape in assumed.items()}
        return self

    def _preview_build(self, unknown: int | None = None) -> Build:
        return self.session.preview_build(self._assumed, unknown)

    @property
    def device(self) -> Device:
        """Device to which the net was moved; else cpu, unless inputs are on another device."""
        return cpu if self._device is None else self._device

    def to_device(self, device: Device | str) -> Self:
        """From now on, build and run the net on ``device``, a device or its name; return the net.

        Weights are copied at their first use, inputs in each run, and outputs are returned as NumPy arrays. Strings
        stay on cpu. If ``to_device`` is never called, the net runs on the device of its inputs.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (2,)), "y"))
        >>> net.to_device("cpu").run(np.array([-1, 1], dtype="float32"))
        array([0., 1.], dtype=float32)
        """
        self._device = as_device(device, f"to_device of net {self.name!r}")
        return self

    def __call__(self, *inputs: Any, **named: Any) -> NoReturn:
        """Raise OperandError with the method to call."""
        is_recorded = any(isinstance(value, Expr) for value in (*inputs, *named.values()))
        arguments = ", ".join([*(["x"] if len(inputs) == 1 else ["…"] * len(inputs)), *[f"{name}=…" for name in named]])
        raise OperandError(
            f"a call of the net {self.name!r}",
            rule="a net must be run with arrays, or built with expressions",
            fix=f"net.{'build' if is_recorded else 'run'}({arguments})",
        )

    # -- planning and running ---------------------------------------------------------------------------------------

    @long_running
    def run(self, *inputs: Any, executor: str = "simple", kernels: Kernels = "numpy", **named: Any) -> Any:
        """Return the output for the given inputs, or a dict of outputs by name if there are several.

        Inputs are arrays, passed in order, as keywords, or as one dict. A list of samples is stacked into one array. If
        an input is a map in the file, pass a dict. All inputs are checked before anything is computed. An output that
        the file lists twice is returned twice, as ``y`` and ``y_2``. ``executor`` is the name of an executor, or of a
        runtime that runs the net's file ("onnxruntime", "litert", "onnx.reference"). With ``kernels="native"``,
        compiled C code computes elementwise kernels. An input with the name ``executor`` or ``kernels`` must be passed
        in order or in a dict. If the logger "explorer.net" has level DEBUG, each operator is logged when it runs.
        """
        _check_kernels(kernels, executor)
        if executor in RUNTIMES:
            results = self._runtime_run(executor).outputs(self.session.checked_arrays(inputs, named))
        else:
            check_name(executor, "executor", (*EXECUTORS, *RUNTIMES))
            results = self._results(inputs, named, executor, on_host, kernels)
        return next(iter(results.values())) if len(results) == 1 else results

    @long_running
    def run_on_device(self, inputs: Mapping[str, Any], executor: str = "simple") -> dict[str, Any]:
        """Return the outputs by name, without copying them from the device of the net; inputs are as in ``run``.

        >>> net = ex.Net("positive")
        >>> net.input("x", (2,))
        'x'
        >>> net.output(net.Relu("x", "y"))
        >>> net.run_on_device({"x": [1.0, -1.0]})
        {'y': array([1., 0.], dtype=float32)}
        """
        check_name(executor, "executor", EXECUTORS)
        return self._results((), inputs, executor, _left_on_device)

    def _results(
        self,
        inputs: tuple[Any, ...],
        named: Mapping[str, Any],
        executor: str,
        returned: Callable[[Expr, Any], Any],
        kernels: Kernels = "numpy",
    ) -> dict[str, Any]:
        """Run the net and return the outputs by name, each as ``returned(expression, value)``."""
        session = self._checked_session()
        arrays, device = session.arrays(inputs, named), session.device_of(inputs, named)
        with self._lock:
            return session.run(arrays, device, executor, returned, kernels)

    @long_running
    def profile(
        self, *inputs: Any, runs: int = 5, executor: str = "simple", kernels: Kernels = "numpy", **named: Any
    ) -> Profile:
        """Return the time, flops and bytes of each operator over ``runs`` warm runs; ``print`` shows two tables.

        Times are medians. Inputs, ``executor`` and ``kernels`` are as in ``run``; with ``executor="onnxruntime"``, the
        times are the runtime's, assigned to the operators of the net.
        """
        if type(runs) is not int or runs < 1:
            raise OperandError(f"runs={runs!r}", rule="runs must be an integer of at least 1", fix="runs=5")
        _check_kernels(kernels, executor)
        if executor in RUNTIMES:
            return self._runtime_run(executor).profile(self.session.checked_arrays(inputs, named), runs)
        check_name(executor, "executor", (*EXECUTORS, *RUNTIMES))
        session = self._checked_session()
        arrays, device = session.arrays(inputs, named), session.device_of(inputs, named)
        with self._lock:
            return session.profile(arrays, device, runs, executor, kernels)

    @long_running
    @options_of(PlanOptions)
    def plan(self, *inputs: Any, **options: Unpack[PlanOptions]) -> EvalPlan:
        """Return the prepared plan of all outputs, as used by ``run``; ``options`` are options of EvalPlan.

        ``inputs`` are as in ``build``, in order. Arrays become the parameters' values for ``plan.eval()``.
        """
        session = self._checked_session()
        nodes, arrays = session.bindable(inputs)
        build = session.build(nodes, arrays)
        if arrays:
            session.claim(build)
        settings: PlanOptions = {"title": self.name, "inference": True, **options}
        plan = EvalPlan(**settings)
        for node in build.roots:
            plan.register(node)
        plan.prepare(session.plan(build, plan.options), build.interface)
        plan.bind(bound(nodes, arrays))
        return plan


def _left_on_device(root: Expr, value: Any) -> Any:
    """Return a result as an array if it is on cpu, or as a tensor if it is on another device."""
    device = root.type.device
    if device is cpu or isinstance(value, tuple):
        return value
    return stored_tensor(Storage(value, device, shared="a result of a net uses it"), root.tensor_type, "")


_MAX_SHOWN = 60
"""maximum number of characters of one argument"""


def net_text(definition: NetDefinition) -> str:
    """Return a definition as text with one line per operator, in which control characters are made visible."""
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
    """Return the line of an operator that only stores weights, with their declared types."""
    return operator.text or _operator(operator)


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _check_kernels(kernels: Kernels, executor: str) -> None:
    """Raise UnknownNameError for an unknown value, and OperandError if a runtime is to compile kernels."""
    check_name(kernels, "kernels", get_args(Kernels))
    if kernels != "numpy" and executor in RUNTIMES:
        raise OperandError(
            f"kernels={kernels!r} with executor={executor!r}",
            rule="only Explorer's executors compile kernels: the runtime has its kernels already",
            fix=f"remove kernels={kernels!r}",
        )
