"""What all commands share: their arguments, their errors, their exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from explorer import __version__
from explorer.cli import blas, check, diff, lab, run, show, why
from explorer.cli.progress import followed
from explorer.core.errors import ExplorerError
from explorer.view.visible import visible

_STATUS = """
exit status:
  0  the command did what it was asked
  1  check found an operator that cannot run, a weight that is missing, or a shape that disagrees; diff a difference
  2  something was wrong with what was given; one message on standard error says what
  130  Ctrl-C; nothing is half written

On a terminal, work that takes longer than a second tells how far it is.
No command needs a network, or Graphviz to be installed.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    top = argparse.ArgumentParser(
        prog="explorer",
        description="See what a model's file holds, what a planner does to it, and why.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"explorer {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (show, run, check, why, diff, lab, blas):
        name = command.__name__.rpartition(".")[2]
        each = commands.add_parser(
            name,
            help=command.HELP,
            description=command.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        each.add_argument("--debug", action="store_true", help="show the traceback of an error")
        command.arguments(each)
        each.set_defaults(command=command.execute)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    given, handed = list(sys.argv[1:] if arguments is None else arguments), []
    if given[:1] == ["lab"] and "--" in given:
        given, handed = given[: given.index("--")], given[given.index("--") + 1 :]
    options = parser().parse_args(given, argparse.Namespace(handed=handed))
    try:
        with followed(sys.stderr):
            status: int = options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("explorer: interrupted", file=sys.stderr)
        return 130
    except (ExplorerError, OSError) as error:
        if options.debug:
            raise
        print(f"explorer: {_shown(_message(error))}", file=sys.stderr)
        return 2
    except Exception as error:
        if options.debug:
            raise
        print(
            f"explorer: unexpected {type(error).__name__}: {_shown(str(error))}\n"
            "  this is a fault of explorer itself; --debug shows where",
            file=sys.stderr,
        )
        return 2
    return status


def _message(error: ExplorerError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _shown(text: str) -> str:
    """Text that may come from a file, so that it cannot command a terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))
