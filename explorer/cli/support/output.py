"""What commands write: never over what they read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError


def stem(path: Path) -> str:
    """A model's name: the file's, without its endings."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def refuse_inputs(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError where an output is one of the files that are read, or a model's weights beside it."""
    from explorer.formats.registry import format_of  # slow to import, and help needs none

    inputs = []
    for path in read:
        entry = format_of(path.name)
        inputs += [path, *([path.with_suffix(entry.weights_ending)] if entry and entry.weights_ending else [])]
    for path in inputs:
        if output.exists() and path.exists() and os.path.samefile(output, path):
            raise FileError(
                f"the output is {path.name}, which is read", path=str(output), rule="no input is overwritten",
                fix="name another file with -o",
            )  # fmt: skip
