"""Output files of commands, which are checked before anything is computed, and never overwrite an input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import check_writable


def stem(path: Path) -> str:
    """Return a model's name: the file's name without endings."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def check_output(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError if the output cannot be written, is one of the input files, or the weights of an input model."""
    from explorer.formats.registry import format_of  # slow to import, and help needs none

    inputs = []
    for path in read:
        entry = format_of(path.name)
        inputs += [path, *([path.with_suffix(entry.weights_ending)] if entry and entry.weights_ending else [])]
    for path in inputs:
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
            raise FileError(
                f"the output is {path.name}, which is read", path=str(output), rule="the output must not be an input",
                fix="name another file",
            )  # fmt: skip
    check_writable(output)


def ending_error(output: Path, endings: str, fix: str) -> FileError:
    """Return the error for an output without one of the endings; ``fix`` is the ending of the name that it proposes."""
    return FileError(
        f"the ending {output.suffix!r}" if output.suffix else "a name without an ending",
        path=str(output),
        rule=f"the output must end in {endings}",
        fix=f"-o {output / 'out' if output.is_dir() else output.stem}{fix}",
    )
