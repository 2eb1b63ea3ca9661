"""Kernel costs measured on this machine, for plans with ``EvalPlan(costs="measured")``.

They replace the reference costs (plan/graph/cost_model.py), so such plans may differ between machines. Array sizes are
chosen so that a single cost dominates each measured time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from explorer.plan.graph.cost_model import CostModel

_ROUNDS = 7
_SMALL, _IN_CACHE, _LARGE, _PRODUCT = 8, 1 << 14, 1 << 23, 512
"""numbers of elements of three arrays: a small array, for which most of the time is spent in the call, an array that
fits into a core's cache, and an array that does not; number of rows of a matrix
"""
_CALLS, _CALL_FACTOR = 1000, 2
"""number of calls that are timed together, since a single call is too short to time; factor by which the measuring loop
increases the time of a call
"""

_measured: CostModel | None = None


def calibrate() -> CostModel:
    """Measure kernel costs on this machine in about 0.1 s; later plans with ``costs="measured"`` use them.

    Return the times in µs of a NumPy call and of creating a view, and the rates of elementwise operations, matrix
    products and memory, for float32.

    >>> model = ex.calibrate()
    >>> plan = ex.EvalPlan(costs="measured")
    """
    global _measured
    small, cached, large = [np.ones(count, np.float32) for count in (_SMALL, _IN_CACHE, _LARGE)]
    square = np.ones((_PRODUCT, _PRODUCT), np.float32)
    small_sum, cached_sum = np.empty_like(small), np.empty_like(cached)
    target, product = np.empty_like(large), np.empty_like(square)

    def call() -> None:
        for _ in range(_CALLS):
            np.add(small, small, out=small_sum)

    def view() -> None:
        for _ in range(_CALLS):
            small[1:]

    cost_model = CostModel(
        call=round(_CALL_FACTOR * _best(call) / _CALLS, 3),
        view=round(_CALL_FACTOR * _best(view) / _CALLS, 3),
        flops=round(cached.size / _best(lambda: np.add(cached, cached, out=cached_sum)), 1),
        product_flops=round(2 * _PRODUCT**3 / _best(lambda: np.matmul(square, square, out=product)), 1),
        # A copy reads each byte once and writes each byte once.
        bandwidth=round(2 * large.nbytes / _best(lambda: np.copyto(target, large)), 1),
    )
    _measured = cost_model
    return cost_model


def measured_cost_model() -> CostModel:
    """Return the costs that were last measured in this process; measure them now if there are none."""
    return calibrate() if _measured is None else _measured


def _best(work: Callable[[], object]) -> float:
    """Call ``work`` several times and return the shortest time in µs."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    # Not the mean, because other processes only add time.
    return max(1, min(times)) / 1000
