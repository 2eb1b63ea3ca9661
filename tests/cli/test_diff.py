"""``explorer diff``: two models, or a model and the recording that was kept of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.cli import main

ASSETS = Path(__file__).parents[2] / "assets"
MODEL = ASSETS / "digits.pnnx.param"


@pytest.mark.spec("V-12")
def test_a_model_beside_its_recording_has_no_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model and the recording that was kept of it are the same: status 0, with counts of both."""
    kept = tmp_path / "kept.json"
    assert main(["show", str(MODEL), "-o", str(kept)]) == 0
    capsys.readouterr()
    assert main(["diff", str(kept), str(MODEL)]) == 0
    told = capsys.readouterr().out
    assert "the same graph of " in told
    assert told.splitlines()[-1].startswith("kernels: ")
    assert told.splitlines()[-1].endswith(" the same, 0 places where not")


@pytest.mark.spec("V-12")
def test_a_changed_model_is_told_operator_by_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An operator that became another is told as removed and added with the file's lines, and the status is 1."""
    lines = MODEL.read_text().splitlines(keepends=True)
    changed = tmp_path / "digits.pnnx.param"
    found = [number for number, line in enumerate(lines) if line.startswith("nn.ReLU ") or line.startswith("F.relu ")]
    assert found
    kind, rest = lines[found[-1]].split(maxsplit=1)
    lines[found[-1]] = f"{'nn.Tanh' if kind == 'nn.ReLU' else 'F.tanh'} {rest}"
    changed.write_text("".join(lines))
    changed.with_suffix(".bin").write_bytes(MODEL.with_suffix(".bin").read_bytes())
    assert main(["diff", str(MODEL), str(changed)]) == 1
    told = capsys.readouterr().out
    assert "  - relu " in told
    assert "  + tanh " in told
    assert f"digits.pnnx.param line {found[-1] + 1}" in told
    assert "0 only before" not in told


@pytest.mark.spec("V-12")
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A .json file that is no recording gives one message that says how to write one."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    assert main(["diff", str(MODEL), str(wrong)]) == 2
    said = capsys.readouterr().err
    assert "wrong.json" in said
    assert "explorer show FILE -o wrong.json" in said
    assert main(["diff", str(MODEL), str(tmp_path / "none.json")]) == 2
