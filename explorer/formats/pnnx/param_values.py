"""Parser and printer of values, shapes and dtypes in ``.param`` files.

A value is ``None`` (also written ``()`` or ``[]``), a bool, an int, a float (with a decimal point or exponent, or inf
or nan), a complex number (``1.0+2.0j``), a list or an unquoted string. Lists are written in round or square brackets,
and may contain lists. pnnx has no notation for strings that contain blanks or look like another value, so explorer
writes such strings as JSON with escaped blanks and delimiters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from explorer.core.errors import ExplorerError
from explorer.net.definition.definition import Dimension, Plain

DTYPES: Mapping[str, tuple[str, int]] = {
    "f32": ("float32", 4),
    "f64": ("float64", 8),
    "f16": ("float16", 2),
    "i32": ("int32", 4),
    "i64": ("int64", 8),
    "i16": ("int16", 2),
    "i8": ("int8", 1),
    "u8": ("uint8", 1),
    "bool": ("bool", 1),
    "c64": ("complex64", 8),
    "c128": ("complex128", 16),
    "c32": ("complex32", 4),
    "bf16": ("bfloat16", 2),
}
"""NumPy's name and the size of an element in bytes, for each of pnnx's dtype names"""
_OLD_NAMES = {"cp64": "c64", "cp128": "c128", "cp32": "c32"}
"""current names of the complex dtypes, by their names in earlier versions of pnnx"""
ITEMSIZE: Mapping[str, int] = dict(DTYPES.values())
_DTYPE_NAMES = {numpy_name: name for name, (numpy_name, _) in DTYPES.items()} | {None: "null"}

BLANK = r" \t\v\f\r"
"""separators of words, which C++ streams (and so pnnx) skip; only \\n ends a line"""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|nan"
_FLOAT = re.compile(rf"[+-]?(?:{_UNSIGNED})")
_COMPLEX = re.compile(rf"([+-]?(?:{_UNSIGNED}))(\+-|[+-])({_UNSIGNED})j")
_TYPE = re.compile(r"\(([^()]*)\)([a-z0-9]*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_DELIMITER = re.compile(r"[ ,%()\[\]]")
_INTEGERS = "an integer must be in −2⁶³ … 2⁶⁴ − 1"
_DIGITS = 4000
"""maximum number of digits, including leading zeros"""
_CONSTANTS: Mapping[str, Plain] = {"None": None, "()": None, "[]": None, "True": True, "False": False}


class GrammarError(ExplorerError):
    """Syntax error in a word of a file. The reader converts it to a FileError with the line number."""


def shorten(text: str, limit: int = 80) -> str:
    """Return the repr of a string from an untrusted file, truncated to ``limit`` characters."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


def read_number(text: str) -> int | float | complex | None:
    """Parse an int, float or complex number; return None if the string is not a number."""
    # int() raises its own error for more than 4,300 digits
    if _INTEGER.fullmatch(text):
        if len(text) > _DIGITS or not -(2**63) <= int(text) < 2**64:
            raise GrammarError(f"an integer of {len(text.lstrip('+-'))} digits", rule=_INTEGERS)
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if match := _COMPLEX.fullmatch(text):
        # pnnx writes +- before a negative imaginary part
        sign = -1.0 if "-" in match[2] else 1.0
        return complex(float(match[1]), sign * float(match[3]))
    return None


def read_string(text: str) -> str:
    """Decode a JSON string; return any other string unchanged."""
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            decoded = json.loads(text)
        except json.JSONDecodeError:
            return text
        if isinstance(decoded, str):
            return decoded
    return text


def _read_scalar(text: str) -> Plain:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = read_number(text)
    return read_string(text) if number is None else number


def read_value(text: str) -> Plain:
    """Parse a value; like pnnx, treat a value that contains ``%`` as one string."""
    if "%" in text:
        return read_string(text)
    if text in _CONSTANTS or text[:1] not in ("(", "["):
        return _read_scalar(text)
    closing = ")" if text[0] == "(" else "]"
    if len(text) < 2 or text[-1] != closing:
        raise GrammarError(
            f"the list {shorten(text)} is not closed",
            rule=f"a list that begins with {text[0]!r} must end with {closing!r} and contain no blanks",
            fix="export the model again; the file seems cut off",
        )
    return _read_items(text)


def _read_items(text: str) -> tuple[Plain, ...]:
    items: list[Plain] = []
    inner: list[str] = []
    for part in text[1:-1].split(","):
        if not inner and part[:1] not in ("(", "["):
            items.append(_read_scalar(part))
            continue
        inner.append(part)
        if part.endswith(")" if inner[0][0] == "(" else "]"):
            items.append(_read_inner(",".join(inner), text))
            inner.clear()
    if inner:
        raise GrammarError(
            f"the list {shorten(inner[0])} in {shorten(text)} is not closed",
            rule="a list must end with the closing bracket that matches its first character",
            fix="export the model again; the file seems cut off",
        )
    return tuple(items)


def _read_inner(text: str, whole: str) -> Plain:
    """Parse a nested list, which must not contain further lists; ``whole`` is the complete value, for errors."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    items = text[1:-1].split(",")
    if any(item[:1] in ("(", "[") for item in items):
        raise GrammarError(
            f"the list {shorten(whole)} is nested more than twice",
            rule="the items of a list must be numbers, strings, None, or lists of these",
        )
    return tuple(_read_scalar(item) for item in items)


def _float_text(value: float) -> str:
    """Format a float like current pnnx if that is exact, else with all digits."""
    # the sign of −0.0 is kept
    if value == 0 or not math.isfinite(value):
        return repr(float(value))
    if 1e-4 <= abs(value) < 1e6:
        text = f"{value:g}"
        text = text if "." in text or "e" in text else text + ".0"
    else:
        mantissa, exponent = f"{value:e}".split("e")
        text = f"{mantissa}e{int(exponent):+d}"
    # pnnx writes six digits, which may lose precision
    return text if float(text) == value else repr(float(value))


def _complex_text(value: complex) -> str:
    imaginary = _float_text(value.imag)
    return f"{_float_text(value.real)}{'' if imaginary.startswith('-') else '+'}{imaginary}j"


def write_string(text: str, *, bare: bool) -> str:
    """Format a string: unquoted if ``bare`` is True and it is printable, else as JSON with escaped delimiters."""
    if bare and text.isprintable() and " " not in text and text[:1] != '"':
        return text
    return _DELIMITER.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text))


def _write_scalar(value: Any, *, listed: bool) -> str:
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise GrammarError(f"an integer of {value.bit_length()} bits", rule=_INTEGERS)
        return str(int(value))
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, complex):
        return _complex_text(value)
    if isinstance(value, str):
        if listed:
            bare = bool(value) and not set(',"%()[]') & set(value) and isinstance(_read_scalar(value), str)
        else:
            bare = "%" in value or (value[:1] not in ("(", "[") and isinstance(_read_scalar(value), str))
        return write_string(value, bare=bare)
    raise GrammarError(
        f"an argument of type {type(value).__name__}",
        rule="an argument must be None, a bool, a number, a string, or a tuple of these",
        fix="convert it to one of these",
    )


def write_value(value: Plain) -> str:
    """Format a value so that :func:`read_value` returns it; an empty tuple is read as None."""
    if isinstance(value, (tuple, list)):
        return f"({','.join(_write_item(item) for item in value)})"
    return _write_scalar(value, listed=False)


def _write_item(value: Plain) -> str:
    if isinstance(value, (tuple, list)):
        return f"({','.join(_write_scalar(item, listed=True) for item in value)})"
    return _write_scalar(value, listed=True)


def read_type(text: str) -> tuple[tuple[Dimension, ...], str | None]:
    """Parse a type such as ``(1,?,%n)f32``; return the dimensions and the dtype's name, or None for "null"."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise GrammarError(
            f"the type {shorten(text)}",
            rule="a type must be written (length,length,…)dtype, for instance (1,3,224,224)f32",
            fix="export the model again; the file seems damaged",
        )
    name = _OLD_NAMES.get(match[2], match[2])
    if name not in DTYPES and name != "null":
        raise GrammarError(
            f"the dtype {shorten(match[2])} in {shorten(text)}",
            rule=f"a dtype must be one of {', '.join(DTYPES)}, null",
            fix="export the model with one of these dtypes",
        )
    dimensions: list[Dimension] = []
    for item in match[1].split(",") if match[1] else ():
        if item == "?":
            dimensions.append(None)
        elif _LENGTH.fullmatch(item):
            dimensions.append(int(item))
        elif len(item) > 1 and item[0] == "%":
            dimensions.append(item[1:])
        else:
            raise GrammarError(
                f"the length {shorten(item)} in {shorten(text)}",
                rule="a length must be a number of at most 18 digits, ? or %name",
                fix="export the model again; the file seems damaged",
            )
    return tuple(dimensions), DTYPES[name][0] if name != "null" else None


def write_type(shape: tuple[Dimension, ...], dtype: str | None) -> str:
    """Format dimensions and a dtype as :func:`read_type` parses them."""
    if dtype not in _DTYPE_NAMES:
        raise GrammarError(
            f"the dtype {dtype}",
            rule=f"the dtype must be one of {', '.join(map(str, _DTYPE_NAMES))}",
            fix="convert it to one of these",
        )
    for length in shape:
        if isinstance(length, str) and (not length or not length.isprintable() or set(" ,()") & set(length)):
            raise GrammarError(
                f"the symbolic length {shorten(length)}",
                rule="a symbolic length must be printable, without blanks, commas or round brackets",
            )
    lengths = ["?" if length is None else f"%{length}" if isinstance(length, str) else str(length) for length in shape]
    return f"({','.join(lengths)}){_DTYPE_NAMES[dtype]}"
