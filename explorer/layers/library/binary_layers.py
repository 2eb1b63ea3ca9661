"""Layers that combine inputs, or arrange one."""

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
from explorer.ops.nn.softmax_and_loss import nll_loss, softmax


class Add(Layer):
    """left + right; a broadcast operand's gradient is summed back to its shape, as in all of these."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """The sum."""
        return left + right


class Subtract(Layer):
    """left − right."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """The difference."""
        return left - right


class Multiply(Layer):
    """left · right, element by element."""

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """The product of the elements."""
        return left * right


class Dot(Layer):
    """Contracts the last axes of left with the first ones of right, as many as ``DimensionPolicy.count``, or one.

    With PRowVecInput ``left`` is one row: a vector is taken for 1×n, and a matrix of more rows is refused.
    """

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """The contraction."""
        count = self.select(DimensionPolicy).count
        if self.select(InputPolicy).row_vector:
            left = _row(left)
        if count == 1 and left.ndim and right.ndim == 2:
            return left @ right
        return tensordot(left, right, count)


def _row(x: Expr) -> Expr:
    """A single row: a vector as 1×n; raises OperandError for more rows."""
    if not x.ndim or math.prod(x.shape[:-1]) != 1:
        raise OperandError(
            f"the input {x.type} of a product",
            rule="with PRowVecInput it must be one row: a vector, or a matrix 1×n",
            fix="leave the policy out, and rows are multiplied together",
        )
    return reshape(x, (1, x.shape[-1]))


class Interpolate(Layer):
    """first · weight + second · (1 − weight)."""

    inputs: ClassVar[tuple[str, ...]] = ("first", "second", "weight")

    def forward(self, first: Expr, second: Expr, weight: Expr) -> Expr:
        """The value between both."""
        return interpolate(first, second, weight)


class Softmax(Layer):
    """Softmax over the last ``DimensionPolicy.count`` axes."""

    def forward(self, input: Expr) -> Expr:
        """Positive numbers that sum to one over the axes."""
        count = self.select(DimensionPolicy).count
        return softmax(input, axis=tuple(range(-count, 0)))


class Permute(Layer):
    """The axes in the order of ``DimensionPolicy.axes``: axis i of the output is axis axes[i] of the input."""

    def prepare(self) -> None:
        """An order has to be given."""
        super().prepare()
        if self.select(DimensionPolicy).axes is None:
            raise DeclarationError(
                f"{self!r} without an order of axes",
                rule="the order has no default",
                fix="pass policies=[DimensionPolicy.axes((1, 0))]",
            )

    def forward(self, input: Expr) -> Expr:
        """The permuted input."""
        return transpose(input, self.select(DimensionPolicy).axes)


class NLLLoss(Layer):
    """−Σ weight · log(input) / Σ weight: the negative log likelihood of probabilities, a scalar."""

    inputs: ClassVar[tuple[str, ...]] = ("input", "weight")

    def forward(self, input: Expr, weight: Expr) -> Expr:
        """The loss."""
        return nll_loss(weight, input)
