"""Operators on blobs of any type: loading, storing, reading records, and user-defined ones."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.net import BlobOperator
from explorer.net.database_operators import DATABASES
from tests.support.refusals import refused

ROWS: Array = np.arange(20.0).reshape(10, 2)
LABELS: Array = np.arange(10)


@pytest.fixture
def database(tmp_path: Path) -> str:
    np.savez(tmp_path / "rows.npz", data=ROWS, label=LABELS)
    return str(tmp_path / "rows.npz")


@pytest.mark.spec("C-5", "C-4")
def test_rows_are_read_in_batches_and_again_from_the_first(database: str) -> None:
    """A reader is a blob: one net creates it, and another reads batches from it and computes on them."""
    workspace = ex.Workspace()
    workspace.run_operator_once("CreateDB", [], "reader", db_name=database)
    assert workspace.blob("reader").is_type(ex.DBReader)
    net = ex.Net("batches")
    net.input("reader")
    net.TensorProtosDBInput("reader", ["data", "label"], batch_size=4)
    net.Mul(["data", "data"], "squares")
    workspace.create_net(net)
    for first in (0, 4, 8, 2):
        workspace.run_net("batches")
        expected = np.arange(first, first + 4) % 10
        np.testing.assert_array_equal(workspace.fetch_blob("label"), LABELS[expected])
        np.testing.assert_array_equal(workspace.fetch_blob("squares"), ROWS[expected] ** 2)
    assert workspace.blob("reader").get(ex.DBReader).position == 6
    with refused(ex.OperandError, "(TensorProtosDBInput)", "'lable'", "label"):
        workspace.run_operator_once("TensorProtosDBInput", "reader", ["lable"], batch_size=1)


@pytest.mark.spec("C-5")
def test_shards_share_the_rows(database: str) -> None:
    workspace = ex.Workspace()
    seen: list[int] = []
    for shard in range(3):
        workspace.run_operator_once("CreateDB", [], f"r{shard}", db_name=database, num_shards=3, shard_id=shard)
        reader = workspace.blob(f"r{shard}").get(ex.DBReader)
        seen += reader.read(reader.size, ("label",))[0].tolist()
    assert sorted(seen) == [*range(10)]
    with refused(ex.OperandError, "'create_db' (CreateDB)", "shard_id=3 of num_shards=3"):
        workspace.run_operator_once("CreateDB", [], "r", db_name=database, num_shards=3, shard_id=3)
    with refused(ex.OperandError, "shard 10 of 11 without rows"):
        ex.DBReader("npz", database, 11, 10)


@pytest.mark.spec("C-5")
def test_threads_read_each_row_once(database: str) -> None:
    reader = ex.DBReader("npz", database)
    rows: list[int] = []
    threads = [
        threading.Thread(target=lambda: rows.extend(int(reader.read(1, ("label",))[0][0]) for _ in range(100)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(rows) == sorted([*range(10)] * 40)
    with pytest.raises(TypeError, match="a reader must not be copied"):
        copy.deepcopy(reader)


def _training(folder: Path) -> ex.Net:
    net = ex.Net("step")
    for name, shape in (("w", (2,)), ("one", ()), ("rate", ())):
        net.input(name, shape, "float64")
    net.input("iter", (), "int64")
    net.Iter("iter", "iter")
    net.Mul(["w", "w"], "squares")
    net.AveragedLoss("squares", "loss")
    net.add_gradient_operators(["loss"])
    net.WeightedSum(["w", "one", "w_grad", "rate"], "w")
    net.Checkpoint(["iter", "w", "iter"], [], db=str(folder / "w_%d.npz"), every=2)
    return net


@pytest.mark.spec("C-5", "C-17", headline=True)
def test_training_is_saved_periodically_and_resumed(tmp_path: Path) -> None:
    """Write forward, gradient, update, saving and loading as operators of nets, and resume training from a file."""

    def workspace() -> ex.Workspace:
        instance = ex.Workspace()
        for name, value in (("w", [1.0, -2.0]), ("one", 1.0), ("rate", -0.1), ("iter", np.int64(0))):
            instance.feed_blob(name, value)
        instance.create_net(_training(tmp_path))
        return instance

    through = workspace()
    through.run_net("step", 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w_2.npz", "w_4.npz"]
    again = workspace()
    load = ex.Net("load")
    load.Load([], ["w", "iter"], db=str(tmp_path / "w_4.npz"))
    again.run_net_once(load)
    assert again.fetch_blob("iter") == 4
    again.run_net("step")
    np.testing.assert_array_equal(again.fetch_blob("w"), through.fetch_blob("w"))
    assert again.fetch_blob("w").tolist() != [1.0, -2.0]


@pytest.mark.spec("C-5")
def test_blobs_are_saved_under_their_names_and_loaded(tmp_path: Path) -> None:
    path = str(tmp_path / "blobs.npz")
    workspace = ex.Workspace()
    exists = ex.Net("exists")
    exists.DBExists([], "there", db_name=path)
    workspace.run_net_once(exists)
    assert not workspace.fetch_blob("there")
    values = {"a": ROWS.T, "file": np.float32(3), "c": np.array([], np.int8)}
    for name, value in values.items():
        workspace.feed_blob(name, value)
    workspace.run_operator_once("Save", [*values], [], db=path)
    workspace.run_net_once(exists)
    assert workspace.fetch_blob("there")
    other = ex.Workspace()
    other.run_operator_once("Load", [], [*values], db=path)
    for name, value in values.items():
        np.testing.assert_array_equal(other.fetch_blob(name), value)
        assert other.fetch_blob(name).dtype == value.dtype
    with refused(ex.OperandError, "'load' (Load)", "'d'", "a, c, file"):
        other.run_operator_once("Load", [], ["a", "d"], db=path)
    assert not other.has_blob("d") or other.blob("d").empty


@pytest.mark.spec("C-5", "C-4")
def test_errors_contain_the_operator_the_blob_and_both_types(tmp_path: Path, database: str) -> None:
    workspace = ex.Workspace()
    workspace.feed_blob("words", {"a": 1})
    with refused(
        ex.OperandError, "(TensorProtosDBInput)", "the blob 'words' contains a dict", "must contain a DBReader"
    ):
        workspace.run_operator_once("TensorProtosDBInput", "words", "x", batch_size=1)
    with refused(ex.OperandError, "(Save)", "the blob 'words' contains a dict", "must contain a ndarray"):
        workspace.run_operator_once("Save", "words", [], db=str(tmp_path / "x.npz"))
    assert not (tmp_path / "x.npz").exists()
    (tmp_path / "text.npz").write_text("no archive")
    with refused(ex.OperandError, "text.npz", "must be a .npz file"):
        workspace.run_operator_once("Load", [], "x", db=str(tmp_path / "text.npz"))
    with refused(ex.ExplorerError, "minidb", "npz"):
        workspace.run_operator_once("CreateDB", [], "r", db_name=database, db_type="minidb")
    np.savez(tmp_path / "uneven.npz", a=np.zeros(3), b=np.zeros(4))
    with refused(ex.OperandError, "a of 3 rows, b of 4 rows", "same number of rows"):
        workspace.run_operator_once("CreateDB", [], "r", db_name=str(tmp_path / "uneven.npz"))
    for wrong in ({"every": 0}, {"db": "%d%d"}):
        with refused(ex.OperandError, "every must be at least 1"):
            workspace.feed_blob("iter", 0)
            workspace.run_operator_once("Checkpoint", ["iter", "iter"], [], **{"db": "x%d", **wrong})
    for step in ([1, 2], 1.5):
        workspace.feed_blob("iter", step)
        with refused(ex.OperandError, "the step 'iter'", "one integer"):
            workspace.run_operator_once("Checkpoint", ["iter", "iter"], [], db=str(tmp_path / "y%d.npz"))
    net = ex.Net("planned")
    net.DBExists([], "there", db_name=database)
    net.output("there")
    with refused(ex.OperandError, "(DBExists)", "run in a workspace", "run_net_once"):
        net.run()


@pytest.mark.spec("C-4", "C-21")
def test_a_user_defined_operator_accesses_blobs_of_any_type_by_position() -> None:
    @ex.blob_operator("Tally", inputs=(2,), outputs=(1, 2))
    def tally(op: BlobOperator, *, times: int = 1) -> None:
        """Count a word in a dict, and double a tensor."""
        words = op.output(0, dict)
        word = op.input(0, str)
        words[word] = words.get(word, 0) + times
        if len(op.outputs) == 2:
            op.set_output(1, ex.tensor(op.input(1, ex.Tensor).array * 2))

    workspace = ex.Workspace()
    workspace.feed_blob("word", "blob")
    workspace.feed_blob("x", [1.0, 2.0])
    net = ex.Net("tallied")
    net.input("word"), net.input("x", (2,), "float64")
    net.Mul(["x", "x"], "y")
    net.Tally(["word", "y"], ["words", "z"], times=3)
    net.Add(["z", "x"], "x")
    assert "Count a word" in net.Tally.__doc__
    workspace.create_net(net)
    workspace.run_net("tallied", 2)
    assert workspace.fetch_blob("words") == {"blob": 6}
    np.testing.assert_array_equal(workspace.fetch_blob("x"), [21.0, 210.0])
    with refused(ex.OperandError, "(Tally)", "tims", "times"):
        net.Tally(["word", "y"], "w", tims=3)
    with refused(ex.OperandError, "reads 1 blob"):
        net.Tally("word", "w")

    @ex.blob_operator("Beyond", outputs=(1,))
    def beyond(op: BlobOperator) -> None:
        """Read an input that does not exist."""
        op.input(1, str)

    with refused(ex.OperandError, "'beyond' (Beyond)", "index 1 of 1 inputs: word", "give it 2"):
        workspace.run_operator_once("Beyond", "word", "y")


@pytest.mark.spec("C-5")
def test_a_user_defined_database_type_is_registered() -> None:
    class Memory:
        """Arrays in a dict."""

        def __init__(self) -> None:
            self.held: dict[str, Any] = {}

        def exists(self, name: str) -> bool:
            return name in self.held

        def read(self, name: str) -> Any:
            return self.held[name]

        def write(self, name: str, arrays: Any) -> None:
            self.held[name] = dict(arrays)

    memory = DATABASES.register("memory of a test", Memory())
    workspace = ex.Workspace()
    workspace.feed_blob("x", [1.0])
    workspace.run_operator_once("Save", "x", [], db="there", db_type="memory of a test")
    np.testing.assert_array_equal(memory.held["there"]["x"], [1.0])
    del DATABASES["memory of a test"]


@pytest.mark.spec("C-5", "C-16")
def test_operators_on_blobs_are_drawn_with_their_device() -> None:
    net = ex.Net("drawn")
    net.CreateDB([], "reader", db_name="x.npz")
    recording = net.explore().recording
    assert [recording.label(node) for node in range(len(recording.nodes.label))] == ["CreateDB (runs in a workspace)"]
