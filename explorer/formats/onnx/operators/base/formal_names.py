"""Names of the inputs and outputs of ONNX operators, as their schemas have them."""

from __future__ import annotations

from functools import lru_cache

from onnx import defs

STANDARD = ("", "ai.onnx")
"""names of the domain of ONNX's own operators"""
_KEPT = 1024
"""number of signatures that are kept: the package makes a schema again at each request"""


def domain_of(domain: str) -> str:
    """Return a domain by one name: "" for ONNX's own."""
    return "" if domain in STANDARD else domain


def input_names(domain: str, name: str, count: int) -> tuple[str, ...]:
    """Return the names of a node's inputs, by position: ``X``, ``W``; members of a list are ``inputs.0``, ``inputs.1``.

    They are those of the newest opset, so that an attribute that became an input keeps one name.
    """
    return _names(domain, name, count, "input")


def output_names(domain: str, name: str, count: int) -> tuple[str, ...]:
    """Return the names of a node's outputs, by position."""
    return _names(domain, name, count, "output")


@lru_cache(maxsize=_KEPT)
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
