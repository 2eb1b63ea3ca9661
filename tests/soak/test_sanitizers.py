"""Compiled kernels access only their arrays, and compute nothing that C leaves undefined."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]
SANITIZED = """
import sys
from explorer.run.native import library

# Faults are in the C code, and -O1 compiles it in a third of the time and keeps more accesses that are checked.
library.FLAGS = (*library.FLAGS, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
library._SECONDS = 600.0
"""
LAWS = """
import pytest

options = ["-q", "-n", "0", "-p", "no:nbval", "-p", "no:cacheprovider"]
quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
sys.exit(pytest.main([*options, *quiet, "tests/laws/test_native.py"]))
"""
FAULT = """
import ctypes
import numpy as np

code = "void k(void *const *arrays, int64_t start, int64_t stop) { ((f32 *)arrays[0])[stop] = 1; }"
array = np.ones(1000, np.float32)
library.library((("k", code),)).functions["k"]((ctypes.c_void_p * 1)(array.ctypes.data), 0, 1000)
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that compiles kernels with sanitizers, at whose faults the process ends."""
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    preloaded = {"LD_PRELOAD": runtime.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run(
        [sys.executable, "-c", SANITIZED + program],
        cwd=ROOT,
        env={**os.environ, **preloaded, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.spec("K-4")
def test_kernels_of_the_laws_have_no_faults_under_sanitizers() -> None:
    run = ended(LAWS)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert re.search(r"\b[1-9]\d passed", run.stdout), run.stdout[-300:]


def test_the_sanitizers_find_a_fault() -> None:
    assert "heap-buffer-overflow" in ended(FAULT).stderr
