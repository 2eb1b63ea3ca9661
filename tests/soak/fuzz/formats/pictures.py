"""Images: small ones of every format and mode, with damaged bytes, chunks and sizes."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

import explorer as ex
from explorer.data.image import FORMATS
from tests.soak.fuzz.formats.corpus import ASSETS
from tests.soak.fuzz.values import damaged_bytes

MAIN = "picture.png"
"""the decoder is chosen from the content, whatever the extension"""
_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F", "YCbCr", "LAB", "HSV", "PA")
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return a digit, and an image of each format in each mode that it supports."""
    results: dict[str, _Files] = {"digit": {MAIN: (ASSETS / "digit_3.png").read_bytes()}}
    levels = np.arange(12 * 9 * 3, dtype=np.uint8).reshape(12, 9, 3)
    exif = Image.Exif()
    exif[0x0112] = 6  # the image is rotated
    for mode in _MODES:
        try:
            image = Image.fromarray(levels).convert(mode)
        except ValueError:
            image = Image.new(mode, (9, 12))
        for format in FORMATS:
            buffer = io.BytesIO()
            try:
                image.save(buffer, format, exif=exif)
            except (OSError, ValueError, TypeError, KeyError):
                continue  # the format does not support the mode
            results[f"{format} {mode}"] = {MAIN: buffer.getvalue()}
    return results


def mutate(files: _Files, chance: random.Random) -> _Files:
    data = files[MAIN] or b""
    if data.startswith(b"\x89PNG") and chance.random() < 0.6:
        return {MAIN: _chunk(data, chance)}
    return {MAIN: damaged_bytes(data, chance)}


def _chunk(data: bytes, chance: random.Random) -> bytes:
    """Return a PNG with one chunk changed, removed, doubled or added, and a valid checksum."""
    chunks, at = [], 8
    while at + 8 <= len(data):
        size = struct.unpack(">I", data[at : at + 4])[0]
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + size]))
        at += 12 + size
    if not chunks:
        return damaged_bytes(data, chance)
    index = chance.randrange(len(chunks))
    name, held = chunks[index]
    match chance.randrange(6):
        case 0:
            del chunks[index]
        case 1:
            chunks.insert(index, chunks[index])
        case 2:
            chunks.insert(index, (chance.choice((b"PLTE", b"tRNS", b"iCCP", b"zTXt", b"eXIf", b"acTL", b"gAMA")), held))
        case 3 if name == b"IHDR" and len(held) == 13:
            sides = [struct.pack(">I", chance.choice((0, 1, 9, 2**13, 2**16, 2**31 - 1, 2**32 - 1))) for _ in range(2)]
            chunks[index] = name, b"".join(sides) + held[8:]
        case 4:
            chunks[index] = name, zlib.compress(bytes(chance.choice((0, 10, 10**5, 10**7))))
        case _:
            chunks[index] = name, damaged_bytes(held, chance)
    return data[:8] + b"".join(
        struct.pack(">I", len(held)) + name + held + struct.pack(">I", zlib.crc32(name + held)) for name, held in chunks
    )


def probe(path: Path, chance: random.Random, whole: bool) -> str:
    """Convert the image to a network input."""
    del whole
    try:
        ex.load_image(path, chance.choice((8, (5, 9), 32)), channels=chance.choice((1, 3)), preset="0-1")
    except ex.ExplorerError:
        return "clean"
    return "fine"
