"""Recordings to JSON and back: the field names of the rows, columns for nodes, one list a row for the long tables."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from explorer.record.recording import Recording

SCHEMA = 1
"""The number of the JSON form; it grows when a field changes its meaning."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def to_json(recording: Recording) -> dict[str, Any]:
    """The plain form of a recording: dicts, lists, strings, numbers, booleans and None."""
    plain: dict[str, Any] = _encode(recording)
    return {"schema": SCHEMA, **plain}


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if value and type(value[0]) in (int, str, float):
            return list(value)
        return [_encode(item) for item in value]
    return value


def from_json(plain: Mapping[str, Any]) -> Recording:
    """The recording of a plain form; raises ValueError when it is of another schema or lacks a field."""
    if plain.get("schema") != SCHEMA:
        raise ValueError(
            f"this recording has schema {plain.get('schema')!r}; this version of explorer reads schema {SCHEMA}: "
            "record it again, or open it with the version that wrote it"
        )
    rest = {name: value for name, value in plain.items() if name != "schema"}
    decoded: Recording = _decode(rest, Recording, "recording")
    return decoded


def loads(text: str) -> Recording:
    """The recording in a JSON text."""
    return from_json(json.loads(text))


def _decode(value: Any, kind: Any, path: str) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_row(value, kind, path)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (list, tuple, dict) and not isinstance(value, dict if origin is dict else list):
        raise ValueError(f"recording field {path}: expected a {origin.__name__}, found {type(value).__name__}")
    if origin is list:
        return [_decode(item, arguments[0], path) for item in value]
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_decode(item, part, path) for item, part in zip(value, kinds, strict=True))
    if origin is dict:
        key = int if arguments[0] is int else str
        return {key(name): _decode(item, arguments[1], path) for name, item in value.items()}
    if origin in (Union, types.UnionType):
        return None if value is None else _decode(value, arguments[0], path)
    if kind in (int, str, bool) and type(value) is not kind:
        raise ValueError(f"recording field {path}: expected {kind.__name__}, found {type(value).__name__}")
    return value


def _decode_row(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"recording field {path}: expected an object, found {type(value).__name__}")
    known = {field.name: field for field in fields(kind)}
    required = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    wrong = sorted(set(value) - set(known)) + [name for name in required if name not in value]
    if wrong:
        raise ValueError(f"recording field {path}: unknown or missing {', '.join(wrong)}; it has {', '.join(known)}")
    hints = _hints(kind)
    return kind(**{name: _decode(item, hints[name], f"{path}.{name}") for name, item in value.items()})


def json_schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of a recording's plain form."""
    body = _schema(Recording)
    body["properties"] = {"schema": {"const": SCHEMA}, **body["properties"]}
    body["required"] = ["schema", *body["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "explorer recording", **body}


def _schema(kind: Any) -> dict[str, Any]:
    if is_dataclass(kind) and isinstance(kind, type):
        names = [field.name for field in fields(kind)]
        properties = {name: _schema(_hints(kind)[name]) for name in names}
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0])}
        return {"type": "array", "prefixItems": [_schema(part) for part in arguments], "items": False}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1])}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part) for part in arguments]}
    simple = {int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null"}
    return {"type": simple[kind]} if kind in simple else {}
