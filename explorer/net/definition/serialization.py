"""Lossless conversion of definitions to JSON and back, without locations in the source.

Weights are not included; the JSON contains their keys, shapes and dtypes. Arguments that JSON cannot represent are
objects: ``{"float": "inf"}``, ``{"complex": [1.0, 2.0]}``; tuples are written as lists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.memory_budget import NESTING, as_64_bit_integer
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.operator_definition import (
    CONTAINERS,
    BlobType,
    OperatorDefinition,
    Plain,
    WeightReference,
    Weights,
    memory_dtype,
)
from explorer.record.json_form.codec import schema_of
from explorer.record.json_form.decoder import decode, spoken

SCHEMA = 1
"""Version of the JSON form, which increases when the meaning of a field changes."""
_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@dataclass(frozen=True, slots=True)
class _Operator:
    type: str
    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)
    input_names: dict[str, str] = field(default_factory=dict)
    weights: dict[str, WeightReference] = field(default_factory=dict)
    boxes: tuple[str, ...] | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class _Type:
    shape: tuple[Any, ...] | None = None
    dtype: str | None = None
    container: str = ""
    keys: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _Net:
    name: str
    dialect: str
    rewrites: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operators: tuple[_Operator, ...]
    types: dict[str, _Type] = field(default_factory=dict)
    doc: str = ""
    metadata: tuple[tuple[str, str], ...] = ()


def to_json(definition: NetDefinition) -> dict[str, Any]:
    """Return a definition as dicts, lists, strings, numbers, booleans and None; empty fields are omitted."""
    types = {
        name: {
            "shape": None if blob.shape is None else list(blob.shape),
            "dtype": blob.dtype,
            **({"container": blob.container} if blob.container else {}),
            **({"keys": list(blob.keys)} if blob.keys else {}),
        }
        for name, blob in definition.blobs.items()
        if blob.shape is not None or blob.dtype is not None or blob.container
    }
    return {
        "schema": SCHEMA,
        "name": definition.name,
        "dialect": definition.dialect,
        "rewrites": definition.rewrites,
        # Omitted if empty, like an operator's fields, since most nets have none.
        **({"doc": definition.doc} if definition.doc else {}),
        **({"metadata": [list(pair) for pair in definition.metadata]} if definition.metadata else {}),
        "inputs": list(definition.inputs),
        "outputs": list(definition.outputs),
        "operators": [_plain_operator(operator) for operator in definition.operators],
        "types": types,
    }


def _plain_operator(operator: OperatorDefinition) -> dict[str, Any]:
    if operator.bodies:
        raise OperandError(
            f"operator {operator.name!r} ({operator.type}) with the inner graphs {', '.join(operator.bodies)}",
            rule="a net that is saved as JSON must have no control flow, because the format has no inner graphs",
            fix="keep the file that was opened, or cut the net before the operator: net.cut(outputs=[…])",
        )
    weights = {
        name: {"key": weight.key, "shape": list(weight.shape), "dtype": weight.dtype}
        for name, weight in operator.weights.items()
    }
    fields: dict[str, Any] = {
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "arguments": {name: _encode(value, f"{operator.name}.{name}") for name, value in operator.arguments.items()},
        "input_names": dict(operator.input_names),
        "weights": weights,
        "doc": operator.doc,
    }
    boxes = {} if operator.boxes is None else {"boxes": list(operator.boxes)}
    return {"type": operator.type, "name": operator.name, **{k: v for k, v in fields.items() if v}, **boxes}


def _encode(value: Plain, path: str, depth: int = 0) -> Any:
    """Return an argument as JSON; ``path`` names it in errors."""
    if isinstance(value, tuple):
        if depth == NESTING:
            raise OperandError(
                f"the argument {path}",
                rule=f"tuples must be nested at most {NESTING} deep",
                fix="a flatter tuple, or several arguments",
            )
        return [_encode(item, path, depth + 1) for item in value]
    if isinstance(value, complex):
        return {"complex": [_encode(value.real, path), _encode(value.imag, path)]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if isinstance(value, int):
        return as_64_bit_integer(value, f"the argument {path}")
    if value is None or isinstance(value, (float, str)):
        return value
    raise OperandError(
        f"the argument {path} is a {type(value).__name__}",
        rule="arguments must be numbers, strings, None, or tuples of these",
        fix="give arrays as weights",
    )


def _decode(value: Any, path: str, depth: int = 0) -> Plain:
    """Return the argument for a JSON value; raise OperandError for a value that no argument can have."""
    if isinstance(value, list):
        if depth == NESTING:
            raise _mismatch(path, f"lists nested at most {NESTING} deep", "deeper ones")
        return tuple([_decode(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)])
    # Python's integers are unbounded, but integers in arrays and in other JSON parsers are not.
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise _mismatch(path, "an integer of at most 64 bits", f"{value.bit_length()} bits")
    if not isinstance(value, dict):
        plain: Plain = value
        return plain
    if list(value) == ["float"] and isinstance(value["float"], str) and value["float"] in _SPECIAL:
        return _SPECIAL[value["float"]]
    if list(value) == ["complex"] and isinstance(value["complex"], list) and len(value["complex"]) == 2:
        parts = [_decode(part, path, NESTING) for part in value["complex"]]
        if all(type(part) is float for part in parts):
            return complex(*parts)  # type: ignore[arg-type]  # they are floats
    raise _mismatch(path, '{"float": "inf", "-inf" or "nan"} or {"complex": [float, float]}', spoken(value))


def _mismatch(path: str, expected: str, actual: str) -> OperandError:
    return OperandError(f"net field {path}: expected {expected}, found {actual}", rule=_RULE, fix=_FIX)


_RULE = f"a net's JSON must fit its schema {SCHEMA}: explorer.net.definition.serialization.json_schema()"
_FIX = "save the net again: net.save('net.json')"


def from_json(
    plain: Any,
    *,
    source: str = "",
    weights: Weights | None = None,
    lines: Sequence[tuple[int, str]] = (),
) -> NetDefinition:
    """Return the definition for decoded JSON; ``lines`` are pairs of line number and text, one for each operator.

    Raise an error that names an invalid field or schema, or the error of NetDefinition for an invalid graph.
    """
    if not isinstance(plain, Mapping):
        raise OperandError(f"this is not a net: expected an object, found {spoken(plain)}", rule=_RULE, fix=_FIX)
    # Not isinstance, because JSON's true is an int in Python, and equal to 1.
    if type(plain.get("schema")) is not int or plain["schema"] != SCHEMA:
        raise OperandError(
            f"this net has schema {spoken(plain.get('schema'))}",
            rule=f"the schema must be {SCHEMA}, which this version of explorer reads",
            fix="save the net again, or open it with the version that wrote it",
        )
    try:
        row: _Net = decode({key: value for key, value in plain.items() if key != "schema"}, _Net, "net", document="net")
    except ValueError as wrong:
        raise OperandError(str(wrong), rule=_RULE, fix=_FIX) from None
    # Text from another program may have several operators on a line, so no line numbers are given.
    known = lines if len(lines) == len(row.operators) else [(0, "")] * len(row.operators)
    definition = NetDefinition.of(
        row.name,
        [
            _operator(operator, f"net.operators[{index}]", *path)
            for index, (operator, path) in enumerate(zip(row.operators, known, strict=True))
        ],
        row.inputs,
        row.outputs,
        {name: _type(row_type, f"net.types[{spoken(name)}]") for name, row_type in row.types.items()},
        source=source,
        weights=weights,
        dialect=row.dialect,
        rewrites=row.rewrites,
        doc=row.doc,
        metadata=row.metadata,
    )
    unknown = [name for name in row.types if name not in definition.blobs]
    if unknown:
        raise _mismatch(f"net.types[{spoken(unknown[0])}]", "the name of a blob or a version", "an unknown name")
    return definition


def _operator(row: _Operator, path: str, line: int, text: str) -> OperatorDefinition:
    """Return the operator for a row of JSON; raise OperandError for an invalid shape or dtype."""
    arguments = {name: _decode(value, f"{path}.arguments[{spoken(name)}]") for name, value in row.arguments.items()}
    for name, weight in row.weights.items():
        where = f"{path}.weights[{spoken(name)}]"
        if any(size < 0 for size in weight.shape):
            raise _mismatch(f"{where}.shape", "lengths", "a negative number")
        try:
            memory_dtype(weight.dtype)
        except TypeError:
            raise _mismatch(f"{where}.dtype", "the name of a dtype", spoken(weight.dtype)) from None
    return OperatorDefinition(
        row.type,
        row.name,
        row.inputs,
        row.outputs,
        arguments,
        row.input_names,
        row.weights,
        boxes=row.boxes,
        line=line,
        text=text,
        doc=row.doc,
    )


def _type(row: _Type, path: str) -> BlobType:
    for size in row.shape or ():
        if not (size is None or isinstance(size, str) or (type(size) is int and size >= 0)):
            raise _mismatch(f"{path}.shape", "lengths, names of unknown lengths, or null", spoken(size))
    if row.dtype is not None:
        try:
            memory_dtype(row.dtype)
        except TypeError:
            raise _mismatch(f"{path}.dtype", "the name of a dtype", spoken(row.dtype)) from None
    if row.container not in ("", *CONTAINERS):
        raise _mismatch(f"{path}.container", f"one of {', '.join(CONTAINERS)}", spoken(row.container))
    if len({*map(type, row.keys)} | {str}) > 2 or not all(type(key) in (str, int) for key in row.keys):
        raise _mismatch(f"{path}.keys", "strings, or integers", spoken(row.keys))
    return BlobType(row.shape, row.dtype, row.container, row.keys)


def dumps(definition: NetDefinition) -> str:
    """Return a definition as ASCII JSON with one line per operator, which allows line-by-line comparisons."""
    parts = []
    for name, value in to_json(definition).items():
        if name in ("operators", "types") and value:
            items = (
                [json.dumps(item) for item in value]
                if name == "operators"
                else [f"{json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()]
            )
            first, last = "[]" if name == "operators" else "{}"
            parts.append(f'"{name}": {first}\n  ' + ",\n  ".join(items) + f"\n {last}")
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def loads(text: str, *, source: str = "", weights: Weights | None = None) -> NetDefinition:
    """Parse a definition from JSON; raise an error for any other text."""
    try:
        plain = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as wrong:
        why = "it is nested too deeply" if isinstance(wrong, RecursionError) else wrong
        raise OperandError(f"this is not a net: it cannot be parsed as JSON: {why}", rule=_RULE, fix=_FIX) from None
    return from_json(plain, source=source, weights=weights, lines=_operator_lines(text))


def _operator_lines(text: str) -> list[tuple[int, str]]:
    """Return (number, text) of each line that contains an operator, for text written by :func:`dumps`."""
    lines = ((number, line.strip().removesuffix(",")) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in lines if line.startswith('{"type": ')]


def _finite(text: str) -> float:
    # Also called for NaN, Infinity and 1e999, which Python parses but the JSON standard does not allow.
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f'{text[:20]} is not a finite number; infinity is {{"float": "inf"}}')
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python's JSON parser would silently keep the last of two equal keys.
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {spoken(twice)} occurs twice in one object")
    return members


def json_schema() -> dict[str, Any]:
    """Return the published JSON Schema (draft 2020-12) of a net's plain form, ``net.schema.json`` in the package."""
    body = schema_of(_Net)
    operator = body["properties"]["operators"]["items"]
    value = {"$ref": "#/$defs/value"}
    operator["properties"]["arguments"] = {"type": "object", "additionalProperties": value}
    operator["required"] = ["type", "name"]
    schema = body["properties"]["types"]["additionalProperties"]
    length = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "null"}]}
    schema["properties"]["shape"] = {"anyOf": [{"type": "array", "items": length}, {"type": "null"}]}
    schema["required"] = []
    body["properties"] = {"schema": {"const": SCHEMA}, **body["properties"]}
    body["required"] = ["schema", *(name for name in body["required"] if name not in ("types", "doc", "metadata"))]
    special = {"type": "object", "properties": {"float": {"enum": [*_SPECIAL]}}, "required": ["float"]}
    part = {"anyOf": [{"type": "number"}, {**special, "additionalProperties": False}]}
    pair = {"type": "array", "prefixItems": [part, part], "minItems": 2, "items": False}
    number = {"type": "object", "properties": {"complex": pair}, "required": ["complex"]}
    body["$defs"] = {
        "value": {
            "anyOf": [
                {"type": ["null", "boolean", "number", "string"]},
                {"type": "array", "items": value},
                {**special, "additionalProperties": False},
                {**number, "additionalProperties": False},
            ]
        }
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "explorer net", **body}
