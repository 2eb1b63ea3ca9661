"""Collective operator types: blobs of several devices are joined, and the result is on each of them.

They are pure: every output is made of the inputs by copies between devices, which a plan shows, and by operations on
the device of the first input. Workers that are processes of their own are ``ex.train``'s matter.
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

MOST = 64
"""blobs that one operator joins at most"""
_EACH = tuple((position, position) for position in range(MOST))


@net_operator(in_place=_EACH)
def Allreduce(first: Expr, *others: Expr, outputs: int) -> tuple[Expr, ...]:
    """The sum of all operands, one on the device of each of them."""
    operands = (first, *others)
    _check("Allreduce", operands, outputs)
    total = add_n(*[_on(x, first) for x in operands]) if others else first
    return tuple([_on(total, x) for x in operands])


@net_operator(in_place=_EACH)
def Broadcast(
    first: Expr, *others: Expr, root: Annotated[int, "the position of the blob that all get"] = 0, outputs: int
) -> tuple[Expr, ...]:
    """The operand of one device, on the device of each operand."""
    operands = (first, *others)
    _check("Broadcast", operands, outputs)
    if not 0 <= root < len(operands):
        raise OperandError(
            f"root={root} of {len(operands)} blobs",
            rule="Broadcast: root must be the position of one of them, from 0",
            fix="root=0",
        )
    return tuple([_on(operands[root], x) for x in operands])


@net_operator()
def Allgather(first: Expr, *others: Expr, axis: int = 0, outputs: int) -> tuple[Expr, ...]:
    """The operands one behind the other along an axis, on the device of each of them."""
    operands = (first, *others)
    _check("Allgather", operands, outputs)
    whole = concatenate([_on(x, first) for x in operands], axis) if others else first
    return tuple([_on(whole, x) for x in operands])


@net_operator(in_place=_EACH)
def NCCLAllreduce(first: Expr, *others: Expr, outputs: int) -> tuple[Expr, ...]:
    """Allreduce of GPUs; blobs of other devices are refused."""
    _check_gpus("NCCLAllreduce", (first, *others), "Allreduce")
    return Allreduce(first, *others, outputs=outputs)


@net_operator(in_place=_EACH)
def NCCLBroadcast(first: Expr, *others: Expr, root: int = 0, outputs: int) -> tuple[Expr, ...]:
    """Broadcast of GPUs; blobs of other devices are refused."""
    _check_gpus("NCCLBroadcast", (first, *others), "Broadcast")
    return Broadcast(first, *others, root=root, outputs=outputs)


@net_operator()
def CopyToDevice(x: Expr, *, device: Annotated[str, "the name of a device"]) -> Expr:
    """The same values on another device: an operator runs where its operands are."""
    return to_device(x, find_device(device))


def _on(x: Expr, like: Expr) -> Expr:
    return x if x.device is like.device else to_device(x, like.device)


def _check(type: str, operands: Sequence[Expr], outputs: int) -> None:
    kinds = {(x.shape, x.dtype) for x in operands}
    if outputs != len(operands) or len(operands) > MOST or (len(kinds) > 1 and type != "Allgather"):
        raise OperandError(
            f"{', '.join([repr(x.type) for x in operands])} to {counted_text(outputs, 'output')}",
            rule=f"{type} must have one output for each input, {MOST} at most, and inputs of one shape and dtype",
            fix=f'net.{type}(["x0", "x1"], ["x0", "x1"])',
        )


def _check_gpus(type: str, operands: Sequence[Expr], anywhere: str) -> None:
    elsewhere = [x.device.name for x in operands if not isinstance(x.device, Cuda)]
    if elsewhere:
        raise OperandError(
            f"{type} of blobs on {', '.join(dict.fromkeys(elsewhere))}",
            rule=f"{type} must be placed on GPUs: it exists on no other device",
            fix=f"net.{anywhere}(…), which runs on every device",
        )
