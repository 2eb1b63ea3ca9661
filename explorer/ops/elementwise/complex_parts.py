"""The parts of complex numbers; real numbers are complex numbers whose imaginary part is 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array
from explorer.ops.base import Elementwise, Ufunc
from explorer.ops.elementwise.unary import ANY

__all__ = ["conjugate", "imaginary_part", "real_part"]


class Conjugate(Ufunc):
    """The complex conjugate, whose imaginary part has the opposite sign; real numbers are unchanged."""

    ufunc, examples = np.conjugate, ANY

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g,)


class Part(Elementwise, abstract=True):
    """Base class of the parts of complex numbers; their dtype is float32 for complex64."""

    examples = ANY

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        (dtype,) = dtypes
        return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


class RealPart(Part):
    """The real part of complex numbers; real numbers are unchanged."""

    def kernel(self, out: Array, x: Array) -> Array:
        np.copyto(out, x.real)
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g,)


class ImaginaryPart(Part):
    """The imaginary part of complex numbers; 0 for real numbers."""

    nondifferentiable = "the imaginary part of a real number is always 0"

    def kernel(self, out: Array, x: Array) -> Array:
        out[...] = x.imag if x.dtype.kind == "c" else 0
        return out


conjugate, real_part, imaginary_part = Conjugate(), RealPart(), ImaginaryPart()
