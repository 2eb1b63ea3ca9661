"""``explorer compile`` and ``explorer why --with``, with a compiler of a few lines."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.compilers import adapters

ADAPTER = """
import numpy as np

from explorer.compilers import Compiler, Snapshot, Statement, Value, recording_of
from explorer.net import Net

def _record(program, *args, run):
    name = program.name if isinstance(program, Net) else program.__name__
    inputs = list(args[0].values()) if args and isinstance(args[0], dict) else list(args)
    given = {
        "x": Value("x", kind="leaf", shape=tuple(np.shape(inputs[0])) if inputs else (), label="x"),
        "a.1": Value("exp", ("x",)),
        "b.2": Value("sum", ("a.1",)),
    }
    refused = Statement("loops", "declined", "`{a}` stays apart from `{b}`.", ("a.1", "b.2"),
                        facts={"a": "a.1", "b": "b.2"})
    return recording_of(f"{name}, {len(inputs)} inputs, run={run}",
                        [Snapshot("given", given, ("b.2",)), Snapshot("loops", given, ("b.2",), (refused,))])

COMPILER = Compiler("numpy", "pip install numpy", _record)
"""
DIGITS = str(Path(__file__).parents[3] / "assets" / "digits.onnx")


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of two compilers; the current folder is empty."""
    names = [f"{name}_{tmp_path.name.replace('-', '_')}" for name in ("toy", "other")]
    folder = tmp_path / "adapters"
    folder.mkdir()
    for name in names:
        (folder / f"{name}.py").write_text(ADAPTER)
    monkeypatch.setattr(adapters, "__path__", [*adapters.__path__, str(folder)])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return names


@pytest.mark.spec("X-9", headline=True)
def test_each_compiler_writes_a_file(
    toys: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write what several compilers do with a model, each to its own page or recording."""
    toy, other = toys
    assert main(["compile", DIGITS, "--with", toy, "-o", "story.txt"]) == 0
    assert "exp and sum" in Path("story.txt").read_text()
    assert "0 inputs, run=True, 2 operations, 0 applied, 1 declined" in capsys.readouterr().out
    assert main(["compile", DIGITS, "--with", f"{toy},{other}", "-o", "story.json", "--no-run"]) == 0
    assert sorted(path.name for path in Path().glob("story.*.json")) == sorted(f"story.{name}.json" for name in toys)
    assert "run=False" in json.loads(Path(f"story.{toy}.json").read_text())["title"]
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert main(["compile", DIGITS, "--with", toy, "--open"]) == 0
    assert opened == [Path(f"digits.onnx.{toy}.html").resolve().as_uri()]
    assert "open it in a browser" in capsys.readouterr().out
    assert Path(f"digits.onnx.{toy}.html").exists()
    assert main(["compile", DIGITS, "--with", toy, "-o", "-"]) == 0
    assert "`exp` stays apart from `sum`" in capsys.readouterr().out


@pytest.mark.spec("X-9")
def test_inputs_are_arrays_of_a_file_or_a_variable_of_a_program(
    toys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    images = str(Path(DIGITS).with_name("digits.npz"))
    assert main(["compile", DIGITS, "--with", toys[0], "--input", f"{images}:images", "-o", "a.json"]) == 0
    Path("model.py").write_text("def f(x, y): ...\n\ninputs = (1, 2)\none = 3\n")
    assert main(["compile", "model.py:f", "--args", "inputs", "--with", toys[0], "-o", "b.json"]) == 0
    assert main(["compile", "model.py:f", "--args", "one", "--with", toys[0], "-o", "c.json"]) == 0
    titles = [json.loads(Path(f"{name}.json").read_text())["title"] for name in "abc"]
    assert [title.split(", ")[1] for title in titles] == ["1 inputs", "2 inputs", "1 inputs"]
    assert titles[1].startswith("f, ")
    assert main(["why", "model.py:f", "a.1", "b.2", "--with", toys[0]]) == 0
    assert "`exp` stays apart from `sum`" in capsys.readouterr().out


@pytest.mark.spec("X-9")
def test_refusals_of_another_compiler_are_asked_as_ours(toys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", DIGITS, "exp", "sum", "--with", toys[0]]) == 0
    out = capsys.readouterr().out
    assert "`exp` stays apart from `sum`." in out
    assert "stated by: the compiler's log" in out
    assert main(["why", DIGITS, "a.1", "--with", toys[0]]) == 0
    assert "loops ✗ loops" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["compile", DIGITS, "--args", "x"], "only a program in Python has variables"),
        (["compile", "model.py:g"], "has no variable 'g'"),
        (["compile", "model.py:f", "--input", "x.npz"], "--input for model.py:f"),
        (["compile", "none.py:f"], "there is no such file"),
        (["compile", DIGITS, "-o", "story.doc"], "story.doc"),
        (["compile", DIGITS, "--with", "gcc9"], "'gcc9' is not a compiler; there are"),
        (["why", DIGITS, "a", "--args", "x"], "--args x without --with"),
        (["why", DIGITS, "a", "--with", "TOY,TOY2"], "is not a compiler"),
    ],
)
def test_wrong_arguments_are_errors(
    toys: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    Path("model.py").write_text("def f(): ...\n")
    given = arguments if "--with" in arguments or arguments[0] == "why" else [*arguments, "--with", toys[0]]
    try:
        status = main(given)
    except SystemExit as error:  # of argparse
        status = int(str(error.code))
    assert status == 2
    assert problem in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["why", DIGITS, "a", "--with", ",".join(toys)])
    assert "names several compilers; name one" in capsys.readouterr().err
