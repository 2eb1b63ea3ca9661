"""Kernel costs measured on this machine, for plans with ``EvalPlan(costs="measured")``.

They replace the figures of the reference table (plan/graph/cost_model.py), so such plans may differ between machines.
Sizes are chosen so that one figure dominates each timing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from explorer.plan.graph.cost_model import CostModel

_ROUNDS = 7
_SMALL, _IN_CACHE, _LARGE, _PRODUCT = 8, 1 << 14, 1 << 23, 512
"""array sizes: one dominated by the call, one that fits a core's cache, and one that does not; matrix rows"""
_CALLS, _CALL_FACTOR = 1000, 2
"""calls timed together, since one is too short to time; our own loop doubles the cost of NumPy's call"""

_measured: CostModel | None = None


def calibrate() -> CostModel:
    """Measure the cost of kernels on this machine in about 0.1 s; later plans with ``costs="measured"`` use it.

    Return the times in µs of NumPy's call of a kernel and of a view, and the rates of elementwise operations, matrix
    products and memory, all for float32.

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
        # A copy reads each byte once and writes it once.
        bandwidth=round(2 * large.nbytes / _best(lambda: np.copyto(target, large)), 1),
    )
    _measured = cost_model
    return cost_model


def measured_cost_model() -> CostModel:
    """Return the most recent costs measured in this process; measure them now if there are none."""
    return calibrate() if _measured is None else _measured


def _best(work: Callable[[], object]) -> float:
    """Return the shortest of several timings of a call in µs."""
    times = []
    for _ in range(_ROUNDS):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    # The minimum rather than the mean, because other processes only add time.
    return max(1, min(times)) / 1000
