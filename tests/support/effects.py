"""An operation with an effect: each run of its kernel is counted."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex


class Counting(ex.Elementwise):
    """x, and one more on a counter: an effect."""

    weight, defined_everywhere, pure = 1, True, False
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)
    runs = 0

    def kernel(self, out: Any, x: Any) -> Any:
        type(self).runs += 1
        np.copyto(out, x)
        return out
