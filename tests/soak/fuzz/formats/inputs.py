"""Arrays for ``--input``: ``.npz`` and ``.npy`` files, read by the command line."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import explorer as ex
from tests.soak.fuzz.formats.corpus import ASSETS, hostile
from tests.soak.fuzz.formats.probe import command
from tests.soak.fuzz.values import damaged_bytes, damaged_zip, integer, lengths

MAIN = "in.npz"
_MODEL = ASSETS / "models" / "ops1.pnnx.param"
_DTYPES = (
    "<f4",
    "<f8",
    ">f4",
    "<i8",
    "|b1",
    "<c8",
    "|O",
    "<U9",
    "|S3",
    "<M8[s]",
    "|V16",
    "<f2",
    "",
    "x",
    "[('a','<f4')]",
)
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return matching arrays in NumPy's file formats, and hostile files."""
    results: dict[str, _Files] = {path.name: {MAIN: path.read_bytes()} for path in hostile(".npz")}
    shapes = {name: blob.shape for name, blob in ex.open(_MODEL).inputs.items()}
    arrays = {name: np.zeros([length or 1 for length in shape or ()], np.float32) for name, shape in shapes.items()}
    for name, save in (("stored", np.savez), ("compressed", np.savez_compressed)):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        results[name] = {MAIN: buffer.getvalue()}
    buffer = io.BytesIO()
    np.save(buffer, next(iter(arrays.values())))
    results["array"] = {MAIN: buffer.getvalue()}
    buffer = io.BytesIO()
    np.savez(buffer, **{"\x1b[31mred": np.ones(3), "objects": np.zeros((2, 2), np.int8)})
    results["escapes"] = {MAIN: buffer.getvalue()}
    return results


def mutate(files: _Files, chance: random.Random) -> _Files:
    data = files[MAIN] or b""
    if chance.random() < 0.3:
        return {MAIN: _header(data, chance)}
    return {MAIN: damaged_zip(data, chance) if data.startswith(b"PK") else damaged_bytes(data, chance)}


def _header(data: bytes, chance: random.Random) -> bytes:
    """Return an array file whose header states another shape, order, dtype or version, in a zip if it was in one."""
    shape = tuple(lengths(chance)) if chance.random() < 0.8 else integer(chance)
    dtype = chance.choice(_DTYPES)
    order = chance.choice(("True", "False", "False", "None"))
    head = f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}"
    if chance.random() < 0.2:
        head = damaged_bytes(head.encode(), chance).decode("latin-1")
    version = chance.choice(((1, 0), (1, 0), (2, 0), (3, 0), (9, 9)))
    padded = head + " " * (-(len(head) + 11) % 64) + "\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", min(len(padded), 65535))
    array = (
        b"\x93NUMPY" + bytes(version) + size + padded.encode("latin-1", "replace") + bytes(chance.choice((0, 4, 64)))
    )
    if not data.startswith(b"PK"):
        return array
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(chance.choice(("0.npy", "x.npy", "plain", "\x1b[2J.npy")), array)
    return buffer.getvalue()


def probe(path: Path, chance: random.Random, whole: bool) -> str:
    """Run a small model on the arrays; errors must be explorer's and print as one line."""
    del whole
    given = path
    if chance.random() < 0.3:
        given = path.rename(path.with_suffix(".npy"))
    try:
        from explorer.cli.support import array_files

        array_files.read(str(given))
        clean = False
    except ex.ExplorerError:
        clean = True
    keys = ":0" if chance.random() < 0.2 else ""
    command(["run", str(_MODEL), "--input", f"{given}{keys}"])
    return "clean" if clean else "fine"
