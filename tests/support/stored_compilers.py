"""Recordings of other compilers, made from their stored logs, so that tests need none of them."""

from __future__ import annotations

import gzip
import json
import zipfile
from functools import cache
from pathlib import Path

import explorer as ex
from explorer.compilers.adapters.inductor.story import story
from explorer.compilers.adapters.onnxruntime.story import recording_from
from explorer.compilers.adapters.xla.story import Dumps, recording_of_dumps
from explorer.record import Recording
from tests.support.inductor_captures import stored_capture

STORED = Path(__file__).parents[1] / "compilers" / "stored"


@cache
def xla_dumps(version: str = "0.10.2") -> Dumps:
    """Return what XLA wrote about an MLP with a version of jax (assets/xla_dumps.py)."""
    return Dumps(**json.loads(gzip.decompress((STORED / f"xla_mlp_{version}.json.gz").read_bytes())))


@cache
def xla_recording(version: str = "0.10.2") -> Recording:
    """Return the recording of an MLP that XLA compiled."""
    return recording_of_dumps("mlp · XLA", xla_dumps(version))


def inductor_recording(name: str = "mlp") -> Recording:
    """Return the recording of a module that Inductor compiled (assets/inductor_captures.py)."""
    return story(stored_capture(name))


def onnxruntime_recording(folder: Path, name: str = "encoder_block") -> Recording:
    """Return the recording of a file that onnxruntime optimised; its sessions are unpacked into an empty folder."""
    with zipfile.ZipFile(STORED / f"onnxruntime_{name}.zip") as archive:
        archive.extractall(folder)
    return recording_from(ex.open(folder / "given.onnx"), folder)
