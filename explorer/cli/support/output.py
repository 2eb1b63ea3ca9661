"""Checks of output paths, which keep commands from overwriting their inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import check_writable


def stem(path: Path) -> str:
    """Return the name of a model file without its extensions."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def check_output(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError if the output cannot be written, or if it or its weights file would overwrite an input."""
    inputs = [file for path in read for file in _with_weights(path)]
    for file in _with_weights(output):
        replaced = next((path for path in inputs if _is_same(file, path)), None)
        if replaced is not None:
            raise FileError(
                f"the output {replaced.name} is also an input", path=str(file), rule="the output must not be an input",
                fix="name another file",
            )  # fmt: skip
    check_writable(output)


def _with_weights(path: Path) -> list[Path]:
    """Return the file, and its weights file if the format has a separate one."""
    from explorer.formats.registry import format_of  # slow to import, and not needed for help

    entry = format_of(path.name)
    return [path, path.with_suffix(entry.weights_extension)] if entry and entry.weights_extension else [path]


def _is_same(file: Path, other: Path) -> bool:
    return os.path.exists(file) and os.path.exists(other) and os.path.samefile(file, other)


def extension_error(output: Path, extensions: str, fix: str) -> FileError:
    """Return the error for an output with a wrong extension; ``fix`` is the suggested extension."""
    return FileError(
        f"the extension {output.suffix!r}" if output.suffix else "a name without an extension",
        path=str(output),
        rule=f"the output must end in {extensions}",
        fix=f"-o {output / 'out' if output.is_dir() else output.stem}{fix}",
    )
