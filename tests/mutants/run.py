"""``make mutants``: try the named mutants, or ones drawn at random, and print which no test kills.

make mutants                                    the named ones
make mutants ARGS="--only plan"                 of one package
make mutants ARGS="--sample 20 --seed 3 --only run"   drawn ones
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from tests.mutants.bench import attempts
from tests.mutants.catalogue import PACKAGES, named, package_of
from tests.mutants.sampling import sample


def main() -> int:
    """Return 0 if every mutant that must be killed is, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(PACKAGES), help="a package; several may be named")
    parser.add_argument("--sample", type=int, default=0, help="draw so many a package instead of the named ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    options = parser.parse_args()
    packages = options.only or sorted(PACKAGES)
    if options.sample:
        mutants = [m for p in packages for m in sample(p, options.sample, options.seed, PACKAGES[p])]
    else:
        mutants = [mutant for mutant in named() if package_of(mutant.file) in packages]
    counts: dict[str, Counter[str]] = {package: Counter() for package in packages}
    wrong = 0
    for verdict in attempts(mutants, options.jobs):
        mutant, outcome = verdict.mutant, verdict.outcome
        if outcome == "survived" and mutant.survives:
            outcome = "answered"
        counts[package_of(mutant.file)][outcome] += 1
        wrong += outcome in ("survived", "broken")
        detail = mutant.survives if outcome == "answered" else verdict.told
        sys.stdout.write(f"{outcome:9} {mutant.name}  {detail}\n")
        if outcome in ("survived", "broken"):
            sys.stdout.write(f"          - {mutant.old}\n          + {mutant.new}\n")
        sys.stdout.flush()
    sys.stdout.write("\npackage     mutants  killed  survived  answered  broken\n")
    for package, row in {**counts, "all": sum(counts.values(), Counter())}.items():
        figures = (row.total(), row["killed"], row["survived"], row["answered"], row["broken"])
        sys.stdout.write(f"{package:10}" + "".join(f"{figure:9}" for figure in figures) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
