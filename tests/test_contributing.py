"""CONTRIBUTING.md is correct: its diagram equals the imports; files, names and commands exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import explorer as ex
from assets import rooms
from explorer.formats.registry import FORMATS
from explorer.run.execution.executors import EXECUTORS
from explorer.view.model.heat import METRICS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in TEXT.split("\n## ")[1:]}


def test_the_diagram_equals_the_imports() -> None:
    """``python assets/rooms.py`` would change nothing, and its heights order the packages."""
    assert rooms.drawn(TEXT) == TEXT
    heights = {name: int(height) for height, name in re.findall(r"^ ?(\d+)  (\w+)", rooms.drawing(), re.MULTILINE)}
    assert heights["record"] == heights["names"] == 0
    packages = rooms.packages()
    assert all(heights[other] < heights[name] for name, others in packages.items() for other in others)


def test_every_path_and_every_public_name_exists() -> None:
    paths = re.findall(r"`((?:explorer|tests|assets|notebooks)/[\w/.]+)`", TEXT)
    assert len(paths) > 20
    assert not [path for path in paths if not (ROOT / path).exists()]
    assert not [name for name in re.findall(r"`ex\.(\w+)`", TEXT) if name != "name" and not hasattr(ex, name)]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)", TEXT)) <= targets


@pytest.mark.parametrize(
    ("section", "file", "name"),
    [
        ("Add an operation", "explorer/names/operations.py", "UNARY"),
        ("Add an operation", "explorer/formats/onnx/writing/elementwise.py", "@writes("),
        ("Add an operation", "explorer/formats/pnnx/operators/elements/activation.py", "_register"),
        ("Add a rule", "explorer/plan/rewrite/rules/identities.py", "(Rule"),
        ("Add a pass", "explorer/plan/pipeline.py", "PIPELINE"),
        ("Add a pass", "explorer/plan/passes/dedup.py", "(Pass"),
        ("Add a file format", "explorer/formats/registry.py", "FORMATS"),
        ("Add an executor", "explorer/run/execution/executors/registry.py", "EXECUTORS"),
        ("Add a heat metric", "explorer/view/model/heat.py", "METRICS"),
        ("Add a view", "explorer/view/export/writers.py", "WRITERS"),
    ],
)
def test_files_in_the_walkthrough_contain_what_it_names(section: str, file: str, name: str) -> None:
    """A file contains the table or the class that serves as the example."""
    assert f"`{file}`" in SECTIONS[section]
    assert name in (ROOT / file).read_text(encoding="utf-8")


def test_the_registries_contain_the_described_entries() -> None:
    assert {"pnnx", "onnx", "explorer"} <= FORMATS.keys()
    assert {"simple", "dag"} <= EXECUTORS.keys()
    assert {"time", "flops", "bytes"} <= METRICS.keys()


def test_every_cell_of_notebook_15_has_at_most_twenty_lines() -> None:
    cells = json.loads((ROOT / "notebooks/15_your_own.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [[line for line in cell["source"] if line.strip()] for cell in cells if cell["cell_type"] == "code"]
    assert max(map(len, code)) <= 20


def test_the_root_contains_no_outputs() -> None:
    """Examples and screenshots write elsewhere: the repository's root has only text and settings."""
    listed = subprocess.run(["git", "ls-files", ":(glob)*"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout")
    extensions = {Path(name).suffix for name in listed.stdout.split()}
    assert extensions <= {"", ".md", ".toml", ".yaml", ".txt", ".py", ".json", ".cff"}
    assert [name for name in listed.stdout.split() if name.endswith(".json")] == ["tsconfig.json"]
