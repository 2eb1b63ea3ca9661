"""Layers that apply one operation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.policy_classes import DimensionPolicy, InputPolicy
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import add, interpolate, multiply, subtract
from explorer.ops.elementwise.trigonometric_and_logs import arccos, arccosh, arcsin, arcsinh
from explorer.ops.elementwise.unary import absolute, cos, relu, sigmoid, sin, square, tan, tanh
from explorer.ops.linalg.tensordot import tensordot
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.nll_loss import nll_loss
from explorer.ops.nn.softmax import softmax


class Elementwise(Layer):
    """Base class of layers that apply ``operation`` elementwise to their inputs, in the order of the ports."""

    operation: ClassVar[Callable[..., Expr] | None] = None

    def forward(self, **inputs: Expr) -> Expr:
        """Record ``operation`` applied to the inputs."""
        operation = type(self).operation
        if operation is None:
            raise DeclarationError(
                f"the elementwise layer class {type(self).__name__} without an operation",
                rule="the class must set operation, a function of one expression",
                fix="operation = ex.tanh",
            )
        return operation(*[inputs[port] for port in self.inputs])


def _layer(
    name: str, operation: Callable[..., Expr], doc: str, inputs: tuple[str, ...] = ("input",)
) -> type[Elementwise]:
    return type(
        name, (Elementwise,), {"__doc__": doc, "__module__": __name__, "operation": operation, "inputs": inputs}
    )


Absolute = _layer("Absolute", absolute, "Absolute value, |x|.")
Arccos = _layer("Arccos", arccos, "Inverse cosine: the angle in radians whose cosine is x.")
Arccosh = _layer("Arccosh", arccosh, "Inverse hyperbolic cosine.")
Arcsin = _layer("Arcsin", arcsin, "Inverse sine: the angle in radians whose sine is x.")
Arcsinh = _layer("Arcsinh", arcsinh, "Inverse hyperbolic sine.")
Cos = _layer("Cos", cos, "Cosine of x in radians.")
Sin = _layer("Sin", sin, "Sine of x in radians.")
Tan = _layer("Tan", tan, "Tangent of x in radians.")
Square = _layer("Square", square, "Square, x².")
Sigmoid = _layer("Sigmoid", sigmoid, "Logistic sigmoid, 1 / (1 + e⁻ˣ).")
Tanh = _layer("Tanh", tanh, "Hyperbolic tangent.")
Relu = _layer("Relu", relu, "Rectified linear unit: x if positive, else 0.")
Add = _layer(
    "Add",
    add,
    "Sum, left + right. As in all layers here, the gradient of a broadcast operand is summed to its shape.",
    ("left", "right"),
)
Subtract = _layer("Subtract", subtract, "Difference, left − right.", ("left", "right"))
Multiply = _layer("Multiply", multiply, "Elementwise product, left · right.", ("left", "right"))
Interpolate = _layer(
    "Interpolate", interpolate, "Interpolation, first · weight + second · (1 − weight).", ("first", "second", "weight")
)


class Dot(Layer):
    """Sum of products over the last axes of left and the first axes of right.

    ``DimensionPolicy.count`` is the number of these axes, one by default. With PRowVecInput, ``left`` must be a single
    row or a vector, which is treated as 1×n; OperandError is raised if it has more rows.
    """

    inputs: ClassVar[tuple[str, ...]] = ("left", "right")

    def forward(self, left: Expr, right: Expr) -> Expr:
        """Record the sum of products."""
        count = self.select(DimensionPolicy).count
        if self.select(InputPolicy).row_vector:
            left = _row(left)
        if count == 1 and left.ndim and right.ndim == 2:
            return left @ right
        return tensordot(left, right, count)


def _row(x: Expr) -> Expr:
    if not x.ndim or math.prod(x.shape[:-1]) != 1:
        raise OperandError(
            f"the input {x.type} of a product",
            rule="with PRowVecInput, the left input must be one row: a vector or a 1×n matrix",
            fix="omit PRowVecInput to multiply all rows",
        )
    return reshape(x, (1, x.shape[-1]))


class Softmax(Layer):
    """Softmax over the last ``DimensionPolicy.count`` axes."""

    def forward(self, input: Expr) -> Expr:
        """Record the softmax."""
        count = self.select(DimensionPolicy).count
        return softmax(input, axis=tuple(range(-count, 0)))


class Permute(Layer):
    """Transposition by ``DimensionPolicy.axes``: axis i of the output is axis axes[i] of the input."""

    def prepare(self) -> None:
        """Raise DeclarationError unless DimensionPolicy.axes is set."""
        super().prepare()
        if self.select(DimensionPolicy).axes is None:
            raise DeclarationError(
                f"{self!r} without an order of axes",
                rule="DimensionPolicy.axes must be set, because it has no default",
                fix="pass policies=[DimensionPolicy.axes((1, 0))]",
            )

    def forward(self, input: Expr) -> Expr:
        """Record the permuted input."""
        return transpose(input, self.select(DimensionPolicy).axes)


class NLLLoss(Layer):
    """Negative log likelihood of probabilities: −Σ weight · log(input) / Σ weight, a scalar."""

    inputs: ClassVar[tuple[str, ...]] = ("input", "weight")

    def forward(self, input: Expr, weight: Expr) -> Expr:
        """Record the loss."""
        return nll_loss(weight, input)
