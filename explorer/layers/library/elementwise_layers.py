"""Layers that apply one elementwise operation to one input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.layer import Layer
from explorer.ops.elementwise.trigonometric_and_logs import arccos, arccosh, arcsin, arcsinh
from explorer.ops.elementwise.unary import absolute, cos, relu, sigmoid, sin, square, tan, tanh


class Elementwise(Layer):
    """Base of layers that apply ``operation`` to each element of ``input``."""

    operation: ClassVar[Callable[[Any], Expr] | None] = None

    def forward(self, input: Expr) -> Expr:
        """Record the operation's result, of the input's shape."""
        operation = type(self).operation
        if operation is None:
            raise DeclarationError(
                f"the elementwise layer class {type(self).__name__} without an operation",
                rule="the class must set operation, a function of one expression",
                fix="operation = ex.tanh, for instance",
            )
        return operation(input)


class Absolute(Elementwise):
    """Absolute value, |x|."""

    operation = absolute


class Arccos(Elementwise):
    """Inverse cosine: the angle, in radians, whose cosine is x."""

    operation = arccos


class Arccosh(Elementwise):
    """Inverse hyperbolic cosine."""

    operation = arccosh


class Arcsin(Elementwise):
    """Inverse sine: the angle, in radians, whose sine is x."""

    operation = arcsin


class Arcsinh(Elementwise):
    """Inverse hyperbolic sine."""

    operation = arcsinh


class Cos(Elementwise):
    """Cosine of x in radians."""

    operation = cos


class Sin(Elementwise):
    """Sine of x in radians."""

    operation = sin


class Tan(Elementwise):
    """Tangent of x in radians."""

    operation = tan


class Square(Elementwise):
    """Square, x²."""

    operation = square


class Sigmoid(Elementwise):
    """Logistic sigmoid, 1 / (1 + e⁻ˣ)."""

    operation = sigmoid


class Tanh(Elementwise):
    """Hyperbolic tangent."""

    operation = tanh


class Relu(Elementwise):
    """Rectified linear unit: x if positive, else 0."""

    operation = relu
