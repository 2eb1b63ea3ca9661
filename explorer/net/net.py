"""Net: a model file's program, to inspect, build, run, cut and plan.

The class that ``ex.open`` returns, on top of editing (editable.py) and building (buildable.py). Plans and programs are
kept per input types, so that repeated runs cost only their kernels.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from explorer.core.argument_checks import check_name
from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import hooks
from explorer.core.ir.policy_operations import in_force
from explorer.core.memory_budget import claim_memory
from explorer.core.progress import long_running
from explorer.core.types.tensor_type import Array, TensorType
from explorer.net.buildable import BuildableNet, keep
from explorer.net.building.builder import Build
from explorer.net.building.diagnostics import ends, find_problems, nodes_of
from explorer.net.building.example_shapes import assumptions, whole_shapes
from explorer.net.building.inputs import as_array, is_shape, named_inputs
from explorer.net.definition.definition import BlobDefinition, NetDefinition
from explorer.net.definition.shape_notes import check_inputs, shape_text
from explorer.net.definition.subgraph import cut
from explorer.net.operator_handle import NetOperator
from explorer.net.operators.table import OperatorTable
from explorer.net.printer import net_text
from explorer.net.profile import Profile, profile
from explorer.net.run_log import run_log
from explorer.plan.passes import ShapeValues
from explorer.plan.pipeline import Step
from explorer.plan.planner import Options, Plan, plan
from explorer.plan.rewrite.rule import Rule
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.fork_locks import renew_in_children
from explorer.record.gc_pause import gc_paused
from explorer.run.evalplan import EvalPlan
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program


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

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> dict[str, BlobDefinition]:
        """The operands given from outside, by name in the file's order, with their noted types."""
        return {name: self.definition.input(name) for name in self.definition.inputs}

    @property
    def outputs(self) -> dict[str, BlobDefinition]:
        """The operands that the net returns, by name in the file's order."""
        return {name: self.definition.blob(name) for name in self.definition.outputs}

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

    # -- running ---------------------------------------------------------------------------------------------------

    @long_running()
    def run(self, *inputs: Any, executor: str = "simple", **named: Any) -> Any:
        """Return the outputs for arrays given in order or by name (keywords, or one dict): a single one, or a dict.

        A list of samples is stacked to one array. Number, names, shapes and dtypes are checked before anything is
        computed. The plan is kept for the next run. ``executor`` is that of a plan; an input of this name must be given
        in order, or in a dict. With the logger "explorer.net" at level DEBUG each operator is logged as it runs.
        """
        check_name(executor, "executor", EXECUTORS)
        arrays = {
            name: as_array(self.definition.input(name), value)
            for name, value in named_inputs(self.definition, inputs, named).items()
        }
        types = {name: TensorType(array.shape, array.dtype) for name, array in arrays.items()}
        self.init()
        check_inputs(self.definition, types)
        # A program has one table of values and one arena, so that a net runs for one thread at a time.
        with self._lock:
            program, build = self._program(arrays, Options(lanes=EXECUTORS[executor].lanes))
            program.bind({build.inputs[name]: array for name, array in arrays.items()})
            EXECUTORS[executor].run(program, run_log(program, self._builder))
            values = program.take()
        results = dict(zip(build.outputs, values, strict=True))  # a net may hand out one operand twice
        return next(iter(results.values())) if len(results) == 1 else results

    @long_running()
    def profile(self, *inputs: Any, runs: int = 5, executor: str = "simple", **named: Any) -> Profile:
        """Return the times of the operators in some warm runs, with arithmetic and bytes; ``print`` shows two tables.

        Inputs and executor are those of ``run``.
        """
        if type(runs) is not int or runs < 1:
            raise OperandError(f"runs={runs!r}", rule="runs must be a whole number of 1 or more", fix="runs=5")
        self.run(*inputs, executor=executor, **named)
        arrays = {
            name: as_array(self.definition.input(name), value)
            for name, value in named_inputs(self.definition, inputs, named).items()
        }
        with self._lock:
            program, build = self._program(arrays, Options(lanes=EXECUTORS[executor].lanes))
            timings = []
            for _ in range(runs):
                program.bind({build.inputs[name]: array for name, array in arrays.items()})
                timings.append(EXECUTORS[executor].run(program, None))
                program.forget()
        return profile(program, self._builder, timings)

    def _program(self, arrays: Mapping[str, Array], options: Options) -> tuple[Program, Build]:
        self._refresh()
        # Whatever a plan depends on besides the net itself, whose changes empty the table.
        key: Any = (
            tuple([(array.shape, array.dtype) for array in arrays.values()]),
            options,
            tuple(Rule.rules),
            in_force(),
        )
        if key in self._programs:
            return self._programs[key]
        build = self._built_for(arrays)
        if build.values_first:
            # Only the values tell which build it is, so that they are asked for in every run.
            key = build, options, tuple(Rule.rules)
            if key in self._programs:
                return self._programs[key]
        self._grant(build)
        keep(self._programs, key, (Program(self._plan(build, options)), build))
        return self._programs[key]

    def _built_for(self, arrays: Mapping[str, Array]) -> Build:
        """The expressions for arrays, which are the values of parameters."""
        parameters = {
            name: self._parameter(name, TensorType(array.shape, array.dtype)) for name, array in arrays.items()
        }
        return self._build(parameters, {parameters[name]: array for name, array in arrays.items()})

    def _grant(self, build: Build) -> None:
        """Allow the outputs to be computed; one that is the same everywhere counts in full: who gets it reads it."""
        size = sum([node.type.nbytes for node in build.outputs.values()])
        claim_memory(f"net {self.name!r}, whose outputs are {', '.join(map(repr, self.definition.outputs[:8]))},", size)

    def _plan(self, build: Build, options: Options) -> Plan:
        """The one plan of a build's outputs: of what runs, and of what is shown."""
        outputs = list(build.outputs.values())
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

    @long_running()
    def plan(self, *inputs: Any, **options: Any) -> EvalPlan:
        """Return a prepared plan of all outputs, the one that ``run`` uses; ``options`` are those of EvalPlan.

        ``inputs`` are those of ``build``, in order. Arrays become the values of parameters at each ``plan.eval()``.
        """
        values = named_inputs(self.definition, inputs, {}) if inputs else whole_shapes(self.definition)
        arrays = {
            name: as_array(self.definition.input(name), value)
            for name, value in values.items()
            if not (isinstance(value, Expr) or is_shape(value))
        }
        nodes = {
            name: self._parameter(name, TensorType(arrays[name].shape, arrays[name].dtype))
            if name in arrays
            else self._expression(name, value)
            for name, value in values.items()
        }
        build = self._build(nodes, {nodes[name]: array for name, array in arrays.items()})
        if arrays:
            self._grant(build)
        plan = EvalPlan(**{"title": self.name, **options})
        for node in build.outputs.values():
            plan.register(node)
        plan.prepare(self._plan(build, plan.options))
        plan.bind({build.inputs[name]: array for name, array in arrays.items()})
        return plan

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
        assumed = assumptions(self.definition, {name: node.shape for name, node in build.inputs.items()})
        title = f"{self.name} ({assumed})" if assumed else self.name
        plan = EvalPlan(**{"title": title, "record": "off", **options})
        roots = ends(build)
        if not roots:
            raise OperandError(
                f"net {self.name!r} holds no tensor that could be drawn",
                rule="an output, or a result of an operator, must have a type",
            )
        for node in roots:
            plan.register(node)
        return plan.prepare()

    @long_running()
    def explore(self, x: Any = None, **options: Any) -> Any:
        """Return a view of the net's graph and plan; with inputs (an array, a dict, or a tuple) also of all values.

        A shape as input, as for ``plan``, has no values: nothing is run.
        """
        hooks.check_view(**options)
        if x is None:
            return hooks.explore(self.preview_plan(), **options)
        is_one = not isinstance(x, tuple) or (is_shape(x) and len(x) != len(self.inputs))
        operands = (x,) if is_one else x
        plan = self.plan(*operands, record="values")
        values = operands[0].values() if len(operands) == 1 and isinstance(operands[0], Mapping) else operands
        return hooks.explore(plan if any(is_shape(value) for value in values) else plan.eval(), **options)

    @long_running()
    def compare(self, other: Net | EvalPlan | Recording) -> Any:
        """Compare this net with another one, and their plans: text, pictures and views; no weight is read."""
        return hooks.compare(self.preview_plan(), other.preview_plan() if isinstance(other, Net) else other)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the net with its weights: ``x.json`` and ``x.npz``, or ``x.param`` and ``x.bin`` of PNNX."""
        hooks.save(self, path)

    def cut(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> Net:
        """Return the net between operands: ``inputs`` are given, ``outputs`` returned; None keeps the net's own."""
        part = Net(cut(self.definition, inputs, outputs), self.table)
        part._weights = self.weights
        return part

    def __repr__(self) -> str:
        reads = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.inputs.items())
        writes = ", ".join(f"{name} {shape_text(blob.shape)}" for name, blob in self.outputs.items())
        count = len(self.definition.operators)
        return visible(f"<net {self.name!r}: {count} operators, {reads or 'nothing'} → {writes}, {self.state.value}>")


def _passes(build: Build, passes: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the passes of a plan of a build; the first one tells of values that were computed for it."""
    return (ShapeValues(build.values_first), *passes) if build.values_first else passes
