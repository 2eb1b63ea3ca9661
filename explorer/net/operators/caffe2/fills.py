"""Operator types that create values: constants, and random numbers from a seed and the blob's name.

Each blob has its own counter-based generator, so its random numbers depend only on the seed and the blob's name.
Inserting, removing or reordering operators does not change the random numbers of other operators.
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
    shape: Annotated[tuple[int, ...] | None, "required without a blob"] = None,
    value: bool | int | float = 0.0,
    dtype: Annotated[str, "'like' is the dtype of the blob"] = "float32",
) -> Expr:
    """Return a tensor whose elements are all ``value``, with the given shape or the shape of the blob ``like``."""
    size = shape if like is None else like.shape
    if size is None or (like is not None and shape is not None):
        raise OperandError(
            f"shape={shape} with {'no' if like is None else 'a'} input blob",
            rule="ConstantFill: the shape must be given either by shape or by an input blob",
            fix="give shape=(…), or read a blob with that shape",
        )
    return full(size, value, like.dtype if dtype == "like" and like is not None else dtype)


@net_operator(gradient="none")
def GivenTensorFill(*, values: Tensor) -> Expr:
    """Return the values given when the operator was added; they are saved with the net."""
    return values


@net_operator(gradient="none")
def UniformFill(*, shape: tuple[int, ...], min: float = 0.0, max: float = 1.0, seed: int = 0, blob: str) -> Expr:
    """Return uniform random numbers from min to max, which depend on the seed and the name of the blob."""
    return _placed(random_uniform(shape, min, max, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def GaussianFill(*, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, seed: int = 0, blob: str) -> Expr:
    """Return normally distributed random numbers, which depend on the seed and the name of the blob."""
    return _placed(random_normal(shape, mean, std, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def XavierFill(*, shape: tuple[int, ...], seed: int = 0, blob: str) -> Expr:
    """Return uniform random numbers within ±√(3 / n), where n is the size of a row (Glorot and Bengio, 2010)."""
    limit = math.sqrt(3 / _row(shape))
    return _placed(random_uniform(shape, -limit, limit, seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def MSRAFill(*, shape: tuple[int, ...], seed: int = 0, blob: str) -> Expr:
    """Return normally distributed random numbers with variance 2 / n, where n is the size of a column (He, 2015)."""
    column = math.prod(shape) // max(1, shape[1]) if len(shape) > 1 else math.prod(shape)
    return _placed(random_normal(shape, 0.0, math.sqrt(2 / max(1, column)), seed=seed, counter=_counter(blob)))


@net_operator(gradient="none")
def UniqueUniformFill(*, shape: tuple[int, ...], min: int = 0, max: int = 1, seed: int = 0, blob: str) -> Expr:
    """Return distinct random integers from min to max (inclusive)."""
    count = math.prod(shape)
    if max - min + 1 < count:
        raise OperandError(
            f"{counted_text(count, 'number')} from {min} to {max}",
            rule="UniqueUniformFill: there must be at least as many integers as elements",
            fix=f"max={min + count}",
        )
    keys = _placed(random_uniform((max - min + 1,), seed=seed, counter=_counter(blob), dtype="float64"))
    return reshape(argsort(keys, 0)[:count] + min, shape)


def _placed(draw: Expr) -> Expr:
    """Return random numbers on the device for which expressions are recorded.

    They are generated on cpu and copied, so they are the same for all devices.
    """
    return draw if state.device is cpu else to_device(draw, state.device)


def _counter(blob: str) -> int:
    """Return the counter for a blob's random numbers: a 128-bit hash of its name, equal on all machines."""
    return int.from_bytes(hashlib.blake2b(blob.encode(), digest_size=16).digest(), "little")


def _row(shape: tuple[int, ...]) -> int:
    return max(1, math.prod(shape) // shape[0]) if shape and shape[0] else 1
