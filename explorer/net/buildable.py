"""Nets with checked and built expressions, which are kept until a change of the net makes them invalid.

The middle layer of ``ex.Net``: editing is below it (editable.py), running and views above (net.py). Builds are cached
by input types, since tracing a large file again for every run would take longer than the run.
"""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from explorer.core.errors import OperandError, StateError
from explorer.core.ir.expr import Expr, runs_on
from explorer.core.ir.function import Parameter
from explorer.core.ir.hooks import hooks
from explorer.core.ir.policy_operations import in_force
from explorer.core.ir.recording_context import operator_of, placed_on, recording_at
from explorer.core.ir.tensor import tensor
from explorer.core.ir.traversal import reachable
from explorer.core.progress import long_running
from explorer.core.tracing.captures import note
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.tensor_type import Array, Shape, TensorType
from explorer.net.building.builder import Build
from explorer.net.building.containers import EXAMPLE_MEMBERS, each_leaf, key_of, leaves, named_leaves
from explorer.net.building.diagnostics import UnknownType, unknown_types, unknown_types_error
from explorer.net.building.example_shapes import Shapes, fitting, no_input, not_held, same_shapes, whole_shapes
from explorer.net.building.inputs import as_array, as_value, is_shape, is_symbolic, named_inputs
from explorer.net.building.values_as_shapes import Questions
from explorer.net.definition.definition import NetDefinition, graph_error
from explorer.net.definition.shape_notes import check_inputs, noted_dtype
from explorer.net.editable import EditableNet
from explorer.net.operators.table import OperatorTable

_ASSUMED_TEXT = np.dtype((np.str_, 16))
"""the dtype of an input of texts that are not known yet"""


def _check_kernels(build: Build) -> None:
    """Raise an error that names the first operator with an operation that its device cannot do.

    Without it a net on a GPU would fail in the middle of a run, after minutes perhaps, with an error that names an
    operation and no line of the file.
    """
    for node in reachable(build.roots):
        device = node.type.device
        if device is cpu or runs_on(node.operation, device):
            continue
        operator = operator_of(node.scope)
        which = "" if operator is None else f"operator {operator.name!r} ({operator.type}): "
        raise graph_error(
            build.definition.source,
            operator,
            f"{which}{node.operation.name} on {device.name}",
            rule="an operation must have a kernel registered for the device that it runs on",
            fix=f"net.to_device('cpu'), or @explorer.kernel({node.operation.name!r}, on={device.name})",
        )


_logger = logging.getLogger("explorer.net")
KEPT = 4
"""maximum number of builds, plans and programs kept for different input types"""


class NetState(enum.Enum):
    """State of a net: init checks types and weights, build records expressions."""

    NEED_INIT = "NeedInit"
    NEED_BUILD = "NeedBuild"
    COMPLETE = "Complete"

    @property
    def words(self) -> str:
        """The state in words, as ``repr`` of a net shows it."""
        return {"NeedInit": "not checked yet", "NeedBuild": "checked", "Complete": "built"}[self.value]


class BuildableNet(EditableNet):
    """Editable net with its state and the expressions built from it."""

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._device: Device | None = None
        """the device that was asked for; None follows the inputs"""
        self._initialized = -1
        self._version = (0, 0, 0)
        self._builds: dict[Any, Any] = {}
        """inputs → their build, or the first question about their values"""
        self._parameters: dict[tuple[str, TensorType], Expr] = {}
        self._fitting: dict[str, Shape] | None = None
        self._assumed: dict[str, Shape] = {}
        """shapes of inputs to look at the net with"""

    @property
    def name(self) -> str:
        """The net's name: its file's, without endings."""
        return self.definition.name

    @property
    def source(self) -> str:
        """The file that holds the graph, "" for a net that was written; before init it may be set to another file.

        Then the weights are those beside that file.
        """
        return self.definition.source

    @source.setter
    def source(self, path: str | os.PathLike[str]) -> None:
        self._open(path, None)

    @property
    def weights_source(self) -> str:
        """The file that holds the weights, "" where there is none; before init it may be set to another file."""
        definition = self.definition
        if not definition.source or not any(operator.weights for operator in definition.operators):
            return ""
        return str(getattr(definition.weights, "path", definition.source))

    @weights_source.setter
    def weights_source(self, path: str | os.PathLike[str]) -> None:
        self._open(self.source, path)

    def _open(self, path: str | os.PathLike[str], weights: str | os.PathLike[str] | None) -> None:
        """Load graph and weights from other files; nothing changes if they cannot be opened."""
        if not self.definition.source or self._edits or self.weights.version or self._initialized >= 0:
            was = (
                "written, not opened"
                if not self.definition.source
                else "edited"
                if self._edits or self.weights.version
                else "initialised"
            )
            raise StateError(
                f"another file for net {self.name!r}, which was {was}",
                rule="a net's files must be changed between opening and init, before any edit",
                fix="net = ex.open(path, weights=path)",
            )
        opened = hooks.open(path, weights=weights)
        # Only after all that may fail: a net is the old one or the new one.
        self.table, self._definition, self._weights = opened.table, opened.definition, opened.weights
        self._cached_builder = None
        self._forget()

    def unknown(self) -> list[UnknownType]:
        """Return all unknown operator types of the net, with their operators and similar known types."""
        return unknown_types(self.definition, self.table)

    @property
    def state(self) -> NetState:
        """State of the net; editing it, replacing a weight or registering an operator type resets it."""
        if self._initialized != self.table.version:
            return NetState.NEED_INIT
        return NetState.COMPLETE if self._builds and self._version == self._now() else NetState.NEED_BUILD

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
                f"net {self.name!r} consists of weights alone",
                rule="a net that is built or run must have operators that compute with its weights",
                fix=f"open the file of the graph, or take an array: {array}",
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
        """Return the expressions of the outputs: a single one, or a dict by name.

        ``inputs``, in order or by name (as keywords or one dict), are expressions, arrays, or shapes; a shape becomes a
        parameter of the file's dtype, whose value is passed at evaluation. Without inputs the file's shapes are used.
        Calls init if necessary. A second call for the same inputs logs this and returns the same expressions.
        """
        build = self._build(self._expressions(inputs, named))
        outputs = build.outputs
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def operand(self, name: str, *inputs: Any, **named: Any) -> Expr | tuple[Expr, ...] | None:
        """Return the expression of any operand by name, built for these inputs as ``build`` does.

        It is a tuple for a sequence, and None for an optional that is absent.
        """
        self.definition.blob(name)
        return self._build(self._expressions(inputs, named)).output(name)

    @long_running
    def _build(self, inputs: dict[str, Any], arrays: Mapping[Expr, Array] | None = None) -> Build:
        """Return the expressions over inputs; ``arrays`` are values of those that are parameters.

        Raises UnknownShapeError, with the operator's place, where a shape depends on values of parameters without one.
        """
        self.init()
        if not self.definition.operators and not self.definition.outputs:
            raise graph_error(
                self.definition.source,
                None,
                f"net {self.name!r} has no operators",
                rule="a net that is built must have an operator, or hand out an input",
                fix='net.Relu("x", "y"), or open the file that the exporter wrote',
            )
        if not self.definition.outputs:
            raise OperandError(
                f"net {self.name!r} has no outputs", rule="a net must have an output to be built", fix='net.output("y")'
            )
        self._refresh()
        now = self._now()
        note(lambda: self._now() == now)
        # By uid: a parameter of one name and type is one node (`_parameter`), so that equal types find the same build.
        key = key_of(inputs.values(), lambda node: node.uid), in_force()
        questions = Questions(self._builds, key, arrays or {}, keep)
        build = questions.build
        if build is not None:
            if not questions.values:
                _logger.info("net %r is built already for these inputs", self.name)
            return build
        check_inputs(self.definition, [(name, node.tensor_type) for name, node in named_leaves(inputs)])
        build = self._recorded(inputs, ask=questions.ask)
        build.values_first = questions.values_first(build)
        questions.keep(build)
        return build

    def _now(self) -> tuple[int, int, int]:
        return self.table.version, self.weights.version, self._edits

    def _refresh(self) -> None:
        if self._version != self._now():
            self._forget()
            self._version = self._now()

    def _forget(self) -> None:
        """Drop everything derived from the previous operators and weights."""
        self._builds.clear()
        self._fitting = None

    def _expressions(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        if not inputs and not named:
            return self._shaped(whole_shapes(self.definition))
        values = named_inputs(self.definition, inputs, named)
        device = self._place_of(values.values())
        return {name: self._expression(name, value, device) for name, value in values.items()}

    def _expression(self, name: str, value: Any, device: Device) -> Any:
        """Return an input's expression: a passed one, a parameter for a shape, a tensor on a device for an array."""
        blob = self.definition.input(name)
        if blob.is_sequence and is_shape(value) and value:
            value = (value,) * EXAMPLE_MEMBERS
        elif not is_symbolic(blob, value):
            value = as_value(blob, value)

        def leaf(own: str, value: Any) -> Expr:
            if isinstance(value, Expr):
                return value
            if is_shape(value):
                return self._parameter(own, self._noted(name, value))
            with recording_at(None, None):
                return tensor(as_array(blob, value), name=own, device=device)

        if not blob.is_sequence:
            return None if value is None else leaf(name, value)
        return value and tuple([leaf(f"{name}[{place}]", member) for place, member in enumerate(value)])

    def _parameters_for(self, name: str, value: Any, device: Device) -> Any:
        """Return the parameter of an input's array on a device, or of each array of a sequence."""
        return each_leaf(
            name, value, lambda own, array: self._parameter(own, self._type_on(device, array.shape, array.dtype))
        )

    def _parameter(self, name: str, type_: TensorType) -> Expr:
        """Return the parameter of an input and type, the same node at every call."""
        key = name, type_
        if key not in self._parameters:
            with recording_at(None, None):
                # Outside of any scope: the node is kept for all builds, and must not stand in a box of the first.
                self._parameters[key] = Parameter(type_, name)()
        return self._parameters[key]

    def _shaped(self, shapes: Shapes) -> dict[str, Any]:
        """Return parameters of these shapes; a sequence has some members of its shape."""
        inputs = {}
        for name, shape in shapes.items():
            try:
                type_ = self._noted(name, shape)
            except OperandError as error:
                raise not_held(self.definition, name, error) from error
            is_sequence = self.definition.input(name).is_sequence
            example: Any = (type_,) * EXAMPLE_MEMBERS if is_sequence else type_
            inputs[name] = each_leaf(name, example, self._parameter)
        return inputs

    def build_for(self, shapes: Shapes) -> Build:
        """Return a build for inputs of these shapes, which is not kept: for writers of files."""
        self.init()
        self._refresh()
        return self._recorded(self._shaped(shapes))

    # -- looking ---------------------------------------------------------------------------------------------------

    def example_shapes(self) -> dict[str, Shape]:
        """Return the inputs' shapes noted in the file, with lengths that the operators accept for unknown ones.

        An input that may be a picture gets one picture of a usual size, others a batch of one. Shapes are tried out by
        building, without computing. ``preview_plan()`` draws the net for them.
        """
        self._refresh()
        if self._fitting is None:

            def build(shapes: Shapes) -> Build:
                return self._recorded(self._shaped(shapes), opaque=True)

            self._fitting = fitting(self.definition, self.table, build, self._assumed)
        return dict(self._fitting)

    def assume(self, shapes: Mapping[str, Shape] | None = None, **named: Shape) -> Self:
        """Look at the net from now on with these shapes of inputs, not with lengths that fit; without any, as before.

        Other inputs have the lengths that the names of dimensions bind, else lengths that fit. Runs are as ever. Raises
        UnknownNameError for a name that is no input's, OperandError for a shape that contradicts the file.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (None, 2)), "y"))
        >>> net.assume(x=(576, 2)).example_shapes()
        {'x': (576, 2)}
        """
        assumed = {**(shapes or {}), **named}
        for name, shape in assumed.items():
            if name not in self.definition.inputs:
                raise no_input(self.definition, name)
            if not is_shape(shape) or min(shape, default=0) < 0:
                raise OperandError(
                    f"the shape {shape!r} of input {name!r}",
                    rule="a shape must be a tuple of lengths",
                    fix=f"net.assume({{{name!r}: (1, 576)}})",
                )
        types = [(name, self._noted(name, tuple(shape))) for name, shape in assumed.items()]
        fix = "give lengths that the file leaves open; another length needs the model exported anew, with it open"
        check_inputs(self.definition, types, fix)
        self._assumed, self._fitting = {name: tuple(shape) for name, shape in assumed.items()}, None
        return self

    @long_running
    def _preview_build(self, unknown: int | None = None) -> Build:
        self._refresh()
        shapes = self.example_shapes() if unknown is None else same_shapes(self.definition, unknown, self._assumed)
        # A build for looking at may hold opaque operations, and is never run.
        key = "look", *shapes.values(), in_force()
        if key not in self._builds:
            keep(self._builds, key, self._recorded(self._shaped(shapes), opaque=True))
        build: Build = self._builds[key]
        return build

    @property
    def device(self) -> Device:
        """Device that the net was moved to; else cpu, unless inputs lie elsewhere."""
        return cpu if self._device is None else self._device

    def to_device(self, device: Device | str) -> Self:
        """Build and run the net on a device, or on the one of a name, from now on; return the net.

        Each weight is copied there once, at its first use; arrays are copied there as inputs, and outputs come back as
        NumPy's. Texts stay on cpu. A net that was not moved runs where its inputs are, if they are tensors on a device.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (2,)), "y"))
        >>> net.to_device("cpu").run(np.array([-1, 1], dtype="float32"))
        array([0., 1.], dtype=float32)
        """
        self._device = as_device(device, f"to_device of net {self.name!r}")
        # Expressions name their device: all builds are of the old one.
        self._forget()
        return self

    def _recorded(self, inputs: dict[str, Any], **options: Any) -> Build:
        """Record the expressions over inputs, with weights and constants on the device where the inputs are."""
        device = self._device_for(leaves(inputs.values()))
        with placed_on(device):
            build = self._builder.build(inputs, **options)
        if device is not cpu and not options.get("opaque"):
            _check_kernels(build)
        return build

    def _device_for(self, values: Iterable[Any]) -> Device:
        """Return the device that the net was moved to, else the one of tensors and expressions among its inputs.

        Raises OperandError where one lies elsewhere.
        """
        numbers = [value for value in values if isinstance(value, Expr) and not is_text(value.dtype)]
        device = self._place_of(numbers)
        other = next((value for value in numbers if value.device is not device), None)
        if other is not None:
            raise OperandError(
                f"an input on {other.device.name}, {other!r}, for net {self.name!r} on {device.name}",
                rule="all inputs that are tensors or expressions must lie where the net runs",
                fix=f"x.to_device({device.name!r})",
            )
        return device

    def _place_of(self, values: Iterable[Any]) -> Device:
        """Return the device that the net was moved to, else the first one other than cpu of expressions."""
        there = (value.device for value in values if isinstance(value, Expr))
        return self._device or next((device for device in there if device is not cpu), cpu)

    def _noted(self, name: str, shape: tuple[int, ...]) -> TensorType:
        dtype = noted_dtype(self.definition.input(name))
        if dtype is not None and is_text(dtype):
            dtype = _ASSUMED_TEXT
        return self._type_on(self.device, shape, np.dtype(np.float32) if dtype is None else dtype)

    def _type_on(self, device: Device, shape: Shape, dtype: np.dtype[Any]) -> TensorType:
        """Return the type of an input on a device; texts stay on cpu."""
        return TensorType(shape, dtype, cpu if is_text(dtype) else device)


def keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Add a value to a table; the oldest is removed if there are too many."""
    table[key] = value
    if len(table) > KEPT:
        # Dicts keep the order of insertion: the first key is the oldest.
        del table[next(iter(table))]
