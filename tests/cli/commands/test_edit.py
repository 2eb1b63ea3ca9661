"""``explorer edit``: other shapes of inputs, and other names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a net with a fixed batch size, in which an operator and its result have the same name."""
    monkeypatch.chdir(tmp_path)
    net = ex.Net("net")
    net.input("x", (1, 2))
    net.output(net.Softmax(net.Relu("x", "mask", name="mask"), "y", name="softmax"))
    net.save("net.json")
    return tmp_path


@pytest.mark.spec("Q-9")
def test_shapes_and_names_are_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """`explorer edit FILE --shape x=8x2 --rename y=probability -o OUT` writes the changed net."""
    arguments = ["--shape", "x=8x2", "--rename", "mask=positive", "--rename", "y=probability"]
    assert main(["edit", "net.json", *arguments, "-o", "new.json"]) == 0
    said = capsys.readouterr().out
    assert "2 operators of explorer, x 8×2 → probability" in said
    net = ex.open("new.json")
    assert [*net.operators] == ["positive", "softmax"]
    assert "positive" in net.operands
    x = np.float32([[-1, 2]] * 8)
    np.testing.assert_allclose(net.run(x), np.repeat(ex.open("net.json").run(x[:1]), 8, 0))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "an edit must change something"),
        (["--rename", "nothing=other"], "unknown operator 'nothing'"),
        (["--rename", "y=mask"], "the new name must be unused"),
        (["--shape", "z=1x2"], "unknown input of net 'net' 'z'"),
        (["--shape", "x=1x2x3"], "an input must keep its number of axes"),
        (["--rename", "y=z", "-o", "net.json"], "the output net.json is also an input"),
        (["--rename", "y=z", "-o", "out.txt"], "the extension '.txt'"),
    ],
)
def test_errors_write_nothing(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in Path.cwd().iterdir()}
    assert main(["edit", "net.json", "-o", "out.json", *arguments]) == 2
    text = capsys.readouterr()
    assert said in text.err
    assert text.out == ""
    assert {path: path.read_bytes() for path in Path.cwd().iterdir()} == before


@pytest.mark.parametrize("text", ["mask", "=new", "old="])
def test_a_rename_needs_two_names(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["edit", "net.json", "--rename", text, "-o", "out.json"])
    assert "is not an old and a new name, such as mask=segmentation" in capsys.readouterr().err
