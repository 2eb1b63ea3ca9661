"""Documentation of ONNX operator types: the standard's, in the version that a file uses, or Explorer's docstring.

The onnx package has the documentation of every operator of the standard in every version. Operators of other domains
are documented by the docstrings of their builders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from onnx import AttributeProto, defs, helper

from explorer.formats.common.type_documentation import docstring_texts, texts
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.net.operators.table import OperatorTable
from explorer.record import OperatorAttribute, OperatorOperand, OperatorType

_STANDARD = "https://onnx.ai/onnx/operators/onnx_{domain}_{name}.html"
_MICROSOFT = "https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.{name}"
_CACHE_SIZE = 1024
"""number of cached types; the onnx package creates a new schema for each request"""
_NEWEST = 2**31 - 1
"""largest opset that the onnx package accepts"""


def documented_type(
    domain: str, name: str, opsets: Mapping[str, int], table: OperatorTable, upgraded_from: int = 0
) -> OperatorType:
    """Return an operator's type in the opsets of a model; operators of a type share the result.

    ``upgraded_from`` is the opset of the file if the model was upgraded.
    """
    domain = domain_of(domain)
    opset = opsets.get(domain, 0)
    return _standard_type(domain, name, opset, upgraded_from) or _other_type(domain, name, opset, table, table.version)


@lru_cache(maxsize=_CACHE_SIZE)
def _other_type(domain: str, name: str, opset: int, table: OperatorTable, version: int) -> OperatorType:
    """Return a type that the standard does not define; ``version`` counts the registrations in the table."""
    type = f"{domain}.{name}" if domain else name
    is_own = type in table and table.is_own(type)
    url = _MICROSOFT.format(name=name) if is_own and domain == "com.microsoft" else ""
    # Explorer's function for a type of the standard describes the newest opset, which may differ from this one.
    text, description = ("", "") if is_own and not domain else docstring_texts(table, type)
    return OperatorType(name, _origin(domain, opset), text, url, description=description)


@lru_cache(maxsize=_CACHE_SIZE)
def _standard_type(domain: str, name: str, opset: int, upgraded_from: int) -> OperatorType | None:
    """Return the type that the standard defines, or None if it has no such type."""
    try:
        schema = defs.get_schema(name, min(opset, _NEWEST), domain) if opset > 0 else defs.get_schema(name, domain)
    except defs.SchemaError:
        return None
    notes = [f"unchanged since opset {schema.since_version}"]
    if upgraded_from and not domain:
        notes.append(f"upgraded from opset {upgraded_from}")
    summary, description = texts((schema.doc or "").strip("\n"))
    return OperatorType(
        name,
        _origin(domain, opset) + (f" ({'; '.join(notes)})" if opset > 0 else ""),
        summary,
        _STANDARD.format(domain=domain.replace(".", ""), name=name),
        tuple([_attribute(attribute) for _, attribute in sorted(schema.attributes.items())]),
        description,
        tuple(map(_operand, schema.inputs)),
        tuple(map(_operand, schema.outputs)),
        tuple(
            [
                (each.type_param_str, _types(each.allowed_type_strs), each.description)
                for each in schema.type_constraints
            ]
        ),
    )


def _attribute(attribute: defs.OpSchema.Attribute) -> OperatorAttribute:
    default, meaning = _default(attribute.default_value), attribute.description.strip("\n")
    return OperatorAttribute(attribute.name, default, meaning, _member(attribute.type), attribute.required)


def _operand(operand: defs.OpSchema.FormalParameter) -> OperatorOperand:
    option = _member(operand.option)
    return OperatorOperand(
        operand.name, operand.type_str, operand.description.strip("\n"), "" if option == "single" else option
    )


def _member(value: defs.OpSchema.AttrType | defs.OpSchema.FormalParameterOption) -> str:
    """Return the name of an enumeration's member in lower case."""
    return str(value).rpartition(".")[2].lower()


def _types(names: Sequence[str]) -> str:
    """Return the types that a constraint allows, with the element types of each container in one list.

    >>> from explorer.formats.onnx.type_documentation import _types
    >>> _types(["tensor(float)", "seq(tensor(float))", "tensor(double)"])
    'tensor(double, float), seq(tensor(float))'
    """
    elements: dict[str, list[str]] = {}
    for name in names:
        container, parenthesis, element = name.rpartition("(")
        elements.setdefault(container + parenthesis, []).append(element.rstrip(")"))
    return ", ".join(
        [opened + ", ".join(sorted(inside)) + ")" * opened.count("(") for opened, inside in elements.items()]
    )


def _origin(domain: str, opset: int) -> str:
    """Return the operator set of a type, with the version that the file declares."""
    return f"{domain or 'ONNX'}, opset {opset}" if opset > 0 else f"{domain or 'ONNX'} (the file declares no opset)"


def _default(value: AttributeProto) -> str:
    """Return the default value of an attribute as a string, or "" if it has none."""
    if not value.type:
        return ""
    default = helper.get_attribute_value(value)
    if isinstance(default, float):
        return str(np.float32(default))
    if isinstance(default, (list, tuple)):
        return f"({', '.join([_plain(item) for item in default])}{',' * (len(default) == 1)})"
    return _plain(default)


def _plain(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
