"""Databases of named arrays in files, and operator types that load and store blobs, named as in Caffe2.

A database type is an object with three methods, and users can add one to `DATABASES`.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.files.atomic_write import replacing
from explorer.core.ir.hooks import hooks
from explorer.core.registry import Registry
from explorer.core.types.tensor_type import Array
from explorer.net.blob_operator import BlobOperator, blob_operator
from explorer.record.fork_locks import renew_in_children
from explorer.record.reasons import counted_text


class Database(Protocol):
    """Protocol of a database type, which reads and writes named arrays."""

    def exists(self, name: str) -> bool:
        """Return whether a database with this name exists."""

    def read(self, name: str) -> Mapping[str, Array]:
        """Return the arrays by name."""

    def write(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write arrays, replacing all previous contents."""


class NpzFile:
    """``.npz`` file as written by np.savez; writing replaces the old file atomically."""

    def exists(self, name: str) -> bool:
        """Return whether a file with this name exists."""
        return Path(name).is_file()

    def read(self, name: str) -> Mapping[str, Array]:
        """Return its arrays; raise FileError for a file without arrays."""
        return hooks.read_arrays(Path(name))

    def write(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write a temporary file and rename it, so a complete file exists at any moment."""
        with replacing(name) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for key, array in arrays.items():
                with archive.open(f"{key}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


DATABASES: Registry[str, Database] = Registry("type of database", {"npz": NpzFile()})
"""value of the argument ``db_type`` → database type"""


@named_methods
class DBReader:
    """Reader that returns the rows of a database in order, and starts over after the last row.

    If ``num_shards`` readers share a database, reader ``shard_id`` reads rows shard_id, shard_id + num_shards, ….
    Threads may read concurrently, and each row is returned once per round.

    >>> np.savez("digits.npz", image=np.zeros((3, 8, 8)), label=np.array([5, 0, 4]))
    >>> reader = ex.DBReader("npz", "digits.npz")
    >>> reader.read(2, ("label",)), reader.read(2, ("label",))
    ([array([5, 0])], [array([4, 5])])
    """

    def __init__(self, db_type: str, db_name: str, num_shards: int = 1, shard_id: int = 0) -> None:
        if not 0 <= shard_id < num_shards:
            raise OperandError(
                f"shard_id={shard_id} of num_shards={num_shards}",
                rule="shard_id must be an index from 0 to num_shards − 1",
                fix="num_shards=1, shard_id=0",
            )
        self.name = db_name
        arrays = DATABASES.find(db_type).read(db_name)
        sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        if not sizes or len({*sizes.values()}) > 1:
            raise OperandError(
                f"{db_name}: "
                + (", ".join([f"{name} of {counted_text(size, 'row')}" for name, size in sizes.items()]) or "no array"),
                rule="the arrays of a database must have the same number of rows",
                fix="np.savez(path, data=rows, label=labels)",
            )
        self._columns = {name: array[shard_id::num_shards] for name, array in arrays.items()}
        self.size = len(next(iter(self._columns.values())))
        """number of rows that the reader returns per round"""
        if not self.size:
            raise OperandError(
                f"{db_name}: shard {shard_id} of {num_shards} without rows",
                rule="a shard must have at least one row",
                fix="num_shards=1",
            )
        self._next = 0
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create a new lock in a forked process."""
        self._lock = threading.Lock()

    def read(self, count: int, columns: tuple[str, ...]) -> list[Array]:
        """Return the next ``count`` rows of each column; raise UnknownNameError for an unknown column."""
        for name in columns:
            if name not in self._columns:
                raise UnknownNameError(name, kind=f"column of {self.name}", known=self._columns)
        with self._lock:
            first = self._next
            self._next = (first + count) % self.size
        # Indices wrap around: a batch at the end continues with the first rows, and one larger than the shard repeats
        # rows.
        rows = np.arange(first, first + count) % self.size
        return [self._columns[name][rows] for name in columns]

    @property
    def position(self) -> int:
        """Index of the row that is read next."""
        return self._next

    def seek(self, row: int) -> None:
        """Continue reading at a row."""
        with self._lock:
            self._next = row % self.size

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a reader must not be copied, because each row is read once per round")

    def __repr__(self) -> str:
        return f"<reader of {self.name}: row {self._next} of {self.size}>"


@blob_operator("CreateDB", outputs=(1,))
def create_db(
    op: BlobOperator,
    *,
    db_name: Annotated[str, "the file"],
    db_type: str = "npz",
    num_shards: Annotated[int, "number of readers that share the rows"] = 1,
    shard_id: int = 0,
) -> None:
    """Create a reader of the rows of a database, or of one shard."""
    op.set_output(0, DBReader(db_type, db_name, num_shards, shard_id))


@blob_operator("TensorProtosDBInput", inputs=(1,))
def read_batch(
    op: BlobOperator, *, batch_size: int, columns: Annotated[tuple[str, ...], "by default the outputs' names"] = ()
) -> None:
    """Read the next rows of a reader, with one output for each column."""
    if batch_size < 1:
        raise OperandError(f"batch_size={batch_size}", rule="a batch must have at least one row", fix="batch_size=32")
    names = columns or tuple([blob.name for blob in op.outputs])
    if len(names) != len(op.outputs):
        raise OperandError(
            f"columns={names} for {counted_text(len(op.outputs), 'output')}",
            rule="there must be one output for each column",
            fix="omit the argument columns if the outputs are named after the columns",
        )
    for position, array in enumerate(op.input(0, DBReader).read(batch_size, names)):
        op.set_output(position, array)


@blob_operator("DBExists", inputs=(0,), outputs=(1,))
def db_exists(op: BlobOperator, *, db_name: str, db_type: str = "npz") -> None:
    """Return whether a database with this name exists."""
    op.set_output(0, DATABASES.find(db_type).exists(db_name))


@blob_operator("Save", outputs=(0,))
def save(op: BlobOperator, *, db: Annotated[str, "the file"], db_type: str = "npz") -> None:
    """Write blobs to a database under their names, replacing all previous contents."""
    DATABASES.find(db_type).write(db, _arrays(op, 0))


@blob_operator("Load", inputs=(0,))
def load(op: BlobOperator, *, db: Annotated[str, "the file"], db_type: str = "npz") -> None:
    """Read blobs from a database by their names; if one is missing, none is set."""
    arrays = DATABASES.find(db_type).read(db)
    # All are looked up before any is set, so a workspace never contains half of a checkpoint.
    for blob in op.outputs:
        if blob.name not in arrays:
            raise UnknownNameError(blob.name, kind=f"blob of {db}", known=arrays)
    for position, blob in enumerate(op.outputs):
        op.set_output(position, arrays[blob.name])


@blob_operator("Checkpoint", outputs=(0,))
def checkpoint(
    op: BlobOperator,
    *,
    db: Annotated[str, "the file, with %d for the step index"],
    every: Annotated[int, "number of steps between checkpoints"] = 1,
    db_type: str = "npz",
) -> None:
    """Write blobs to a database every ``every`` steps; the first input is the step index, which is not written."""
    if every < 1 or db.count("%d") > 1:
        raise OperandError(
            f"every={every}, db={db!r}",
            rule="every must be at least 1, and db must contain at most one %d",
            fix='every=100, db="model_%d.npz"',
        )
    number = op.input(0, np.ndarray)
    if number.size != 1 or number.dtype.kind not in "biuf" or number != np.floor(number):
        raise OperandError(
            f"the step {op.inputs[0].name!r}: {number.dtype} {number.shape}",
            rule="the first input must be the step index, one integer",
            fix='net.Checkpoint(["iteration", "w"], [], db="model_%d.npz"), after net.Iter("iteration", "iteration")',
        )
    step = int(number.reshape(()))
    if step % every == 0:
        DATABASES.find(db_type).write(db.replace("%d", str(step)), _arrays(op, 1))


def _arrays(op: BlobOperator, first: int) -> dict[str, Array]:
    """Return the arrays of the inputs from position ``first`` on, keyed by blob name."""
    if len(op.inputs) <= first:
        raise OperandError(
            f"{op.definition.type} of no blob",
            rule="at least one blob must be written",
            fix=f'net.{op.definition.type}(["w", "b"], [], db="model.npz")',
        )
    return {blob.name: blob.get(np.ndarray) for blob in op.inputs[first:]}
