"""``python -m tests.soak.fuzz``: run a campaign, or replay one case."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.fuzz import campaign
from tests.soak.fuzz.cases import FORMATS


def main() -> int:
    """Run the command in the arguments; return 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.fuzz", description=__doc__)
    commands = parser.add_subparsers(required=True)
    many = commands.add_parser("run", help="try many cases")
    many.add_argument("--cases", type=int, default=10_000)
    many.add_argument("--seed", type=int, default=0)
    many.add_argument("--first", type=int, default=0, help="the number of each format's first case")
    many.add_argument("--jobs", type=int, default=2)
    many.add_argument("--format", action="append", choices=list(FORMATS), default=[])
    many.add_argument("--folder", type=Path, default=campaign.FOLDER, help="where cases that fail are written")
    many.set_defaults(run=_campaign)
    one = commands.add_parser("replay", help="try a case that failed once more, with its traceback")
    one.add_argument("folder", type=Path)
    one.set_defaults(run=_replay)
    options = parser.parse_args()
    status: int = options.run(options)
    return status


def _campaign(options: argparse.Namespace) -> int:
    begin = time.monotonic()
    result = campaign.run(
        options.cases, options.seed, options.jobs, options.format, options.folder.absolute(), options.first
    )
    print(result.table(), result.report(), sep="\n\n")
    print(f"\n{time.monotonic() - begin:.0f} s; the slowest: {result.slowest}")
    return int(bool(result.finds))


def _replay(options: argparse.Namespace) -> int:
    from tests.soak.fuzz.worker import stored_case

    case = stored_case(options.folder)
    with tempfile.TemporaryDirectory() as folder:
        path = case.write(Path(folder))
        print(FORMATS[case.format].probe(path, case.chance, case.is_whole))
    return 0


if __name__ == "__main__":
    sys.exit(main())
