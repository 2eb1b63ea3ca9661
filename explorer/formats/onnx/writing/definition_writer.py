"""Conversion of a definition with ONNX operator types to a model with one node per operator.

The reader keys the inputs and attributes of a node by name, and converts constants to arguments and weights. Here, the
schema determines which of them are inputs and which are attributes. Nothing is built, so operators that explorer does
not know are also written. Names of unknown lengths are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
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

from explorer.core.errors import ExplorerError
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.custom_dtypes import dtype_name
from explorer.formats.common.onnx_names import (
    FLATTENS,
    FUNCTION,
    GRAPH,
    INPUT,
    NEAREST_BY_SCALE,
    OUTPUT,
    SLOPES_OF_CHANNELS,
)
from explorer.formats.onnx.writing.written_model import (
    Model,
    record_module_path,
    schema_of,
    unsupported_operator_error,
    value_info,
)
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, Plain

_EXPLORER_ARGUMENTS = (FLATTENS, NEAREST_BY_SCALE, SLOPES_OF_CHANNELS)
"""arguments that are not attributes of the standard"""
_FILE_FACTS = ("producer", "domain", "model version", "opsets", "IR version", "note")
"""metadata about the file that was read, which is not true of the written file"""
_PARTS = (GRAPH, INPUT, OUTPUT, FUNCTION)
"""beginnings of the names of metadata about parts of the file that was read"""
_EXPORT = "export the model again with the framework that made it"


def model_of(definition: NetDefinition) -> tuple[Model, ModelProto]:
    """Return the model of a definition; raise OperandError if ONNX cannot represent an operator."""
    model = Model(definition.name, _values(definition))
    nodes = _Graph(model, definition).nodes()
    inputs = [_input(definition, name) for name in definition.inputs]
    outputs = [_declared_info(definition, name) for name in definition.outputs]
    model_proto = model.proto(nodes, inputs, outputs, definition.doc)
    metadata = {
        name: value for name, value in definition.metadata if name not in _FILE_FACTS and not name.startswith(_PARTS)
    }
    if metadata:
        helper.set_model_props(model_proto, metadata)
    model_proto.graph.value_info.extend(_inner_types(definition))
    return model, _with_output_types(model_proto, model)


def _values(definition: NetDefinition) -> Iterator[str]:
    pending = [definition]
    while pending:
        current = pending.pop()
        yield from current.blobs
        pending += [body for operator in current.operators for body in operator.bodies.values()]


def _declared_info(definition: NetDefinition, name: str) -> ValueInfoProto:
    return value_info(name, definition.blobs[name].declared_type)


def _inner_types(definition: NetDefinition) -> list[ValueInfoProto]:
    """Return the declared types of a graph's values except its inputs and outputs."""
    named = {*definition.inputs, *definition.outputs}
    infos = [_declared_info(definition, name) for name in definition.blobs if name not in named]
    return [info for info in infos if info.HasField("type")]


def _input(definition: NetDefinition, name: str) -> ValueInfoProto:
    info = _declared_info(definition, name)
    if not info.HasField("type"):
        raise unsupported_operator_error(
            f"the input {name!r}", "its dtype is not known", "an input must be a tensor of a known dtype", _EXPORT
        )
    return info


def _with_output_types(model_proto: ModelProto, model: Model) -> ModelProto:
    """Return the model with types for all outputs, which are inferred if not declared."""
    if all(output.type.WhichOneof("value") for output in model_proto.graph.output):
        return model_proto
    inferred = shape_inference.infer_shapes(model_proto)
    types = {value.name: value.type for value in (*inferred.graph.output, *inferred.graph.value_info)}
    for output in model_proto.graph.output:
        output.type.CopyFrom(types.get(output.name, output.type))
        if not output.type.WhichOneof("value"):
            raise unsupported_operator_error(
                f"the output {output.name!r}",
                "its dtype is not known",
                "the standard's rules must infer its type",
                _EXPORT,
            )
    return model_proto


class _Graph:
    def __init__(self, model: Model, definition: NetDefinition) -> None:
        self.model, self.definition = model, definition

    def nodes(self) -> list[NodeProto]:
        """Return the nodes of all operators in topological order."""
        return [node for operator in self.definition.topological_order for node in self._nodes(operator)]

    def _nodes(self, operator: OperatorDefinition) -> Iterator[NodeProto]:
        type, has_remark, remark = operator.type.removesuffix(")").partition(" (")
        if has_remark and not remark.startswith("of a "):
            raise _refusal(operator, f"its type is of {remark}", "its type must be from opset 11 or newer")
        schema = schema_of(type)
        inputs = [self._input(operator, name) for name in _formals(operator, schema)]
        while inputs and not inputs[-1]:
            inputs.pop()
        read = {*_formals(operator, schema)}
        attributes = []
        for name, value in operator.arguments.items():
            if name not in read and name not in operator.bodies and name not in _EXPLORER_ARGUMENTS:
                attributes.append(_attribute(operator, schema, name, value))
        attributes += [
            helper.make_attribute(name, self._tensor(operator, name)) for name in operator.weights if name not in read
        ]
        for name, body in operator.bodies.items():
            attributes.append(helper.make_attribute(name, self._body(operator, name, body)))
        if type == "Split" and len(inputs) < 2 and "num_outputs" not in operator.arguments:
            # since opset 18, Split requires sizes or this attribute
            attributes.append(helper.make_attribute("num_outputs", len(operator.outputs)))
        if operator.arguments.get(SLOPES_OF_CHANNELS):
            raise _refusal(
                operator, "its slopes apply to channels, as before opset 7", "slopes must broadcast to the input"
            )
        if operator.arguments.get(NEAREST_BY_SCALE):
            raise _refusal(
                operator,
                "it rounds to the nearest element as in opset 10: up on axes that shrink, down on others",
                "all axes must have the same nearest_mode",
            )
        if operator.arguments.get(FLATTENS):
            yield from self._flattened(operator, type, inputs, attributes)
            return
        node = self.model.node(type, inputs, operator.outputs, operator.name, attributes)
        record_module_path(node, operator.boxes)
        node.doc_string = operator.doc
        yield node

    def _input(self, operator: OperatorDefinition, name: str) -> str:
        """Return the name of an input, which is a blob or a stored tensor; "" for an omitted input."""
        if name in operator.input_names:
            return operator.input_names[name]
        if name in operator.weights:
            reference = operator.weights[name]
            return self.model.store(reference.key, self.definition.weights[reference.key], reference.dtype)
        if name not in operator.arguments:
            return ""
        array = _array(operator, name, operator.arguments[name])
        # no dots, because readers would take the name for the path of a module parameter
        return self.model.store(f"{operator.name}:{name}".replace(".", "_"), array, dtype_name(array.dtype))

    def _tensor(self, operator: OperatorDefinition, name: str) -> TensorProto:
        reference = operator.weights[name]
        array = self.definition.weights[reference.key]
        container = Model("")
        key = container.store(name, array, reference.dtype)
        tensor = container.tensors[key]
        container.fill(tensor)
        return tensor

    def _body(self, operator: OperatorDefinition, name: str, body: NetDefinition) -> GraphProto:
        """Return an inner graph; captured values come last in ``body.inputs`` and are not inputs in ONNX."""
        inputs = [_declared_info(body, blob) for blob in body.inputs[: self._own_inputs(operator, body)]]
        if operator.type == "Loop":
            # ONNX Runtime requires types for the iteration number and the condition
            for info, dtype in zip(inputs, ("int64", "bool"), strict=False):
                info.CopyFrom(value_info(info.name, BlobType((), dtype)))
        with one_deeper(f"the graph {name!r} of {operator.name}"):
            nodes = _Graph(self.model, body).nodes()
        return GraphProto(
            name=body.name or name,
            node=nodes,
            input=inputs,
            output=[_declared_info(body, blob) for blob in body.outputs],
            # ONNX Runtime allocates the results of a Scan by the shapes declared in its body
            value_info=_inner_types(body),
            doc_string=body.doc,
        )

    def _own_inputs(self, operator: OperatorDefinition, body: NetDefinition) -> int:
        """Return the number of inputs of an inner graph, without captured values."""
        if operator.type in ("Loop", "Scan", "SequenceMap"):
            return max(len(_formals(operator, schema_of(operator.type))), 2 * (operator.type == "Loop"))
        captured = {blob for formal, blob in operator.input_names.items() if formal.startswith("captured ")}
        return 0 if operator.type == "If" else len([blob for blob in body.inputs if blob not in captured])

    def _flattened(
        self, operator: OperatorDefinition, type: str, inputs: list[str], attributes: list[AttributeProto]
    ) -> Iterator[NodeProto]:
        """Yield the nodes of a softmax that flattens the axes from ``axis`` on, as before opset 13."""
        (x,), (y,) = inputs, operator.outputs
        shape, rows, result = (self.model.unused_name(f"{y}.{part}") for part in ("shape", "rows", "result"))
        axis = [attribute for attribute in attributes if attribute.name == "axis"]
        last = helper.make_attribute("axis", -1)
        yield self.model.node("Shape", [x], [shape], f"{operator.name}.shape", [])
        yield self.model.node("Flatten", [x], [rows], f"{operator.name}.rows", axis)
        yield self.model.node(type, [rows], [result], operator.name, [last])
        yield self.model.node("Reshape", [result, shape], [y], f"{operator.name}.back", [])


def _formals(operator: OperatorDefinition, schema: defs.OpSchema | None) -> list[str]:
    """Return the names of an operator's inputs, up to the last one present."""
    present = [*operator.input_names, *operator.weights, *operator.arguments]
    if schema is None:
        return _numbered_names(present, "input ")
    formals = [formal.name for formal in schema.inputs]
    if schema.inputs and schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        formals += _numbered_names(present, formals.pop().removesuffix("_0") + ".")
    return formals + _numbered_names(present, "input ")


def _numbered_names(present: list[str], prefix: str) -> list[str]:
    numbers = [
        int(name.removeprefix(prefix)) for name in present if name.startswith(prefix) and name[len(prefix) :].isdigit()
    ]
    return [f"{prefix}{number}" for number in range(max(numbers, default=-1) + 1)]


def _array(operator: OperatorDefinition, name: str, value: Plain) -> Any:
    """Return a number or list as an input array: int64 for integers, float32 for real numbers."""
    if isinstance(value, str) or value is None:
        raise _refusal(operator, f"its input {name} is {value}", "its inputs must be numeric tensors")
    array = np.asarray(value)
    if array.dtype.kind == "f":
        return array.astype(np.float32 if array.size else np.int64)
    return array


def _attribute(operator: OperatorDefinition, schema: defs.OpSchema | None, name: str, value: Plain) -> AttributeProto:
    declared: Any = schema.attributes.get(name) if schema is not None else None
    if schema is not None and declared is None:
        raise _refusal(operator, f"{name}={value!r}", f"{operator.type} must only have attributes of the newest opset")
    # the value determines the attribute type of a custom operator, unless it is an empty list
    types = [*_TYPES] if declared is None else [declared.type.value]
    if types[0] not in _TYPES:
        raise _refusal(operator, f"{name} is {value}", "its attributes must be numbers, strings, tensors or graphs")
    matching = next((type for type in types if _has_type(value, *_TYPES[type][:2]) and (declared or value != ())), None)
    if matching is None:
        description = _TYPES[types[0]][2] if declared is not None else "a number, a string, or a list of one of these"
        raise _refusal(operator, f"its attribute {name} is {value!r:.80}", f"{name} must be {description}")
    kind, is_list, _ = _TYPES[matching]
    plain: Any = value
    return helper.make_attribute(name, [*map(kind, plain)] if is_list else kind(plain), attr_type=matching)


def _has_type(value: Plain, kind: type, is_list: bool) -> bool:
    if is_list:
        return isinstance(value, (tuple, list)) and all(_has_type(item, kind, False) for item in value)
    if isinstance(value, int) and kind is not str:
        return -(2**63) <= value < 2**63
    return isinstance(value, kind)


_TYPES: dict[int, tuple[type, bool, str]] = {
    AttributeProto.INT: (int, False, "an integer of 64 bits"),
    AttributeProto.FLOAT: (float, False, "a number"),
    AttributeProto.STRING: (str, False, "a string"),
    AttributeProto.INTS: (int, True, "a list of integers"),
    AttributeProto.FLOATS: (float, True, "a list of numbers"),
    AttributeProto.STRINGS: (str, True, "a list of strings"),
}
"""(Python type, whether it is a list, description) of each attribute type; custom operators use the first match"""


def _refusal(operator: OperatorDefinition, problem: str, rule: str) -> ExplorerError:
    return unsupported_operator_error(f"operator {operator.name!r} ({operator.type})", problem, rule, _EXPORT)
