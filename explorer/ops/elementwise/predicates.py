"""What floating numbers are: finite, infinite, not a number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from explorer.core.ir.examples import Example, integers, real
from explorer.ops.base import Ufunc

_EXAMPLES = (Example(real(2, 3)), Example(real()), Example(integers(3)))


class Predicate(Ufunc, abstract=True):
    """True or False for each element."""

    nondifferentiable = "truth values have no derivative"
    reuses_operand = False
    examples: ClassVar[tuple[Example, ...]] = _EXAMPLES


class IsNan(Predicate):
    """Whether an element is not a number."""

    name, ufunc = "isnan", np.isnan


class IsInf(Predicate):
    """Whether an element is infinite."""

    name, ufunc = "isinf", np.isinf


class IsFinite(Predicate):
    """Whether an element is a finite number."""

    name, ufunc = "isfinite", np.isfinite


class SignBit(Predicate):
    """Whether an element is below zero, or −0."""

    name, ufunc = "signbit", np.signbit
    examples = (Example(real(2, 3)), Example(real()))


isnan, isinf, isfinite, signbit = IsNan(), IsInf(), IsFinite(), SignBit()
