"""Operator types that make values: constants, and random numbers by a seed and the name of their blob.

Random numbers are those of counters, not of a stream: a draw depends on its seed and the name of its blob alone. So
operators may be inserted, removed and reordered, and the numbers of all others stay.
"""

from __future__ import annotations

import hashlib
import math
from typing import Annotated

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import state
from explorer.core.ir.tensor import Tensor
from explorer.core.types.device import cpu
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import reshape
from explorer.ops.creation.constants import full
from explorer.ops.manipulation.device_copy import to_device
from explorer.ops.random import random_normal, random_uniform
from explorer.ops.reduction.sorting import argsort
from explorer.record.reasons import counted_text


@net_operator(gradient="none")
def ConstantFill(
    like: Expr | None = None,
    *,
    shape: Annotated[tuple[int, ...] | None, "where no blob gives it"] = None,
    value: bool | int | float = 0.0,
    dtype: Annotated[str, "'like' is that of the blob"] = "float32",
) -> Expr:
    """One value everywhere, in the given shape or that of a blob."""
    size = shape if like is None else like.shape
    if size is None or (like is not None and shape is not None):
        raise OperandError(
            f"shape={shape} with {'no' if like is None else 'a'} blob to be like",
            rule="ConstantFill: the shape must be given once",
            fix="give shape=(…), or read a blob of that shape",
        )
    return full(size, value, like.dtype if dtype == "like" and like is not None else dtype)


@net_operator(gradient="none")
def GivenTensorFill(*, values: Tensor) -> Expr:
    """The values given when the net was written; they are saved with it."""
    return values


@net_operator(gradient="none")
def UniformFill(*, shape: tuple[int, ...], min: float = 0.0, max: float = 1.0, seed: int = 0, blob: str) -> Expr:
    """Numbers drawn evenly from min to max; other blobs of the same seed are drawn otherwise."""
    return _placed(random_uniform(shape, min, max, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def GaussianFill(*, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, seed: int = 0, blob: str) -> Expr:
    """Numbers of a normal distribution; other blobs of the same seed are drawn otherwise."""
    return _placed(random_normal(shape, mean, std, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def XavierFill(*, shape: tuple[int, ...], seed: int = 0, blob: str) -> Expr:
    """Numbers drawn evenly within ±√(3 / n), where n is the size of a row (Glorot and Bengio, 2010)."""
    limit = math.sqrt(3 / _row(shape))
    return _placed(random_uniform(shape, -limit, limit, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def MSRAFill(*, shape: tuple[int, ...], seed: int = 0, blob: str) -> Expr:
    """Numbers of a normal distribution of variance 2 / n, where n is the number of columns' elements (He, 2015)."""
    outward = math.prod(shape) // max(1, shape[1]) if len(shape) > 1 else math.prod(shape)
    return _placed(random_normal(shape, 0.0, math.sqrt(2 / max(1, outward)), seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def UniqueUniformFill(*, shape: tuple[int, ...], min: int = 0, max: int = 1, seed: int = 0, blob: str) -> Expr:
    """Whole numbers from min to max (included), none of them twice."""
    count = math.prod(shape)
    if max - min + 1 < count:
        raise OperandError(
            f"{counted_text(count, 'number')} from {min} to {max}",
            rule="UniqueUniformFill: there must be as many numbers as elements",
            fix=f"max={min + count}",
        )
    keys = _placed(random_uniform((max - min + 1,), seed=seed, counter=_counter(blob), dtype="float64"))
    return reshape(argsort(keys, 0)[:count] + min, shape)


def _placed(draw: Expr) -> Expr:
    """Return a draw on the device that the net is recorded for; it is made on cpu, the same for every device."""
    return draw if state.device is cpu else to_device(draw, state.device)


def _counter(blob: str) -> int:
    """Return the counter of a blob's draw: its name in 128 bits, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(blob.encode(), digest_size=16).digest(), "little")


def _row(shape: tuple[int, ...]) -> int:
    return max(1, math.prod(shape) // shape[0]) if shape and shape[0] else 1
