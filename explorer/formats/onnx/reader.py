"""Conversion of a parsed ONNX model to a net definition.

Nothing is executed and no weights are loaded, so a model of several gigabytes opens immediately. An initializer or
Constant node becomes an argument of the operators that read it if it is a number or a short list, otherwise a weight.
Unknown operators are kept, so that the graph is complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
)
from onnx.shape_inference import InferenceError, infer_shapes

from explorer.core.errors import FileError
from explorer.core.recursion_limit import one_deeper
from explorer.formats.common.onnx_names import omitted_output_name
from explorer.formats.onnx.function_inlining import ExpandedNode, body_of, captured_values, expanded_nodes
from explorer.formats.onnx.large_elements import Elements
from explorer.formats.onnx.metadata import description, model_metadata, node_metadata, value_metadata
from explorer.formats.onnx.operator_names import Names, naming_weights, with_bias_boxes, with_quantization_boxes
from explorer.formats.onnx.operators.base.formal_names import domain_of, input_names, output_names
from explorer.formats.onnx.signatures import type_of, upgraded_arguments
from explorer.formats.onnx.source_lines import source_place
from explorer.formats.onnx.stored_tensors import (
    StoredTensor,
    StoredWeights,
    dense_tensor,
    dtype_name,
    is_supported,
    sparse_tensor,
    string_tensor,
)
from explorer.formats.onnx.type_documentation import documented_type
from explorer.net.definition.definition import (
    BlobType,
    Dimension,
    NetDefinition,
    OperatorDefinition,
    Plain,
    WeightReference,
)
from explorer.net.definition.operator_definition import CAPTURED
from explorer.net.operators.table import OperatorTable
from explorer.record.reasons import counted_text

_SOURCE_LENGTH = 400
"""maximum number of characters kept of a node's source line"""
_SHAPE_ELEMENTS = 64
"""maximum number of elements of a tensor that may be a shape"""


def definition(
    model: ModelProto,
    path: Path,
    known: OperatorTable,
    remark: str = "",
    *,
    upgraded_from: int = 0,
    elements: Mapping[bytes, Elements] | None = None,
    local: bool = False,
) -> NetDefinition:
    """Return the definition of a model; raise FileError if a graph or tensor is invalid.

    Operators missing from the table ``known`` are expanded if the standard defines them as functions. ``elements`` maps
    placeholders in the message to the elements of large tensors. ``remark`` is added to the definition's description,
    and ``upgraded_from`` is the opset of the file if the model was upgraded. Set ``local`` if this process
    exported the model, so that the source code around its recorded lines may be shown.
    """
    given = {} if elements is None else elements
    return _Reader(model, path, known, given, remark=remark, upgraded_from=upgraded_from, local=local).read()


class _Reader:
    def __init__(
        self,
        model: ModelProto,
        path: Path,
        known: OperatorTable,
        elements: Mapping[bytes, Elements],
        graph: GraphProto | None = None,
        tensors: Mapping[str, StoredTensor] | None = None,
        opsets: Mapping[str, int] | None = None,
        remark: str = "",
        upgraded_from: int = 0,
        local: bool = False,
    ) -> None:
        self.graph = model.graph if graph is None else graph
        self.path, self.known, self.elements = path, known, elements
        self.model, self.opsets, self.remark, self.local = model, opsets, remark, local
        self.upgraded_from = upgraded_from
        self.outer = dict(tensors or {})
        """initializers of the outer graphs"""
        self.tensors: dict[str, StoredTensor] = {}
        self.weights: dict[str, StoredTensor] = {}
        self.names = Names()
        self.naming_weights: frozenset[str] = frozenset()
        """weights whose names determine the boxes of the operators that read them"""
        self.values = value_metadata(self.graph)
        """(name, value) pairs that the file states about values, by value"""
        self.dictionaries = self._dictionaries()
        """types of the arrays that represent maps"""
        values = (*self.graph.input, *self.graph.value_info)
        kinds = {value.name: kind for value in values if (kind := unreadable_kind(value.type))}
        self.kinds = {name: kind for name, kind in kinds.items() if name not in self.dictionaries}

    def _dictionaries(self) -> dict[str, BlobType]:
        """Return the types of map inputs, whose keys are the vocabulary of the DictVectorizer that reads them."""
        types = {value.name: value.type for value in self.graph.input if value.type.HasField("map_type")}
        dictionaries = {}
        for node in self.graph.node if types else ():
            if node.op_type == "DictVectorizer" and node.input and node.input[0] in types:
                vocabulary = [[decoded(key) for key in a.strings] or [*a.ints] for a in node.attribute]
                keys = tuple(dict.fromkeys(key for each in vocabulary for key in each))
                if (type_ := dictionary_type(types[node.input[0]], keys)) is not None:
                    dictionaries[node.input[0]] = type_
        return dictionaries

    def read(self, outside: Mapping[str, object] | None = None) -> NetDefinition:
        """Return the definition; ``outside`` contains the values that an inner graph may capture."""
        for tensor in self.graph.initializer:
            self._add_tensor(dense_tensor(tensor, tensor.name, self.path, self.elements), tensor.name)
        for scattered in self.graph.sparse_initializer:
            name = scattered.values.name
            self._add_tensor(sparse_tensor(scattered, name, self.path, self.elements), name)
        # before IR version 4 (ONNX 1.4) every initializer also had to be a graph input
        inputs = [value.name for value in self.graph.input if value.name not in self.tensors]
        outputs = [value.name for value in self.graph.output]
        expansion = expanded_nodes(self.model, self.path, self._standard, self.graph, self.opsets, outside or ())
        nodes = [placed for placed in expansion if not self._is_constant(placed, outputs)]
        produced = [name for placed in nodes for name in placed.node.output if name]
        # otherwise operators would read the initializer instead of the node's result
        duplicate = next((name for name in produced if name in self.tensors), None)
        if duplicate is not None:
            raise FileError(
                f"{duplicate!r} is an initializer and the output of a node",
                path=str(self.path),
                rule="a value must have one producer",
                fix="rename one of the two",
            )
        own_names = {*inputs, *produced}
        # A value of an inner graph hides an outer constant with the same name.
        self.tensors.update(
            (name, tensor) for name, tensor in self.outer.items() if name not in own_names | {*self.tensors}
        )
        # all outer values that an inner graph (a body of If or Loop) may read
        values = {**dict.fromkeys(outside or ()), **dict.fromkeys([*inputs, *produced])}
        self.naming_weights = naming_weights(nodes, {blob: tensor.name for blob, tensor in self.tensors.items()})
        operators = [self._operator(number, placed, values) for number, placed in enumerate(nodes, 1)]
        operators = with_quantization_boxes(with_bias_boxes(operators))
        # an initializer that is an output needs a Constant operator
        operators += [self._constant(name) for name in dict.fromkeys(outputs) if name in self.tensors]
        if outside is not None:
            read = [*[blob for operator in operators for blob in operator.inputs], *outputs]
            inputs += [blob for blob in dict.fromkeys(read) if blob in outside and blob not in own_names]
        name = self.path.name.removesuffix(self.path.suffix) if outside is None else self.graph.name
        types = self._types()
        return NetDefinition.of(
            name,
            operators,
            inputs,
            outputs,
            types if outside is None else {blob: unnamed(type_) for blob, type_ in types.items() if blob in own_names},
            source=str(self.path),
            weights=StoredWeights(self.weights),
            dialect="onnx",
            doc=description(self.model, self.graph) if outside is None else self.graph.doc_string,
            metadata=model_metadata(self.model, self.remark, self.upgraded_from) if outside is None else (),
        )

    def _standard(self, node: NodeProto, opsets: Mapping[str, int]) -> FunctionProto | None:
        """Return the standard's definition of an operator that is missing from the table; None if there is none."""
        if type_of(node.domain, node.op_type, opsets) in self.known:
            return None
        return body_of(node, opsets, self.declared_types if self._declares_types(node) else self.inferred_types)

    def _declares_types(self, node: NodeProto) -> bool:
        """Return whether the file declares all input types on which the standard's definition of a node depends."""
        if domain_of(node.domain) or not defs.has(node.op_type):
            return True
        schema: Any = defs.get_schema(node.op_type)  # the type stubs of onnx lack the function attributes
        return not schema.has_context_dependent_function or all(
            name in self.declared_types for name in node.input if name
        )

    @cached_property
    def inferred_types(self) -> dict[str, TypeProto]:
        """Types declared in the file or, if missing, inferred; quantisers and similar tools omit declarations."""
        outline = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        outline.graph.CopyFrom(self.graph)
        del outline.graph.initializer[:]
        for tensor in self.graph.initializer:
            if math.prod(tensor.dims) <= _SHAPE_ELEMENTS and tensor.data_location != TensorProto.EXTERNAL:
                outline.graph.initializer.append(tensor)  # inference may need its value, such as a shape
            else:
                type_ = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                outline.graph.value_info.append(ValueInfoProto(name=tensor.name, type=type_))
        try:
            values = infer_shapes(outline).graph.value_info
        except (InferenceError, RuntimeError, ValueError):
            # The file can still be drawn; running the net reports operators without a definition.
            values = []
        return {**{value.name: value.type for value in values}, **self.declared_types}

    @cached_property
    def declared_types(self) -> dict[str, TypeProto]:
        """Types that the file declares."""
        values = (*self.graph.value_info, *self.graph.output, *self.graph.input)
        constants = {
            tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            for tensor in self.graph.initializer
        }
        return {**constants, **{value.name: value.type for value in values}}

    def _add_tensor(self, tensor: StoredTensor, name: str) -> None:
        if name in self.tensors or not name:
            raise FileError(
                f"initializer {name!r} occurs twice" if name else "an initializer has no name",
                path=str(self.path),
                rule="each initializer must have a unique name",
                fix="export the model again",
            )
        self.tensors[name] = tensor

    def _is_constant(self, placed: ExpandedNode, outputs: list[str]) -> bool:
        """Return whether a node is a constant or an alias of one, and if so, record its tensor."""
        node = placed.node
        if domain_of(node.domain) or len(node.output) != 1:
            return False
        # exporters share a weight between layers through Identity nodes, which are aliases of the tensor
        if node.op_type == "Identity" and len(node.input) == 1 and node.input[0] in self.tensors:
            if node.output[0] in outputs:
                return False
            self._add_tensor(self.tensors[node.input[0]], node.output[0])
            return True
        if node.op_type != "Constant":
            return False
        tensor = constant(node, self.path, self.elements)
        if tensor is None:
            return False
        self._add_tensor(tensor, tensor.name)
        return True

    def _constant(self, name: str) -> OperatorDefinition:
        """Return an operator for the constant ``name``, because operators must produce the outputs of a net."""
        node = NodeProto(op_type="Constant", output=[name])
        operator_name = self.names.name(ExpandedNode(node, (), {}), len(self.graph.node) + 1)
        arguments, weights = self._arguments_and_weights({}, {"value": self.tensors[name]}, as_plain=False)
        return OperatorDefinition("Constant", operator_name, (), (name,), arguments, {}, weights)

    def _operator(self, number: int, placed: ExpandedNode, values: Mapping[str, None]) -> OperatorDefinition:
        node = placed.node
        name = self.names.name(placed, number)
        plain, tensors = arguments(node, name, self.path, self.elements)
        input_blobs: dict[str, str] = {}
        read: dict[str, StoredTensor] = {}
        for formal, blob in zip(input_names(node.domain, node.op_type, len(node.input)), node.input, strict=True):
            if blob in self.tensors:
                read[formal] = self.tensors[blob]
            elif blob:
                input_blobs[formal] = blob
        bodies: dict[str, NetDefinition] = {}
        if node.attribute:
            # values that an inner graph reads are operands too; otherwise their producers would seem unused
            for index, blob in enumerate(captured_values(node, values)):
                input_blobs[f"{CAPTURED}{index}"] = blob
            bodies = self._bodies(placed, values)
        own_arguments, own_weights = self._arguments_and_weights(plain, tensors, as_plain=False)
        read_arguments, read_weights = self._arguments_and_weights({}, read, as_plain=True)
        stated = {**own_arguments, **read_arguments}
        given = upgraded_arguments(placed, stated)
        return OperatorDefinition(
            self._type(placed, input_blobs.values()),
            name,
            tuple(input_blobs.values()),
            self._outputs(node, name),
            given,
            input_blobs,
            {**own_weights, **read_weights},
            boxes=self.names.boxes(placed, name, [t.name for t in read.values() if t.name in self.naming_weights]),
            line=number,
            text=_source_line(node),
            doc=node.doc_string,
            code=source_place(node, self.local),
            bodies=bodies,
            documentation=documented_type(node.domain, node.op_type, placed.opsets, self.known, self.upgraded_from),
            implied=frozenset(given.keys() - stated.keys()),
            metadata=node_metadata(node, self.values, self.tensors),
        )

    def _bodies(self, placed: ExpandedNode, values: Mapping[str, None]) -> dict[str, NetDefinition]:
        graphs = {attribute.name: attribute.g for attribute in placed.node.attribute if attribute.HasField("g")}
        bodies = {}
        for name, graph in graphs.items():
            with one_deeper(f"the graph {name!r} of {placed.node.op_type}"):
                reader = _Reader(
                    self.model,
                    self.path,
                    self.known,
                    self.elements,
                    graph,
                    self.tensors,
                    placed.opsets,
                    upgraded_from=self.upgraded_from,
                    local=self.local,
                )
                bodies[name] = reader.read(values)
        return bodies

    def _type(self, placed: ExpandedNode, reads: Iterable[str]) -> str:
        type = type_of(placed.node.domain, placed.node.op_type, placed.opsets)
        if not self.kinds:
            return type
        unreadable = next((self.kinds[blob] for blob in reads if blob in self.kinds), None)
        return f"{type} (of a {unreadable})" if unreadable else type

    def _arguments_and_weights(
        self, plain: Mapping[str, Plain], tensors: Mapping[str, StoredTensor], *, as_plain: bool
    ) -> tuple[dict[str, Plain], dict[str, WeightReference]]:
        """Return an operator's arguments and weights; with ``as_plain``, numbers and short lists become arguments."""
        arguments, weights = dict(plain), dict[str, WeightReference]()
        for name, tensor in tensors.items():
            value = tensor.plain if as_plain else None
            if tensor.data is None:
                arguments[name] = f"a tensor of {tensor.dtype}, which explorer does not support"
            elif value is not None:
                arguments[name] = value
            else:
                weights[name] = tensor.reference
                self.weights[tensor.name] = tensor
        return arguments, weights

    def _outputs(self, node: NodeProto, name: str) -> tuple[str, ...]:
        """Return the output names up to the last used one; omitted outputs get generated names."""
        outputs = tuple(node.output)
        if "" not in outputs:
            return outputs
        used = [index for index, blob in enumerate(outputs) if blob]
        count = used[-1] + 1 if used else 0
        formal = output_names(node.domain, node.op_type, count)
        return tuple(outputs[index] or omitted_output_name(name, formal[index]) for index in range(count))

    def _types(self) -> dict[str, BlobType]:
        types = {}
        for value in (*self.graph.value_info, *self.graph.output, *self.graph.input):
            if (declared := blob_type(value.type)) is not None:
                types[value.name] = declared
        return types | self.dictionaries


def _source_line(node: NodeProto) -> str:
    line = f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
    return line if len(line) <= _SOURCE_LENGTH else line[:_SOURCE_LENGTH] + "…"


def _unpacked(value_type: TypeProto) -> tuple[str, TypeProto]:
    """Return the container of a type (sequence, optional or both) and the type of its elements."""
    containers = []
    if value_type.HasField("optional_type"):
        containers.append("optional")
        value_type = value_type.optional_type.elem_type
    if value_type.HasField("sequence_type"):
        containers.append("sequence")
        value_type = value_type.sequence_type.elem_type
    return " ".join(containers), value_type


def unreadable_kind(value_type: TypeProto) -> str:
    """Return the kind of a value that no operator can read, such as a map; "" if operators can read it."""
    container, element = _unpacked(value_type)
    container_type = element.WhichOneof("value") or ""
    if container_type not in ("tensor_type", ""):
        return (
            f"{container} of a {container_type.removesuffix('_type')}"
            if container
            else str(container_type).removesuffix("_type")
        )
    code = element.tensor_type.elem_type
    return f"tensor of {name}" if code and not is_supported(name := dtype_name(code)) else ""


def dictionary_type(value_type: TypeProto, keys: tuple[str | int, ...]) -> BlobType | None:
    """Return the type of the array that represents a map, with one element per key; None if there is no such array."""
    element = value_type.map_type.value_type.tensor_type
    name = dtype_name(element.elem_type)
    if not value_type.HasField("map_type") or not is_supported(name):
        return None
    return BlobType((len(keys),), name, keys=keys)


def blob_type(value_type: TypeProto) -> BlobType | None:
    """Return the declared shape and dtype of a tensor, or of the tensors in a container; None for all other types."""
    container, element = _unpacked(value_type)
    if not element.HasField("tensor_type"):
        return None
    tensor_type = element.tensor_type
    name = dtype_name(tensor_type.elem_type)
    dtype = name if is_supported(name) else None
    if not tensor_type.HasField("shape"):
        return BlobType(None, dtype, container)
    shape: list[Dimension] = []
    for dimension in tensor_type.shape.dim:
        # some exporters write −1 for an unknown length
        if dimension.HasField("dim_value") and dimension.dim_value >= 0:
            shape.append(dimension.dim_value)
        else:
            # exporters write "?" for any unnamed length, so two "?" may be different lengths
            shape.append(dimension.dim_param if any(map(str.isalnum, dimension.dim_param)) else None)
    return BlobType(tuple(shape), dtype, container)


def unnamed(type_: BlobType) -> BlobType:
    """Return a type without the names of its lengths, which are unrelated to the names in the outer graph."""
    if type_.shape is None:
        return type_
    return replace(type_, shape=tuple([length if isinstance(length, int) else None for length in type_.shape]))


def arguments(
    node: NodeProto, name: str, path: Path, elements: Mapping[bytes, Elements]
) -> tuple[dict[str, Plain], dict[str, StoredTensor]]:
    """Return the plain values and the tensors among a node's attributes, both keyed by attribute name.

    Tensors are named ``operator.attribute``. An attribute without a plain value, such as a graph or a type, becomes a
    string that describes it.
    """
    plain: dict[str, Plain] = {}
    tensors: dict[str, StoredTensor] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            tensors[attribute.name] = dense_tensor(attribute.t, f"{name}.{attribute.name}", path, elements)
        else:
            plain[attribute.name] = _plain(attribute)
    return plain, tensors


def _plain(attribute: AttributeProto) -> Plain:
    types = AttributeProto
    match attribute.type:
        case types.INT:
            return attribute.i
        case types.FLOAT:
            return attribute.f
        case types.STRING:
            return decoded(attribute.s)
        case types.INTS:
            return tuple(attribute.ints)
        case types.FLOATS:
            return tuple(attribute.floats)
        case types.STRINGS:
            return tuple(decoded(item) for item in attribute.strings)
        case types.GRAPH:
            return f"a graph of {counted_text(len(attribute.g.node), 'node')}"
        case types.GRAPHS:
            return tuple(f"a graph of {counted_text(len(graph.node), 'node')}" for graph in attribute.graphs)
        case types.TENSORS:
            return counted_text(len(attribute.tensors), "tensor")
        case types.SPARSE_TENSOR | types.SPARSE_TENSORS:
            return "a sparse tensor"
        case types.TYPE_PROTO | types.TYPE_PROTOS:
            return "a type"
    return f"an attribute of kind {attribute.type}"


def decoded(data: bytes) -> str:
    """Decode bytes of a file as UTF-8; invalid bytes are replaced."""
    return data.decode("utf-8", "replace")


def constant(node: NodeProto, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor | None:
    """Return the tensor of a Constant node; None if no known attribute contains it."""
    name = node.output[0]
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                return dense_tensor(attribute.t, name, path, elements)
            case "sparse_value":
                return sparse_tensor(attribute.sparse_tensor, name, path, elements)
            case "value_int" | "value_ints":
                integers = np.array(attribute.i if attribute.name == "value_int" else attribute.ints, np.int64)
                return StoredTensor(name, integers.shape, "int64", integers)
            case "value_float" | "value_floats":
                reals = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float32)
                return StoredTensor(name, reals.shape, "float32", reals)
            case "value_string":
                return string_tensor(name, [attribute.s], (), path)
            case "value_strings":
                return string_tensor(name, attribute.strings, (len(attribute.strings),), path)
    return None
