"""``python -m tests.soak.numbers``: run many cases, or replay one case."""

from __future__ import annotations

import argparse
import sys
import time
from importlib.util import find_spec

from tests.soak.numbers.campaign import SHARES, campaign, run, small
from tests.soak.numbers.programs import seeded


def main() -> int:
    """Run the command in the arguments; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.numbers", description=__doc__)
    commands = parser.add_subparsers(required=True)
    many = commands.add_parser("run", help="try many cases")
    many.add_argument("--cases", type=int, default=10_000)
    many.add_argument("--seed", type=int, default=0)
    many.add_argument("--first", type=int, default=0, help="the number of the first case")
    many.add_argument("--jobs", type=int, default=2)
    many.add_argument("--campaign", choices=list(SHARES), help="all of them unless one is given; gradients need torch")
    many.set_defaults(run=_run)
    one = commands.add_parser("replay", help="a case that failed, as a small script")
    one.add_argument("case", help="campaign-seed-number")
    one.set_defaults(run=_replay)
    options = parser.parse_args()
    status: int = options.run(options)
    return status


def _run(options: argparse.Namespace) -> int:
    shares = {options.campaign: 1.0} if options.campaign else SHARES
    if not options.campaign and find_spec("torch") is None:
        parser_note = "torch is not installed here: no gradients (.venv-bench/bin/python has it)"
        print(parser_note)
        shares = {name: share for name, share in shares.items() if name != "gradients"}
    total, failed, begin = 0, 0, time.monotonic()
    print("| campaign | cases | seconds of a processor | differences |\n| --- | --- | --- | --- |")
    findings = []
    for name, share in shares.items():
        result = run(name, round(options.cases * share), options.seed, options.first, options.jobs)
        print(f"| {name} | {result.cases:,} | {result.seconds:.0f} | {len(result.found)} |", flush=True)
        total, failed = total + result.cases, failed + len(result.found)
        findings += [f"{name}-{options.seed}-{number}: {found}" for number, found in result.found]
        if result.applied:
            findings.append(
                f"{name} applied: {', '.join(f'{rule} {count}' for rule, count in result.applied.most_common())}"
            )
    print(f"| all | {total:,} | {time.monotonic() - begin:.0f} passed | {failed} |\n")
    print(*findings, sep="\n")
    return int(failed > 0)


def _replay(options: argparse.Namespace) -> int:
    name, seed, number = options.case.rsplit("-", 2)
    case, found = small(name, campaign(name).make(seeded(name, int(seed), int(number))))
    print(case.source(), "" if found else "# nothing is wrong", f"# {found}", sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
