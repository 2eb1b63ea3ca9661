"""Conversion of a graph of expressions to nodes.

The writer of an operation, which ``writes`` declares, is called with the graph, the expression and the names of its
operands, and returns the name of its result. A net with unknown input lengths is built twice with different lengths: a
number that differs between an expression and its counterpart in the other build depends on these lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Item, Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.custom_dtypes import dtype_name, is_text
from explorer.formats.onnx.writing.written_model import Model, code_of, unsupported_operator_error, value_info
from explorer.net.definition.definition import BlobType
from explorer.net.definition.operator_definition import STRING

Names: TypeAlias = "str | tuple[str, ...]"
"""name of one result, or names of several results"""
Writer: TypeAlias = "Callable[..., Names]"
"""function of (graph, expression, names of the operands' values…) that returns the names of the results"""
WRITERS: dict[str, Writer] = {}
"""writers by the name of the operation"""
UNSUPPORTED: dict[str, str] = {}
"""reasons why ONNX cannot represent an operation, by the operation's name"""


def writes(*operations: str) -> Callable[[Writer], Writer]:
    """Return a decorator that declares the writer of operations with these names."""

    def register(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(operations, writer))
        return writer

    return register


def unsupported(reason: str, *operations: str) -> None:
    """Declare that ONNX cannot represent operations with these names."""
    UNSUPPORTED.update(dict.fromkeys(operations, reason))


UNNAMED_PREFIX = "?"
"""first character of generated names of unknown lengths"""


class Counterparts:
    """Pairs of expressions in two builds with different lengths; empty if all lengths are known."""

    def __init__(self, lengths: Mapping[tuple[int, int], str] | None = None) -> None:
        self.lengths = dict(lengths or {})
        """names of the unknown lengths, by their values in the two builds"""
        self.by_uid: dict[int, Expr] = {}

    def pair(self, first: Sequence[Expr], second: Sequence[Expr]) -> None:
        """Record pairs of corresponding expressions and of all their operands."""
        pending = list(zip(first, second, strict=True))
        while pending:
            node, counterpart = pending.pop()
            if node.uid in self.by_uid:
                continue
            if node.operation.name != counterpart.operation.name or len(node.operands) != len(counterpart.operands):
                raise unsupported_operator_error(
                    f"operation {node.operation.label!r}",
                    "other lengths of the inputs produce another graph",
                    "a net with unknown lengths must record the same operations for all of them",
                    "declare the lengths of the inputs in the net before saving it",
                )
            self.by_uid[node.uid] = counterpart
            pending += zip(node.operands, counterpart.operands, strict=True)

    def shape(self, node: Expr) -> tuple[int | str | None, ...]:
        """Return the shape of an expression: unknown lengths as names, and lengths computed from them as None."""
        counterpart = self.by_uid.get(node.uid, node)
        pairs = zip(node.shape, counterpart.shape, strict=True)
        return tuple([a if a == b else self.lengths.get((a, b)) for a, b in pairs])


class GraphWriter:
    """Writer of one graph: the outermost graph, or an inner graph of control flow."""

    def __init__(self, model: Model, counterparts: Counterparts, wanted: Mapping[int, str] | None = None) -> None:
        self.model, self.counterparts = model, counterparts
        self.wanted = wanted or {}
        """preferred names of values, by uid"""
        self.nodes: list[NodeProto] = []
        self.values: dict[int, Names] = {}
        """names of the values of the written expressions, by uid"""
        self.sources: dict[str, tuple[str, int]] = {}
        """an (input, axis) with each unknown length, by the length's name"""
        self._at: Expr | None = None

    # -- for writers -----------------------------------------------------------------------------------------------

    def node(self, type: str, *inputs: str, outputs: int = 1, wanted: str = "", **attributes: Any) -> Any:
        """Add a node; return the name of its result, or the names of several results."""
        path = _path(self._at) if self._at is not None else ()
        base = wanted or "/".join((*path, type.rpartition(".")[2].lower()))
        names = [self.model.unused_name(base if outputs == 1 else f"{base}:{index}") for index in range(outputs)]
        proto_attributes = [
            helper.make_attribute(name, value) for name, value in attributes.items() if value is not None
        ]
        self.nodes.append(self.model.node(type, inputs, names, "/".join((*path, type)), proto_attributes))
        return names[0] if outputs == 1 else tuple(names)

    def constant(self, value: Any, dtype: Any = None, wanted: str = "") -> str:
        """Store a constant, by default as int64, and return its name."""
        array = np.asarray(value, np.int64 if dtype is None else dtype)
        return self.model.store(wanted or f"constant {array.dtype.name}", array, dtype_name(array.dtype))

    def cast(self, name: str, source: Any, target: Any) -> str:
        """Cast the value ``name`` to the dtype ``target`` and return the name of the result."""
        if np.dtype(source) == np.dtype(target):
            return name
        result: str = self.node("Cast", name, to=code_of(np.dtype(target).name))
        return result

    def operands(self, node: Expr, names: Sequence[str], dtype: Any = None) -> list[str]:
        """Return the names of an expression's operands after casting them to ``dtype``, by default its own dtype."""
        wanted = node.dtype if dtype is None else dtype
        return [self.cast(name, each.dtype, wanted) for name, each in zip(names, node.operands, strict=True)]

    def shape(self, node: Expr, shape: Sequence[int], other_shape: Sequence[int] | None) -> str:
        """Return the name of a shape tensor; unknown lengths are computed from the inputs' shapes."""
        if other_shape is None or tuple(shape) == tuple(other_shape):
            return self.constant(list(shape))
        parts = []
        for size, other in zip(shape, other_shape, strict=True):
            if size == other:
                parts.append(self.constant([size]))
                continue
            length = self.counterparts.lengths.get((size, other))
            if length is None or length not in self.sources:
                raise self.dependency_error(node, "a length that is computed from unknown lengths")
            source, axis = self.sources[length]
            parts.append(self.node("Shape", source, start=axis, end=axis + 1))
        result: str = self.node("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        return result

    def counterpart(self, node: Expr) -> Any:
        """Return the same expression in the other build, or ``node`` itself if all lengths are known."""
        return self.counterparts.by_uid.get(node.uid, node)

    def dependency_error(self, node: Expr, what: str) -> Exception:
        """Return the error for an operation that needs a known length."""
        return unsupported_operator_error(
            f"operation {node.operation.label!r}",
            f"it needs {what}",
            "lengths that an operation needs must be among the lengths of the inputs",
            "declare the lengths of the inputs in the net before saving it",
        )

    def unsupported_error(self, node: Expr, reason: str) -> Exception:
        """Return the error for an operation that ONNX cannot represent."""
        index = "/".join(_path(node))
        return unsupported_operator_error(
            f"operation {node.operation.label!r}" + f" of {index!r}" * bool(index),
            reason,
            "every operation must exist in ONNX, or be a composition of ONNX operators",
            "cut the net before the operation, or save it as x.json, which supports any net",
        )

    # -- graphs ----------------------------------------------------------------------------------------------------

    def write(self, nodes: Sequence[Expr]) -> None:
        """Write expressions in topological order."""
        for node in nodes:
            if node.uid not in self.values:
                self.values[node.uid] = self._written(node)

    def _written(self, node: Expr) -> Names:
        operation = node.operation
        if isinstance(node, Tensor):
            name = self.wanted.get(node.uid) or node.name or "tensor"
            return self.model.store(name, node.array, dtype_name(node.dtype))
        operands = [self.values[operand.uid] for operand in node.operands]
        if isinstance(operation, Item):
            return operands[0][operation.index] if isinstance(operands[0], tuple) else operands[0]
        if type(operation) is Call:
            return self.call(operation, self.counterpart(node).operation, operands)
        if isinstance(operation, Parameter):
            raise self.unsupported_error(node, "its value is not an input of the saved expressions")
        writer = WRITERS.get(operation.name)
        if writer is None:
            raise self.unsupported_error(node, UNSUPPORTED.get(operation.name) or "the operation has no writer")
        before, self._at = self._at, node
        try:
            names = writer(self, node, *operands)
            wanted = self.wanted.get(node.uid)
            return self._renamed(names, wanted) if wanted and isinstance(names, str) else names
        finally:
            self._at = before

    def _renamed(self, name: str, wanted: str) -> str:
        if wanted in self.model.taken or not self.nodes or list(self.nodes[-1].output) != [name]:
            return name
        self.model.taken.discard(name)
        self.nodes[-1].output[0] = self.model.unused_name(wanted)
        return wanted

    def call(self, call: Call, counterpart: Any, operands: Sequence[Any]) -> Names:
        """Write the body of a call inline."""
        body = call.body
        if counterpart is not call:
            self.counterparts.pair(body.outputs, counterpart.body.outputs)
        inner = GraphWriter(self.model, self.counterparts)
        inner.nodes, inner.sources, inner._at = self.nodes, self.sources, self._at
        inner.values = dict(zip([node.uid for node in (*body.parameters, *body.captured)], operands, strict=True))
        with one_deeper(f"the call of {body.name}"):
            inner.write(body.nodes)
        results = [inner.values[output.uid] for output in body.outputs]
        return results[0] if len(results) == 1 else tuple(results)  # type: ignore[arg-type]  # outputs are single values

    def graph(
        self, name: str, body: Body, counterpart: Body, captured: Sequence[Any], *, count: int
    ) -> tuple[GraphWriter, list[str]]:
        """Write a body as an inner graph; its first ``count`` parameters are inputs, the rest are outer values."""
        if counterpart is not body:
            self.counterparts.pair(body.outputs, counterpart.outputs)
        inner = GraphWriter(self.model, self.counterparts)
        inner.sources = self.sources
        inputs = [self.model.unused_name(f"{name}/{node.operation.label}") for node in body.parameters[:count]]
        value_uids = [node.uid for node in (*body.parameters, *body.captured)]
        inner.values = dict(zip(value_uids, [*inputs, *captured], strict=True))
        with one_deeper(f"the graph {name}"):
            inner.write(body.nodes)
        return inner, inputs

    def proto(self, name: str, inputs: Sequence[tuple[str, Expr]], outputs: Sequence[tuple[str, Expr]]) -> GraphProto:
        """Return the written nodes as an inner graph."""
        return GraphProto(
            name=name,
            node=self.nodes,
            input=[value_info(each, self.type(node)) for each, node in inputs],
            output=[value_info(each, self.type(node)) for each, node in outputs],
        )

    def own_outputs(self, names: Sequence[str]) -> list[str]:
        """Return output names for this graph; Identity nodes copy outer values, inputs and duplicates."""
        produced = {name for node in self.nodes for name in node.output}
        own: list[str] = []
        for name in names:
            own.append(name if name in produced and name not in own else self.node("Identity", name))
        return own

    def type(self, node: Expr) -> BlobType:
        """Return the declared type of a value."""
        shape = [
            None if isinstance(size, str) and size.startswith(UNNAMED_PREFIX) else size
            for size in self.counterparts.shape(node)
        ]
        return BlobType(tuple(shape), STRING if is_text(node.dtype) else node.dtype.name)


def scalar(name: str, dtype: Any) -> ValueInfoProto:
    """Return the declaration of a scalar value."""
    return value_info(name, BlobType((), np.dtype(dtype).name))


def _path(node: Expr) -> tuple[str, ...]:
    parts: list[str] = []
    scope = node.scope
    while scope is not None:
        parts.append(scope.name.replace("/", "_"))
        scope = scope.parent
    return tuple(reversed(parts))
