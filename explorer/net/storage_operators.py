"""Operator types that load and store: databases, checkpoints, and readers of records, named as Caffe2 names them.

Each is a function with the decorator `blob_operator`: its parameters after the asterisk are the operator's arguments,
as files and ``help`` name them.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.types.tensor_type import Array
from explorer.net.blob_operator import BlobOperator, blob_operator
from explorer.net.databases import DATABASES, DBReader
from explorer.record.reasons import counted_text


@blob_operator("CreateDB", outputs=(1,))
def create_db(
    op: BlobOperator,
    *,
    db_name: Annotated[str, "the file"],
    db_type: str = "npz",
    num_shards: Annotated[int, "readers that share the rows"] = 1,
    shard_id: int = 0,
) -> None:
    """A reader of the rows of a database, or of one shard of them."""
    op.set_output(0, DBReader(db_type, db_name, num_shards, shard_id))


@blob_operator("TensorProtosDBInput", inputs=(1,))
def read_batch(
    op: BlobOperator, *, batch_size: int, columns: Annotated[tuple[str, ...], "by default the outputs' names"] = ()
) -> None:
    """The next rows of a reader: one output for each column."""
    if batch_size < 1:
        raise OperandError(f"batch_size={batch_size}", rule="a batch must have a row or more", fix="batch_size=32")
    names = columns or tuple([blob.name for blob in op.outputs])
    if len(names) != len(op.outputs):
        raise OperandError(
            f"columns={names} for {counted_text(len(op.outputs), 'output')}",
            rule="there must be one output for each column",
            fix="leave columns out where the outputs have their names",
        )
    for position, array in enumerate(op.input(0, DBReader).read(batch_size, names)):
        op.set_output(position, array)


@blob_operator("DBExists", inputs=(0,), outputs=(1,))
def db_exists(op: BlobOperator, *, db_name: str, db_type: str = "npz") -> None:
    """Whether there is a database of this name."""
    op.set_output(0, DATABASES.find(db_type).exists(db_name))


@blob_operator("Save", outputs=(0,))
def save(op: BlobOperator, *, db: Annotated[str, "the file"], db_type: str = "npz") -> None:
    """Write blobs to a database under their names, in the place of all that was there."""
    DATABASES.find(db_type).write(db, _arrays(op, 0))


@blob_operator("Load", inputs=(0,))
def load(op: BlobOperator, *, db: Annotated[str, "the file"], db_type: str = "npz") -> None:
    """Read blobs from a database by their names; none is written unless all are there."""
    arrays = DATABASES.find(db_type).read(db)
    # All are looked for before one is set: a workspace never holds half of a checkpoint.
    for blob in op.outputs:
        if blob.name not in arrays:
            raise UnknownNameError(blob.name, kind=f"blob of {db}", known=arrays)
    for position, blob in enumerate(op.outputs):
        op.set_output(position, arrays[blob.name])


@blob_operator("Checkpoint", outputs=(0,))
def checkpoint(
    op: BlobOperator,
    *,
    db: Annotated[str, "the file, with %d for the number of the step"],
    every: Annotated[int, "steps from one checkpoint to the next"] = 1,
    db_type: str = "npz",
) -> None:
    """Write blobs to a database at every so many steps: the number of the step, then the blobs that are written."""
    if every < 1 or db.count("%d") > 1:
        raise OperandError(
            f"every={every}, db={db!r}",
            rule="every must be 1 or more, and db have at most one %d",
            fix='every=100, db="model_%d.npz"',
        )
    number = op.input(0, np.ndarray)
    if number.size != 1 or number.dtype.kind not in "biuf" or number != np.floor(number):
        raise OperandError(
            f"the step {op.inputs[0].name!r}: {number.dtype} {number.shape}",
            rule="the first input must be the number of the step, one whole number",
            fix='net.Checkpoint(["iteration", "w"], [], db="model_%d.npz"), after net.Iter("iteration", "iteration")',
        )
    step = int(number.reshape(()))
    if step % every == 0:
        DATABASES.find(db_type).write(db.replace("%d", str(step)), _arrays(op, 1))


def _arrays(op: BlobOperator, first: int) -> dict[str, Array]:
    """Return the inputs from a place on by their names, all of them arrays."""
    if len(op.inputs) <= first:
        raise OperandError(
            f"{op.definition.type} of no blob",
            rule="at least one blob must be written",
            fix=f'net.{op.definition.type}(["w", "b"], [], db="model.npz")',
        )
    return {blob.name: blob.get(np.ndarray) for blob in op.inputs[first:]}
