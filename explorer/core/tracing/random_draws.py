"""Warning for bodies that draw random numbers from a global generator while they are traced.

A body runs once for many calls, so all these calls use the same random numbers. The states of the global generators of
``random`` and ``numpy.random`` are compared before and after the body runs. Captured generators are rejected
(captures.py). Generators that a body creates cannot be detected, and neither can clocks and files. If another thread
draws at the same time, as Dask's threads do rarely, the warning is wrong, because a generator's state does not show
which thread drew.
"""

from __future__ import annotations

import contextlib
import pickle
import random
from collections.abc import Iterator
from typing import Any

from explorer.core.ir.recording_context import state
from explorer.core.ir.source_location import INTERNAL
from explorer.record.caller_warning import warn_caller


class RandomTraced(UserWarning):
    """Warning that a body drew random numbers while it was traced, so all its calls use the same numbers."""


@contextlib.contextmanager
def watched_draws(name: str) -> Iterator[None]:
    """Warn if the block, which traces the body ``name``, draws from a global generator; the outermost block warns."""
    if state.watches_draws:
        yield
        return
    initial_states, state.watches_draws = _states(), True
    try:
        yield
    finally:
        state.watches_draws = False
    modules = [module for module, generator in _states().items() if generator != initial_states[module]]
    if modules:
        message = (
            f"{name} draws from {' and '.join(modules)} while it is traced: every call of this trace uses the same "
            "numbers; draw them before the call and pass them as arguments, or use ex.random_normal or "
            "ex.random_uniform with a counter"
        )
        warn_caller(message, RandomTraced, (*INTERNAL, contextlib.__file__))


def _states() -> dict[str, Any]:
    # imported here, because NumPy loads it lazily
    from numpy.random import get_state

    return {"random": random.getstate(), "numpy.random": pickle.dumps(get_state(legacy=False))}
