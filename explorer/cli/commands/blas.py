"""``explorer blas``: benchmarks OpenBLAS's cores and names the fastest on this machine."""

from __future__ import annotations

import argparse

from explorer.cli.support.terminal import say

HELP = "try which of OpenBLAS's kernels multiply fastest here"
DESCRIPTION = """\
NumPy's OpenBLAS picks its kernels by the processor, and not always the fastest. Each core that may run here is tried
in a process of its own: whether its products are right, and how fast they are. The answers are kept.

EXPLORER_BLAS=auto in the environment makes explorer use the fastest core, where that gains a tenth, and
EXPLORER_BLAS=SkylakeX that one; recordings then say so. Without the variable nothing is changed.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def execute(options: argparse.Namespace) -> int:
    """Benchmark all cores and print the results."""
    from explorer.blas.benchmark_runs import cores, fastest, processor, remember, run_trials

    trials = run_trials(cores())
    remember(trials)
    default = trials[0]
    say(f"{processor()}; NumPy multiplies with {default.library or default.wrong}")
    for trial in trials:
        name = trial.asked or "default"
        if trial.wrong:
            result = trial.wrong
        elif not trial.usable:
            result = f"not available: {trial.core} is used"
        else:
            result = f"{trial.gflops:7.1f} GFLOP/s" + f"  {trial.core}" * (not trial.asked)
        say(f"  {name:<16}{result}")
    if not default.offers_cores:
        say("nothing to choose: only OpenBLAS has selectable cores")
        return 0
    best = fastest(trials)
    say(f"EXPLORER_BLAS=auto uses {best.asked or 'its default choice: no core is a tenth faster'}")
    return 0
