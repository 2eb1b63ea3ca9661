"""``explorer profile``: times of operators and types as text, tables and a page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

import explorer as ex
from explorer.cli import main
from tests.support.pnnx_models import opened

ASSETS = Path(__file__).parents[3] / "assets"
DIGITS = str(ASSETS / "digits.onnx")
IMAGES = ["--input", f"{ASSETS / 'digits.npz'}:images"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spec("Q-2")
def test_the_times_of_operators_are_printed_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer profile FILE` prints two tables, and writes a row for each kernel or type, with its share."""
    assert main(["profile", DIGITS, *IMAGES, "--runs", "3"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("digits: ")
    assert "medians of 3 warm runs" in text
    assert re.search(r"^/conv1/Conv \+ /relu1/Relu +[\d.]+ +[\d.]+ ", text, re.MULTILINE)
    assert re.search(r"^Conv \+ Relu ×2 ", text, re.MULTILINE)
    assert main(["profile", DIGITS, *IMAGES, "-o", "out.json"]) == 0
    rows = json.loads(Path("out.json").read_text())
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    named = {name for row in rows for name in row["operators"].split(" + ")}
    assert named <= {*ex.open(DIGITS).operators}
    assert main(["profile", DIGITS, *IMAGES, "--by", "type", "-o", "out.csv"]) == 0
    with Path("out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert {row["types"]: row["count"] for row in table}["Conv + Relu"] == "2"
    assert main(["profile", DIGITS, *IMAGES, "--by", "type", "-o", "out.txt"]) == 0
    assert "/conv1/Conv" not in Path("out.txt").read_text()
    assert main(["profile", DIGITS, *IMAGES, "-o", "out.html"]) == 0
    assert '"heat":"time"' in Path("out.html").read_text()


@pytest.mark.spec("Q-2")
def test_what_is_computed_once_is_not_in_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    """Products of weights are computed before the first run, so they are in one line, without rates."""
    opened("convbn_opt0").save("model.pnnx.param")
    assert main(["profile", "model.pnnx.param", "--runs", "1"]) == 0
    last = capsys.readouterr().out.strip().splitlines()[-1]
    assert re.fullmatch(r"once, before the first run: 5 kernels of b, 8.1 µs estimated", last)
    assert main(["profile", "model.pnnx.param", "--runs", "1", "-o", "out.json"]) == 0
    recording = ex.open("model.pnnx.param").preview_plan().recording
    assert recording.schedule is not None
    assert len(json.loads(Path("out.json").read_text())) == len(recording.schedule.kernels) - 5


def test_inputs_of_the_declared_types_are_drawn_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """Floats are random, other dtypes 0, and the message states both; `--shape` sets open lengths."""
    net = ex.Net("two")
    net.input("x", (None, 2))
    net.output(net.Gather([net.input("table", (5, 2)), net.input("rows", (3,), "int64")], "y"), net.Relu("x", "z"))
    net.save("two.json")
    assert main(["profile", "two.json", "--shape", "x=7x2"]) == 0
    text = capsys.readouterr()
    assert "input 'x': (7, 2) float32, random" in text.err
    assert "input 'rows': (3,) int64, zeros" in text.err
    assert "Gather" in text.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "out.xlsx"], "the output must end in .csv, .json, .txt or .html"),
        (["--with", "onnxruntime"], "fix: pip install 'explorer-graphs[onnxruntime]'"),
        (["--with", "onnx.reference"], "the runtime must report the time of each operator"),
        (["--kernels", "native", "--with", "litert"], "--kernels native with --with litert"),
        (["--shape", "image=1x1x9x9"], "give only lengths that the file does not declare"),
    ],
)
def test_errors_are_printed_before_the_run(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "onnx.reference" not in arguments:
        monkeypatch.setattr("explorer.runtimes.registry.find_spec", lambda name: None)  # as without packages
    assert main(["profile", DIGITS, *arguments]) == 2
    text = capsys.readouterr()
    assert said in text.err
    assert text.out == ""
