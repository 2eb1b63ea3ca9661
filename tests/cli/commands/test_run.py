"""``explorer run``: missing or ineffective options raise an error before the model runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a net that subtracts b from a, one without inputs, and arrays."""
    monkeypatch.chdir(tmp_path)
    ex.save(lambda a, b: a - b, "two.onnx", {"a": (2,), "b": (2,)})
    ex.save({"y": ex.relu(ex.tensor(np.float32([-1, 2])))}, "none.onnx")
    np.savez("two.npz", a=np.float32([2, 5]), b=np.float32([1, 1]))
    for name, values in {"a": [2, 5], "b": [1, 1]}.items():
        Path(name).mkdir()
        np.save(f"{name}/in.npy", np.float32(values))
    return tmp_path


def test_arrays_with_one_name_are_assigned_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Two files in.npy from two folders are two arrays; more arrays than inputs raise an error."""
    assert main(["run", "two.onnx", "--input", "a/in.npy", "--input", "b/in.npy", "-o", "out.npz"]) == 0
    assert "inputs in order: in as 'a', in as 'b'" in capsys.readouterr().err
    np.testing.assert_array_equal([*np.load("out.npz").values()], [[1, 4]])
    assert main(["run", "two.onnx", "--input", "two.npz", "--input", "two.npz"]) == 2
    text = capsys.readouterr().err
    assert "4 arrays for the inputs 'a', 'b': a, b, a, b" in text
    assert "fix: omit one of the files that contain 'a'" in text


def test_a_net_without_inputs_runs_without_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "none.onnx", "-o", "out.npz"]) == 0
    np.testing.assert_array_equal([*np.load("out.npz").values()], [[0, 2]])
    assert main(["run", "none.onnx", "--input", "two.npz"]) == 2
    assert "a net without inputs must be run without --input" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "the inputs are 'a' (2,), 'b' (2,)"),
        (["--input", "two.npz:a"], "two.npz:a: 1 array for the inputs 'a', 'b': a"),
        (["--input", "two.npz:a"], "fix: also pass the other inputs: --input two.npz:a --input more.npz"),
        (["--input", "two.npz", "--softmax", "yes"], "--softmax must be given together with --top"),
        (["--input", "two.npz", "--crop", "0.5"], "--crop must be given together with a picture"),
        (["--input", "two.npz", "-o", "."], ".: a name without an extension"),
        (["--input", "two.npz", "-o", "."], "fix: -o out.npz"),
        (["--input", "two.npz", "-o", "away/out.npz"], "mkdir -p away"),
        (["--input", "two.npz", "-o", "folder.npz"], "folder.npz: this is a folder"),
        (["--input", "two.npz", "--compare", "onnxruntime"], "fix: pip install 'explorer-graphs[onnxruntime]'"),
        (["--input", "two.npz", "--top", "1", "--labels", "empty.txt"], "0 labels for the 2 classes"),
    ],
)
def test_errors_are_printed_before_the_run(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is 2, there is one message and no output, because the net did not run."""
    monkeypatch.setattr("explorer.runtimes.registry.find_spec", lambda name: None)  # as without packages
    Path("folder.npz").mkdir()
    Path("empty.txt").touch()
    assert main(["run", "two.onnx", *arguments]) == 2
    text = capsys.readouterr()
    assert said in text.err
    assert text.out == ""


def test_show_accepts_image_options_only_with_images(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "two.onnx", "--size", "8x8"]) == 2
    assert "--size must be given together with a picture" in capsys.readouterr().err


def test_the_outputs_do_not_overwrite_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("reference.npz", y=np.zeros(3, np.float32))
    before = Path("reference.npz").read_bytes()
    assert main(["run", "two.onnx", "--compare", "reference.npz", "-o", "reference.npz"]) == 2
    assert "the output reference.npz is also an input" in capsys.readouterr().err
    assert Path("reference.npz").read_bytes() == before


def test_an_output_with_too_long_a_name_raises_an_error_with_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "two.onnx", "-o", "n" * 300 + ".npz"]) == 2
    assert "give it a shorter name" in capsys.readouterr().err


def test_the_old_option_for_comparisons_refers_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`--compare` is accepted for one release."""
    np.savez("reference.npz", output=np.zeros(2, np.float32))
    assert main(["run", "two.onnx", "--input", "two.npz", "--compare", "reference.npz"]) == 1
    text = capsys.readouterr()
    assert "--compare is deprecated; use explorer compare reference.npz two.onnx" in text.err
    assert "the first that differs is " in text.out
