"""Graph of an ONNX model for the comparison of passes: nodes with renamed values, weights, types and readers."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper, shape_inference

from explorer.compilers.snapshots import Value
from explorer.record.rows import UNKNOWN, Source
from explorer.runtimes.contract import FileNode
from explorer.runtimes.onnx_file import read_names
from explorer.runtimes.optimized_graph import OptimizedNode, computed_nodes

_SMALL = 64
"""maximum number of elements of a weight whose values are read"""
_LISTED = 6
"""maximum number of integers of a constant that is shown as a list"""
_TEXT = 80
"""maximum number of characters of an attribute"""
INNER = "graph: "
"""beginning of the text of an inner graph, which lists its operator types"""
_DOMAINS = ("", "ai.onnx", "com.microsoft")
"""domains that labels leave out"""

TensorType: TypeAlias = tuple[tuple[int, ...] | None, str]
"""shape, which is None if a length is unknown, and dtype"""


class Node(NamedTuple):
    """Node of a graph. ``inputs`` are its operands, "" for an omitted one, then values that its inner graphs read."""

    type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, str]

    @property
    def operation(self) -> str:
        """Operator type with its domain, if that is not ONNX's."""
        return f"{self.domain}.{self.type}" if self.domain not in _DOMAINS[:2] else self.type

    @property
    def label(self) -> str:
        """Operator type, with a domain that is rare."""
        return self.type if self.domain in _DOMAINS else f"{self.type} ({self.domain.removeprefix('com.microsoft.')})"

    @property
    def results(self) -> tuple[str, ...]:
        """Outputs that are not omitted."""
        return tuple([name for name in self.outputs if name])

    @property
    def result(self) -> str:
        """First output, "" if the node has none."""
        return next(iter(self.results), "")

    def operand(self, index: int) -> str:
        """Return an operand, "" if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else ""


class Weight(NamedTuple):
    """Initializer or constant."""

    shape: tuple[int, ...]
    dtype: str
    values: NDArray[Any] | None
    """elements of a small weight"""

    @property
    def text(self) -> str:
        """A number, or a short list of integers; "" for other weights."""
        values = self.values
        if values is None or values.dtype.kind not in "fiub":
            return ""
        if values.size == 1 and (values.ndim == 0 or values.dtype.kind == "f"):
            return f"{values.item():.7g}" if values.dtype.kind == "f" else str(values.item())
        # a shape, axes, or the like
        return str(values.tolist()) if values.dtype == np.int64 and values.ndim == 1 and values.size <= _LISTED else ""


class Origin(NamedTuple):
    """Position of a value in the user's program."""

    scope: tuple[str, ...]
    source: Source | None
    operator: str
    """name of the operator in the file"""


@dataclass(frozen=True)
class Graph:
    """Graph with its nodes in topological order."""

    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]
    weights: Mapping[str, Weight]
    types: Mapping[str, TensorType] = field(default_factory=dict)
    version: tuple[int, ...] = (1, 32)
    """version of onnxruntime, on which requirements of patterns depend"""

    @cached_property
    def producer(self) -> dict[str, Node]:
        """Value → the node that computes it."""
        return {name: node for node in self.nodes for name in node.results}

    def read_by(self, name: str) -> list[Node]:
        """Return the nodes that read a value."""
        return self._readers.get(name, [])

    @cached_property
    def _readers(self) -> dict[str, list[Node]]:
        readers: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers[name].append(node)
        return readers

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value, None if it is unknown."""
        if name in self.weights:
            return self.weights[name].shape
        return self.types.get(name, (None, ""))[0]

    def dtype(self, name: str) -> str:
        """Return the dtype of a value, "" if it is unknown."""
        return self.weights[name].dtype if name in self.weights else self.types.get(name, (None, ""))[1]

    def number(self, name: str) -> float | None:
        """Return the value of a constant with one element, None for other values."""
        values = self.weights[name].values if name in self.weights else None
        return None if values is None or values.size != 1 or values.dtype.kind not in "fiu" else float(values.item())


def graph_of(model: ModelProto) -> Graph:
    """Return the outermost graph of a model; weights that are stored in other files are not read."""
    proto = model.graph
    weights = {tensor.name: _weight(tensor) for tensor in proto.initializer}
    for sparse in proto.sparse_initializer:
        weights[sparse.values.name] = Weight(tuple(sparse.dims), _dtype(sparse.values.data_type), None)
    nodes = []
    for node in proto.node:
        attributes = {each.name: each for each in node.attribute}
        if node.op_type == "Constant" and node.domain in _DOMAINS[:2] and len(node.output) == 1:
            weights[node.output[0]] = _constant(attributes)
            continue
        texts = {name: _text(each) for name, each in sorted(attributes.items())}
        nodes.append(Node(node.op_type, node.domain, node.name, tuple(read_names(node)), tuple(node.output), texts))
    inputs = [value.name for value in proto.input if value.name not in weights]
    types = {}
    values = {*inputs, *[name for node in nodes for name in node.results]}
    for value in (*proto.input, *proto.value_info, *proto.output):
        tensor = value.type.tensor_type
        # onnxruntime also writes types of values that it has removed
        if value.name in values and value.type.HasField("tensor_type") and tensor.elem_type:
            lengths = [size.dim_value if size.HasField("dim_value") else -1 for size in tensor.shape.dim]
            known = tensor.HasField("shape") and min(lengths, default=0) >= 0
            types[value.name] = (tuple(lengths) if known else None, _dtype(tensor.elem_type))
    return Graph(_sorted(nodes, {*inputs, *weights}), inputs, [value.name for value in proto.output], weights, types)


def inferred(model: ModelProto) -> ModelProto:
    """Return a model with the types that ONNX's inference finds; the model itself if inference fails."""
    try:
        return shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # the library raises errors of several kinds for operators of other domains
        return model


def _sorted(nodes: Sequence[Node], known: set[str]) -> list[Node]:
    """Return nodes in topological order; onnxruntime writes them in another order."""
    made = {name for node in nodes for name in node.results}
    waiting: dict[str, list[int]] = defaultdict(list)
    missing = []
    for index, node in enumerate(nodes):
        needed = {name for name in node.inputs if name in made and name not in known}
        missing.append(len(needed))
        for name in needed:
            waiting[name].append(index)
    ready = [index for index, count in enumerate(missing) if count == 0]
    for index in ready:
        for name in nodes[index].results:
            for reader in waiting[name]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    ready.append(reader)
    return [nodes[index] for index in ready]


def _dtype(code: int) -> str:
    """Return the name of a data type, "" for an unknown code."""
    try:
        return str(helper.tensor_dtype_to_np_dtype(code)).replace("object", "string")
    except KeyError:
        return ""


def _weight(tensor: TensorProto) -> Weight:
    shape, dtype = tuple(tensor.dims), _dtype(tensor.data_type)
    is_small = int(np.prod(shape)) <= _SMALL and tensor.data_location != TensorProto.EXTERNAL
    return Weight(shape, dtype, numpy_helper.to_array(tensor) if is_small else None)


def _constant(attributes: Mapping[str, AttributeProto]) -> Weight:
    """Return the weight of a Constant node."""
    for each in attributes.values():
        value = helper.get_attribute_value(each)
        if isinstance(value, TensorProto):
            return _weight(value)
        if each.name.startswith("value_"):
            kinds = {"f": np.float32, "i": np.int64, "s": np.str_}
            array = np.asarray(value, kinds.get(each.name[6:7]))
            return Weight(array.shape, str(array.dtype), array if array.size <= _SMALL else None)
    return Weight((), "", None)


def _text(attribute: AttributeProto) -> str:
    """Return the value of an attribute as a short string."""
    value = helper.get_attribute_value(attribute)
    if attribute.type == AttributeProto.GRAPH:
        return _shortened(f"{INNER}{', '.join([node.op_type for node in value.node])}")
    if isinstance(value, TensorProto):
        return _weight(value).text or f"#{_digest(value.SerializeToString())}"
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
    elif isinstance(value, float):
        text = f"{value:.7g}"
    else:
        text = str(list(value)) if hasattr(value, "__len__") else str(value)
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… #{_digest(text.encode())}"


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=4).hexdigest()


def renamed(before: Graph, after: Graph) -> Graph:
    """Return the graph after a pass, in which values have the names that they had before.

    onnxruntime gives new names to values that are stored in another memory format or dtype.
    """
    given = [
        FileNode(node.type, node.inputs, node.outputs, node.name, repr(node.attributes).encode())
        for node in before.nodes
    ]
    optimized = [
        OptimizedNode(node.type, node.inputs, node.outputs, node.name, node.attributes.get("activation", ""))
        for node in after.nodes
    ]
    computed = computed_nodes(given, optimized, before.inputs, {*before.weights, *after.weights})
    taken = {*after.producer, *after.inputs, *after.weights}
    names: dict[str, str] = {}
    members: dict[int, list[int]] = defaultdict(list)
    for index, group in computed.groups.items():
        if index not in computed.conversions:
            members[group].append(index)
    for group, indices in members.items():
        nodes = computed.nodes.get(group, ())
        made = after.nodes[indices[0]].outputs
        if len(indices) == 1 and nodes and len(made) == 1:
            result = given[nodes[-1]].outputs[0]
            if made[0] not in before.producer and result not in taken:
                names[made[0]] = result
                taken.add(result)
    types = {names.get(name, name): type_ for name, type_ in after.types.items()}
    nodes_after = [
        node._replace(
            inputs=tuple([names.get(name, name) for name in node.inputs]),
            outputs=tuple([names.get(name, name) for name in node.outputs]),
        )
        for node in after.nodes
    ]
    return replace(after, nodes=nodes_after, types=_merged(before.types, types))


def _merged(before: Mapping[str, TensorType], after: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Return the types in a graph; onnxruntime writes few types, so those that were known before are kept."""
    known = {name: type_ for name, type_ in after.items() if type_[0] is not None}
    return {**after, **{name: type_ for name, type_ in before.items() if type_[0] is not None}, **known}


def with_given_attributes(graph: Graph, given: Graph, loaded: Graph) -> Graph:
    """Return a graph without the default attributes that onnxruntime adds to the nodes of a file when it loads them."""
    kept = {node.outputs: node for node in given.nodes}
    added = {node.outputs: node for node in loaded.nodes}

    def plain(node: Node) -> Node:
        own, full = kept.get(node.outputs), added.get(node.outputs)
        is_same = own is not None and full is not None and own.type == full.type == node.type
        if is_same and own is not None and full is not None and own.attributes.items() <= full.attributes.items():
            return node._replace(attributes=own.attributes) if node.attributes == full.attributes else node
        return node

    return replace(graph, nodes=[plain(node) for node in graph.nodes])


def values_of(graph: Graph, origins: Mapping[str, Origin]) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the values of a graph for a snapshot, and the name of each node's value by the node's first result."""
    values: dict[str, Value] = {}
    node_names: dict[str, str] = {}
    taken = {*graph.inputs, *graph.weights, *graph.producer}
    for name in graph.inputs:
        values[name] = Value("input", (), *_type(graph, name), kind="leaf", label=name)
    for node in graph.nodes:
        results = node.results
        if not results:
            continue
        operands = [name for name in node.inputs if name]
        for name in operands:
            if name not in values and name in graph.weights:
                values[name] = _leaf(name, graph.weights[name], origins)
        origin = next((origins[name] for name in results if name in origins), Origin((), None, ""))
        facts: dict[str, Any] = {"scope": origin.scope, "source": origin.source, "label": node.label}
        facts["attributes"] = {**({"operator": origin.operator} if origin.operator else {}), **node.attributes}
        reads = tuple([name for name in operands if name in values])
        if len(results) == 1:
            values[results[0]] = Value(node.operation, reads, *_type(graph, results[0]), **facts)
            node_names[results[0]] = results[0]
            continue
        name = node.name or ", ".join(results)
        while name in taken:
            name += " "
        taken.add(name)
        node_names[results[0]] = name
        parts = tuple([_type(graph, result) for result in results])
        values[name] = Value(node.operation, reads, dtype="tuple", parts=parts, **facts)
        for index, result in enumerate(results):
            facts = {"scope": origin.scope, "source": origin.source, "attributes": {"index": str(index)}}
            values[result] = Value("item", (name,), *parts[index], kind="item", **facts)
    for name in graph.outputs:
        if name not in values and name in graph.weights:
            values[name] = _leaf(name, graph.weights[name], origins)
    return values, node_names


def _leaf(name: str, weight: Weight, origins: Mapping[str, Origin]) -> Value:
    scope, dtype = origins[name].scope if name in origins else (), weight.dtype or UNKNOWN
    if text := weight.text:
        return Value("constant", (), weight.shape, dtype, "constant", {"value": text}, scope, label=text)
    return Value("weight", (), weight.shape, dtype, "leaf", scope=scope, label=name)


def _type(graph: Graph, name: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and dtype of a value; an unknown type has no dimensions."""
    shape, dtype = graph.shape(name), graph.dtype(name)
    return ((), UNKNOWN) if shape is None or not dtype else (shape, dtype)
