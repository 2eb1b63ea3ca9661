"""Operation with a side effect: it counts the runs of its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex


class Counting(ex.Elementwise):
    """Return x and increment a counter, which is a side effect."""

    weight, defined_everywhere, pure = 1, True, False
    nondifferentiable = "a test"
    examples = (ex.Example(ex.real(2)),)
    runs = 0

    def kernel(self, out: Any, x: Any) -> Any:
        type(self).runs += 1
        np.copyto(out, x)
        return out
