"""Elements chosen by numbers, by order and by truth: look-up, sorting, masks.

A type has up to three spellings (``torch.topk``, ``Tensor.topk``, ``aten::topk``), whose arguments go by name at level
2 and by position at level 0; ``arguments.py`` reads either.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import flag, integer, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.reduce import added_as
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.gather import TakeAlong, take
from explorer.ops.manipulation.one_hot import one_hot
from explorer.ops.manipulation.rearrange import tril, triu
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.reduction.sorting import argmax, argmin, argsort, cumsum, topk


def _enter_place(name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def place(op: OperatorContext) -> Expr:
        axis = value(op, 1, "dim", None)
        if axis is not None:
            axis = integer(op, 1, "dim")
        return (argmax if name == "argmax" else argmin)(op.x, axis, flag(op, 2, "keepdim", False))

    place.__doc__ = f"The place of the extreme element: {name}."


for _name in ("argmax", "argmin"):
    _enter_place(_name)


@file_operator("torch.topk", "Tensor.topk", "aten::topk", ignored=("sorted", 4))
def topk_(op: OperatorContext) -> tuple[Expr, Expr]:
    """The largest or smallest elements along an axis in order, and their places."""
    return topk(op.x, integer(op, 1, "k"), integer(op, 2, "dim", -1), flag(op, 3, "largest", True))


def _order(op: OperatorContext) -> tuple[int, bool]:
    """The axis and whether the order descends; at level 0 a stable sort says so between input and axis."""
    value(op, 1, "stable", None)  # the order is a stable one whether that is asked for or not
    first = 2 if len(op.passed) > 3 else 1
    axis = normalize_axis(integer(op, first, "dim", -1), op.x.ndim, "sort")
    return axis, flag(op, first + 1, "descending", False)


@file_operator("torch.sort", "Tensor.sort", "aten::sort")
def sort(op: OperatorContext) -> tuple[Expr, Expr]:
    """The elements along an axis in order, and their places."""
    axis, descending = _order(op)
    numbers = argsort(op.x, axis, descending)
    return TakeAlong(axis)(op.x, numbers), numbers


@file_operator("torch.msort", "aten::msort")
def msort(op: OperatorContext) -> Expr:
    """The elements along the first axis in order."""
    x = op.x
    return TakeAlong(0)(x, argsort(x, 0))


@file_operator("torch.argsort", "Tensor.argsort", "aten::argsort")
def argsort_(op: OperatorContext) -> Expr:
    """The places of the elements along an axis in order."""
    return argsort(op.x, *_order(op))


@file_operator("torch.cumsum", "Tensor.cumsum", "aten::cumsum")
def cumsum_(op: OperatorContext) -> Expr:
    """Running sums along an axis."""
    dtype = added_as(op, op.x)
    return cast(cumsum(cast(op.x, dtype), integer(op, 1, "dim")), dtype)


@file_operator("torch.gather", "Tensor.gather", "aten::gather", ignored=("sparse_grad", 3))
def gather(op: OperatorContext) -> Expr:
    """For each number the element at its place but for one axis, where the number says which."""
    x, axis = op.x, integer(op, 1, "dim")
    numbers = op.tensor(1 if op.has("dim") else 2, "index")
    if numbers.ndim != x.ndim:
        raise OperandError(f"index {numbers.type} into {x.type}", rule="both must have as many axes")
    place = normalize_axis(axis, x.ndim, "gather")
    # torch's index may be shorter along the other axes: the rest is not read
    kept = [slice(None) if i == place else slice(size) for i, size in enumerate(numbers.shape)]
    return TakeAlong(place)(part_of(x, tuple(kept)), numbers)


@file_operator("torch.index_select", "Tensor.index_select", "aten::index_select")
def index_select(op: OperatorContext) -> Expr:
    """The parts of an axis at numbers."""
    return take(op.x, op.tensor(1 if op.has("dim") else 2, "index"), integer(op, 1, "dim"))


@file_operator("torch.take", "Tensor.take", "aten::take")
def take_(op: OperatorContext) -> Expr:
    """The elements at places in the tensor without its axes."""
    x = op.x
    return take(reshape(x, (x.size,)), op.tensor(1, "index"), 0)


@file_operator("Tensor.masked_fill", "torch.masked_fill", "aten::masked_fill")
def masked_fill(op: OperatorContext) -> Expr:
    """A value where the mask holds, the elements elsewhere."""
    x, fill = op.x, value(op, 2, "value")
    if x.dtype.kind == "b" and isinstance(fill, (int, float)):
        fill = bool(fill)
    return where(op.tensor(1, "mask"), cast(fill, x.dtype) if isinstance(fill, Expr) else fill, x)


@file_operator("torch.tril", "Tensor.tril", "aten::tril")
def tril_(op: OperatorContext) -> Expr:
    """Matrices with zeros above a diagonal."""
    return tril(op.x, integer(op, 1, "diagonal", 0))


@file_operator("torch.triu", "Tensor.triu", "aten::triu")
def triu_(op: OperatorContext) -> Expr:
    """Matrices with zeros below a diagonal."""
    return triu(op.x, integer(op, 1, "diagonal", 0))


@file_operator("F.one_hot", "aten::one_hot")
def one_hot_(op: OperatorContext) -> Expr:
    """A row for each class number; the number of classes is known."""
    classes = integer(op, 1, "num_classes", -1)
    if classes < 1:
        raise OperandError(
            f"num_classes={classes}", rule="num_classes must be given, so that the shape is known before a run"
        )
    return one_hot(op.x, classes, np.int64)


def _enter_logic(name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def logic(op: OperatorContext) -> Expr:
        operands = [op.tensor(position) for position in range(len(op.passed))]
        truths = [x if x.dtype.kind == "b" else x != 0 for x in operands]
        result: Expr = function(name)(*truths)
        return result

    logic.__doc__ = f"{name} of truths, element by element; numbers are true where they are not 0."


for _name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
    _enter_logic(_name)


def _enter_bits(name: str, word: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def bits(op: OperatorContext) -> Expr:
        operands = (op.x,) if name == "bitwise_not" else (op.x, value(op, 1, "other"))
        result: Expr = function(word)(*operands)
        return result

    bits.__doc__ = f"{name} of whole numbers, bit by bit, or of truths."


for _name, _word in {
    "bitwise_not": "invert", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}.items():  # fmt: skip
    _enter_bits(_name, _word)


def _enter_predicate(name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def predicate(op: OperatorContext) -> Expr:
        result: Expr = function(name)(op.x)
        return result

    predicate.__doc__ = f"{name}, element by element."


for _name in ("isnan", "isinf", "isfinite", "signbit"):
    _enter_predicate(_name)


def _enter_extreme(name: str) -> None:
    @file_operator(f"torch.{name}")
    def extreme(op: OperatorContext) -> Any:
        if len(op.passed) > 1 and isinstance(op.operand(1), Expr):
            result: Expr = function(f"{name}imum")(op.x, op.operand(1))
            return result
        reduce, place = function(name), argmax if name == "max" else argmin
        if value(op, 1, "dim", None) is None:
            return reduce(op.x)
        x, keepdims = op.x, flag(op, 2, "keepdim", False)
        axis = normalize_axis(integer(op, 1, "dim"), x.ndim, name)
        numbers = place(x, axis, True)
        kept = TakeAlong(axis)(x, numbers)
        if not keepdims:
            shape = (*x.shape[:axis], *x.shape[axis + 1 :])
            kept, numbers = reshape(kept, shape), reshape(numbers, shape)
        return kept if len(op.definition.outputs) == 1 else (kept, numbers)

    extreme.__doc__ = f"The {name}imum of all elements, of two tensors, or along an axis with its place."


for _name in ("max", "min"):
    _enter_extreme(_name)
