"""``explorer compare``: the first operator that differs, a ranking between precisions, and tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from tests.support.precision_files import SMALL, small_files

ASSETS = Path(__file__).parents[3] / "assets"
DIGITS, PARAM = str(ASSETS / "digits.onnx"), str(ASSETS / "digits.pnnx.param")
IMAGES = ["--input", f"{ASSETS / 'digits.npz'}:images"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spec("I-20")
def test_a_model_is_compared_with_a_runtime_a_file_or_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 1 if a value differs."""
    assert main(["compare", "onnx.reference", DIGITS, *IMAGES]) == 0
    assert "14 operands compared, all agree" in capsys.readouterr().out
    assert main(["compare", DIGITS, PARAM, *IMAGES]) == 0
    assert "1 operand compared, all agree" in capsys.readouterr().out
    np.savez("other.npz", **{"15": np.ones((12, 10), np.float32)})
    assert main(["compare", "other.npz", PARAM, *IMAGES]) == 1
    assert "the first that differs is '15' of operator 'softmax'" in capsys.readouterr().out
    assert main(["compare", "other.npz", PARAM, *IMAGES, "--tolerance", "1"]) == 0


@pytest.mark.spec("Q-6")
def test_an_int8_file_is_ranked_against_its_float_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer compare A B --input x.npz` prints the ranking, and writes a row for each operand."""
    small_files(folder)
    np.savez("x.npz", x=SMALL)
    for output in ("out.csv", "out.json", "out.txt", "out.html"):
        assert main(["compare", "float32.onnx", "int8.onnx", "--input", "x.npz", "-o", output]) == 1
        text = capsys.readouterr()
        assert "lowest own SQNR, on the operands of float32" in text.out
        assert f"wrote {output}" in text.err
    assert main(["compare", "float32.onnx", "int8.onnx", "--input", "x.npz", "--keep-in-float", "2"]) == 1
    assert capsys.readouterr().out.endswith("nodes_to_exclude=['matmul', 'conv']\n")
    rows = json.loads(Path("out.json").read_text())
    comparison = ex.open("int8.onnx").compare(ex.open("float32.onnx"), SMALL)
    assert [row["operator"] for row in rows] == [row.operator for row in comparison.rows]
    assert [row["sqnr"] for row in rows] == pytest.approx([row.sqnr for row in comparison.rows])
    assert [row["own_sqnr"] for row in rows] == pytest.approx([row.rank for row in comparison.rows])
    with Path("out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["max_error"]) for row in table] == pytest.approx([row["max_error"] for row in rows])
    assert Path("out.txt").read_text().startswith("int8 against float32: ")
    assert "<html" in Path("out.html").read_text()[:200]


@pytest.mark.spec("Q-6")
def test_floats_are_cast_to_the_precision_of_each_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_files(folder)
    np.savez("x.npz", x=SMALL)
    assert main(["compare", "float32.onnx", "float16.onnx", "--input", "x.npz"]) == 0
    text = capsys.readouterr().out
    assert "cast: input 'x' of net 'float16', float32 to float16" in text
    assert "cast: input 'x' of net 'float32', float16 to float32" in text
    assert "tolerance: a relative error of 0.01, for float16 against float32" in text
    assert main(["compare", "float32.onnx", "float16.onnx", "--input", "x.npz", "--tolerance", "1e-4"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.onnx", DIGITS], "absent.onnx: the file cannot be read: No such file or directory"),
        (["absent.npz", DIGITS], "absent.npz: the file cannot be read: No such file or directory"),
        (["tensorflow", DIGITS], "fix: explorer compare onnx.reference FILE --input in.npz"),
        ([DIGITS, "onnxruntime"], "fix: explorer compare onnxruntime "),
        (["onnxruntime", DIGITS], "fix: pip install 'explorer-graphs[onnxruntime]'"),
        (["a.npz", DIGITS, "-o", "out.xlsx"], "the output must end in .csv, .json, .txt or .html"),
        (["a.npz", DIGITS, "-o", "a.json", "--input", "a.json"], "the output a.json is also an input"),
    ],
)
def test_errors_are_printed_before_the_run(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 2, and no file is overwritten."""
    monkeypatch.setattr("explorer.runtimes.registry.find_spec", lambda name: None)  # as without packages
    Path("a.json").write_text("{}")
    assert main(["compare", *arguments, *IMAGES]) == 2
    text = capsys.readouterr()
    assert said in text.err
    assert text.out == ""
    assert Path("a.json").read_text() == "{}"


@pytest.mark.spec("I-5")
def test_a_name_in_a_table_is_no_formula(folder: Path) -> None:
    """A spreadsheet computes a cell that begins with an equals sign."""
    net = ex.Net("odd")
    net.output(net.Relu(net.input("x", (2,)), "y", name="=1+1\x1b"))
    net.save("odd.json")
    np.savez("x.npz", x=np.float32([1, 2]))
    assert main(["compare", "odd.json", "odd.json", "--input", "x.npz", "-o", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["operator"] == "'=1+1\\x1b"
