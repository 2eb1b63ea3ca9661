"""Files that contain only weights: opened, drawn, displayed and compared; running them raises an error."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

import explorer as ex
from explorer.cli.main import main
from explorer.formats.common import npz
from explorer.net import Net
from explorer.run.diagnosis.leaf_values import leaf_answer

ARRAYS: dict[str, Any] = {
    "layer1.0.conv.weight": np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),
    "layer1.0.conv.bias": np.array([1, 2], np.float16),
    "layer1.1.conv.weight": np.ones((2, 2), np.float64),
    "fc.weight": np.array([[True, False]]),
    "step": np.array(7),
}
WRITERS: dict[str, Callable[[Path], Any]] = {
    ".safetensors": lambda path: save_file(ARRAYS, path),
    ".npz": lambda path: np.savez(path, **ARRAYS),
}


def written(extension: str, folder: Path) -> Path:
    path = folder / f"toy{extension}"
    WRITERS[extension](path)
    return path


@pytest.mark.spec("I-15")
@pytest.mark.parametrize("extension", WRITERS)
def test_tensors_are_in_the_boxes_of_their_names(extension: str, tmp_path: Path) -> None:
    """A `.safetensors`, `.gguf`, `.npz` or `.npy` file opens as a table, with boxes from the tensors' names."""
    net = ex.open(written(extension, tmp_path))
    assert {*net.operators} == {"layer1.0.conv", "layer1.1.conv", "fc", "toy"}
    for key, array in ARRAYS.items():
        operator, _, own = key.rpartition(".")
        value = net[operator or "toy"].weights[own].array
        np.testing.assert_array_equal(value, array, strict=True)
        assert not value.flags.writeable
    recording = net.preview_plan().recording
    assert {"layer1", "0", "conv"} <= {scope.name for scope in recording.scopes}
    assert {recording.label(node) for node in range(len(recording.nodes))} == {*ARRAYS}
    assert net.check() == []


@pytest.mark.parametrize("extension", WRITERS)
def test_nothing_is_read_before_a_tensor_is_displayed(
    extension: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing reads only headers; displaying a tensor summarizes only that one, and keeps nothing."""
    net = ex.open(written(extension, tmp_path))
    asked: list[str] = []
    weights = type(net.definition.weights)
    monkeypatch.setattr(
        weights, "__getitem__", lambda self, key, read=weights.__getitem__: asked.append(key) or read(self, key)
    )
    plan = net.preview_plan()
    labels = [plan.recording.label(node) for node in range(len(plan.recording.nodes))]
    assert not asked
    summary, problem = leaf_answer(plan.planned, labels.index("layer1.0.conv.weight"))
    assert problem == ""
    assert summary is not None
    assert (summary.min, summary.max, summary.mean) == (0, 23, 11.5)
    assert asked == ["layer1.0.conv.weight"]


@pytest.mark.parametrize("call", [Net.run, Net.build, Net.plan, Net.init, Net.profile])
def test_a_table_cannot_be_run(call: Callable[[Net], Any], tmp_path: Path) -> None:
    """The error states that there is no graph, and how to get an array."""
    net = ex.open(written(".npz", tmp_path))
    with pytest.raises(ex.FileError, match="toy' contains only weights") as raised:
        call(net)
    command = raised.value.fix.partition("read an array: ")[2]
    np.testing.assert_array_equal(eval(command, {"net": net}), ARRAYS["layer1.0.conv.weight"])


def test_the_commands_accept_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """show, check, why and diff accept a table as any net, but run raises an error."""
    one, other = (str(written(extension, tmp_path)) for extension in (".safetensors", ".npz"))
    assert main(["show", one, "-o", "-"]) == 0
    assert "layer1.0.conv.bias · 2 float16" in capsys.readouterr().out
    assert main(["check", one]) == 0
    assert "toy: 5 weights can be read; the file contains no graph to run" in capsys.readouterr().out
    assert main(["why", one, "layer1.0.conv"]) == 0
    assert "layer1.0.conv: weight F32 2×3×2×2 96 B, bias F16 2 4 B" in capsys.readouterr().out
    assert main(["diff", one, other]) == 0
    assert "weights: 5 with the same values" in capsys.readouterr().out
    changed = tmp_path / "changed.npz"
    np.savez(changed, **{**ARRAYS, "layer1.0.conv.bias": np.array([1, 3], np.float16)})
    assert main(["diff", one, str(changed)]) == 1
    assert "layer1.0.conv.bias 2 float16: 1 of 2 elements differ, by 1 at most" in capsys.readouterr().out
    assert main(["run", one, "--input", other]) == 2
    assert "contains only weights" in capsys.readouterr().err


def test_a_table_is_saved_and_opened_again(tmp_path: Path) -> None:
    """Explorer's own format stores the values, including scalars."""
    net = ex.open(written(".safetensors", tmp_path))
    net.save(tmp_path / "copy.json")
    copy = ex.open(tmp_path / "copy.json")
    assert copy.definition.is_table
    np.testing.assert_array_equal(copy["toy"].weights["step"].array, np.array(7), strict=True)
    assert sorted(net.text().splitlines()[1:]) == [
        "  fc: weight BOOL 1×2 2 B",
        "  layer1.0.conv: weight F32 2×3×2×2 96 B, bias F16 2 4 B",
        "  layer1.1.conv: weight F64 2×2 32 B",
        "  toy: step I64 scalar 8 B",
    ]


def test_names_of_every_form_are_unique(tmp_path: Path) -> None:
    """Slashes separate names, too; a duplicate name gets a prime."""
    path = tmp_path / "odd.npz"
    names = ["a/b/kernel", "a.b.kernel", "odd.weight", "weight", "x..y", ".z"]
    np.savez(path, **{name: np.full(1, place) for place, name in enumerate(names)})
    net = ex.open(path)
    assert sorted(net.definition.blobs) == sorted(names)
    values = [int(weight.array[0]) for operator in net.operators.values() for weight in operator.weights.values()]
    assert sorted(values) == [*range(len(names))]
    assert len(net.preview_plan().recording.nodes) == len(names)


def test_a_single_numpy_array_is_a_table(tmp_path: Path) -> None:
    """It may be in Fortran order and big-endian; the header is compared with the file."""
    array = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    np.save(tmp_path / "w.npy", array)
    value = ex.open(tmp_path / "w.npy")["w"].w.array
    np.testing.assert_array_equal(value, np.arange(6, dtype=np.float32).reshape(2, 3), strict=True)
    assert value.flags.c_contiguous
    np.save(tmp_path / "w.npy", np.array(["a text"]))
    with pytest.raises(ex.FileError, match=r"it contains str192 .*, which are not numbers"):
        ex.open(tmp_path / "w.npy")
    np.save(tmp_path / "w.npy", array)
    (tmp_path / "w.npy").write_bytes((tmp_path / "w.npy").read_bytes()[:-1])
    with pytest.raises(ex.FileError, match="the file has 151 bytes, but its header requires 152"):
        ex.open(tmp_path / "w.npy")


def test_check_lists_unreadable_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without any readable array also has no operator that could run."""
    path = tmp_path / "mixed.npz"
    for arrays, words in (
        ({"a.names": np.array(["x"]), "a.numbers": np.ones(2)}, "1 weight can be read, 1 cannot (a.names)"),
        (
            {"a.names": np.array(["x"]), "b.names": np.array(["y"])},
            "0 weights can be read, 2 cannot (a.names, b.names)",
        ),
    ):
        np.savez(path, **arrays)
        assert main(["check", str(path)]) == 0
        assert f"mixed: {words}; the file contains no graph to run" in capsys.readouterr().out


def test_arrays_without_numbers_are_listed(tmp_path: Path) -> None:
    """Strings and objects have a row without values."""
    path = tmp_path / "mixed.npz"
    np.savez(path, **{"a.names": np.array(["x"]), "a.objects": np.array([{}], object), "a.numbers": np.ones(2)})
    net = ex.open(path)
    assert [*net["a"].weights] == ["numbers"]
    assert net["a"].arguments["names"] == "a tensor of str32, which explorer does not support"
    assert "objects no numbers" in net.text()
    np.savez(path)
    with pytest.raises(ex.FileError, match="none of its 0 entries is an array"):
        ex.open(path)


def test_a_tensor_of_an_unknown_dtype_is_listed(tmp_path: Path) -> None:
    """6-bit floats are in the table without values; 8-bit ones have values."""
    path = tmp_path / "narrow.safetensors"
    header = (
        b'{"a.w":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]},'
        b'"a.v":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[3,5]}}'
    )
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(3) + b"\x38\xb8")
    net = ex.open(path)
    assert net["a"].arguments["w"] == "a tensor of F6_E2M3, which explorer does not support"
    assert net["a"].v.array.astype(float).tolist() == [1, -1]


def sharded(folder: Path, shards: dict[str, dict[str, Any]], **more: str) -> Path:
    """Write the index of files of arrays by name; ``more`` lists tensors in other files."""
    folder.mkdir(exist_ok=True)
    for name, arrays in shards.items():
        save_file(arrays, folder / name)
    weight_map = {key: name for name, arrays in shards.items() for key in arrays} | more
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 8}, "weight_map": weight_map}))
    return index


def halves() -> dict[str, dict[str, Any]]:
    names = [*ARRAYS]
    return {f"model-{n}-of-2.safetensors": {name: ARRAYS[name] for name in names[n::2]} for n in (0, 1)}


@pytest.mark.spec("Q-11", headline=True)
def test_an_index_opens_the_files_next_to_it(tmp_path: Path) -> None:
    """Open files as they come: sharded safetensors, Git LFS pointers, TorchScript modules and modules without values.

    One table contains the tensors of all files of an index. A linked index, as in download caches, uses the folder of
    the link's target.
    """
    index = sharded(tmp_path / "blobs", halves())
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for file in index.parent.iterdir():
        (snapshot / file.name).symlink_to(file)
    for path in (index, snapshot / index.name):
        net = ex.open(path)
        assert net.name == "model"
        assert {*net.operators} == {"layer1.0.conv", "layer1.1.conv", "fc", "model"}
        for key, array in ARRAYS.items():
            operator, _, own = key.rpartition(".")
            np.testing.assert_array_equal(net[operator or "model"].weights[own].array, array, strict=True)
        assert net.check() == []
        assert pickle.loads(pickle.dumps(net.definition.weights))["step"] == 7
    assert main(["check", str(index)]) == 0


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("../secret.safetensors", "names the file '../secret.safetensors'"),
        ("/etc/passwd", "names the file '/etc/passwd'"),
        ("sub/x.safetensors", "must be in the same folder"),
        ("link.safetensors", "names the file 'link.safetensors'"),
        ("absent.safetensors", "No such file"),
        ("model-0-of-2.safetensors", "1 tensor in no file: other"),
        (".", "must be in the same folder"),
        ("a\0.safetensors", "must be in the same folder"),
        ("\ud800.safetensors", "must be in the same folder"),
        ("a" * 5000, "File name too long"),
        ("", "must be in the same folder"),
        ("model.safetensors.index.json", "declares a header of"),
    ],
)
def test_an_index_does_not_refer_outside_its_folder(tmp_path: Path, shard: str, message: str) -> None:
    save_file(ARRAYS, tmp_path / "secret.safetensors")
    index = sharded(tmp_path / "model", halves(), other=shard)
    (index.parent / "link.safetensors").symlink_to("../secret.safetensors")
    with pytest.raises(ex.FileError, match=message):
        ex.open(index)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', "[" * 10_000, "3"])
def test_an_index_must_contain_a_file_for_each_tensor(tmp_path: Path, text: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text)
    with pytest.raises(ex.FileError, match=r"(?s)it has no weight_map.*download the index"):
        ex.open(index)


@pytest.mark.parametrize("extension", WRITERS)
@given(st.data())
def test_a_damaged_table_is_refused_or_read(
    extension: str, tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    """Whatever byte is another, and wherever the file is cut off: an error of ours, or arrays."""
    folder = tmp_path_factory.getbasetemp()
    whole = bytearray(written(extension, folder).read_bytes())
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for damaged in (whole, whole[: data.draw(st.integers(0, len(whole)))]):
        path = folder / f"damaged{extension}"
        path.write_bytes(bytes(damaged))
        try:
            net = ex.open(path)
            net.preview_plan()
            values = [weight.array for operator in net.operators.values() for weight in operator.weights.values()]
        except (ex.FileError, ex.BudgetError):
            continue
        assert all(isinstance(value, np.ndarray) for value in values)


def test_a_table_without_a_numeric_array_cannot_be_drawn(tmp_path: Path) -> None:
    np.savez(tmp_path / "words.npz", words=np.array(["a", "bc"]))
    with pytest.raises(ex.FileError, match=r"words.npz[\s\S]*no tensor that can be drawn[\s\S]*fix: "):
        ex.open(tmp_path / "words.npz").preview_plan()


def test_a_modified_file_is_not_read_any_more(tmp_path: Path) -> None:
    """The bytes could belong to another save."""
    path = written(".safetensors", tmp_path)
    net = ex.open(path)
    other = tmp_path / "other"
    save_file({name: np.array(array + array) for name, array in ARRAYS.items()}, other)
    shutil.copyfile(other, path)
    with pytest.raises(ex.FileError, match="has changed since it was opened"):
        _ = net["fc"].weight.array
    assert any("has changed since it was opened" in finding for finding in net.check())


def test_many_arrays_are_read_in_linear_time(tmp_path: Path) -> None:
    """5,000 arrays of a zip open in a second or two, and equal headers are parsed once."""
    path = tmp_path / "many.npz"
    np.savez(path, **{f"box{k}.w": np.zeros(4, np.float32) for k in range(5000)})
    npz._stated.cache_clear()
    begin = time.process_time()
    assert len(ex.open(path).definition.operators) == 5000
    assert time.process_time() - begin < 5
    assert npz._stated.cache_info().misses == 1
