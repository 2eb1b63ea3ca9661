"""Recordings in files: explored again, and distinguished from nets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explorer as ex
from explorer.cli import main
from tests.golden.programs import recorded

MODEL = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "perceptron.explorer.json"
    ex.explore(recorded("perceptron")).save(path)
    return path


@pytest.mark.spec("V-17")
def test_a_saved_recording_is_explored_from_its_path(file: Path) -> None:
    view = ex.explore(str(file))
    assert view.recording.fingerprint == recorded("perceptron").fingerprint
    assert ex.explore(MODEL).recording.title == ex.open(MODEL).explore().recording.title


@pytest.mark.spec("V-17")
def test_a_saved_recording_is_shown_on_the_command_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = file.with_name("page.html")
    assert main(["show", str(file), "-o", str(page)]) == 0
    assert "perceptron" in page.read_text(encoding="utf-8")
    assert "operator" not in capsys.readouterr().out
    assert main(["show", str(file), "-o", "-"]) == 0
    assert "recorded" in capsys.readouterr().out
    assert main(["show", str(file), "--weights", "-o", str(page)]) == 2
    assert "--weights for a recording" in capsys.readouterr().err


def test_opening_a_recording_as_a_net_raises_an_error_with_the_fix(file: Path) -> None:
    with pytest.raises(ex.FileError, match=r"a recording, not a net[\s\S]*explorer show perceptron.explorer.json"):
        ex.open(file)
    plain = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**plain, "nodes": 7}), encoding="utf-8")
    with pytest.raises(ex.FileError, match="a recording must have been written by this"):
        ex.explore(file)
