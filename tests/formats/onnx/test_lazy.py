"""The onnx package is imported only when an ONNX file is opened."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import explorer, explorer.formats, explorer.formats.onnx
assert "onnx" not in sys.modules and "google.protobuf" not in sys.modules
"""


def test_importing_explorer_does_not_import_onnx() -> None:
    """This includes explorer's formats."""
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
