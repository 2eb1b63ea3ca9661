"""From a parsed model to a definition: operators over named values, constants as arguments and weights.

Nothing is run here and no weight is read: a model of gigabytes opens at once. Initializers and Constant nodes become
weights of the operators that read them, or arguments where they are a number or a short list, as in PNNX files; so both
formats are drawn and edited alike. Operators that are not known stay, with their names, for the graph to be seen whole.
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
from explorer.formats.common.onnx_words import left_out
from explorer.formats.onnx.function_inlining import PlacedNode, body_of, captured, expanded
from explorer.formats.onnx.large_elements import Elements
from explorer.formats.onnx.operator_names import Names, beside_bias, telling_weights
from explorer.formats.onnx.operators.base.formal_names import domain_of, input_names, output_names
from explorer.formats.onnx.signatures import type_of, upgraded
from explorer.formats.onnx.source_lines import written_at
from explorer.formats.onnx.stored_tensors import (
    StoredTensor,
    StoredWeights,
    dtype_name,
    is_supported,
    sparse,
    stored,
    texts,
)
from explorer.net.definition.definition import (
    BlobType,
    Dimension,
    NetDefinition,
    OperatorDefinition,
    Plain,
    WeightReference,
)
from explorer.net.operators.table import OperatorTable
from explorer.record.reasons import counted_text

_TEXT = 400
"""characters of a node that are kept to show where an operator was written"""
_FEW = 64
"""elements of a tensor that may be a shape"""


def definition(
    model: ModelProto,
    path: Path,
    known: OperatorTable,
    remark: str = "",
    *,
    elements: Mapping[bytes, Elements] | None = None,
    local: bool = False,
) -> NetDefinition:
    """Return the definition of a model; raises FileError for a malformed graph or tensor.

    An operator that is not in the table of ``known`` ones is expanded where the standard defines it by others.
    ``elements`` are those of large tensors, by the marks that stand for them in the message. A ``remark`` on how the
    model was read stands in the definition's description. ``local`` says that the model was exported by this process,
    so that the whole text of the program around its noted lines may be shown.
    """
    return _Reader(model, path, known, {} if elements is None else elements, remark=remark, local=local).read()


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
        local: bool = False,
    ) -> None:
        self.graph = model.graph if graph is None else graph
        self.path, self.known, self.elements = path, known, elements
        self.model, self.opsets, self.remark, self.local = model, opsets, remark, local
        self.outer = dict(tensors or {})
        """initializers of the graphs around an inner one"""
        self.tensors: dict[str, StoredTensor] = {}
        self.weights: dict[str, StoredTensor] = {}
        self.names = Names()
        self.telling: frozenset[str] = frozenset()
        """weights whose names tell the boxes of what reads them"""
        self.dictionaries = self._dictionaries()
        """types of the arrays that stand for maps"""
        values = (*self.graph.input, *self.graph.value_info)
        kinds = {value.name: kind for value in values if (kind := unreadable_kind(value.type))}
        self.kinds = {name: kind for name, kind in kinds.items() if name not in self.dictionaries}

    def _dictionaries(self) -> dict[str, BlobType]:
        """Return the inputs that are maps with the keys that the operator behind them knows."""
        types = {value.name: value.type for value in self.graph.input if value.type.HasField("map_type")}
        dictionaries = {}
        for node in self.graph.node if types else ():
            if node.op_type == "DictVectorizer" and node.input and node.input[0] in types:
                vocabulary = [[text(key) for key in a.strings] or [*a.ints] for a in node.attribute]
                keys = tuple(dict.fromkeys(key for each in vocabulary for key in each))
                if (type_ := dictionary_type(types[node.input[0]], keys)) is not None:
                    dictionaries[node.input[0]] = type_
        return dictionaries

    def read(self, outside: Mapping[str, object] | None = None) -> NetDefinition:
        """Return the definition; ``outside`` are the values around an inner graph, of which it captures some."""
        for tensor in self.graph.initializer:
            self._enter(stored(tensor, tensor.name, self.path, self.elements), tensor.name)
        for scattered in self.graph.sparse_initializer:
            name = scattered.values.name
            self._enter(sparse(scattered, name, self.path, self.elements), name)
        # before IR version 4 (ONNX 1.4) every initializer had to be among the graph's inputs, too
        inputs = [value.name for value in self.graph.input if value.name not in self.tensors]
        outputs = [value.name for value in self.graph.output]
        expansion = expanded(self.model, self.path, self._standard, self.graph, self.opsets, outside or ())
        nodes = [placed for placed in expansion if not self._is_constant(placed, outputs)]
        produced = [name for placed in nodes for name in placed.node.output if name]
        # otherwise readers of the name would take the initializer, and the node's result would have none
        twice = next((name for name in produced if name in self.tensors), None)
        if twice is not None:
            raise FileError(
                f"{twice!r} is an initializer and the output of a node",
                path=str(self.path),
                rule="a value must have one producer",
                fix="give one of the two another name",
            )
        own = {*inputs, *produced}
        # A value of an inner graph hides a constant of that name around it.
        self.tensors.update((name, tensor) for name, tensor in self.outer.items() if name not in own | {*self.tensors})
        # everything that an inner graph (a body of If or Loop) may read from outside
        values = {**dict.fromkeys(outside or ()), **dict.fromkeys([*inputs, *produced])}
        self.telling = telling_weights(nodes, {blob: tensor.name for blob, tensor in self.tensors.items()})
        operators = beside_bias([self._operator(number, placed, values) for number, placed in enumerate(nodes, 1)])
        # an initializer that is an output: NetDefinition's outputs are produced by operators
        operators += [self._constant(name) for name in dict.fromkeys(outputs) if name in self.tensors]
        if outside is not None:
            read = [*[blob for operator in operators for blob in operator.inputs], *outputs]
            inputs += [blob for blob in dict.fromkeys(read) if blob in outside and blob not in own]
        name = self.path.name.removesuffix(self.path.suffix) if outside is None else self.graph.name
        types = self._types()
        return NetDefinition.of(
            name,
            operators,
            inputs,
            outputs,
            types if outside is None else {blob: unnamed(type_) for blob, type_ in types.items() if blob in own},
            source=str(self.path),
            weights=StoredWeights(self.weights),
            dialect="onnx",
            doc=_about(self.model, self.remark),
        )

    def _standard(self, node: NodeProto, opsets: Mapping[str, int]) -> FunctionProto | None:
        """Return the standard's definition of an operator that the table does not know, by other operators."""
        if type_of(node.domain, node.op_type, opsets) in self.known:
            return None
        return body_of(node, opsets, self.noted if self._notes_types(node) else self.inferred)

    def _notes_types(self, node: NodeProto) -> bool:
        """Whether the file notes the types of all that a node reads, as far as its definition depends on them."""
        if domain_of(node.domain) or not defs.has(node.op_type):
            return True
        schema: Any = defs.get_schema(node.op_type)  # its stubs lack what it says of functions
        return not schema.has_context_dependent_function or all(name in self.noted for name in node.input if name)

    @cached_property
    def inferred(self) -> dict[str, TypeProto]:
        """The types that the standard infers of values whose types the file does not note, and those that it notes.

        Tools that write models anew, such as quantisers, leave the notes out.
        """
        sketch = ModelProto(ir_version=self.model.ir_version, opset_import=self.model.opset_import)
        sketch.graph.CopyFrom(self.graph)
        del sketch.graph.initializer[:]
        for tensor in self.graph.initializer:
            if math.prod(tensor.dims) <= _FEW and tensor.data_location != TensorProto.EXTERNAL:
                sketch.graph.initializer.append(tensor)  # it may be a shape
            else:
                type_ = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
                sketch.graph.value_info.append(ValueInfoProto(name=tensor.name, type=type_))
        try:
            values = infer_shapes(sketch).graph.value_info
        except (InferenceError, RuntimeError, ValueError):
            # Such a file may still be drawn: an operator whose definition stays unknown is named when the net is run.
            values = []
        return {**{value.name: value.type for value in values}, **self.noted}

    @cached_property
    def noted(self) -> dict[str, TypeProto]:
        """The types that the file notes."""
        values = (*self.graph.value_info, *self.graph.output, *self.graph.input)
        constants = {
            tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            for tensor in self.graph.initializer
        }
        return {**constants, **{value.name: value.type for value in values}}

    def _enter(self, tensor: StoredTensor, name: str) -> None:
        if name in self.tensors or not name:
            raise FileError(
                f"initializer {name!r} is there twice" if name else "an initializer has no name",
                path=str(self.path),
                rule="an initializer must have a name of its own",
                fix="export the model again",
            )
        self.tensors[name] = tensor

    def _is_constant(self, placed: PlacedNode, outputs: list[str]) -> bool:
        """Whether a node is a constant, or another name of one; it is a tensor from now on, and no operator."""
        node = placed.node
        if domain_of(node.domain) or len(node.output) != 1:
            return False
        # exporters share a weight between layers by Identity nodes: another name of the tensor, and no operator
        if node.op_type == "Identity" and len(node.input) == 1 and node.input[0] in self.tensors:
            if node.output[0] in outputs:
                return False
            self._enter(self.tensors[node.input[0]], node.output[0])
            return True
        if node.op_type != "Constant":
            return False
        tensor = constant(node, self.path, self.elements)
        if tensor is None:
            return False
        self._enter(tensor, tensor.name)
        return True

    def _constant(self, name: str) -> OperatorDefinition:
        """Return an operator whose result is a stored tensor: outputs of a net are made by operators."""
        node = NodeProto(op_type="Constant", output=[name])
        own = self.names.name(PlacedNode(node, (), {}), len(self.graph.node) + 1)
        arguments, weights = self._divided({}, {"value": self.tensors[name]}, as_plain=False)
        return OperatorDefinition("Constant", own, (), (name,), arguments, {}, weights)

    def _operator(self, number: int, placed: PlacedNode, values: Mapping[str, None]) -> OperatorDefinition:
        node = placed.node
        name = self.names.name(placed, number)
        plain, tensors = arguments(node, name, self.path, self.elements)
        passed: dict[str, str] = {}
        read: dict[str, StoredTensor] = {}
        for formal, blob in zip(input_names(node.domain, node.op_type, len(node.input)), node.input, strict=True):
            if blob in self.tensors:
                read[formal] = self.tensors[blob]
            elif blob:
                passed[formal] = blob
        bodies: dict[str, NetDefinition] = {}
        if node.attribute:
            # what an inner graph reads is an operand too, else its producer would seem unused
            for index, blob in enumerate(captured(node, values)):
                passed[f"captured {index}"] = blob
            bodies = self._bodies(placed, values)
        own_arguments, own_weights = self._divided(plain, tensors, as_plain=False)
        read_arguments, read_weights = self._divided({}, read, as_plain=True)
        return OperatorDefinition(
            self._type(placed, passed.values()),
            name,
            tuple(passed.values()),
            self._outputs(node, name),
            upgraded(placed, {**own_arguments, **read_arguments}),
            passed,
            {**own_weights, **read_weights},
            boxes=self.names.boxes(placed, name, [t.name for t in read.values() if t.name in self.telling]),
            line=number,
            text=_shown(node),
            code=written_at(node, self.local),
            bodies=bodies,
        )

    def _bodies(self, placed: PlacedNode, values: Mapping[str, None]) -> dict[str, NetDefinition]:
        """Return the definitions of the inner graphs among a node's attributes."""
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
                    local=self.local,
                )
                bodies[name] = reader.read(values)
        return bodies

    def _type(self, placed: PlacedNode, reads: Iterable[str]) -> str:
        type = type_of(placed.node.domain, placed.node.op_type, placed.opsets)
        if not self.kinds:  # most files have none, and many operators
            return type
        strange = next((self.kinds[blob] for blob in reads if blob in self.kinds), None)
        return f"{type} (of a {strange})" if strange else type

    def _divided(
        self, plain: Mapping[str, Plain], tensors: Mapping[str, StoredTensor], *, as_plain: bool
    ) -> tuple[dict[str, Plain], dict[str, WeightReference]]:
        """Arguments and weights of an operator: numbers and shapes are arguments, other tensors are weights."""
        arguments, weights = dict(plain), dict[str, WeightReference]()
        for name, tensor in tensors.items():
            value = tensor.plain if as_plain else None
            if tensor.data is None:
                arguments[name] = f"a tensor of {tensor.dtype}, which explorer has not"
            elif value is not None:
                arguments[name] = value
            else:
                weights[name] = tensor.reference
                self.weights[tensor.name] = tensor
        return arguments, weights

    def _outputs(self, node: NodeProto, name: str) -> tuple[str, ...]:
        """Names of all outputs up to the last that is used; one that the file leaves out gets a name."""
        outputs = tuple(node.output)
        if "" not in outputs:
            return outputs
        used = [index for index, blob in enumerate(outputs) if blob]
        count = used[-1] + 1 if used else 0
        formal = output_names(node.domain, node.op_type, count)
        return tuple(outputs[index] or left_out(name, formal[index]) for index in range(count))

    def _types(self) -> dict[str, BlobType]:
        types = {}
        for value in (*self.graph.value_info, *self.graph.output, *self.graph.input):
            if (noted := blob_type(value.type)) is not None:
                types[value.name] = noted
        return types | self.dictionaries


def _about(model: ModelProto, remark: str) -> str:
    """Return the description of a file by itself: producer, opsets, how it was read, and notes, a line each."""
    producer = f"{model.producer_name} {model.producer_version}".strip()
    opsets = ", ".join(f"{domain_of(opset.domain) or 'ONNX'} {opset.version}" for opset in model.opset_import)
    lines = [
        model.doc_string or model.graph.doc_string,
        f"producer: {producer}" if producer else "",
        f"opsets: {opsets}" if opsets else "",
        remark,
        *[f"{entry.key}: {entry.value}" for entry in model.metadata_props],
    ]
    return "\n".join(line for line in lines if line)


def _shown(node: NodeProto) -> str:
    shown = f"{', '.join(node.output)} = {node.op_type}({', '.join(node.input)})"
    return shown if len(shown) <= _TEXT else shown[:_TEXT] + "…"


def _unpacked(value_type: TypeProto) -> tuple[str, TypeProto]:
    """Return the container of a type, and the type of what it holds: a sequence, an optional, or one of the other."""
    words = []
    if value_type.HasField("optional_type"):
        words.append("optional")
        value_type = value_type.optional_type.elem_type
    if value_type.HasField("sequence_type"):
        words.append("sequence")
        value_type = value_type.sequence_type.elem_type
    return " ".join(words), value_type


def unreadable_kind(value_type: TypeProto) -> str:
    """Return the kind of a value that no operator is able to read: a map, a sequence of sequences; "" for others."""
    container, held = _unpacked(value_type)
    container_type = held.WhichOneof("value") or ""
    if container_type not in ("tensor_type", ""):
        return (
            f"{container} of a {container_type.removesuffix('_type')}"
            if container
            else str(container_type).removesuffix("_type")
        )
    code = held.tensor_type.elem_type
    return f"tensor of {name}" if code and not is_supported(name := dtype_name(code)) else ""


def dictionary_type(value_type: TypeProto, keys: tuple[str | int, ...]) -> BlobType | None:
    """Return the type of the array that stands for a map: an element for each key. None for another type than a map."""
    held = value_type.map_type.value_type.tensor_type
    name = dtype_name(held.elem_type)
    if not value_type.HasField("map_type") or not is_supported(name):
        return None
    return BlobType((len(keys),), name, keys=keys)


def blob_type(value_type: TypeProto) -> BlobType | None:
    """Return the shape and dtype that a file notes of a tensor, or of the tensors in a container; None for others."""
    container, held = _unpacked(value_type)
    if not held.HasField("tensor_type"):
        return None
    tensor_type = held.tensor_type
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
            # "?" is how exporters write that there is no name: two of them are two lengths
            shape.append(dimension.dim_param if any(map(str.isalnum, dimension.dim_param)) else None)
    return BlobType(tuple(shape), dtype, container)


def unnamed(type_: BlobType) -> BlobType:
    """Return the type of a value of an inner graph, whose names of lengths are not those of the graph around it."""
    if type_.shape is None:
        return type_
    return replace(type_, shape=tuple([length if isinstance(length, int) else None for length in type_.shape]))


def arguments(
    node: NodeProto, name: str, path: Path, elements: Mapping[bytes, Elements]
) -> tuple[dict[str, Plain], dict[str, StoredTensor]]:
    """Return the plain attributes of a node by name, and its tensors, which are named ``operator.attribute``.

    An attribute without a plain value, a graph or a type, becomes a text that describes it.
    """
    plain: dict[str, Plain] = {}
    tensors: dict[str, StoredTensor] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            tensors[attribute.name] = stored(attribute.t, f"{name}.{attribute.name}", path, elements)
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
            return text(attribute.s)
        case types.INTS:
            return tuple(attribute.ints)
        case types.FLOATS:
            return tuple(attribute.floats)
        case types.STRINGS:
            return tuple(text(item) for item in attribute.strings)
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


def text(data: bytes) -> str:
    """Return bytes of a file as text; anything that is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")


def constant(node: NodeProto, path: Path, elements: Mapping[bytes, Elements]) -> StoredTensor | None:
    """Return the tensor of a Constant node; None if it has none."""
    name = node.output[0]
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                return stored(attribute.t, name, path, elements)
            case "sparse_value":
                return sparse(attribute.sparse_tensor, name, path, elements)
            case "value_int" | "value_ints":
                whole = np.array(attribute.i if attribute.name == "value_int" else attribute.ints, np.int64)
                return StoredTensor(name, whole.shape, "int64", whole)
            case "value_float" | "value_floats":
                real = np.array(attribute.f if attribute.name == "value_float" else attribute.floats, np.float32)
                return StoredTensor(name, real.shape, "float32", real)
            case "value_string":
                return texts(name, [attribute.s], (), path)
            case "value_strings":
                return texts(name, attribute.strings, (len(attribute.strings),), path)
    return None
