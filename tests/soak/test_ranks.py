"""Operands of every rank for every operator: a file is read, or rejected with an error of explorer's family."""

from __future__ import annotations

import io
import math
import random
import re
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.soak.fuzz.cases import FORMATS
from tests.soak.fuzz.formats import onnx, pnnx
from tests.soak.fuzz.formats.corpus import MANY
from tests.soak.fuzz.formats.probe import probe_model

pytestmark = pytest.mark.soak

RANKS = frozenset(range(7))
LEAST = {"onnx": 4000, "pnnx": 1900}
"""minimum number of files, so that an empty corpus is no success"""
_TYPES = re.compile(r"([#@])(\S+?)=\(([\d,]*)\)(\w+)")
_ITEMSIZES = {"f64": 8, "i64": 8, "c64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2}
_Files = dict[str, bytes]


def with_axes(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a shape with the given number of axes: the last ones of this shape, preceded by lengths of 1."""
    return (*[1] * (rank - len(shape)), *shape[max(0, len(shape) - rank) :])


def onnx_files() -> Iterator[tuple[str, _Files]]:
    """Yield a model of each operator with another rank for one input, as a net input and as a constant."""
    tried: set[str] = set()
    for name, files in sorted(FORMATS["onnx"].seeds().items()):
        model = ModelProto()
        try:
            model.ParseFromString(files[onnx.MAIN] or b"")
        except DecodeError:  # hostile file in the corpus
            continue
        nodes = model.graph.node
        if not name.startswith(MANY) or len(nodes) != 1 or nodes[0].op_type in tried:
            continue
        tried.add(nodes[0].op_type)
        for at, value in enumerate(model.graph.input):
            shape = [length.dim_value for length in value.type.tensor_type.shape.dim]
            for rank in sorted(RANKS - {len(shape)}):
                for change in (_declared, _stored):
                    changed = ModelProto()
                    changed.CopyFrom(model)
                    change(changed, at, with_axes(shape, rank))
                    yield f"{name}: {value.name} of rank {rank}", {onnx.MAIN: changed.SerializeToString()}


def _declared(model: ModelProto, at: int, shape: tuple[int, ...]) -> None:
    lengths = model.graph.input[at].type.tensor_type.shape
    del lengths.dim[:]
    for length in shape:
        lengths.dim.add(dim_value=length)


def _stored(model: ModelProto, at: int, shape: tuple[int, ...]) -> None:
    value = model.graph.input[at]
    kind = value.type.tensor_type.elem_type or TensorProto.FLOAT
    if kind == TensorProto.STRING:
        tensor = helper.make_tensor(value.name, kind, shape, [b"a"] * math.prod(shape))
    else:
        tensor = numpy_helper.from_array(np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)), value.name)
    model.graph.initializer.append(tensor)


def pnnx_files() -> Iterator[tuple[str, _Files]]:
    """Yield a model of each operator with another rank for one input or one weight."""
    for name, files in sorted(FORMATS["pnnx"].seeds().items()):
        if not name.startswith(MANY):
            continue
        text, weights = (files[pnnx.MAIN] or b"").decode(), files[pnnx.BIN] or b""
        for noted in _TYPES.finditer(text):
            line = text[text.rfind("\n", 0, noted.start()) + 1 : noted.start()]
            is_input = line.startswith("pnnx.Input")
            if not is_input and noted[1] == "#":
                continue
            shape = [int(length) for length in noted[3].split(",") if length]
            for rank in sorted(RANKS - {len(shape)}):
                wanted = with_axes(shape, rank)
                head = f"{text[: noted.start()]}{noted[1]}{noted[2]}=({','.join(map(str, wanted))}){noted[4]}"
                # The file's notes on later blobs would no longer match.
                tail = re.sub(r" #\S+=\([\d,]*\)\w+", "", text[noted.end() :])
                entry = f"{line.split()[1]}.{noted[2]}"
                held = weights if is_input else _exchanged(weights, entry, math.prod(wanted) * _ITEMSIZES[noted[4]])
                yield f"{name}: {entry} of rank {rank}", {pnnx.MAIN: (head + tail).encode(), pnnx.BIN: held}


def _exchanged(archive: bytes, entry: str, size: int) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(written, "w") as new:
        for name in old.namelist():
            new.writestr(name, bytes(size) if name == entry else old.read(name))
    return written.getvalue()


@pytest.mark.parametrize(("name", "files"), [("onnx", onnx_files), ("pnnx", pnnx_files)])
@pytest.mark.filterwarnings("ignore")
def test_operators_with_operands_of_every_rank(
    name: str, files: Callable[[], Iterator[tuple[str, _Files]]], tmp_path: Path
) -> None:
    """No operator reads a length from a shape with too few axes."""
    labels, failures = [], []
    for label, contents in files():
        labels.append(label)
        for file, data in contents.items():
            (tmp_path / file).write_bytes(data)
        try:
            probe_model(tmp_path / FORMATS[name].main, random.Random(label), whole=False)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"{label}: {type(error).__name__} at {frame.filename}:{frame.lineno}: {error}")
    assert failures == []
    assert len(labels) >= LEAST[name]
