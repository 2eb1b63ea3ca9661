"""Output files of commands, which never overwrite an input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError


def stem(path: Path) -> str:
    """Return a model's name: the file's name without endings."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def refuse_inputs(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError if the output is one of the input files, or the weights of an input model."""
    from explorer.formats.registry import format_of  # slow to import, and help needs none

    inputs = []
    for path in read:
        entry = format_of(path.name)
        inputs += [path, *([path.with_suffix(entry.weights_ending)] if entry and entry.weights_ending else [])]
    for path in inputs:
        if output.exists() and path.exists() and os.path.samefile(output, path):
            raise FileError(
                f"the output is {path.name}, which is read", path=str(output), rule="the output must not be an input",
                fix="name another file",
            )  # fmt: skip
