"""Collective operator types, which combine blobs from several devices and return the result on each device.

The outputs are computed on the device of the first input and copied to the other devices; a plan shows these copies.
For separate worker processes, see ``ex.train``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.device import Cuda
from explorer.core.types.device import device as find_device
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.device_copy import to_device
from explorer.record.reasons import counted_text

MAX_BLOBS = 64
"""maximum number of inputs of an operator"""
_EACH = tuple((position, position) for position in range(MAX_BLOBS))


@net_operator(in_place=_EACH)
def Allreduce(first: Expr, *others: Expr, outputs: int) -> tuple[Expr, ...]:
    """Return the sum of all operands, one copy on the device of each operand."""
    operands = (first, *others)
    _check("Allreduce", operands, outputs)
    total = add_n(*[_on(x, first) for x in operands]) if others else first
    return tuple([_on(total, x) for x in operands])


@net_operator(in_place=_EACH)
def Broadcast(
    first: Expr, *others: Expr, root: Annotated[int, "the position of the blob that is copied"] = 0, outputs: int
) -> tuple[Expr, ...]:
    """Return copies of the operand ``root``, one on the device of each operand."""
    operands = (first, *others)
    _check("Broadcast", operands, outputs)
    if not 0 <= root < len(operands):
        raise OperandError(
            f"root={root} of {len(operands)} blobs",
            rule="Broadcast: root must be the position of one of the blobs, counted from 0",
            fix="root=0",
        )
    return tuple([_on(operands[root], x) for x in operands])


@net_operator()
def Allgather(first: Expr, *others: Expr, axis: int = 0, outputs: int) -> tuple[Expr, ...]:
    """Return the operands concatenated along ``axis``, one copy on the device of each operand."""
    operands = (first, *others)
    _check("Allgather", operands, outputs)
    joined = concatenate([_on(x, first) for x in operands], axis) if others else first
    return tuple([_on(joined, x) for x in operands])


@net_operator(in_place=_EACH)
def NCCLAllreduce(first: Expr, *others: Expr, outputs: int) -> tuple[Expr, ...]:
    """Apply Allreduce to blobs on GPUs only."""
    _check_gpus("NCCLAllreduce", (first, *others), "Allreduce")
    return Allreduce(first, *others, outputs=outputs)


@net_operator(in_place=_EACH)
def NCCLBroadcast(first: Expr, *others: Expr, root: int = 0, outputs: int) -> tuple[Expr, ...]:
    """Apply Broadcast to blobs on GPUs only."""
    _check_gpus("NCCLBroadcast", (first, *others), "Broadcast")
    return Broadcast(first, *others, root=root, outputs=outputs)


@net_operator()
def CopyToDevice(x: Expr, *, device: Annotated[str, "the name of a device"]) -> Expr:
    """Return a copy of a blob on ``device``, where operators that read the copy then run."""
    return to_device(x, find_device(device))


def _on(x: Expr, like: Expr) -> Expr:
    return x if x.device is like.device else to_device(x, like.device)


def _check(type: str, operands: Sequence[Expr], outputs: int) -> None:
    kinds = {(x.shape, x.dtype) for x in operands}
    if outputs != len(operands) or len(operands) > MAX_BLOBS or (len(kinds) > 1 and type != "Allgather"):
        raise OperandError(
            f"{', '.join([repr(x.type) for x in operands])} to {counted_text(outputs, 'output')}",
            rule=f"{type} must have at most {MAX_BLOBS} inputs of the same shape and dtype, and one output for each",
            fix=f'net.{type}(["x0", "x1"], ["x0", "x1"])',
        )


def _check_gpus(type: str, operands: Sequence[Expr], anywhere: str) -> None:
    elsewhere = [x.device.name for x in operands if not isinstance(x.device, Cuda)]
    if elsewhere:
        raise OperandError(
            f"{type} of blobs on {', '.join(dict.fromkeys(elsewhere))}",
            rule=f"{type} must be placed on GPUs, since other devices do not support it",
            fix=f"net.{anywhere}(…), which runs on all devices",
        )
