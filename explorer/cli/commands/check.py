"""``explorer check``: lists everything that keeps a model from running."""

from __future__ import annotations

import argparse
from pathlib import Path

from explorer.cli.support.terminal import say, tell

HELP = "list everything that keeps a model from running"
DESCRIPTION = """\
List all operators of a model that cannot run (unknown types, with the near known ones; arguments and operands that do
not fit), missing weights, and operands whose type is another than the file notes. Computes nothing.

The exit status is 1 where there is anything to list.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a model's file: x.onnx, x.pnnx.param, x.json")


def execute(options: argparse.Namespace) -> int:
    """Print the findings."""
    from explorer.formats import open

    net = open(options.file)
    findings = net.check()
    for finding in findings:
        tell(f"{finding}\n")
    count = len(net.definition.operators)
    if findings:
        say(f"{net.name}: {len(findings)} finding{'s' * (len(findings) > 1)} in {count} operators")
        return 1
    say(f"{net.name}: all {count} operators can run")
    return 0
