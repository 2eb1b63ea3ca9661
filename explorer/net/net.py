"""Net: a model file's program, to inspect, build, run, cut and plan.

The class that ``ex.open`` returns, on top of editing (editable.py), building (buildable.py) and running (runnable.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, Unpack, overload

import numpy as np

from explorer.core.checked_functions import named_methods
from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import ComparedPlans, View, hooks
from explorer.core.ir.view_options import ViewOptions
from explorer.core.progress import long_running
from explorer.core.types.tensor_type import Array
from explorer.net.building.containers import named_leaves
from explorer.net.building.diagnostics import ends, find_problems, nodes_of
from explorer.net.building.example_shapes import assumptions
from explorer.net.building.inputs import is_shape
from explorer.net.building.interface import interface
from explorer.net.definition.definition import BlobDefinition, NetDefinition, graph_error
from explorer.net.definition.shape_notes import shape_text
from explorer.net.definition.subgraph import cut
from explorer.net.operator_handle import NetOperator
from explorer.net.pattern_edits import with_replacements
from explorer.net.printer import net_text
from explorer.net.runnable import RunnableNet
from explorer.net.value_comparison import ValueComparison, compare_values
from explorer.plan.rewrite.pattern import Match
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.run.evalplan import EvalPlan


@named_methods
class Net(RunnableNet):
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
