"""Fixed views: views of memory that is the same in every run, so that their readers cut their blocks once."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import Array
from explorer.ops.manipulation.reshape import Reshape
from explorer.run.kernels.runners import BoundStep, Runner, Values

_KEPT_COPY = 2**16
"""bytes of a copied reshape up to which it has memory of its own: of larger ones the calls between them cost nothing"""


class FixedView:
    """View of memory that is the same in every run."""

    def __init__(self, view: Any) -> None:
        self.value = view

    def __call__(self, values: Values) -> Any:
        """Return the view."""
        return self.value

    def bound_steps(self) -> list[BoundStep]:
        """Return nothing: there is nothing to compute."""
        return []


class FixedCopy:
    """Copy, in row-major order, of memory that is the same in every run, into memory that is, too."""

    def __init__(self, source: Array, memory: Array) -> None:
        self.value = memory
        self._copy = functools.partial(np.copyto, memory.reshape(source.shape), source)

    def __call__(self, values: Values) -> Array:
        """Copy, and return the copy."""
        self._copy()
        return self.value

    def bound_steps(self) -> list[BoundStep]:
        """Return the call that copies."""
        return [(self._copy, None, None)]


def fixed_view(operation: Operation, runner: Runner, values: Values, source: Any) -> FixedView | FixedCopy | None:
    """Return the runner of a view of ``source``, which lies at one address; None where its result is new in each run.

    A reshape of memory in another order copies, in every run. A small copy has memory of its own; it is never handed
    out, since results do not show planned memory, and those that show a parameter's value are copied.
    """
    if not isinstance(source, (tuple, np.ndarray)):  # a constant not computed yet, or another device's value
        return None
    view = runner(values)
    if isinstance(source, tuple) or np.may_share_memory(view, source):
        return FixedView(view)
    return FixedCopy(source, view) if isinstance(operation, Reshape) and view.nbytes <= _KEPT_COPY else None
