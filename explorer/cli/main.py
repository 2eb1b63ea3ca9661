"""Entry point of the command line: arguments, errors and exit status of all commands.

An error of the library becomes one message and an exit status, without a traceback; its text includes the fix. Commands
are modules with the same four names (HELP, DESCRIPTION, arguments, execute).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from explorer import __version__
from explorer.cli.commands import check, convert, diff, lab, run, show, site, strip, why
from explorer.cli.support.progress_line import followed
from explorer.cli.support.terminal import Outlet, complain, terminal
from explorer.core.interrupts import LINE, STATUS, Interrupts, raised

_MODULES = (show, run, check, why, diff, convert, lab, site, strip)
COMMANDS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
"""name of each command → its module"""

_STATUS = """
exit status:
  0  the command did what it was asked
  1  check found an operator that cannot run, a weight that is missing, a shape that disagrees, or a plan that
     differs from the kept one; run --compare a value that differs; diff a difference; strip --check something to
     remove
  2  something was wrong with what was given; one message on standard error says what
  130  Ctrl-C; nothing is half written

explorer FILE is short for: explorer show --open FILE

On a terminal, work that takes longer than a second tells how far it is.
No command needs a network, or Graphviz to be installed.
"""


_OPTION = re.compile(r"--[a-z-]+")
"""option in the help of a command"""


class _Parser(argparse.ArgumentParser):
    """Argument parser without coloured messages, whose colour codes would be shown as escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.color = False  # the default is True from Python 3.14 on


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = _Parser(
        prog="explorer",
        description="See what a model's file holds, what a planner does to it, and why.",
        epilog=_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"explorer {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.HELP,
            description=command.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.add_argument("--debug", action="store_true", help="show the traceback of an error")
        command.arguments(subparser)
        subparser.set_defaults(command=command.execute, parser=subparser)
    return top


def _spelled_out(arguments: list[str]) -> list[str]:
    """Return the arguments with ``explorer FILE`` expanded to the command that opens the file's page."""
    first = arguments[0] if arguments else "-"
    is_named = first.startswith("-") or first in COMMANDS  # even if a file or a folder has a command's name
    is_file = not is_named and (Path(first).suffix or Path(first).exists())
    return ["show", "--open", *arguments] if is_file else arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    own_arguments, handed = list(sys.argv[1:] if arguments is None else arguments), []
    # argparse would take arguments after -- for the file
    if own_arguments[:1] == ["lab"] and "--" in own_arguments:
        own_arguments, handed = (
            own_arguments[: own_arguments.index("--")],
            own_arguments[own_arguments.index("--") + 1 :],
        )
    try:
        with terminal() as errors, raised() as interrupts:
            return _run(_spelled_out(own_arguments), handed, errors, interrupts)
    except KeyboardInterrupt:  # just before interrupts are handled, or just after
        print(LINE, end="", file=sys.stderr)
        return STATUS


def _parsed(own_arguments: Sequence[str], handed: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; exit with a suggestion for an unknown command or option."""
    top = parser()
    first = own_arguments[0] if own_arguments else "-"
    if not first.startswith("-") and first not in COMMANDS:
        top.error(f"{first!r} is neither a command nor a file{_near(first, COMMANDS)}; commands: {', '.join(COMMANDS)}")
    options, unknown = top.parse_known_args(own_arguments, argparse.Namespace(handed=handed))
    if unknown:
        known = _OPTION.findall(options.parser.format_help())
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{_near(unknown[0], known)}")
    return options


def _near(word: str, known: Iterable[str]) -> str:
    """Return a similar known name, as the end of a sentence, or ""."""
    near = get_close_matches(word.partition("=")[0], known, 1)
    return f": near is {near[0]}" if near else ""


def _run(own_arguments: Sequence[str], handed: Sequence[str], errors: Outlet, interrupts: Interrupts) -> int:
    options = _parsed(own_arguments, handed)
    try:
        with followed(errors):
            status: int = options.command(options)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        # An exception caused by an interrupt is not a separate error.
        if not interrupts.came and not isinstance(error, KeyboardInterrupt):
            complain(error, debug=options.debug)
            return 2
        interrupts.came = True
    if interrupts.came:
        print(LINE, end="", file=sys.stderr)
        return STATUS
    return status
