"""Fixed views: views of memory that is the same in every run, so that their readers cut their blocks once."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.run.kernels.runners import BoundStep, Runner, Values


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


def fixed_view(runner: Runner, values: Values, source: Any) -> FixedView | None:
    """Return the runner of a view of ``source``, which lies at one address; None where its result is new in each run.

    That is a reshape of a parameter's value whose strides allow no view.
    """
    if not isinstance(source, (tuple, np.ndarray)):  # a constant not computed yet, or another device's value
        return None
    view = runner(values)
    # A copy of the values of this run would be handed out in all later ones.
    return FixedView(view) if isinstance(source, tuple) or np.may_share_memory(view, source) else None
