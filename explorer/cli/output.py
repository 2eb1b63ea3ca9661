"""What commands write: files as a whole or not at all, never over what they read."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from explorer.core.errors import FileError


def stem(path: Path) -> str:
    """A model's name: the file's, without its endings."""
    return path.name.removesuffix(".param").removesuffix(".pnnx")


def refuse_inputs(output: Path, read: Iterable[Path]) -> None:
    """Raise FileError where an output is one of the files that are read, or a model's weights beside it."""
    inputs = [path for each in read for path in (each, each.with_suffix(".bin"), each.with_suffix(".param"))]
    for path in inputs:
        if output.exists() and path.exists() and os.path.samefile(output, path):
            raise FileError(
                f"the output is {path.name}, which is read", path=str(output), rule="no input is overwritten",
                fix="name another file with -o",
            )  # fmt: skip


def write(path: Path, content: str | bytes) -> None:
    """Write a file as a whole: a reader sees the old one or the new one, also when this is interrupted."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    if path.is_dir():
        raise FileError("this is a folder", path=str(path), rule="the output is a file", fix="name a file in it")
    if not path.parent.exists():
        raise FileError("its folder does not exist", path=str(path), fix=f"make it first: mkdir -p {path.parent}")
    try:
        handle, scratch = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    except OSError as error:  # it would name the file that nobody asked for
        raise FileError(
            f"nothing can be written into its folder: {error.strerror}", path=str(path),
            rule="the folder of the output can be written to", fix="name another folder with -o",
        ) from error  # fmt: skip
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(scratch, 0o666 & ~mask)
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def report(text: str) -> None:
    """Print a line about what was done, where it does not mix with what was asked for."""
    print(text, file=sys.stderr)
