"""Files that contain pickles: no reader ever unpickles anything."""

from __future__ import annotations

import contextlib
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.formats import extensions

MODEL = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"


class Evil:
    """A value whose unpickling writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.touch, (self.target,)


def _npz(path: Path, evil: Evil) -> None:
    np.savez(path.with_suffix(".npz"), x=np.array([evil], object), **{"x.values": np.array(evil, object)})
    path.with_suffix(".npz").rename(path)


def _npy(path: Path, evil: Evil) -> None:
    with path.open("wb") as file:
        np.save(file, np.array([evil], object))


def _plain(path: Path, evil: Evil) -> None:
    path.write_bytes(pickle.dumps(evil))


def _zip(path: Path, evil: Evil) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("archive/data.pkl", "data.pkl", "conv1.weight", "x.npy", "archive/constants.pkl"):
            archive.writestr(name, pickle.dumps(evil))


@pytest.mark.parametrize(
    "extension", sorted({*extensions(), ".npz", ".npy", ".json", ".explorer.json", ".csv", ".png"} - {".pt2"})
)
@pytest.mark.parametrize("write", [_npz, _npy, _plain, _zip])
def test_no_pickle_in_a_file_is_loaded(write: Callable[[Path, Evil], None], extension: str, tmp_path: Path) -> None:
    """Files are opened, shown, run, and used as weights, inputs and data."""
    target, path = tmp_path / "pwned", tmp_path / f"x{extension}"
    write(path, Evil(target))
    pickle.loads(pickle.dumps(Evil(tmp_path / "proof")))
    assert (tmp_path / "proof").exists()
    with contextlib.suppress(ex.ExplorerError):
        ex.open(path).run()
    with contextlib.suppress(ex.ExplorerError):
        ex.open(MODEL, weights=path).run(images=np.zeros((1, 1, 28, 28), np.float32))
    for read in (ex.load_csv, ex.load_image):
        with contextlib.suppress(ex.ExplorerError):
            read(path)
    for command in (["show", str(path)], ["check", str(path)], ["diff", str(path), str(path)]):
        main(command)
    main(["run", str(MODEL), "--input", str(path)])
    assert not target.exists()
