"""The examples of the guides that need other frameworks: compilers, each with a missed fusion, and a torch module."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("package", "heading", "reason"),
    [
        ("jax", "## Find a missed fusion, and test the fix", "expensive producer would be duplicated"),
        ("torch", "## Inductor", "`sum` is not fused with `div`: no shared data"),
        ("onnxruntime", "## onnxruntime", "`Add 1e-05` adds the epsilon to the root"),
    ],
)
def test_the_examples_find_a_missed_fusion_and_test_the_change(
    package: str, heading: str, reason: str, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    section = (ROOT / "docs" / "other-compilers.md").read_text().partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    assert reason in printed(section, tmp_path)


def test_the_example_opens_a_torch_module_and_a_saved_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert " conv2d → add → relu, line " in printed((ROOT / "docs" / "torch-modules.md").read_text(), tmp_path)


def printed(text: str, folder: Path) -> str:
    """Run the programs of a page in a folder, and return what they print."""
    programs = "\n".join(re.findall(r"```py\n(.*?)```", text, re.DOTALL))
    (folder / "page.py").write_text(programs.replace('"assets/', f'"{ROOT.as_posix()}/assets/'))
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    ended = subprocess.run(
        [sys.executable, "page.py"], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
