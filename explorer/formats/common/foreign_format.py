"""A format that is not opened as it is: its endings, its name, and the way to a file that opens."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

_TF2ONNX = "pip install tf2onnx; python -m tf2onnx.convert {option} {path} --output {out}.onnx"


class ForeignFormat(NamedTuple):
    """A format that is not opened, with ``fix``, in which ``{path}`` and ``{out}`` stand for the file's names."""

    endings: tuple[str, ...]
    name: str
    fix: str

    def fix_for(self, path: Path) -> str:
        """Return the fix for one file."""
        names = {"file": str(path), "stem": path.stem, "folder": shlex.quote(str(path.parent))}
        # A command is copied into a shell: a name with blanks, or with worse, must stay one word.
        quoted = {"path": shlex.quote(str(path)), "out": shlex.quote(path.stem), "name": shlex.quote(path.name)}
        return self.fix.format(**names, **quoted)


def tf2onnx(option: str, more: str = "") -> str:
    """Return the fix for a format of TensorFlow: the command that makes an ONNX file of it."""
    return _TF2ONNX.replace("{option}", option) + more


TFLITE = ForeignFormat((".tflite", ".lite"), "TensorFlow Lite", tf2onnx("--tflite"))
"""a format that is opened where its package is installed, and is converted elsewhere"""
