"""Names of ONNX operators' inputs and outputs, and default values of attributes, from their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from onnx import defs, helper

STANDARD = ("", "ai.onnx")
"""names of the standard domain"""
_CACHE_SIZE = 1024
"""number of cached signatures; the onnx package creates a new schema for each request"""


def domain_of(domain: str) -> str:
    """Return the canonical name of a domain: "" for the standard domain."""
    return "" if domain in STANDARD else domain


def input_names(domain: str, name: str, count: int) -> tuple[str, ...]:
    """Return the names of a node's inputs, such as ``X``; items of a variadic input are ``inputs.0``, ``inputs.1``.

    The names come from the newest opset, so that an attribute that became an input keeps its name.
    """
    return _names(domain, name, count, "input")


def output_names(domain: str, name: str, count: int) -> tuple[str, ...]:
    """Return the names of a node's outputs."""
    return _names(domain, name, count, "output")


@lru_cache(maxsize=_CACHE_SIZE)
def attribute_defaults(domain: str, name: str) -> Mapping[str, Any]:
    """Return the default values of a node's attributes in the newest opset; attributes without a default are absent."""
    try:
        schema = defs.get_schema(name, domain_of(domain))
    except defs.SchemaError:
        return {}
    declared = {key: attribute.default_value for key, attribute in schema.attributes.items()}
    values = {key: helper.get_attribute_value(value) for key, value in declared.items() if value.type}
    return {key: value.decode() if isinstance(value, bytes) else value for key, value in values.items()}


@lru_cache(maxsize=_CACHE_SIZE)
def _names(domain: str, name: str, count: int, side: str) -> tuple[str, ...]:
    try:
        schema = defs.get_schema(name, domain_of(domain))
    except defs.SchemaError:
        return tuple([f"{side} {index}" for index in range(count)])
    formals = schema.inputs if side == "input" else schema.outputs
    names = [formal.name for formal in formals]
    if formals and formals[-1].option == defs.OpSchema.FormalParameterOption.Variadic:
        last = names.pop().removesuffix("_0")
        names += [f"{last}.{index}" for index in range(count - len(names))]
    return (*names[:count], *[f"{side} {index}" for index in range(len(names), count)])
