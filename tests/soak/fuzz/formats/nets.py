"""Explorer's own net format: JSON damaged as a structure and as a string, and the zip of arrays."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import explorer as ex
from tests.soak.fuzz.formats.corpus import ASSETS, LARGEST, MANY, hostile, small_models
from tests.soak.fuzz.formats.probe import probe_model as probe
from tests.soak.fuzz.values import damaged_plain, damaged_text, damaged_zip

__all__ = ["MAIN", "mutate", "probe", "seeds"]

MAIN, NPZ = "model.json", "model.npz"
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return hostile files, and nets of each format saved in explorer's own."""
    results: dict[str, _Files] = {path.name: {MAIN: path.read_bytes()} for path in hostile(".json")}
    with tempfile.TemporaryDirectory() as folder:
        for path in [ASSETS / "digits.pnnx.param", *small_models(".onnx"), *small_models(".param")]:
            results |= _saved(path.name, ex.open(path), Path(folder))
        results |= _saved("written", _written(), Path(folder))
    return results


def _saved(name: str, net: ex.Net, folder: Path) -> dict[str, _Files]:
    """Return the files of a saved net, or none if its weights are missing or large."""
    try:
        net.save(folder / MAIN)
    except ex.ExplorerError:
        return {}
    files = {MAIN: (folder / MAIN).read_bytes()}
    if (folder / NPZ).exists():
        files[NPZ] = (folder / NPZ).read_bytes()
        (folder / NPZ).unlink()
    if sum(map(len, files.values())) > LARGEST:
        return {}
    return {name if len(files[MAIN]) < LARGEST // 4 else MANY + name: files}


def _written() -> ex.Net:
    """Return a net of explorer's own format with a blob that is written twice."""
    net = ex.Net("written")
    net.input("x", (None, 4))
    net.GivenTensorFill([], "w", values=np.ones((3, 4), np.float32))
    net.GivenTensorFill([], "b", values=np.ones(3, np.float32))
    net.FC(["x", "w", "b"], "h")
    net.Relu("h", "h")
    net.Softmax("h", "y")
    net.output("y")
    return net


def mutate(files: _Files, chance: random.Random) -> _Files:
    held = dict(files)
    if NPZ in held and chance.random() < 0.2:
        held[NPZ] = damaged_zip(held[NPZ] or b"", chance)
        return held
    whole = (held[MAIN] or b"").decode("utf-8", "replace")
    try:
        plain = json.loads(whole)
    except (ValueError, RecursionError):
        plain = None
    if plain is None or chance.random() < 0.15:
        whole = damaged_text(whole, chance)
    else:
        whole = json.dumps(damaged_plain(plain, chance, 1))
    held[MAIN] = whole.encode("utf-8", "surrogatepass")
    return held
