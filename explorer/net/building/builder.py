"""Net builder, which records the expressions of a definition, with each operator inside the boxes that its name gives.

``ex.Net`` uses it for every build, and to inspect nets that cannot run. This module adds locations to errors, since an
operator's builder does not know the operator's name and line in the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from explorer.core.errors import ExplorerError, OperandError, ReaderError
from explorer.core.ir.dimension_declarations import DeclaredNames, declare_dimensions
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.ir.recording_context import Scope, recording_at, state
from explorer.core.ir.source_location import SourceLocation
from explorer.core.memory_budget import counted
from explorer.core.progress import Progress, current_callback
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.tensor_type import TensorType
from explorer.net.building.containers import leaves
from explorer.net.building.unsupported import UNSIZED, Opaque, OpaqueCall, is_unsized
from explorer.net.building.weights import NetWeights
from explorer.net.definition.declared_types import Lengths, bound_type, dimension_names, symbolic_text
from explorer.net.definition.definition import BlobDefinition, NetDefinition, OperatorDefinition, graph_error
from explorer.net.definition.operator_digest import operator_digest
from explorer.net.definition.scope_inference import box_paths
from explorer.net.operators.context import Ask, BuildBody, OperatorContext, UnknownShapeError, unknown_shape
from explorer.net.operators.table import OperatorTable
from explorer.plan.passes.shape_values import ComputedFirst
from explorer.record.escape import shortened
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text
from explorer.run.recording.interface_table import Interface, InterfaceValue, OperatorOperands

_MAX_SHOWN = 120
"""maximum number of characters of an expression in the label of its box"""
_QUANTIZING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""operator types whose results quantizers do not declare"""
_STATED, _NAME = 400, 200
"""maximum number of values that a file states, and of characters of their names"""


def _type(operator: OperatorDefinition) -> str:
    """Return an operator's type; for a pnnx.Expression, return the text of the expression."""
    text = operator.arguments.get("expr")
    if not isinstance(text, str):
        return operator.type
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


@dataclass(slots=True, eq=False)
class Build:
    """Expressions of a net: ``inputs`` and the ``values`` of all operands, keyed by name.

    A value is an expression, a plain Python value, a tuple of expressions (a sequence) or None (an absent optional).
    ``problems`` maps operators that cannot run, and are recorded as opaque operations, to the reason.
    """

    definition: NetDefinition
    table: OperatorTable
    inputs: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, ExplorerError] = field(default_factory=dict)
    unsized: dict[str, ExplorerError] = field(default_factory=dict)
    """operator that is recorded as an opaque operation, because its shape depends on values of inputs → error"""
    values_first: tuple[ComputedFirst, ...] = ()
    """values that were computed during this build, because shapes depend on them"""
    silent: list[Expr] = field(default_factory=list)
    """opaque operations of operators without outputs"""
    inner: list[Build] = field(default_factory=list)
    """builds of inner graphs, one for each time that a loop or branch recorded one"""

    @property
    def outputs(self) -> dict[str, Any]:
        """Expressions of the net's outputs by name; raise an error if an output contains no tensor."""
        return {name: self.output(blob) for name, blob in self.definition.results.items()}

    @property
    def roots(self) -> list[Expr]:
        """The expressions of the outputs, with sequences flattened."""
        return leaves(self.outputs.values())

    def bound(self, arrays: Mapping[str, Any]) -> dict[Expr, Any]:
        """Return the arrays of inputs, keyed by their parameters."""
        return dict(zip(leaves(self.inputs.values()), leaves(arrays.values()), strict=True))

    @property
    def interface(self) -> Interface:
        """Inputs, outputs, metadata and operators for the drawing; values that are not expressions are omitted.

        A plan's roots do not suffice, because rules may replace output nodes and a plan omits unread inputs.
        """
        definition = self.definition
        inputs = [
            InterfaceValue("input", *pair) for name in definition.inputs for pair in _elements(name, self.inputs[name])
        ]
        values = [(name, self.values[definition.blob(name).name]) for name in definition.outputs]
        outputs = [InterfaceValue("output", *pair) for name, value in values for pair in _elements(name, value)]
        builds = [self]
        for build in builds:
            builds += build.inner
        operators = [operands for build in builds for operands in build._operands()]
        stated = definition.stated
        pairs = [(shortened(name, _NAME), shortened(value)) for name, value in stated[:_STATED]]
        if len(stated) > _STATED:
            pairs.append(("…", counted_text(len(stated) - _STATED, "more value")))
        return Interface([*inputs, *outputs], pairs, operators)

    def _operands(self) -> list[OperatorOperands]:
        """Return the operands of each operator, without the operators of inner graphs."""
        return [
            OperatorOperands(
                operator,
                self.table.parameters(operator),
                self.table.output_names(operator.type, len(operator.outputs)),
                tuple([self.values.get(name) for name in operator.outputs]),
            )
            for operator in self.definition.ssa.operators
        ]

    def output(self, name: str) -> Expr | tuple[Expr, ...] | None:
        """Return the expression of an operand; a tuple of expressions for a sequence, None for an absent optional."""
        blob = self.definition.blob(name)
        value = self.values[blob.name]
        if isinstance(value, Expr) or (value is None and blob.is_optional):
            return value
        if isinstance(value, tuple) and all(isinstance(element, Expr) for element in value):
            return value
        producer = blob.producer
        raise graph_error(
            self.definition.source,
            self.definition.operator(producer) if producer else None,
            f"operand {name!r} is {value!r}",
            rule="an output of a net must be a tensor, or a sequence of tensors",
            fix="cut the net at another operand: net.cut(outputs=[…])",
        )


def _elements(name: str, value: object) -> Iterator[tuple[str, Expr]]:
    """Yield (name, expression) for each expression in a value."""
    if isinstance(value, Expr):
        yield name, value
    elif isinstance(value, tuple):
        for index, element in enumerate(value):
            if isinstance(element, Expr):
                yield f"{name}[{index}]", element


class NetBuilder:
    """Builder of one definition for any inputs; all builds share boxes and weights."""

    def __init__(self, definition: NetDefinition, table: OperatorTable, weights: NetWeights) -> None:
        self.definition, self.table, self.weights = definition, table, weights
        self._program = definition.ssa
        self._paths = box_paths(self._program)
        self._operators = {self._paths[operator.name]: operator for operator in self._program.operators}
        self._scopes: dict[tuple[str, ...], Scope] = {}
        self._where = os.path.basename(definition.source) or definition.name
        self._inner: dict[tuple[str, str], NetBuilder] = {}
        """builders of inner graphs, keyed by operator and graph name"""
        self._within: Scope | None = None

    def __repr__(self) -> str:
        return f"<builder of net {self.definition.name!r}>"

    def build(
        self,
        inputs: Mapping[str, Any],
        *,
        opaque: bool = False,
        ask: Ask | None = None,
        known: Mapping[str, TensorType] | None = None,
    ) -> Build:
        """Return the expressions of the net for ``inputs``; ``ask`` computes values on which shapes depend.

        If an operator cannot be built, raise an error with its name and line. With ``opaque``, the operator instead
        becomes an operation that is drawn but cannot run, and the build continues. ``known`` maps operands of such
        operators to types that the file may not declare.
        """
        # If an input is rewritten, its first version has a different name from the blob.
        named = zip(self.definition.inputs, self._program.inputs, strict=True)
        build = Build(self.definition, self.table, dict(inputs), {own: inputs[name] for name, own in named})
        shapes = {name: node.shape for name, node in inputs.items() if isinstance(node, Expr)}
        lengths = Lengths.of(self.definition, shapes)
        with counted(), gc_paused():
            self._build(build, lengths, opaque, ask, known or {})
        declare(self.definition, build.values, lengths)
        return build

    def _build(
        self, build: Build, lengths: Lengths, opaque: bool, ask: Ask | None, known: Mapping[str, TensorType]
    ) -> None:
        """Record all operators in topological order, each in its box and with its line of the file."""
        follow, count = current_callback(), len(self._program.operators)
        for index, operator in enumerate(self._program.topological_order):
            if follow is not None:
                follow(Progress("building", operator.name, index, count))
            with recording_at(self.scope(operator), self.location(operator)):
                try:
                    results = self._results(operator, build, ask)
                except ExplorerError as error:
                    located = self._located(operator, error)
                    if not opaque:
                        raise located from error
                    # Sets the cause like ``raise … from``; the error is shown later, with the node.
                    located.__cause__ = error
                    table = build.unsized if isinstance(error, UnknownShapeError) else build.problems
                    table[operator.name] = located
                    results = self._opaque(operator, build, lengths, error, known)
            build.values.update(zip(operator.outputs, results, strict=True))

    def scope(self, operator: OperatorDefinition) -> Scope:
        """Return the innermost box of an operator."""
        path = self._paths[operator.name]
        enclosing = self._within
        for depth in range(1, len(path) + 1):
            box = self._scopes.get(path[:depth])
            # All builds use the same boxes, because views and profiles find an operator by the identity of its box.
            if box is None:
                own = self._operators.get(path[:depth])
                type = self._box_text(own) if own else ""
                box = self._scopes[path[:depth]] = Scope(path[depth - 1], "file", enclosing, type, own)
            enclosing = box
        assert enclosing is not None
        return enclosing

    def location(self, operator: OperatorDefinition) -> SourceLocation:
        """Return the position of an operator in the exported program, or in the file."""
        return operator.code or SourceLocation(operator.file or self._where, operator.line, operator.text)

    def _box_text(self, operator: OperatorDefinition) -> str:
        """Return the label of an operator's box: its type, and the versions of rewritten blobs it reads and writes."""
        blobs = self.definition.blobs
        reads = [name for name in operator.inputs if blobs[name].blob != name]
        writes = [name for name in operator.outputs if blobs[name].blob != name]
        if not reads and not writes:
            return _type(operator)
        return " ".join(
            [_type(operator), *[", ".join(reads)] * bool(reads), *[f"→ {', '.join(writes)}"] * bool(writes)]
        )

    def _results(self, operator: OperatorDefinition, build: Build, ask: Ask | None) -> tuple[Any, ...]:
        """Return the values of an operator's outputs, as recorded by the builder of its type."""
        values = build.values
        if operator.type not in self.table:
            near = ", ".join(self.table.near(operator.type))
            if remedy := self.table.remedy(operator.type):
                raise ExplorerError(f"the operator type {operator.type!r} is unknown", rule=remedy.rule, fix=remedy.fix)
            raise ExplorerError(
                f"the operator type {operator.type!r} is unknown",
                rule="the type must be registered" + f"; near known types: {near}" * bool(near),
                fix=f"register it: {self.table.registration(operator.type)}",
            )
        self.table.check(self.definition.operator(operator.name))
        operands = tuple(values[blob] for blob in operator.inputs)
        pairs = zip(operator.inputs, operands, strict=True)
        waiting = next((blob for blob, value in pairs if any(map(is_unsized, leaves([value])))), "")
        if waiting:
            raise unknown_shape(operator.type, f"the shape of {waiting!r}")
        context = OperatorContext(
            operator,
            operands,
            lambda name: self.weights.tensor(operator.name, name),
            lambda name: self._body(operator, name, build, ask),
            ask,
        )
        try:
            result = self.table[operator.type](context)
            self.table.check_reads(context)
        except ExplorerError:
            raise
        except Exception as error:
            if self.table.is_own(operator.type):
                raise _defect(operator.type, error) from error
            # The exception of a user's builder is informative, so only the location is added.
            error.add_note(
                f"while building operator {operator.name!r} ({operator.type}) of {self._where}, line {operator.line}"
            )
            raise
        results = (
            (result,)
            if len(operator.outputs) == 1
            else tuple(result)
            if isinstance(result, (tuple, list))
            else (result,)
        )
        if len(results) != len(operator.outputs):
            raise ExplorerError(
                f"its builder returned {counted_text(len(results), 'value')}",
                rule=f"the builder must return one value for each of {counted_text(len(operator.outputs), 'output')}: "
                + ", ".join(operator.outputs),
            )
        return results

    def _body(self, operator: OperatorDefinition, name: str, outer: Build, ask: Ask | None) -> BuildBody:
        """Return the function that records the inner graph ``name`` of an operator in the current scope."""
        definition, builder = operator.bodies[name], self._inside(operator, name)
        values = outer.values

        def build(parameters: Sequence[Any]) -> list[Any]:
            captured = definition.inputs[len(parameters) :]
            missing = [blob for blob in captured if blob not in values]
            if missing:
                count = len(definition.inputs) - len([blob for blob in definition.inputs if blob in values])
                raise OperandError(
                    f"{counted_text(len(parameters), 'value')} for the graph {name!r}",
                    rule=f"{operator.type}: the graph {name!r} must be given its {count} inputs",
                )
            inputs = dict(zip(definition.inputs, [*parameters, *[values[blob] for blob in captured]], strict=True))
            try:
                inner = builder.build_within(state.scope, inputs, ask)
            except ExplorerError as error:
                # Unlike a loop's body, a graph without parameters is recorded again once the net's inputs have values.
                if not parameters and isinstance(error.__cause__, UnknownShapeError):
                    raise UnknownShapeError(error.given, rule=error.rule, fix=error.fix) from error
                raise
            outer.inner.append(inner)
            return [inner.values[definition.blob(output).name] for output in definition.outputs]

        return build

    def _inside(self, operator: OperatorDefinition, name: str) -> NetBuilder:
        """Return the cached builder of an inner graph."""
        definition: NetDefinition = operator.bodies[name]
        key = operator.name, name
        if key not in self._inner:
            self._inner[key] = NetBuilder(definition, self.table, NetWeights(definition))
        return self._inner[key]

    def all_weights(self, operator: OperatorDefinition) -> Iterator[Expr]:
        """Yield the weights of an operator and of its inner graphs."""
        remaining = [(self, operator)]
        while remaining:
            builder, current = remaining.pop()
            yield from [builder.weights.tensor(current.name, name) for name in current.weights]
            for name, body in current.bodies.items():
                inner = builder._inside(current, name)
                remaining += [(inner, each) for each in body.operators]

    def build_within(self, scope: Scope | None, inputs: Mapping[str, Any], ask: Ask | None) -> Build:
        """Return the expressions of the net for ``inputs``, with boxes inside ``scope``; ``ask`` is as in ``build``."""
        # Each trace of a loop's body has a different scope, so it needs new boxes.
        if scope is not self._within:
            self._within, self._scopes = scope, {}
        with one_deeper(f"the inner graph {self.definition.name}"):
            return self.build(inputs, ask=ask)

    def _opaque(
        self,
        operator: OperatorDefinition,
        build: Build,
        lengths: Lengths,
        error: ExplorerError,
        given: Mapping[str, TensorType],
    ) -> tuple[Any, ...]:
        declared = [
            given[blob] if blob in given else bound_type(self.definition.blob(blob), lengths)
            for blob in operator.outputs
        ]
        known = tuple(type_ for type_ in declared if type_ is not None)
        values = leaves([build.values[blob] for blob in operator.inputs])
        operands = tuple([value for value in values if isinstance(value, Expr)])
        weights = tuple(self.all_weights(operator))
        # If a type is not declared, the outputs become a single untyped value.
        results = known if len(known) == len(declared) else ()
        # The reason is part of the operation's identity, so operators with different reasons are never merged.
        key = error.given, error.rule, error.fix, operator.name, self.table.format
        schema = self.table.schema(operator.type)
        note = (
            UNSIZED
            if isinstance(error, UnknownShapeError)
            else "cannot run"
            if schema is None or schema.planned
            else "runs in a workspace"
        )
        facts = operator.type, results, *key, note, operator_digest(operator)
        recorded = error.body if isinstance(error, UnknownShapeError) else None
        if recorded is None:
            node = Opaque(*facts)(*operands, *weights)
        else:
            body, own = recorded
            node = OpaqueCall(body, *facts)(*own)
        if not declared:
            build.silent.append(node)
        if len(known) < len(declared) or len(declared) == 1:
            return (node,) * len(declared)
        return tuple(Item(index)(node) for index in range(len(declared)))

    def _located(self, operator: OperatorDefinition, error: ExplorerError) -> ExplorerError:
        return graph_error(
            self.definition.source,
            operator,
            f"operator {operator.name!r} ({operator.type}{_written(operator)}): {error.given}",
            rule=error.rule,
            fix=error.fix,
        )


def _written(operator: OperatorDefinition) -> str:
    """Return the operator's location in the program that exported the file; "" if the file does not contain it."""
    return "" if operator.code is None else f", written in {operator.code.where} line {operator.code.line}"


def _defect(type: str, error: Exception) -> ReaderError:
    """Return the error for an unexpected exception in a builder that is part of explorer."""
    return ReaderError(
        f"a defect in explorer's builder of {type}: {error.__class__.__name__}: {shorten(str(error), _MAX_SHOWN)}",
        rule="a builder must return a value for every operator, or raise an error with the violated rule",
        fix="report it with this line of the file; until it is fixed, register the type with file_operator",
    )


def declare(definition: NetDefinition, values: Mapping[str, Any], lengths: Lengths) -> None:
    """Declare the dimension names of built values; ``lengths`` contains the lengths that inputs determine.

    If no input determines the length of a name, the first value with that name does. Unnamed unknown dimensions are
    declared only for inputs and outputs, because the user chooses their lengths.
    """
    where = os.path.basename(definition.source) or definition.name
    named = dict(lengths.named)
    quantized = _quantized(definition)
    for name, of in definition.blobs.items():
        value, blob = values.get(name), quantized.get(name, of)
        if blob.shape is None or not isinstance(value, Expr) or not isinstance(value.type, TensorType):
            continue
        # Nothing to name, since the file specifies all lengths.
        if all(isinstance(size, int) for size in blob.shape):
            continue
        names = dimension_names(blob.shape, value.type.shape, named)
        role = "input" if blob.producer is None else "output" if blob.name in definition.outputs else "operand"
        if any(names) or (names and role != "operand" and blob is of):
            named.update((word, size) for word, size in zip(names, value.type.shape, strict=True) if word)
            declare_dimensions(
                value, DeclaredNames(names, symbolic_text(blob.shape), f"{role} {blob.name!r} of {where}")
            )


def _quantized(definition: NetDefinition) -> dict[str, BlobDefinition]:
    """Map each undeclared blob around a quantizer to the declared blob with the same values, and so the same shape."""
    blobs = definition.blobs
    quantizers = [each for each in definition.operators if each.type in _QUANTIZING and each.inputs]
    pairs = [(each.inputs[0], each.outputs[0]) for each in quantizers]
    sources: dict[str, BlobDefinition] = {}
    # in the order of the program, and back: a quantizer also renames the value that the model's output held
    for known, undeclared in [*pairs, *[(result, read) for read, result in reversed(pairs)]]:
        source = sources.get(known, blobs[known])
        if blobs[undeclared].shape is None and source.shape is not None:
            sources.setdefault(undeclared, source)
    return sources
