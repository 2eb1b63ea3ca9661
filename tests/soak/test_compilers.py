"""Other C compilers than the first one in PATH build kernels with the same numbers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from explorer.run.native import library

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]
_PROGRAMS = {os.path.realpath(path): name for name in library._NAMES[::-1] if (path := shutil.which(name))}
INSTALLED = [*reversed(_PROGRAMS.values()), *["ziglang"] * (find_spec("ziglang") is not None)]
LAWS = """
import sys
import pytest
from explorer.run.native import library

name = sys.argv[1]
library._NAMES = () if name == "ziglang" else (name,)
found = library.compiler()
assert found is not None and found.name == name
options = ["-q", "-n", "0", "-p", "no:nbval", "-p", "no:cacheprovider"]
options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
sys.exit(pytest.main([*options, "tests/laws/test_native.py", "tests/run/native/test_functions.py"]))
"""


@pytest.mark.spec("K-4", "K-5")
@pytest.mark.parametrize("name", INSTALLED[1:] or INSTALLED)
def test_the_laws_hold_with_another_compiler(name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LAWS, name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
