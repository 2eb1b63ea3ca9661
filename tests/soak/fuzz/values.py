"""Hostile values, and ways to damage strings, bytes, zips and plain JSON."""

from __future__ import annotations

import copy
import io
import lzma
import random
import struct
import warnings
import zipfile
from collections.abc import Sequence
from typing import Any

from explorer.formats.common.zip_limits import UNREADABLE

INTEGERS = (
    *range(-3, 10),
    *(16, 31, 64, 127, 255, 256, 1000, 65535, 10**5, 10**6, 3 * 10**8, 10**9, 10**12),
    *(2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, -(2**31), -(2**63), -(2**63) - 1),
    *(10**30, -(10**30), 10**400),
)
FLOATS = (0.0, -0.0, 0.5, -1.5, 1e-3, 1e-320, 1e20, 3e8, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    *("", " ", "x", "None", "True", "-1", "same", "zeros", "mean", "float32", "int64", "bool", "f32", "torch.float"),
    *(
        "\x00",
        "\x1b]0;title\x07\x1b[31mred",
        "\u202egnp",
        "\ufeff",
        "é",
        "💥",
        "a" * 5000,
        "../up",
        "/etc/passwd",
        "{x}",
    ),
    *("<script>alert(1)</script>", "]]>", "--!>", "\"'`", "%s%n", "__class__", "a.b.c.d", ".", "..", "\\", "\n", "\t"),
)
"""strings that every format can encode; lone surrogates are possible only in JSON"""


def integer(chance: random.Random) -> int:
    return chance.choice(INTEGERS) if chance.random() < 0.8 else chance.randint(-20, 20)


def number(chance: random.Random) -> int | float:
    return integer(chance) if chance.random() < 0.6 else chance.choice(FLOATS)


def lengths(chance: random.Random) -> list[int]:
    """Return a shape, mostly short and small, and sometimes with very many axes."""
    if chance.random() < 0.03:
        return [1] * chance.choice((33, 64, 65, 100))
    small = chance.random() < 0.5
    return [chance.randint(0, 5) if small else integer(chance) for _ in range(chance.randint(0, 6))]


def text(chance: random.Random, known: Sequence[str] = ()) -> str:
    """Return a hostile string, or another string of the file."""
    return chance.choice(known) if known and chance.random() < 0.5 else chance.choice(TEXTS)


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with one position changed, cut out, repeated, or truncated there."""
    if not data:
        return chance.randbytes(chance.randint(0, 40))
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice((1, 1, 2, 4, 8, 40)))
    match chance.randrange(7):
        case 0:
            piece = chance.randbytes(end - start)
        case 1:
            piece = bytes([data[start] ^ (1 << chance.randrange(8))]) + data[start + 1 : end]
        case 2:
            piece = b""
        case 3:
            piece = data[start:end] * chance.choice((2, 3, 100))
        case 4:
            return data[:start]
        case 5:
            wide = chance.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
            top = (1 << 8 * struct.calcsize(wide)) - 1
            piece = struct.pack(wide, chance.choice((0, 1, top, top >> 1, top - 1)))
            end = start + len(piece)
        case _:
            piece = chance.choice((b"\x00", b"\xff\xff\xff\xff", b"\x80" * 10, b"\n", b'"', b"PK\x03\x04"))
    return data[:start] + piece + data[end:]


def damaged_text(whole: str, chance: random.Random) -> str:
    """Return a string with a part cut out, repeated, or replaced by something hostile."""
    if not whole:
        return chance.choice(TEXTS)
    start = chance.randrange(len(whole))
    end = min(len(whole), start + chance.randint(1, 40))
    piece = chance.choice(
        ["", whole[start:end] * 2, "[" * 200_000, "9" * 5000, "NaN", "1e999", "\\ud800", '"', "}", ",", text(chance)]
    )
    return whole[:start] + piece + whole[end:]


_PLAIN: Sequence[Any] = (None, True, False, "", [], {}, "node", "schema", "\x00", [[[[[[[[[[[[0]]]]]]]]]]]], "\ud800")


def plain(chance: random.Random) -> Any:
    """Return a random JSON value."""
    match chance.randrange(7):
        case 0:
            return chance.choice(_PLAIN)
        case 1:
            return chance.randint(-3, 12)
        case 2:
            return [chance.randint(-2, 8) for _ in range(chance.randint(0, 4))]
        case 3:
            return {"node": chance.choice([0, 3, 99, -1, "0", None])}
        case 4:
            return chance.choice(("{missing} {count_bytes}", *TEXTS))
        case 5:
            return {chance.choice(["", "1", "-1", "01", "x", "node"]): chance.choice([0, "y", None])}
        case _:
            return chance.choice((number(chance), lengths(chance)))


def damaged_plain(value: Any, chance: random.Random, count: int) -> Any:
    """Return a JSON value with some positions replaced, removed, doubled, renamed or exchanged."""
    value = copy.deepcopy(value)
    for _ in range(count):
        places = _places(value)
        if not places:
            return plain(chance)
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = plain(chance)
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 3:
                holder[chance.choice(["", "node", "x" * 60, "\u202e"])] = holder.pop(key)
            case _:
                other, name = chance.choice(places)
                holder[key] = copy.deepcopy(other[name])
    return value


def _places(value: Any) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    for each in waiting:
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else []
        places += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    return places


_LOCAL = (4, 6, 8, 10, 14, 18, 22, 26, 28)
_CENTRAL = (4, 6, 8, 10, 12, 16, 20, 24, 28, 30, 32, 34, 36, 38, 42)
"""offsets of the fields in the headers of a zip's entries"""


def damaged_zip(data: bytes, chance: random.Random) -> bytes:
    """Return a zip with one header field changed, or one entry removed, renamed, compressed, doubled or damaged."""
    if chance.random() < 0.3:
        return damaged_bytes(data, chance)
    if chance.random() < 0.4:
        signature, fields = chance.choice(((b"PK\x03\x04", _LOCAL), (b"PK\x01\x02", _CENTRAL), (b"PK\x05\x06", _LOCAL)))
        results = [start for start in range(len(data)) if data.startswith(signature, start)]
        if not results:
            return damaged_bytes(data, chance)
        at = chance.choice(results) + chance.choice(fields)
        piece = struct.pack("<I", chance.choice((0, 1, 2, 8, 9, 14, 99, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)))
        wide = chance.choice((2, 4))
        return data[:at] + piece[:wide] + data[at + wide :]
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            entries = [(name, old.read(name)) for name in old.namelist()]
    except (*UNREADABLE, lzma.LZMAError):
        return damaged_bytes(data, chance)
    new = io.BytesIO()
    chosen = chance.randrange(len(entries)) if entries else -1
    with zipfile.ZipFile(new, "w") as target:
        for index, (name, held) in enumerate(entries):
            method = zipfile.ZIP_STORED
            if index == chosen:
                match chance.randrange(7):
                    case 0:
                        continue
                    case 1:
                        name = text(chance, [other for other, _ in entries]) or "empty"
                    case 2:
                        method = chance.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
                    case 3:
                        held = bytes(chance.choice((1, 10**4, 10**6)) * len(held[:20])) + held
                        method = zipfile.ZIP_DEFLATED
                    case 4:
                        held = b""
                    case _:
                        held = damaged_bytes(held, chance)
            entry = zipfile.ZipInfo(name)
            entry.compress_type = method
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # two entries with one name are intended damage
                target.writestr(entry, held)
    return new.getvalue()
