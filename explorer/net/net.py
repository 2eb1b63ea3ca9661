"""Net: a program that a file holds, to look at, build, run, cut and plan."""

from __future__ import annotations

import enum
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import ExplorerError, OperandError
from explorer.core.expr import Expr, surrounded
from explorer.core.function import Parameter
from explorer.core.hooks import hooks
from explorer.core.progress import work
from explorer.core.tensor import tensor
from explorer.core.types import TensorType
from explorer.net.builder import Build
from explorer.net.cut import cut
from explorer.net.definition import BlobDefinition, NetDefinition, graph_error
from explorer.net.editable import EditableNet
from explorer.net.findings import UnknownType, ends, find, fitting_length, nodes_of, unknown_types
from explorer.net.given import as_array, named_inputs
from explorer.net.operator import NetOperator
from explorer.net.shapes import check_inputs, is_open, noted_dtype, shape_text
from explorer.net.table import OperatorTable
from explorer.plan.planner import plan
from explorer.run.evalplan import EvalPlan
from explorer.run.executors import EXECUTORS
from explorer.run.program import Program

_logger = logging.getLogger("explorer.net")
_KEPT = 4
"""builds and programs that are kept for inputs of other types"""


class NetState(enum.Enum):
    """How far a net is: init checks types and weights, build records expressions."""

    NEED_INIT = "NeedInit"
    NEED_BUILD = "NeedBuild"
    COMPLETE = "Complete"


class Net(EditableNet):
    """Operators over named operands, made of a definition and the table of its format's operator types.

    Everything is found by name: operators ``net["conv1"]``, inputs, outputs and operands. Looking at a net computes
    nothing and needs no known operator types. ``Net("mlp")`` is an empty one, to be written by operators' names::

        net = ex.Net("mlp")
        net.input("x", (None, 4))
        net.GivenTensorFill([], "w", values=w)
        net.Relu(net.FC(["x", "w"], "h"), "h")  # in place; help(net.FC), net.types()
        net.output("h")
        net.run(x)
        net.save("mlp.json")

    Every net is edited by ``add``, ``insert``, ``remove``, ``replace``, ``rewire``, ``rename`` and ``prune``.
    """

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._initialized = -1
        self._version = (0, 0, 0)
        self._builds: dict[Any, Build] = {}
        self._parameters: dict[tuple[str, TensorType], Expr] = {}
        self._programs: dict[tuple[TensorType, ...], tuple[Program, Build]] = {}
        self._open_length: int | None = None
        self._lock = threading.Lock()

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The net's name: its file's, without endings."""
        return self.definition.name

    @property
    def inputs(self) -> dict[str, BlobDefinition]:
        """The operands given from outside, by name in the file's order, with what the file notes of their types."""
        return {name: self.definition.input(name) for name in self.definition.inputs}

    @property
    def outputs(self) -> dict[str, BlobDefinition]:
        """The operands that the net hands out, by name in the file's order."""
        return {name: self.definition.blob(name) for name in self.definition.outputs}

    @property
    def operands(self) -> Mapping[str, BlobDefinition]:
        """All operands by name: shape and dtype notes, producer, consumers."""
        return self.definition.blobs

    @property
    def operators(self) -> dict[str, NetOperator]:
        """All operators by name, in the file's order."""
        return {operator.name: NetOperator(operator, self.weights) for operator in self.definition.operators}

    def __getitem__(self, name: str) -> NetOperator:
        return NetOperator(self.definition.operator(name), self.weights)

    def __contains__(self, name: object) -> bool:
        return any(operator.name == name for operator in self.definition.operators)

    def unknown(self) -> list[UnknownType]:
        """All operator types of the net that explorer does not know, each with its operators and near known types."""
        return unknown_types(self.definition, self.table)

    def problems(self) -> dict[str, ExplorerError]:
        """Why operators cannot run, by name: unknown types, operands or arguments that do not fit; reads no weight."""
        return self._look().problems

    def check(self) -> list[str]:
        """Everything that keeps the net from running, and types that the file notes otherwise; reads all weights."""
        return find(self._look(), self.table)

    def nodes(self, name: str) -> list[Expr]:
        """The expressions in ``look()`` of an operator, operand or weight; UnknownNameError lists near names."""
        return nodes_of(name, self._look(), self._builder)

    # -- building --------------------------------------------------------------------------------------------------

    @property
    def state(self) -> NetState:
        """How far the net is; editing it, replacing a weight or registering an operator type takes it back."""
        if self._initialized != self.table.version:
            return NetState.NEED_INIT
        return NetState.COMPLETE if self._builds and self._version == self._now() else NetState.NEED_BUILD

    def init(self) -> Net:
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

    @work()
    def _build(self, inputs: dict[str, Expr]) -> Build:
        if not self.definition.outputs:
            raise OperandError(
                f"net {self.name!r} has no outputs", rule="a net is built for its outputs", fix='net.output("y")'
            )
        self.init()
        self._refresh()
        key = tuple(node.uid for node in inputs.values())
        if key in self._builds:
            _logger.info("net %r is built already for these inputs", self.name)
            return self._builds[key]
        check_inputs(self.definition, {name: node.tensor_type for name, node in inputs.items()})
        build = self._builder.build(inputs)
        _keep(self._builds, key, build)
        return build

    def _now(self) -> tuple[int, int, int]:
        return self.table.version, self.weights.version, self._edits

    def _refresh(self) -> None:
        if self._version != self._now():
            self._builds.clear()
            self._open_length = None
            self._programs.clear()
            self._version = self._now()

    def _expressions(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Expr]:
        if not inputs and not named:
            return {
                name: self._parameter(name, self._noted(name, self._shape(name, None)))
                for name in self.definition.inputs
            }
        given = named_inputs(self.definition, inputs, named)
        return {name: self._expression(name, value) for name, value in given.items()}

    def _expression(self, name: str, value: Any) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
            return self._parameter(name, self._noted(name, value))
        array = as_array(self.definition.input(name), value)
        with surrounded(None, None):
            return tensor(array, name=name)

    def _noted(self, name: str, shape: tuple[int, ...]) -> TensorType:
        dtype = noted_dtype(self.definition.input(name))
        return TensorType(shape, np.dtype(np.float32) if dtype is None else dtype)

    def _parameter(self, name: str, kind: TensorType) -> Expr:
        """The parameter of an input and type: one node, however often it is asked for."""
        key = name, kind
        if key not in self._parameters:
            with surrounded(None, None):
                self._parameters[key] = Parameter(kind, name)()
        return self._parameters[key]

    def _shape(self, name: str, unknown: int | None) -> tuple[int, ...]:
        blob = self.definition.input(name)
        found = [size if isinstance(size, int) else unknown for size in blob.shape or ()]
        known = tuple(size for size in found if size is not None)
        if blob.shape is None or len(known) < len(found):
            raise OperandError(
                f"net {self.name!r} without inputs: the file notes {shape_text(blob.shape)} for {name!r}",
                rule="without inputs a net is built for the file's shapes, where it tells them all",
                fix="give the shapes or the inputs: net.build((1, …))",
            )
        return known

    # -- running ---------------------------------------------------------------------------------------------------

    @work()
    def run(self, *inputs: Any, **named: Any) -> Any:
        """The outputs for arrays given in order or by name (keywords, or one dict): one alone, else a dict by name.

        Number, names, shapes and dtypes are checked before anything is computed. The plan is kept for the next run.
        """
        arrays = {
            name: as_array(self.definition.input(name), value)
            for name, value in named_inputs(self.definition, inputs, named).items()
        }
        types = {name: TensorType(array.shape, array.dtype) for name, array in arrays.items()}
        self.init()
        check_inputs(self.definition, types)
        with self._lock:
            program, build = self._program(types)
            program.bind({build.inputs[name]: array for name, array in arrays.items()})
            EXECUTORS["simple"](program, None)
            values = program.take()
        results = dict(zip(self.definition.outputs, values, strict=True))
        return next(iter(results.values())) if len(results) == 1 else results

    def _program(self, types: Mapping[str, TensorType]) -> tuple[Program, Build]:
        self._refresh()
        key = tuple(types.values())
        if key not in self._programs:
            build = self._build({name: self._parameter(name, kind) for name, kind in types.items()})
            _keep(self._programs, key, (Program(plan(list(build.outputs.values()))), build))
        return self._programs[key]

    def plan(self, *inputs: Any, **options: Any) -> EvalPlan:
        """A prepared plan of all outputs; ``options`` are those of EvalPlan, ``inputs`` those of build, in order."""
        return self._planned(self._build(self._expressions(inputs, {})), **options)

    def _planned(self, build: Build, **options: Any) -> EvalPlan:
        made = EvalPlan(**{"title": self.name, **options})
        for node in build.outputs.values():
            made.register(node)
        return made.prepare()

    # -- showing ---------------------------------------------------------------------------------------------------

    def look(self, *, unknown: int | None = None, **options: Any) -> EvalPlan:
        """A prepared plan to be looked at, of every operator, those too that cannot run; nothing is read or computed.

        ``unknown`` stands for every length that the file leaves open; the title says so. For None it is the first of
        1, 2, 16 and 64 for which the operators fit one another.
        """
        build = self._look(unknown)
        length = self._open_length if unknown is None else unknown
        title = f"{self.name} (? = {length})" if is_open(self.definition) else self.name
        made = EvalPlan(**{"title": title, "record": "off", **options})
        roots = ends(build)
        if not roots:
            raise OperandError(
                f"net {self.name!r} holds no tensor that could be drawn",
                rule="an output, or what an operator makes, has a type",
            )
        for node in roots:
            made.register(node)
        return made.prepare()

    @work()
    def _look(self, unknown: int | None = None) -> Build:
        self._refresh()
        if unknown is None:
            unknown = self._open_length = self._open_length or fitting_length(self.definition, self.table, self._look)
        key = "look", unknown
        if key not in self._builds:
            inputs = {
                name: self._parameter(name, self._noted(name, self._shape(name, unknown)))
                for name in self.definition.inputs
            }
            _keep(self._builds, key, self._builder.build(inputs, opaque=True))
        return self._builds[key]

    @work()
    def explore(self, x: Any = None, **options: Any) -> Any:
        """A view of the net's graph and its plan; with inputs (an array, a dict, or a tuple) also of all values."""
        if x is None:
            return hooks.explore(self.look(), **options)
        given = x if isinstance(x, tuple) else (x,)
        made = self.plan(*given, record="values")
        return hooks.explore(made.eval(), **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the net with its weights: ``x.json`` and ``x.npz``, or ``x.param`` and ``x.bin`` of PNNX."""
        hooks.save(self, path)

    def cut(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Net:
        """The net between operands: ``inputs`` are given from outside, ``outputs`` handed out; None keeps its own."""
        part = Net(cut(self.definition, inputs, outputs), self.table)
        part._weights = self.weights
        return part

    def __repr__(self) -> str:
        reads = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.inputs.items())
        writes = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.outputs.items())
        count = len(self.definition.operators)
        return f"<net {self.name!r}: {count} operators, {reads or 'nothing'} → {writes}, {self.state.value}>"


def _keep(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Enter a value; the oldest goes when there are too many."""
    table[key] = value
    if len(table) > _KEPT:
        del table[next(iter(table))]
