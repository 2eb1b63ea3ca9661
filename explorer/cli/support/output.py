"""What commands write: never over what they read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError

_WEIGHTS = {".param": ".bin", ".json": ".npz"}
"""ending of a model's graph → that of its weights, in a file beside it"""


def stem(path: Path) -> str:
    """A model's name: the file's, without its endings."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def refuse_inputs(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError where an output is one of the files that are read, or a model's weights beside it."""
    inputs = [path for each in read for path in (each, each.with_suffix(_WEIGHTS.get(each.suffix, each.suffix)))]
    for path in inputs:
        if output.exists() and path.exists() and os.path.samefile(output, path):
            raise FileError(
                f"the output is {path.name}, which is read", path=str(output), rule="no input is overwritten",
                fix="name another file with -o",
            )  # fmt: skip
