"""The onnx package is imported by those alone who open an ONNX file."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
import explorer, explorer.formats, explorer.formats.onnx
assert "onnx" not in sys.modules and "google.protobuf" not in sys.modules
"""


def test_importing_explorer_imports_no_onnx() -> None:
    """Importing explorer, and its formats, does not import the onnx package."""
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
