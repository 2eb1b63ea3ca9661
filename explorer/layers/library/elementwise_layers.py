"""Layers of one input that apply one operation to its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.layer import Layer
from explorer.ops.elementwise.trigonometric_and_logs import arccos, arccosh, arcsin, arcsinh
from explorer.ops.elementwise.unary import absolute, cos, relu, sigmoid, sin, square, tan, tanh


class Elementwise(Layer):
    """The elements of ``input``, each by itself."""

    operation: ClassVar[Callable[[Any], Expr] | None] = None

    def forward(self, input: Expr) -> Expr:
        """The operation's result, of the input's shape."""
        operation = type(self).operation
        if operation is None:
            raise DeclarationError(
                f"the elementwise layer class {type(self).__name__} without an operation",
                rule="it applies one operation",
                fix="operation = ex.tanh, for instance",
            )
        return operation(input)


class Absolute(Elementwise):
    """|x|."""

    operation = absolute


class Arccos(Elementwise):
    """The angle whose cosine is x, in radians."""

    operation = arccos


class Arccosh(Elementwise):
    """The inverse of cosh."""

    operation = arccosh


class Arcsin(Elementwise):
    """The angle whose sine is x, in radians."""

    operation = arcsin


class Arcsinh(Elementwise):
    """The inverse of sinh."""

    operation = arcsinh


class Cos(Elementwise):
    """The cosine of x in radians."""

    operation = cos


class Sin(Elementwise):
    """The sine of x in radians."""

    operation = sin


class Tan(Elementwise):
    """The tangent of x in radians."""

    operation = tan


class Square(Elementwise):
    """x²."""

    operation = square


class Sigmoid(Elementwise):
    """1 / (1 + e⁻ˣ)."""

    operation = sigmoid


class Tanh(Elementwise):
    """The hyperbolic tangent."""

    operation = tanh


class Relu(Elementwise):
    """x where it is positive, else 0."""

    operation = relu
