"""Layers that combine several inputs, or rearrange one."""

from __future__ import annotations

import math
from typing import ClassVar

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.policy_classes import DimensionPolicy, InputPolicy
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import interpolate
from explorer.ops.linalg.tensordot import tensordot
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.nll_loss import nll_loss
from explorer.ops.nn.softmax import softmax


class Add(Layer):
    """Sum, left + right; a broadcast operand's gradient is summed back to its shape, as in all layers here."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """Record the sum."""
        return left + right


class Subtract(Layer):
    """Difference, left − right."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """Record the difference."""
        return left - right


class Multiply(Layer):
    """Elementwise product, left · right."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """Record the product."""
        return left * right


class Dot(Layer):
    """Contraction of the last axes of left with the first ones of right, ``DimensionPolicy.count`` of them, or one.

    With PRowVecInput ``left`` must be one row: a vector is treated as 1×n, and a matrix of more rows raises
    OperandError.
    """

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """Record the contraction."""
        count = self.select(DimensionPolicy).count
        if self.select(InputPolicy).row_vector:
            left = _row(left)
        if count == 1 and left.ndim and right.ndim == 2:
            return left @ right
        return tensordot(left, right, count)


def _row(x: Expr) -> Expr:
    """Return a single row: a vector as 1×n; raises OperandError for more rows."""
    if not x.ndim or math.prod(x.shape[:-1]) != 1:
        raise OperandError(
            f"the input {x.type} of a product",
            rule="with PRowVecInput the left input must be one row: a vector, or a matrix 1×n",
            fix="leave PRowVecInput out to multiply all rows",
        )
    return reshape(x, (1, x.shape[-1]))


class Interpolate(Layer):
    """Interpolation, first · weight + second · (1 − weight)."""

    inputs: ClassVar[tuple[str, ...]] = ("first", "second", "weight")

    def forward(self, first: Expr, second: Expr, weight: Expr) -> Expr:
        """Record the interpolated value."""
        return interpolate(first, second, weight)


class Softmax(Layer):
    """Softmax over the last ``DimensionPolicy.count`` axes."""

    def forward(self, input: Expr) -> Expr:
        """Record positive numbers that sum to one over the axes."""
        count = self.select(DimensionPolicy).count
        return softmax(input, axis=tuple(range(-count, 0)))


class Permute(Layer):
    """Transposition to the order of ``DimensionPolicy.axes``: axis i of the output is axis axes[i] of the input."""

    def prepare(self) -> None:
        """Check that an order is set."""
        super().prepare()
        if self.select(DimensionPolicy).axes is None:
            raise DeclarationError(
                f"{self!r} without an order of axes",
                rule="the order of axes must be set, because it has no default",
                fix="pass policies=[DimensionPolicy.axes((1, 0))]",
            )

    def forward(self, input: Expr) -> Expr:
        """Record the permuted input."""
        return transpose(input, self.select(DimensionPolicy).axes)


class NLLLoss(Layer):
    """Negative log likelihood of probabilities, −Σ weight · log(input) / Σ weight, a scalar."""

    inputs: ClassVar[tuple[str, ...]] = ("input", "weight")

    def forward(self, input: Expr, weight: Expr) -> Expr:
        """Record the loss."""
        return nll_loss(weight, input)
