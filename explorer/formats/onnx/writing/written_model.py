"""The model being written: nodes, stored tensors, names, and the required opset.

The outermost graph contains all stored tensors; inner graphs read them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
    helper,
    shape_inference,
)

from explorer.core.errors import OperandError
from explorer.core.types.custom_dtypes import is_text
from explorer.formats.common.onnx_names import SCOPES
from explorer.formats.common.stored_dtypes import encode
from explorer.net.definition.definition import BlobType
from explorer.net.definition.operator_definition import memory_dtype

OPSET = 21
"""default opset of written files, supported since onnxruntime 1.20; operators may require a newer one"""
_SMALL = 1024
"""maximum size in bytes of a tensor that shapes may depend on"""
TEXT = TensorProto.STRING
_CODES = {"bfloat16": TensorProto.BFLOAT16}


class Model:
    """Nodes and stored tensors of a file being written."""

    def __init__(self, name: str, taken: Iterable[str] = ()) -> None:
        self.name = name
        self.taken = {*taken}
        """names of values in use"""
        self.tensors: dict[str, TensorProto] = {}
        """stored tensors by name, without their elements"""
        self.elements: dict[str, NDArray[Any]] = {}
        """elements of the stored tensors by name, encoded for the file"""
        self._domains: dict[str, int] = {"": OPSET}
        self._node_names: set[str] = set()

    def unused_name(self, wanted: str) -> str:
        """Reserve and return an unused name of a value, derived from ``wanted``."""
        return _unused_name(wanted, self.taken)

    def store(self, wanted: str, array: NDArray[Any], dtype: str) -> str:
        """Store a tensor and return its name; an equal tensor stored under the same wanted name is reused."""
        if is_text(array.dtype):
            name = self.unused_name(wanted)
            data = [string.encode() for string in array.flat]
            self.tensors[name] = TensorProto(name=name, data_type=TEXT, dims=array.shape, string_data=data)
            return name
        raw = encode(array, dtype, wanted)
        existing = self.elements.get(wanted)
        if existing is not None and (existing.dtype, existing.shape) == (raw.dtype, raw.shape):  # noqa: SIM102 - compare bytes last
            if existing is raw or existing.tobytes() == raw.tobytes():
                return wanted
        name = self.unused_name(wanted)
        self.tensors[name] = TensorProto(name=name, data_type=code_of(dtype), dims=array.shape)
        self.elements[name] = raw
        return name

    def node(
        self, type: str, inputs: Sequence[str], outputs: Sequence[str], name: str, attributes: Sequence[AttributeProto]
    ) -> NodeProto:
        """Return a node of type ``Type``, or ``domain.Type`` outside the standard domain; record the required opset."""
        domain, _, op_type = type.rpartition(".")
        node = NodeProto(
            op_type=op_type, domain=domain, name=_unused_name(name, self._node_names), input=inputs, output=outputs
        )
        node.attribute.extend(attributes)
        self._domains[domain] = max(self._domains.get(domain, 1), _opset_of(node))
        return node

    def proto(
        self, nodes: Sequence[NodeProto], inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], doc: str
    ) -> ModelProto:
        """Return the model; its tensors have no elements yet."""
        graph = GraphProto(name=self.name or "net", node=nodes, input=inputs, output=outputs, doc_string=doc)
        graph.initializer.extend(self.tensors.values())
        model = ModelProto(producer_name="explorer", graph=graph)
        _import(model, self._domains)
        for opset in range(self._domains[""], defs.onnx_opset_version() + 1):
            if self._is_valid(model, opset):
                _import(model, {**self._domains, "": opset})
                break
        return model

    def _is_valid(self, model: ModelProto, opset: int) -> bool:
        """Return whether type inference succeeds in an opset; some operators accept a dtype only in newer opsets."""
        light = ModelProto()
        light.CopyFrom(model)
        _import(light, {**self._domains, "": opset})
        for tensor in light.graph.initializer:
            if tensor.name in self.elements and self.elements[tensor.name].nbytes <= _SMALL:
                self.fill(tensor)
        try:
            shape_inference.infer_shapes(light, check_type=True, strict_mode=True)
        except (shape_inference.InferenceError, RuntimeError, ValueError):  # ValueError for an unknown dtype code
            return False
        return True

    def fill(self, tensor: TensorProto) -> None:
        """Copy the elements of a stored tensor into its message, which already contains strings."""
        if tensor.data_type != TEXT:
            tensor.raw_data = self.elements[tensor.name].tobytes()

    @property
    def nbytes(self) -> int:
        """Total size in bytes of the stored numeric tensors."""
        return sum(array.nbytes for array in self.elements.values())


def _import(model: ModelProto, domains: Mapping[str, int]) -> None:
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    model.ir_version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)


def _unused_name(wanted: str, taken: set[str]) -> str:
    candidates = chain([wanted], (f"{wanted} ({index})" for index in count(2)))
    name = next(name for name in candidates if name not in taken)
    taken.add(name)
    return name


def code_of(dtype: str) -> int:
    """Return ONNX's code of a dtype."""
    if is_text(memory_dtype(dtype)):
        return TEXT
    return _CODES.get(dtype) or helper.np_dtype_to_tensor_dtype(memory_dtype(dtype))


def schema_of(type: str, opset: int | None = None) -> defs.OpSchema | None:
    """Return the schema of a type in ``opset``, by default the newest; None if the standard has none."""
    domain, _, name = type.rpartition(".")
    try:
        return defs.get_schema(name, domain) if opset is None else defs.get_schema(name, opset, domain)
    except defs.SchemaError:
        return None


def _opset_of(node: NodeProto) -> int:
    """Return the oldest opset, at least ``OPSET``, that supports a node's inputs and attributes."""
    newest = schema_of(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
    if newest is None:
        return 1 if node.domain else OPSET
    if node.domain:
        # a type that is deprecated in the newest version needs the version before
        return newest.since_version - newest.deprecated
    schema = schema_of(node.op_type, OPSET)
    used = {attribute.name for attribute in node.attribute}
    if schema is not None and used <= {*schema.attributes} and len(node.input) <= schema.max_input:
        return OPSET
    return max(OPSET, newest.since_version)


def record_module_path(node: NodeProto, boxes: Sequence[str] | None) -> None:
    """Record the boxes of a node as torch's exporter records modules."""
    if boxes and not any("." in box for box in boxes):
        node.metadata_props.add(key=SCOPES, value=repr(["", ".".join(boxes), node.name]))


def value_info(name: str, type_: BlobType) -> ValueInfoProto:
    """Return the declaration of a value; it has no type if the dtype is unknown."""
    if type_.dtype is None:
        return ValueInfoProto(name=name)
    proto = helper.make_tensor_type_proto(code_of(type_.dtype), type_.shape)
    if type_.keys:
        key = TensorProto.STRING if isinstance(type_.keys[0], str) else TensorProto.INT64
        proto = helper.make_map_type_proto(key, helper.make_tensor_type_proto(code_of(type_.dtype), ()))
    if type_.container.endswith("sequence"):
        proto = helper.make_sequence_type_proto(proto)
    if type_.container.startswith("optional"):
        proto = helper.make_optional_type_proto(proto)
    return helper.make_value_info(name, proto)


def unsupported_operator_error(operator: str, problem: str, rule: str, fix: str) -> OperandError:
    """Return the error for an operator that ONNX cannot represent."""
    return OperandError(f"{operator} cannot be written to an ONNX file: {problem}", rule=rule, fix=fix)
