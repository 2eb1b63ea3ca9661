"""A net that is checked and built: its expressions, kept for as long as nothing they rest on changes."""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from explorer.core.errors import OperandError, StateError
from explorer.core.hooks import hooks
from explorer.core.ir.expr import Expr, recording_at
from explorer.core.ir.function import Parameter
from explorer.core.ir.policy_operations import in_force
from explorer.core.ir.tensor import tensor
from explorer.core.progress import long_running
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.net.building.builder import Build
from explorer.net.building.diagnostics import UnknownType, unknown_types
from explorer.net.building.example_shapes import Shapes, fitting, same_shapes, whole_shapes
from explorer.net.building.inputs import as_array, is_shape, named_inputs
from explorer.net.definition.definition import NetDefinition, graph_error
from explorer.net.definition.shape_notes import check_inputs, noted_dtype
from explorer.net.editable import EditableNet
from explorer.net.operators.table import OperatorTable

_logger = logging.getLogger("explorer.net")
KEPT = 4
"""builds, plans and programs that are kept for inputs of other types"""


class NetState(enum.Enum):
    """How far a net is: init checks types and weights, build records expressions."""

    NEED_INIT = "NeedInit"
    NEED_BUILD = "NeedBuild"
    COMPLETE = "Complete"


class BuildableNet(EditableNet):
    """An editable net with its state, and the expressions that were built of it."""

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._initialized = -1
        self._version = (0, 0, 0)
        self._builds: dict[Any, Build] = {}
        self._parameters: dict[tuple[str, TensorType], Expr] = {}
        self._fitting: dict[str, Shape] | None = None

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
        """Take graph and weights from other files; nothing changes where they cannot be opened."""
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
                rule="a net's files can be changed between opening and init, before any edit",
                fix="net = ex.open(path, weights=path)",
            )
        opened = hooks.open(path, weights=weights)
        self.table, self._definition, self._weights = opened.table, opened.definition, opened.weights
        self._made = None
        self._forget()

    def unknown(self) -> list[UnknownType]:
        """All operator types of the net that explorer does not know, each with its operators and near known types."""
        return unknown_types(self.definition, self.table)

    @property
    def state(self) -> NetState:
        """How far the net is; editing it, replacing a weight or registering an operator type takes it back."""
        if self._initialized != self.table.version:
            return NetState.NEED_INIT
        return NetState.COMPLETE if self._builds and self._version == self._now() else NetState.NEED_BUILD

    def init(self) -> Self:
        """Check, before anything is computed, that every operator type is known and every weight there.

        Raises one error that lists all that are not.
        """
        if self._initialized == self.table.version:
            return self
        unknown = self.unknown()
        if unknown:
            raise graph_error(
                self.definition.source,
                None,
                f"{len(unknown)} unknown operator types\n    " + "\n    ".join(map(str, unknown)),
                rule="a net runs when all its operator types are known; net.types() lists those that are",
                fix=f"register each: {self.table.registration(unknown[0].type)}; "
                "net.explore() shows the net all the same",
            )
        check = getattr(self.definition.weights, "error", None)
        if check is not None and not self.weights.are_replaced:
            raise check()
        self._initialized = self.table.version
        return self

    def build(self, *inputs: Any, **named: Any) -> Any:
        """The expressions of the outputs: one alone, else a dict by name.

        ``inputs``, in order or by name (as keywords or one dict), are expressions, arrays, or shapes: a shape makes a
        parameter of the file's dtype, whose value is given when the expressions are evaluated. Without any, the
        file's own shapes are used. Inits when that was not done. Built again for the same inputs it says so and
        returns what there is.
        """
        build = self._build(self._expressions(inputs, named))
        found = build.outputs
        return next(iter(found.values())) if len(found) == 1 else found

    def operand(self, name: str, *inputs: Any, **named: Any) -> Expr:
        """The expression of any operand by name, built for these inputs as ``build`` does."""
        self.definition.blob(name)
        return self._build(self._expressions(inputs, named)).output(name)

    @long_running()
    def _build(self, inputs: dict[str, Expr]) -> Build:
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
                f"net {self.name!r} has no outputs", rule="a net is built for its outputs", fix='net.output("y")'
            )
        self.init()
        self._refresh()
        key = tuple(node.uid for node in inputs.values()), in_force()
        if key in self._builds:
            _logger.info("net %r is built already for these inputs", self.name)
            return self._builds[key]
        check_inputs(self.definition, {name: node.tensor_type for name, node in inputs.items()})
        build = self._builder.build(inputs)
        keep(self._builds, key, build)
        return build

    def _now(self) -> tuple[int, int, int]:
        return self.table.version, self.weights.version, self._edits

    def _refresh(self) -> None:
        if self._version != self._now():
            self._forget()
            self._version = self._now()

    def _forget(self) -> None:
        """Drop what rests on the operators and weights that were there before."""
        self._builds.clear()
        self._fitting = None

    def _expressions(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Expr]:
        if not inputs and not named:
            return self._shaped(whole_shapes(self.definition))
        given = named_inputs(self.definition, inputs, named)
        return {name: self._expression(name, value) for name, value in given.items()}

    def _expression(self, name: str, value: Any) -> Expr:
        if isinstance(value, Expr):
            return value
        if is_shape(value):
            return self._parameter(name, self._noted(name, value))
        array = as_array(self.definition.input(name), value)
        with recording_at(None, None):
            return tensor(array, name=name)

    def _noted(self, name: str, shape: tuple[int, ...]) -> TensorType:
        dtype = noted_dtype(self.definition.input(name))
        return TensorType(shape, np.dtype(np.float32) if dtype is None else dtype)

    def _parameter(self, name: str, type_: TensorType) -> Expr:
        """The parameter of an input and type: one node, however often it is asked for."""
        key = name, type_
        if key not in self._parameters:
            with recording_at(None, None):
                self._parameters[key] = Parameter(type_, name)()
        return self._parameters[key]

    def _shaped(self, shapes: Shapes) -> dict[str, Expr]:
        return {name: self._parameter(name, self._noted(name, shape)) for name, shape in shapes.items()}

    # -- looking ---------------------------------------------------------------------------------------------------

    def example_shapes(self) -> dict[str, Shape]:
        """The inputs' shapes as the file notes them, with lengths that the operators accept where it leaves them open.

        These are one picture of a usual size where an input may be a picture, else a batch of one; tried, not
        computed. ``preview_plan()`` draws the net for them.
        """
        self._refresh()
        if self._fitting is None:

            def build(shapes: Shapes) -> Build:
                return self._builder.build(self._shaped(shapes), opaque=True)

            self._fitting = fitting(self.definition, self.table, build)
        return dict(self._fitting)

    @long_running()
    def _preview_build(self, unknown: int | None = None) -> Build:
        self._refresh()
        shapes = self.example_shapes() if unknown is None else same_shapes(self.definition, unknown)
        key = "look", *shapes.values(), in_force()
        if key not in self._builds:
            keep(self._builds, key, self._builder.build(self._shaped(shapes), opaque=True))
        return self._builds[key]


def keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Enter a value; the oldest goes when there are too many."""
    table[key] = value
    if len(table) > KEPT:
        del table[next(iter(table))]
