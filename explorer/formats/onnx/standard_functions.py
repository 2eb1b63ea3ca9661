"""Operators that the standard itself defines by others: their bodies, for those that explorer has not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import FunctionProto, NodeProto, TypeProto, defs

from explorer.formats.onnx.function_inlining import domain_of


def body_of(node: NodeProto, opsets: Mapping[str, int], types: Mapping[str, TypeProto]) -> FunctionProto | None:
    """The function that defines a node's operator in its opset, None where the standard gives none.

    Some bodies depend on the types of what the node reads, which the file must note then.
    """
    domain = domain_of(node.domain)
    opset = opsets.get(domain)
    if opset is None or not 0 < opset < 2**31:  # what onnx can look up
        return None
    try:
        schema: Any = defs.get_schema(node.op_type, opset, domain)  # its stubs lack what it says of functions
    except defs.SchemaError:
        return None
    plain = [version for version in schema.function_opset_versions if version <= opset]
    typed = [version for version in schema.context_dependent_function_opset_versions if version <= opset]
    if plain:
        data = schema.get_function_with_opset_version(max(plain))
    elif typed and all(name in types for name in node.input if name):
        kinds = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        try:
            data = schema.get_context_dependent_function_with_opset_version(max(typed), node.SerializeToString(), kinds)
        except (RuntimeError, TypeError, ValueError):
            return None  # the node is not one that the standard allows; it stays an operator, which is refused by name
    else:
        return None
    found: FunctionProto = FunctionProto.FromString(data)
    if not found.node:
        return None
    named = {attribute.name for attribute in found.attribute_proto}
    defaults = [attribute.default_value for attribute in schema.attributes.values()]
    found.attribute_proto.extend(value for value in defaults if value.type and value.name not in named)
    return found
