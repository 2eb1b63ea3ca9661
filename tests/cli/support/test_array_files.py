"""Arrays of the command line: their assignment to inputs, and the names of outputs."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from explorer.cli import main
from explorer.cli.support.array_files import npz


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a net that subtracts b from a."""
    monkeypatch.chdir(tmp_path)
    lines = ["pnnx.Input i 0 1 a #a=(2)f32", "pnnx.Input j 0 1 b #b=(2)f32"]
    lines += ["pnnx.Expression s 2 1 a b y expr=sub(@0,@1)", "pnnx.Output o 1 0 y"]
    (tmp_path / "n.param").write_text("\n".join(["7767517", "4 3", *lines]) + "\n")
    return tmp_path


ONE, TWO = np.float32([1, 1]), np.float32([2, 5])


@pytest.mark.spec("I-11")
def test_arrays_are_assigned_by_name_or_else_in_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names decide in any order; unless all of them match, the arrays are assigned in order."""
    cases = [
        ({"b": ONE, "a": TWO}, [1, 4], ""),
        ({"b": ONE, "more": ONE, "a": TWO}, [1, 4], ""),
        ({"p": ONE, "q": TWO}, [-1, -4], "inputs in order: p as 'a', q as 'b'"),
        ({"b": ONE, "q": TWO}, [-1, -4], "inputs in order: b as 'a', q as 'b'"),
    ]
    for arrays, expected, said in cases:
        np.savez("in.npz", **arrays)  # type: ignore[arg-type]  # by name
        assert main(["run", "n.param", "--input", "in.npz", "-o", "out.npz"]) == 0
        np.testing.assert_array_equal(np.load("out.npz")["y"], expected)
        assert said in capsys.readouterr().err
    for few in ({"a": ONE}, {"a": ONE, "p": TWO, "q": TWO}):
        np.savez("in.npz", **few)  # type: ignore[arg-type]  # by name
        assert main(["run", "n.param", "--input", "in.npz", "-o", "none.npz"]) == 2
        assert f"{len(few)} array{'s' * (len(few) > 1)} for the inputs 'a', 'b'" in capsys.readouterr().err
    assert not Path("none.npz").exists()


def test_an_output_may_be_next_to_an_input_with_its_name(folder: Path) -> None:
    """in.npz may be written next to in.npy, because arrays have no weights files."""
    np.save("a.npy", ONE)
    np.save("b.npy", TWO)
    assert main(["run", "n.param", "--input", "a.npy", "--input", "b.npy", "-o", "a.npz"]) == 0
    np.testing.assert_array_equal(np.load("a.npz")["y"], [-1, -4])


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("y", "y"),
        ("layer1.0 out-2", "layer1.0 out-2"),
        ("a/b", "output_0"),
        ("/tmp/y", "output_0"),
        ("a\\b", "output_0"),
        ("c:y", "output_0"),
        ("..", "output_0"),
        ("a..b", "output_0"),
        ("", "output_0"),
        (" ", "output_0"),
        ("a\0b", "output_0"),
    ],
)
def test_an_entry_of_the_archive_is_a_plain_file_name(name: str, kept: str) -> None:
    """Unpacking outputs writes only into the chosen folder."""
    with np.load(io.BytesIO(npz({name: ONE}))) as result:
        assert result.files == [kept]
        np.testing.assert_array_equal(result[kept], ONE)


def test_object_arrays_are_not_written() -> None:
    """Array files contain no pickles, which could run code when they are read."""
    with pytest.raises(ValueError, match="allow_pickle"):
        npz({"odd": np.array([{}], object)})


def test_elements_of_a_sequence_are_numbered_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sequence ``q`` is read from the arrays q.0, q.1, … of a file, and written likewise."""
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [None]))
    graph = helper.make_graph(
        [helper.make_node("Identity", ["q"], ["y"])],
        "graph",
        [helper.make_value_info("q", sequence)],
        [helper.make_value_info("y", sequence)],
    )
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    arrays = {"q.0": np.zeros(2, np.float32), "q.1": np.ones(3, np.float32)}
    np.savez(tmp_path / "in.npz", **arrays)
    written = tmp_path / "out.npz"
    assert main(["run", str(tmp_path / "m.onnx"), "--input", str(tmp_path / "in.npz"), "-o", str(written)]) == 0
    assert "y.1: float32 (3,)" in capsys.readouterr().out
    with np.load(written) as results:
        assert {name: array.tolist() for name, array in results.items()} == {"y.0": [0, 0], "y.1": [1, 1, 1]}
