"""Databases of nets: files of arrays by name, written whole, and readers of their rows, batch by batch.

The operators ``CreateDB``, ``TensorProtosDBInput``, ``Save``, ``Load`` and ``Checkpoint`` (storage_operators.py) work
on them. A type of database is three functions, so that a user adds one for a store of their own to `DATABASES`.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.files.atomic_write import replacing
from explorer.core.ir.hooks import hooks
from explorer.core.registry import Registry
from explorer.core.types.tensor_type import Array
from explorer.record.fork_locks import renew_in_children
from explorer.record.reasons import counted_text


class Database(Protocol):
    """Type of database: how arrays by name are read from a place and written to it."""

    def exists(self, name: str) -> bool:
        """Tell whether there is a database of this name."""

    def read(self, name: str) -> Mapping[str, Array]:
        """Return the arrays by name."""

    def write(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write arrays in the place of all that was there."""


class NpzFile:
    """A ``.npz`` file, as np.savez writes it; one that is written replaces the old one at once."""

    def exists(self, name: str) -> bool:
        """Tell whether there is a file of this name."""
        return Path(name).is_file()

    def read(self, name: str) -> Mapping[str, Array]:
        """Return its arrays; raises FileError for a file that holds none."""
        return hooks.read_arrays(Path(name))

    def write(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Write a file under another name first, so that there is a complete one at any moment."""
        with replacing(name) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for key, array in arrays.items():
                with archive.open(f"{key}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)


DATABASES: Registry[str, Database] = Registry("type of database", {"npz": NpzFile()})
"""by the name that operators' ``db_type`` gives"""


@named_methods
class DBReader:
    """Reader of the rows of a database, from its first to its last and again from the first.

    Of ``num_shards`` readers of one database, the first reads the rows 0, num_shards, 2 · num_shards, …, and so on.
    Threads may read at a time: each row is handed out once a round.

    >>> np.savez("digits.npz", image=np.zeros((3, 8, 8)), label=np.array([5, 0, 4]))
    >>> reader = ex.DBReader("npz", "digits.npz")
    >>> reader.read(2, ("label",)), reader.read(2, ("label",))
    ([array([5, 0])], [array([4, 5])])
    """

    def __init__(self, db_type: str, db_name: str, num_shards: int = 1, shard_id: int = 0) -> None:
        if not 0 <= shard_id < num_shards:
            raise OperandError(
                f"shard_id={shard_id} of num_shards={num_shards}",
                rule="shard_id must be a number from 0 to num_shards − 1",
                fix="num_shards=1, shard_id=0",
            )
        self.name = db_name
        arrays = DATABASES.find(db_type).read(db_name)
        sizes = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
        if not sizes or len({*sizes.values()}) > 1:
            raise OperandError(
                f"{db_name}: "
                + (", ".join([f"{name} of {counted_text(size, 'row')}" for name, size in sizes.items()]) or "no array"),
                rule="the arrays of a database must have equally many rows",
                fix="np.savez(path, data=rows, label=labels)",
            )
        self._columns = {name: array[shard_id::num_shards] for name, array in arrays.items()}
        self.size = len(next(iter(self._columns.values())))
        """number of rows that it reads"""
        if not self.size:
            raise OperandError(
                f"{db_name}: shard {shard_id} of {num_shards} without rows",
                rule="a shard must have a row",
                fix="num_shards=1",
            )
        self._next = 0
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Make a new lock in a forked process."""
        self._lock = threading.Lock()

    def read(self, count: int, columns: tuple[str, ...]) -> list[Array]:
        """Return the next rows of some columns; raises UnknownNameError for a column that there is not."""
        for name in columns:
            if name not in self._columns:
                raise UnknownNameError(name, kind=f"column of {self.name}", known=self._columns)
        with self._lock:
            first = self._next
            self._next = (first + count) % self.size
        # Modulo the size: a batch at the end goes on with the first rows, and may hold a row twice if it is larger than
        # all.
        rows = np.arange(first, first + count) % self.size
        return [self._columns[name][rows] for name in columns]

    @property
    def position(self) -> int:
        """Number of the row that is read next."""
        return self._next

    def seek(self, row: int) -> None:
        """Read on from a row."""
        with self._lock:
            self._next = row % self.size

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a reader is not copied: each row of a round is read once")

    def __repr__(self) -> str:
        return f"<reader of {self.name}: row {self._next} of {self.size}>"
