"""``explorer diff``: two models, or a model and a saved recording of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.formats import open as open_model

ASSETS = Path(__file__).parents[3] / "assets"
MODEL = ASSETS / "digits.pnnx.param"


@pytest.mark.spec("V-12")
def test_a_model_equals_its_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model and its saved recording are the same: status 0, with counts of both."""
    kept = tmp_path / "kept.json"
    assert main(["show", str(MODEL), "-o", str(kept)]) == 0
    capsys.readouterr()
    assert main(["diff", str(kept), str(MODEL)]) == 0
    text = capsys.readouterr().out
    assert "the same graph of " in text
    assert "weights" not in text  # a recording has none
    assert text.splitlines()[-1].startswith("kernels: ")
    assert text.splitlines()[-1].endswith(" the same, 0 places where not")


@pytest.mark.spec("V-12", headline=True)
def test_a_changed_model_is_reported_operator_by_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """List the operators that became others, were added or removed; the exit status is 1.

    With --nodes, also list the recorded nodes that differ, with their lines in the file.
    """
    lines = MODEL.read_text().splitlines(keepends=True)
    changed = tmp_path / "digits.pnnx.param"
    results = [number for number, line in enumerate(lines) if line.startswith("nn.ReLU ") or line.startswith("F.relu ")]
    assert results
    kind, rest = lines[results[-1]].split(maxsplit=1)
    lines[results[-1]] = f"{'nn.Tanh' if kind == 'nn.ReLU' else 'F.tanh'} {rest}"
    changed.write_text("".join(lines))
    changed.with_suffix(".bin").write_bytes(MODEL.with_suffix(".bin").read_bytes())
    assert main(["diff", str(MODEL), str(changed)]) == 1
    operators = capsys.readouterr().out
    assert "operators: 14 as before, 1 became another\n" in operators
    assert " became " in operators
    assert "  - relu " not in operators
    assert main(["diff", "--nodes", str(MODEL), str(changed)]) == 1
    text = capsys.readouterr().out
    assert "  - relu " in text
    assert "  + tanh " in text
    assert f"digits.pnnx.param line {results[-1] + 1}" in text
    assert "0 only before" not in text


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the model to another folder for editing."""
    file = tmp_path / MODEL.name
    file.write_bytes(MODEL.read_bytes())
    file.with_suffix(".bin").write_bytes(MODEL.with_suffix(".bin").read_bytes())
    return file


@pytest.mark.spec("V-12")
def test_a_copy_with_other_weights_is_reported(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """For two nets with one graph, weight values are compared; --no-weights compares only the graphs."""
    assert main(["diff", str(MODEL), str(copy)]) == 0
    assert capsys.readouterr().out.endswith("weights: 12 with the same values, 0 with others\n")
    net = open_model(copy)
    edited = Path(copy.parent, "edited.pnnx.param")
    values = np.array(net["conv2"].bias)
    values[0] += 0.5
    net["conv2"].bias = values
    net.save(edited)
    assert main(["diff", str(MODEL), str(edited)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2] == "weights: 11 with the same values, 1 with others"
    assert lines[-1].endswith(f": 1 of {values.size:,} elements differ, by 0.5 at most")
    assert main(["diff", "--no-weights", str(MODEL), str(edited)]) == 0
    assert "weights" not in capsys.readouterr().out


@pytest.mark.spec("V-12")
def test_a_model_without_its_weights_raises_an_error_with_the_fix(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message contains the missing file and how to compare only the graphs."""
    copy.with_suffix(".bin").unlink()
    assert main(["diff", str(MODEL), str(copy)]) == 2
    said = capsys.readouterr().err
    assert "digits.pnnx.bin: the file is missing" in said
    assert said.count("digits.pnnx.bin") == 1
    assert "--no-weights" in said
    assert main(["diff", "--no-weights", str(MODEL), str(copy)]) == 0


@pytest.mark.spec("V-12", "V-14")
def test_a_comparison_is_written_as_a_page(copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output is a page that steps through both, or the text; the exit status is the comparison's."""
    page, text = tmp_path / "both.html", tmp_path / "both.txt"
    assert main(["diff", str(MODEL), str(copy), "-o", str(page)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("wrote ")
    assert said.endswith(" KB): no difference\n")
    assert page.read_text().count('<script type="module">') == 1
    assert main(["diff", str(MODEL), str(copy), "-o", str(text)]) == 0
    assert text.read_text().splitlines()[-1].startswith("weights: 12 ")
    assert main(["diff", str(MODEL), str(copy), "-o", str(tmp_path / "both.svg")]) == 2
    assert "-o both.html" in capsys.readouterr().err
    assert main(["diff", str(MODEL), str(page), "-o", str(page)]) == 2


@pytest.mark.spec("V-12")
def test_nets_in_json_are_compared_like_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = ex.open(MODEL)
    net.save(tmp_path / "digits.json")
    assert main(["diff", str(MODEL), str(tmp_path / "digits.json"), "--no-weights"]) == 0
    assert "the same graph" in capsys.readouterr().out


@pytest.mark.spec("V-12")
def test_an_invalid_recording_raises_an_error_with_the_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error for another .json file explains how to write a recording."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    assert main(["diff", str(MODEL), str(wrong)]) == 2
    said = capsys.readouterr().err
    assert "wrong.json" in said
    assert "explorer show FILE -o wrong.json" in said
    assert main(["diff", str(MODEL), str(tmp_path / "none.json")]) == 2
