"""Core selection: made from the environment before NumPy is loaded."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass

from explorer.blas.benchmark_runs import CORETYPE, VARIABLE, cores, fastest, remember, remembered, run_trials
from explorer.core.errors import UnknownNameError


@dataclass(frozen=True)
class Choice:
    """Requested core, the core that OpenBLAS was told to use (empty: its default), and the reason."""

    asked: str
    core: str
    why: str

    def __str__(self) -> str:
        return f"{self.core or 'its own choice'} ({self.why})"


def choose(asked: str) -> Choice | None:
    """Make OpenBLAS use a core, with ``auto`` the fastest one with correct results; None if none is requested.

    A request that cannot be met causes a warning and changes nothing. Raises UnknownNameError for an unknown core.
    """
    if not asked:
        return None
    known = ("auto", *cores())
    if asked not in known:
        raise UnknownNameError(asked, kind=f"core for {VARIABLE}", known=known)
    set_already = os.environ.get(CORETYPE)
    if set_already:
        return _declined(asked, f"{CORETYPE}={set_already} is set, and rules", warn=asked not in ("auto", set_already))
    if "numpy" in sys.modules:
        return _declined(asked, "NumPy was loaded before explorer: import explorer first")
    trials = remembered()
    if not trials:
        trials = run_trials(cores())
        remember(trials)
    own = trials[0]
    if not own.offers_cores:
        return _declined(asked, f"{own.wrong or 'NumPy multiplies with ' + own.library}, and only OpenBLAS has cores")
    best = fastest(trials) if asked == "auto" else next(trial for trial in trials if trial.asked == asked)
    if not best.usable:
        return _declined(asked, best.wrong or f"OpenBLAS has no kernels for it here and uses {best.core}")
    if not best.asked:
        return Choice(asked, "", f"{own.core} at {own.gflops:.0f} GFLOP/s; no core is a tenth faster")
    os.environ[CORETYPE] = best.asked
    return Choice(asked, best.asked, f"{best.gflops:.0f} GFLOP/s; {own.core} by itself {own.gflops:.0f}")


def _declined(asked: str, why: str, warn: bool = True) -> Choice:
    if warn:
        warnings.warn(f"{VARIABLE}={asked} changes nothing: {why}", RuntimeWarning, stacklevel=4)
    return Choice(asked, "", why)
