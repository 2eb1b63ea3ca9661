"""The command line: files and output, exit status, and one clear message for errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main
from explorer.cli.commands import lab
from explorer.cli.commands.lab import notebook_for
from explorer.core.errors import FileError
from explorer.record import Recording, loads
from explorer.record.reasons import bytes_text
from explorer.run.diagnosis import leaf_values
from explorer.view.export.writers import WRITERS

ASSETS = Path(__file__).parents[2] / "assets"
MODEL = str(ASSETS / "digits.pnnx.param")
ARRAYS = str(ASSETS / "digits.npz")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.spec("V-14", "I-5")
def test_the_extension_determines_what_show_writes(folder: Path) -> None:
    """`explorer show` writes a page, an image, DOT, text or data; by default a page in the current folder."""
    assert main(["show", MODEL]) == 0
    page = (folder / "digits.explorer.html").read_text()
    assert page.startswith("<!doctype html>")
    assert str(ASSETS) not in page
    for extension in ("html", "svg", "png", "dot", "txt", "json"):
        assert main(["show", MODEL, "-o", f"out.{extension}"]) == 0
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "out.svg").read_text().startswith("<svg")
    assert (folder / "out.dot").read_text().startswith("digraph")
    assert (folder / "out.txt").read_text().startswith("simplify ✓ ")
    recording = loads((folder / "out.json").read_text())
    assert recording.title == "digits (unknown length = 1)"
    assert recording.run is None
    assert sorted(path.name for path in folder.iterdir()) == [
        "digits.explorer.html",
        *(f"out.{extension}" for extension in ("dot", "html", "json", "png", "svg", "txt")),
    ]


@pytest.mark.spec("V-14")
def test_show_draws_from_left_to_right(folder: Path) -> None:
    """`explorer show --direction right` writes an image that is wider than high."""
    sides = {}
    for direction in ("down", "right"):
        assert main(["show", MODEL, "--direction", direction, "-o", "out.svg"]) == 0
        match = re.search(r' width="(\d+)" height="(\d+)" style=', (folder / "out.svg").read_text())
        sides[direction] = int(match[1]), int(match[2])
    assert sides["down"][0] < sides["down"][1]
    assert sides["right"][0] > sides["right"][1]


@pytest.mark.spec("V-8", "V-14")
def test_boxes_are_open_down_to_a_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer show --depth 0` writes an image of closed boxes, and a page whose address states the depth."""
    monkeypatch.chdir(tmp_path)
    for depth in ("0", "1"):
        assert main(["show", MODEL, "--depth", depth, "-o", f"{depth}.svg"]) == 0
    assert Path("0.svg").read_text().count("<text") < Path("1.svg").read_text().count("<text")
    assert main(["show", MODEL, "--depth", "0", "-o", "page.html"]) == 0
    assert "depth=0" in Path("page.html").read_text()
    with pytest.raises(SystemExit):
        main(["show", MODEL, "--depth", "-1", "-o", "no.svg"])
    assert "the depth must be an integer" in capsys.readouterr().err


@pytest.mark.spec("V-15")
def test_show_labels_edges_with_types(folder: Path) -> None:
    """`explorer show --edge-types` writes an image whose edges have the values' types."""
    for arguments, are_told in (([], False), (["--edge-types"], True)):
        assert main(["show", MODEL, *arguments, "-o", "out.svg"]) == 0
        assert ('class="label">' in (folder / "out.svg").read_text()) is are_told


@pytest.mark.spec("V-2")
def test_show_omits_source_lines(folder: Path) -> None:
    """`explorer show --no-source` writes a recording without any line of the model's file."""
    for arguments, are_told in (([], True), (["--no-source"], False)):
        assert main(["show", MODEL, *arguments, "-o", "out.json"]) == 0
        sources = loads((folder / "out.json").read_text()).sources
        assert sources
        assert all(bool(source.text) is are_told for source in sources)


@pytest.mark.spec("V-6")
def test_show_reads_weights_on_request(folder: Path) -> None:
    """`explorer show --weights` writes a page with the values of all weights, without an input."""
    for arguments, count in (([], 0), (["--weights"], 12)):
        assert main(["show", MODEL, *arguments, "-o", "out.json"]) == 0
        assert len(loads((folder / "out.json").read_text()).leaf_values) == count


def raise_error(error: Exception) -> None:
    raise error


@pytest.mark.spec("V-6")
def test_show_writes_a_page_with_the_values_of_small_weights(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page has the values of small weights without an option, and a note if they cannot be read."""
    shown: list[Recording] = []
    write = WRITERS[".html"]
    monkeypatch.setitem(WRITERS, ".html", lambda recording, state: shown.append(recording) or write(recording, state))
    assert main(["show", MODEL]) == 0
    assert len(shown[0].leaf_values) == 12
    monkeypatch.setattr(leaf_values, "MAX_WEIGHTS", 7)
    assert main(["show", MODEL]) == 0
    assert len(shown[1].leaf_values) == 7
    assert main(["show", MODEL, "--weights"]) == 0
    assert len(shown[2].leaf_values) == 12
    assert capsys.readouterr().err == ""
    error = FileError("the file has changed", path="digits.pnnx.bin")
    monkeypatch.setattr(leaf_values, "leaf_value", lambda node: raise_error(error))
    assert main(["show", MODEL]) == 0
    assert shown[3].leaf_values == {}
    assert "no values of weights: digits.pnnx.bin: the file has changed" in capsys.readouterr().err


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("arguments", [["show", "--open", MODEL], [MODEL]])
def test_a_file_argument_alone_is_shown_in_the_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """`explorer FILE` writes the page and opens it; without a browser it prints that, and the page exists."""
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: bool(opened.append(address)))
    assert main(arguments) == 0
    assert opened == [(folder / "digits.explorer.html").as_uri()]
    assert "found no browser" in capsys.readouterr().err


def test_a_misspelt_command_is_not_treated_as_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["shwo"])
    assert "'shwo' is neither a command nor a file (did you mean show?)" in capsys.readouterr().err


@pytest.mark.spec("V-14", "I-5")
def test_show_prints_a_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line has the file and its size, the assumed lengths, and counts of operators, nodes and kernels."""
    plan = ex.open(MODEL).preview_plan().recording
    assert plan.schedule is not None
    nodes, kernels = plan.stages[0].counts["nodes"], len(plan.schedule.kernels)
    what = f"digits (unknown length = 1), 15 operators, {nodes} nodes, {kernels} kernels"
    assert main(["show", MODEL]) == 0
    size = bytes_text((folder / "digits.explorer.html").stat().st_size)
    said = capsys.readouterr().out
    assert said == f"wrote digits.explorer.html ({size}): {what}; open it in a browser\n"
    assert main(["show", MODEL, "-o", "out.dot"]) == 0
    said = capsys.readouterr().out
    assert said == f"wrote out.dot ({bytes_text((folder / 'out.dot').stat().st_size)}): {what}\n"
    resnet = str(ASSETS / "models" / "resnet18.pnnx.param")
    assert main(["show", resnet, "-o", "out.txt"]) == 0
    assert "resnet18 (0: 1×3×224×224), 49 operators" in capsys.readouterr().out


def test_show_with_inputs_includes_values_and_times(folder: Path) -> None:
    assert main(["show", MODEL, "--input", f"{ARRAYS}:images", "-o", "out.json"]) == 0
    recording = loads((folder / "out.json").read_text())
    assert recording.run is not None
    assert recording.run.values
    assert recording.title == "digits"


def test_show_prints_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", MODEL, "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("simplify ✓ ")
    assert out.splitlines()[-1].startswith("digits (unknown length = 1) · ")


def test_show_draws_what_cannot_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(MODEL).read_text().replace("nn.MaxPool2d", "my.Pool2d")
    (folder / "odd.param").write_text(text)
    assert main(["show", "odd.param", "-o", "odd.txt"]) == 0
    assert "my.Pool2d (cannot run)" in (folder / "odd.txt").read_text()
    assert "cannot run: my.Pool2d: 'pool' (line 8)" in capsys.readouterr().err


@pytest.mark.spec("I-11")
def test_run_writes_outputs_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer run` classifies digits in real images: outputs go to a file, and the largest are printed."""
    assert main(["run", MODEL, "--input", f"{ARRAYS}:images", "-o", "out.npz", "--top", "2", "--plan"]) == 0
    said = capsys.readouterr()
    assert "kernels" in said.out
    assert "15: float32 (12, 10)" in said.out
    assert "  3: 3 0." in said.out
    with np.load(folder / "out.npz") as result, np.load(ARRAYS) as expected:
        assert result.files == ["15"]
        np.testing.assert_allclose(result["15"], expected["probability"], atol=1e-5)


def test_run_counts_nonfinite_numbers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = np.load(ARRAYS)["images"].copy()
    images[0] = np.nan
    np.save("some.npy", images)
    assert main(["run", MODEL, "--input", "some.npy"]) == 0
    said = capsys.readouterr().out
    assert " to " in said
    assert said.endswith(", 10 NaN of 120\n")
    np.save("all.npy", images * np.nan)
    assert main(["run", MODEL, "--input", "all.npy"]) == 0
    assert capsys.readouterr().out == "15: float32 (12, 10), no finite number, 120 NaN of 120\n"


def test_run_accepts_inputs_by_name_and_npy_files(folder: Path) -> None:
    images = np.load(ARRAYS)["images"]
    np.save("one.npy", images[:1])
    np.savez("named.npz", other=np.zeros(3), **{"0": images[:1]})
    for given in ("one.npy", "named.npz", "named.npz:0"):
        assert main(["run", MODEL, "--input", given, "-o", "out.npz"]) == 0
        assert np.load("out.npz")["15"].shape == (1, 10)


def test_names_of_outputs_stay_inside_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["pnnx.Input i 0 1 x #x=(2)f32", "nn.ReLU r 1 1 x ../../y", "pnnx.Output o 1 0 ../../y"]
    (folder / "n.param").write_text("\n".join(["7767517", "3 2", *lines]) + "\n")
    np.save("in.npy", np.ones(2, np.float32))
    assert main(["run", "n.param", "--input", "in.npy", "-o", "out.npz"]) == 0
    assert np.load("out.npz").files == ["output_0"]
    assert "written as 'output_0'" in capsys.readouterr().err


@pytest.mark.spec("I-5")
def test_check_lists_all_problems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer check` lists unknown types, mismatches and missing weights together with exit status 1, otherwise 0."""
    assert main(["check", MODEL]) == 0
    assert capsys.readouterr().out == "digits: all 15 operators can run: 0 ?×1×8×8 → 15 ?×10\n"
    text = Path(MODEL).read_text().replace("nn.MaxPool2d", "nn.MaxPool2").replace("nn.Softmax ", "nn.Softmx ")
    (folder / "odd.param").write_text(text.replace("#9=(?,12,4,4)f32", "#9=(?,13,4,4)f32"))
    assert main(["check", "odd.param"]) == 1
    said = capsys.readouterr().out
    for line in (
        "unknown operator type nn.MaxPool2: 'pool' (line 8); near known types: nn.MaxPool2d",
        "unknown operator type nn.Softmx: 'softmax' (line 18); near known types: nn.Softmax",
        "operand '9' of operator 'pnnx_expr_0' (line 12): shape (1, 12, 4, 4) where the file declares (?, 13, 4, 4)",
        "odd.bin: the file is missing, and with it 12 weights",
        "odd: 4 findings in 15 operators",
    ):
        assert line in said, line


@pytest.mark.spec("V-2", "V-9")
def test_why_explains_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer why` explains the decisions about an operator, an operand or a weight, with the file's line."""
    assert main(["why", MODEL, "relu1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("relu · 1×8×8×8 float32\nrecorded at digits.pnnx.param line 5: nn.ReLU")
    assert "[epilogue]" in said
    assert main(["why", MODEL, "12"]) == 0
    assert capsys.readouterr().out.startswith("add · 1×24")
    assert main(["why", MODEL, "fc1.weight"]) == 0
    assert capsys.readouterr().out.startswith("fc1.weight · 24×192")
    assert main(["why", str(ASSETS / "digits_opt1.pnnx.param"), "pnnx_expr_2"]) == 0
    assert "plain number" in capsys.readouterr().out
    assert main(["why", MODEL, "nn.ReLU"]) == 2
    assert "this is a type; its operators are relu1, relu2, residual.relu1" in capsys.readouterr().err
    assert main(["why", MODEL, "fc"]) == 2
    assert "known: fc1, fc2, fc1.bias, fc2.bias, fc1.weight …" in capsys.readouterr().err
    assert main(["why", MODEL, "rellu1"]) == 2
    assert "unknown operator, operand or weight 'rellu1'\n  rule: known: relu1" in capsys.readouterr().err
    assert main(["why", MODEL, "unknown"]) == 2
    assert (
        "fix: request one of 15 operators (convbn2d_0, relu1, conv2, …), 16 operands (0, 1, 2, …) "
        "or 12 weights (convbn2d_0.bias, convbn2d_0.weight, conv2.bias, …)"
    ) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "none.param"], "none.param: the file cannot be read: No such file or directory"),
        (["show", "model.onnx2"], "the extension '.onnx2' denotes no model format"),
        (["show", MODEL, "-o", "out.jpg"], "the extension '.jpg'\n  rule: the output must end in one of .html, .svg"),
        (["show", MODEL, "-o", "none/out.svg"], "none/out.svg: it cannot be written: No such file"),
        (["run", MODEL, "--input", ARRAYS], "arrays for the input '0': images, labels"),
        (["run", MODEL, "--input", f"{ARRAYS}:image"], "unknown array of"),
        (["run", MODEL, "--input", f"{ARRAYS}:labels"], "input '0' of net 'digits' is int64 (12,)"),
        (["run", MODEL, "--input", "none.npz"], "none.npz: the file cannot be read: No such file or directory"),
        (["run", MODEL, "--input", MODEL], "this cannot be read as arrays"),
        (["run", MODEL, "--input", "garbage.npz"], "garbage.npz: this cannot be read as arrays: it is neither a .npz"),
        (["run", MODEL, "--input", "cut.npz"], "cut.npz: this cannot be read as arrays: File is not a zip file"),
        (["run", MODEL, "--input", ARRAYS, "-o", "out.txt"], "the output must end in .npz"),
    ],
)
def test_an_error_is_one_message(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It has exit status 2 and is printed on standard error without a traceback."""
    Path("garbage.npz").write_bytes(b"garbage" * 9)
    Path("cut.npz").write_bytes(Path(ARRAYS).read_bytes()[:2000])
    assert main(arguments) == 2
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err.count("explorer: ") == 1
    assert said in caught.err
    assert "Traceback" not in caught.err


def test_debug_prints_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "none.param", "--debug"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "explorer: none.param: the file cannot be read" in said


def test_no_input_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for extension in ("param", "bin"):
        shutil.copy(ASSETS / f"digits.pnnx.{extension}", folder / f"m.pnnx.{extension}")
    shutil.copy(ARRAYS, folder / "in.npz")
    os.link(folder / "m.pnnx.bin", folder / "linked.html")
    ex.open("m.pnnx.param").save("own.json")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert main(["run", "m.pnnx.param", "--input", "in.npz:images", "-o", "in.npz"]) == 2
    assert main(["show", "m.pnnx.param", "-o", "linked.html"]) == 2
    assert main(["run", "own.json", "--input", "in.npz:images", "-o", "own.npz"]) == 2
    assert main(["show", "own.json", "-o", "own.json"]) == 2
    assert capsys.readouterr().err.count("the output must not be an input") == 4
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_lab_does_not_treat_a_file_name_as_an_option(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterLab receives the notebook's path, and imports no module from this folder."""
    shutil.copy(MODEL, folder / "--config=x.param")
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command: commands.append(command) or 0)
    assert main(["lab", "./--config=x.param"]) == 0
    (command,) = commands
    assert command[-1] == "./--config=x.explorer.ipynb"
    assert command[1:4] == ["-P", "-m", "jupyterlab"]


def test_lab_without_a_file_opens_the_installed_notebooks_or_this_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command: commands.append(command) or 0)
    module = folder / "explorer" / "cli" / "commands" / "lab.py"
    monkeypatch.setattr(lab, "__file__", str(module))
    assert main(["lab"]) == 0
    (folder / "notebooks").mkdir()
    assert main(["lab"]) == 0
    (folder / "notebooks" / "one.ipynb").write_text("{}")
    assert main(["lab"]) == 0
    folders = [[argument for argument in command if "dir=" in argument] for command in commands]
    root = f"--notebook-dir={folder}"
    assert folders == [[root], [root], [root, "--FileContentsManager.preferred_dir=notebooks"]]


@pytest.mark.parametrize(
    "command",
    [
        ["show", "PATH"],
        ["show", MODEL, "-o", "PATH.svg"],
        ["show", MODEL, "--input", "PATH"],
        ["show", MODEL, "--input", "PATH.png"],
        ["run", "PATH", "--input", ARRAYS],
        ["run", MODEL, "--input", "PATH"],
        ["run", MODEL, "--input", f"{ARRAYS}:images", "-o", "PATH"],
        ["run", MODEL, "--input", f"{ARRAYS}:images", "--top", "1", "--labels", "PATH"],
        ["check", "PATH"],
        ["why", "PATH", "x"],
        ["diff", "PATH", MODEL],
        ["diff", MODEL, "PATH"],
        ["diff", MODEL, MODEL, "-o", "PATH.txt"],
        ["lab", "PATH"],
    ],
    ids=" ".join,
)
def test_invalid_paths_raise_an_error(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A path with NUL or a lone surrogate, or one too long, gives a clear error in every command."""
    for path in ("a\0b.param", "a\ud800.param", "a" * 5000 + ".param", "a/" * 2500 + "x.param"):
        assert main([part.replace("PATH", path) for part in command]) == 2
        said = capsys.readouterr().err
        assert "unexpected" not in said, said[-300:]
        assert said.startswith("explorer: ")


@pytest.mark.spec("I-5")
def test_check_lists_causes_before_effects(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Problems are in topological order."""
    for extension in ("param", "bin"):
        shutil.copy(ASSETS / f"digits.pnnx.{extension}", folder / f"odd.pnnx.{extension}")
    text = Path(MODEL).read_text().replace("#2=(?,8,8,8)f32", "#2=(?,8,9,8)f32").replace("nn.Softmax ", "nn.Softmx ")
    text = text.replace("end_dim=-1 start_dim=1", "end_dim=-1 start_dim=9")
    (folder / "odd.pnnx.param").write_text(text)
    assert main(["check", "odd.pnnx.param"]) == 1
    lines = capsys.readouterr().out.splitlines()
    places = [
        next(number for number, line in enumerate(lines) if part in line)
        for part in ("operand '2' of operator 'relu1'", "'torch.flatten_0'", "nn.Softmx")
    ]
    assert places == sorted(places), lines
    assert places[0] == 0


def test_a_file_cannot_control_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["pnnx.Input i 0 1 x #x=(2)f32", "my\x1b[31m.Type r 1 1 x y", "pnnx.Output o 1 0 y"]
    (folder / "n.param").write_text("\n".join(["7767517", "3 2", *lines]) + "\n")
    np.save("in.npy", np.ones(2, np.float32))
    assert main(["check", "n.param"]) == 1
    assert main(["run", "n.param", "--input", "in.npy"]) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\\x1b[31m.Type" in said.out
    assert "\\x1b[31m.Type" in said.err


def test_lab_writes_a_notebook_that_runs(folder: Path) -> None:
    """`explorer lab FILE` writes a notebook with the next steps, and keeps an existing one."""
    path = notebook_for(Path(MODEL))
    book = json.loads(path.read_text())
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert path.name == "digits.explorer.ipynb"
    assert any("inputs = (np.zeros((1, 1, 8, 8), 'float32'),)\nnet.explore(inputs)" in cell for cell in cells)
    values: dict[str, object] = {}
    for cell in cells:
        exec(cell, values)
    last = book["cells"][-1]
    assert last["cell_type"] == "markdown"
    steps = last["source"]
    assert steps.startswith("## What to do next")
    (inner,) = re.findall(r"`(net\.cut\([^`]*)`", steps)
    assert eval(inner, values).shape[0] == 1
    (why,) = re.findall(r"`explorer (why [^`]*)`", steps)
    assert main(shlex.split(why)) == 0
    (save,) = re.findall(r"`(net\.explore\(\)\.save[^`]*)`", steps)
    eval(save, values)
    assert (folder / "net.html").stat().st_size > 10_000
    path.write_text("{}")
    assert notebook_for(Path(MODEL)) == path
    assert path.read_text() == "{}"


def test_lab_refers_to_check_for_a_model_that_does_not_run(folder: Path) -> None:
    """The notebook of a file with an unknown operator has no inputs, and ends with `net.check()`."""
    lines = ("7767517", "3 2", "pnnx.Input a 0 1 x #x=(2,3)f32", "nn.Unheard u 1 1 x y", "pnnx.Output b 1 0 y")
    (folder / "x.param").write_text("\n".join(lines))
    book = json.loads(notebook_for(folder / "x.param").read_text())
    assert not any("inputs =" in cell["source"] for cell in book["cells"])
    assert "`net.check()` lists each operator" in book["cells"][-1]["source"]
    assert "`explorer why x.param u`" in book["cells"][-1]["source"]


@pytest.mark.parametrize(
    ("arguments", "handed"),
    [
        (["--", "--port=9999"], ["--port=9999"]),
        ([MODEL, "--no-browser", "--", "--port=9999", "--ip=0.0.0.0"], ["--port=9999", "--ip=0.0.0.0"]),
        ([], []),
    ],
)
def test_lab_passes_options_after_two_dashes_on(
    arguments: list[str], handed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explorer lab FILE -- --port=9999` passes options to JupyterLab."""
    called: list[list[str]] = []
    monkeypatch.setattr("subprocess.call", lambda command: called.append(command) or 0)
    assert main(["lab", *arguments]) == 0
    (command,) = called
    assert command[:4] == [sys.executable, "-P", "-m", "jupyterlab"]
    assert command[len(command) - len(handed) :] == handed
    assert ("--no-browser" in command) == ("--no-browser" in arguments)


def test_the_error_of_lab_without_jupyterlab_contains_the_pip_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lab"]) == 2
    assert 'pip install "explorer-graphs[lab]"' in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for command in ("show", "run", "check", "why", "lab"):
        assert f"    {command} " in said
        with pytest.raises(SystemExit):
            main([command, "--help"])
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2


def test_show_does_not_import_jupyter(folder: Path) -> None:
    """Showing a file starts quickly."""
    code = (
        "import sys; from explorer.cli import main; main(['show', sys.argv[1], '-o', 'out.html']);"
        "print([m for m in ('ipywidgets', 'anywidget', 'IPython', 'traitlets') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, MODEL], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_module_runs_the_command_line(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "explorer", "check", "none.param"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("explorer: none.param")
    closed = subprocess.run(
        f"{sys.executable} -m explorer show {MODEL} -o - | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert closed.stdout.startswith("simplify ✓ ")
    assert closed.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["shw", "x"],
            "'shw' is neither a command nor a file (did you mean show?); commands: show, run",
        ),
        (["show", MODEL, "--opn"], "explorer show: error: unrecognized arguments: --opn (did you mean --open?)"),
        (
            ["show", MODEL, "--thme=dark"],
            "explorer show: error: unrecognized arguments: --thme=dark (did you mean --theme?)",
        ),
        (["why", MODEL, "conv2", "pool", "more"], "explorer why: error: unrecognized arguments: more"),
    ],
)
def test_the_error_of_a_misspelt_command_or_option_suggests_a_similar_one(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_show_reports_a_missing_weights_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer show` draws a model without its weights, and reports that it cannot run."""
    shutil.copy(MODEL, folder / "alone.pnnx.param")
    assert main(["show", "alone.pnnx.param"]) == 0
    text = capsys.readouterr().err
    assert re.search(r"cannot run: alone\.pnnx\.bin: the file is missing, and with it \d+ weights: ", text)


def test_one_operator_is_explained_as_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["7767517", "3 2", "pnnx.Input in0 0 1 0 #0=(1,4)f32", "nn.ReLU w 1 1 0 1 #1=(1,4)f32"]
    (folder / "relu.pnnx.param").write_text("\n".join([*lines, "pnnx.Output out 1 0 1", ""]))
    assert main(["check", "relu.pnnx.param"]) == 0
    assert "relu: its operator can run: 0 1×4 → 1 1×4" in capsys.readouterr().out


def test_a_shape_that_contradicts_the_file_raises_an_error_with_a_fix_for_shapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error of `explorer check --shape` for a fixed length does not mention arrays."""
    assert main(["check", str(ASSETS / "digits.pnnx.param"), "--shape", "0=1x3"]) == 2
    text = capsys.readouterr().err
    assert "fix: give only lengths that the file does not declare" in text
