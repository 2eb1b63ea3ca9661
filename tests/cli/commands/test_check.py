"""``explorer check``: problems, similar ones together, and comparison of a plan with a saved one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main

ASSETS = Path(__file__).parents[3] / "assets"
MODEL = ASSETS / "digits.pnnx.param"


@pytest.mark.spec("V-22")
def test_a_model_is_compared_with_a_saved_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer check MODEL --plan KEPT` has status 1 and names the decisions in which a model's plan differs."""
    kept = tmp_path / "digits.plan.json"
    assert main(["check", str(MODEL), "--plan", str(kept)]) == 2
    assert "--update" in capsys.readouterr().err
    assert main(["check", str(MODEL), "--plan", str(kept), "--update"]) == 0
    assert main(["check", str(MODEL), "--plan", str(kept)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"digits: its plan equals the plan in {kept}"
    changed = tmp_path / "digits.pnnx.param"
    changed.write_text(MODEL.read_text().replace("nn.ReLU ", "nn.Tanh ", 1))
    changed.with_suffix(".bin").write_bytes(MODEL.with_suffix(".bin").read_bytes())
    assert main(["check", str(changed), "--plan", str(kept)]) == 1
    text = capsys.readouterr().out
    assert "fuse · convbn2d_0 / conv2d and 2 more: still ✓ Epilogue [epilogue]; " in text
    assert "kernel - conv2d → add → relu" in text
    assert "kernel + conv2d → add → tanh" in text
    assert text.splitlines()[-1] == f"digits: its plan differs from the plan in {kept}"
    assert main(["check", str(changed), "--plan", str(kept), "--update"]) == 0
    assert main(["check", str(changed), "--plan", str(kept)]) == 0


def test_an_invalid_plan_file_raises_an_error_and_a_model_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = MODEL.read_bytes()
    assert main(["check", str(MODEL), "--plan", str(MODEL)]) == 2
    assert "is not JSON" in capsys.readouterr().err
    assert main(["check", str(MODEL), "--plan", str(MODEL), "--update"]) == 2
    assert MODEL.read_bytes() == before
    recording = tmp_path / "digits.json"
    assert main(["show", str(MODEL), "-o", str(recording)]) == 0
    assert main(["check", str(MODEL), "--plan", str(recording)]) == 2
    assert "this is not a plan file" in capsys.readouterr().err
    assert main(["check", str(MODEL), "--update"]) == 2
    assert "--plan digits.plan.json" in capsys.readouterr().err


@pytest.mark.spec("I-5")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_weights_of_a_missing_file_are_one_problem(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that cannot be read for one reason are one problem, with their number and the first names."""
    assert main(["check", str(ASSETS / "models" / f"{name}.onnx")]) == 1
    findings, _, _ = capsys.readouterr().out.partition("  producer: ")
    lines = findings.splitlines()
    assert len(lines) == 3
    assert f"{name}.onnx.data: " in lines[0]
    assert " weights ('" in lines[0]
    assert lines[0].endswith("', …) cannot be read: No such file or directory")
    assert lines[2].startswith(f"{name}: 1 finding in ")


def test_weights_with_different_problems_are_separate_problems(tmp_path: Path) -> None:
    path = tmp_path / "digits.pnnx.param"
    path.write_bytes(MODEL.read_bytes())
    net = ex.open(path, weights=MODEL.with_suffix(".bin"))
    assert net.check() == []
    alone, *rest = ex.open(path).check()
    assert "12 weights" in alone
    assert rest == []


@pytest.mark.parametrize(("unknown", "summary"), [(1, "1 finding in"), (2, "2 findings in")])
def test_problems_are_counted(unknown: int, summary: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"my.Odd{number} o{number} 1 1 x y{number}" for number in range(unknown)]
    path = tmp_path / "n.param"
    path.write_text(f"7767517\n{unknown + 1} {unknown + 1}\npnnx.Input i 0 1 x #x=(2)f32\n" + "\n".join(lines) + "\n")
    assert main(["check", str(path)]) == 1
    assert summary in capsys.readouterr().out.splitlines()[-1]


def test_a_saved_plan_overwrites_only_a_saved_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other files stay, but a saved plan with merge conflict markers is overwritten."""
    kept = tmp_path / "digits.json"
    assert main(["convert", str(MODEL), str(kept)]) == 0
    before = kept.read_bytes()
    assert main(["check", str(MODEL), "--plan", str(kept), "--update"]) == 2
    assert "this is not a plan file, and would be overwritten" in capsys.readouterr().err
    assert kept.read_bytes() == before
    plan = tmp_path / "digits.plan.json"
    assert main(["check", str(MODEL), "--plan", str(plan), "--update"]) == 0
    whole = plan.read_text()
    plan.write_text(f"<<<<<<< ours\n{whole}=======\n")
    assert main(["check", str(MODEL), "--plan", str(plan), "--update"]) == 0
    assert plan.read_text() == whole


def test_the_extension_of_a_model_may_be_in_capitals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capital = tmp_path / "DIGITS.ONNX"
    capital.write_bytes((ASSETS / "digits.onnx").read_bytes())
    assert main(["check", str(capital)]) == 0
    assert capsys.readouterr().out.startswith("DIGITS: all ")


def test_an_input_with_an_impossible_shape_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    length = "9" * 18
    lines = [f"pnnx.Input i 0 1 x #x=({length},{length})f32", "nn.ReLU r 1 1 x y", "pnnx.Output o 1 0 y"]
    file = tmp_path / "n.param"
    file.write_text("\n".join(["7767517", "3 2", *lines]) + "\n")
    assert main(["check", str(file)]) == 2
    assert "n.param: input 'x' is an array of float32 with 2 axes: " in capsys.readouterr().err


def test_nets_without_inputs_or_operators_are_described_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ex.save({"y": ex.relu(ex.tensor(np.float32([-1, 2])))}, "none.onnx")
    assert main(["check", "none.onnx"]) == 0
    assert "can run: no input → " in capsys.readouterr().out
    plain = ex.Net("plain")
    plain.output(plain.input("x", (2,)))
    plain.save("plain.json")
    assert main(["check", "plain.json"]) == 0
    assert capsys.readouterr().out == "plain: it has no operator, and can run: x 2 → x 2\n"


def test_a_shape_given_for_a_length_names_the_right_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--shape expects inputs, so the error for a length's name suggests the input that has it."""
    file = tmp_path / "n.onnx"
    ex.save(lambda x: ex.relu(x), file, {"x": ("batch", 3)})
    assert main(["check", str(file), "--shape", "batch=7"]) == 2
    assert "fix: name the input: batch is a length of x" in capsys.readouterr().err
