"""Decoders of rows from plain JSON values; there is one cached decoder per field type. Errors name the field.

Recordings are read from untrusted files, so each value is checked before a row is built from it. The decoders are
closures, because inspecting the type hints for each of hundreds of thousands of values would be slow.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from explorer.record.reasons import counted_text

_Decoder: TypeAlias = Callable[[Any], Any]
_ID = re.compile(r"0|[1-9][0-9]{0,17}")


def decode(value: Any, row: Any, name: str, document: str = "recording") -> Any:
    """Return the row of type ``row`` that ``value`` encodes.

    Raises ValueError with the path of the wrong field, starting at ``name``.
    """
    try:
        return _decoder(row)(value)
    except _MismatchError as error:
        raise ValueError(f"{document} field {''.join([name, *reversed(error.path)])}: {error}") from None


@cache
def hints(cls: type) -> dict[str, Any]:
    """Return the type of each field of a row class."""
    return get_type_hints(cls)


def spoken(value: Any) -> str:
    """Return a string that describes a plain value in errors: the value itself if it is short, else its type."""
    names = {dict: "an object", list: "a list", str: "a string", int: "an integer", float: "a number"}
    if isinstance(value, (str, int, float)) and len(text := ascii(value)) <= 40:
        return text
    return "null" if value is None else names.get(type(value), type(value).__name__)


class _MismatchError(Exception):
    """Value of the wrong type. Each enclosing decoder adds its part of the path, the innermost decoder first."""

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}, found {actual}")
        self.path: list[str] = []


@cache
def _decoder(value_type: Any) -> _Decoder:
    origin, arguments = get_origin(value_type), get_args(value_type)
    if is_dataclass(value_type) and isinstance(value_type, type):
        return _row_decoder(value_type)
    if origin is list:
        return _list_decoder(arguments[0])
    if origin is tuple and arguments[-1] is Ellipsis:
        return _list_decoder(arguments[0], tuple)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if origin is dict:
        return _dict_decoder(arguments[0], arguments[1])
    if origin in (Union, types.UnionType):
        some = _decoder(arguments[0])
        # The only unions in rows are "something or None".
        return lambda value: None if value is None else some(value)
    return _plain_decoder(value_type)


def _plain_decoder(value_type: Any) -> _Decoder:
    if value_type is Any:
        return lambda value: value
    choices = get_args(value_type) if get_origin(value_type) is Literal else ()
    name = (
        " or ".join(map(repr, choices))
        or {int: "an integer", float: "a number", str: "a string", bool: "a boolean"}[value_type]
    )

    def decode(value: Any) -> Any:
        if choices:
            fits = isinstance(value, str) and value in choices
        elif value_type is float:
            # JSON writes 2.0 as 2. Compare types, because True is an int in Python.
            fits = type(value) in (int, float) and abs(value) < math.inf
        else:
            fits = type(value) is value_type
        if not fits:
            raise _MismatchError(name, spoken(value))
        return value

    return decode


def _list_decoder(member: Any, container: type[list[Any]] | type[tuple[Any, ...]] = list) -> _Decoder:
    """Return the decoder for a list whose elements have one type; the list is decoded to ``container``."""
    decode = _decoder(member)

    def decode_list(value: Any) -> list[Any] | tuple[Any, ...]:
        if not isinstance(value, list):
            raise _MismatchError("a list", spoken(value))
        # Most lists are long lists of numbers or strings. They are checked in C, and item by item only to report an
        # error.
        if member in (int, str) and set(map(type, value)) <= {member}:
            return container(value)
        decoded: list[Any] = []
        try:
            for item in value:
                decoded.append(decode(item))  # noqa: PERF401 - on an error its length is the index of the wrong item
        except _MismatchError as error:
            error.path.append(f"[{len(decoded)}]")
            raise
        return container(decoded)

    return decode_list


def _tuple_decoder(members: tuple[Any, ...]) -> _Decoder:
    decoders = [_decoder(member) for member in members]

    def decode_tuple(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(decoders):
            actual = counted_text(len(value), "value") if isinstance(value, list) else spoken(value)
            raise _MismatchError(f"a list of {counted_text(len(decoders), 'value')}", actual)
        return tuple(decode(item) for decode, item in zip(decoders, value, strict=True))

    return decode_tuple


def _dict_decoder(key: type, member: Any) -> _Decoder:
    decode = _decoder(member)

    def decode_dict(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _MismatchError("an object", spoken(value))
        decoded: dict[Any, Any] = {}
        for name, item in value.items():
            if key is int and not _ID.fullmatch(name):
                raise _MismatchError("node ids as names", spoken(name))
            try:
                decoded[key(name)] = decode(item)
            except _MismatchError as error:
                error.path.append(f"[{spoken(name)}]")
                raise
        return decoded

    return decode_dict


def _row_decoder(cls: type) -> _Decoder:
    """Return the decoder for a dataclass. Required fields must be present, and unknown fields are rejected."""
    known_fields = {field.name: field for field in fields(cls)}
    required = [name for name, f in known_fields.items() if f.default is MISSING and f.default_factory is MISSING]
    decoders = {name: _decoder(hints(cls)[name]) for name in known_fields}
    required_set = frozenset(required)

    def decode_row(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _MismatchError("an object", spoken(value))
        # Compare the sets of fields once per row, and look for the wrong field only if they differ.
        if not required_set <= value.keys() <= decoders.keys():
            unknown = [spoken(name) for name in value if name not in known_fields]
            missing = [name for name in required if name not in value]
            problems = [f"unknown {', '.join(unknown[:3])}"] * bool(unknown) + [f"no {', '.join(missing)}"] * bool(
                missing
            )
            raise _MismatchError(f"an object of {', '.join(known_fields)}", " and ".join(problems))
        decoded = {}
        for name, item in value.items():
            try:
                decoded[name] = decoders[name](item)
            except _MismatchError as error:
                error.path.append(f".{name}")
                raise
        return cls(**decoded)

    return decode_row
