"""Entry point of the command line, which parses arguments, prints errors and returns the exit status.

Errors of the library are printed without a traceback. Each command is a module that defines HELP, DESCRIPTION,
arguments and execute.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from explorer import __version__
from explorer.cli.commands import (
    check,
    compare,
    compile,
    convert,
    cut,
    diff,
    edit,
    lab,
    profile,
    run,
    show,
    site,
    strip,
    why,
)
from explorer.cli.support.progress_line import progress_shown
from explorer.cli.support.terminal import Outlet, print_error, print_note, terminal
from explorer.core.interrupts import LINE, STATUS, Interrupts, raised

_MODULES = (show, run, profile, compare, check, why, diff, compile, convert, cut, edit, lab, site, strip)
COMMANDS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}
"""name of each command → its module"""

_STATUS = """
exit status:
  0  the command succeeded
  1  check found an operator that cannot run, a missing weight, a shape that disagrees, or a plan that differs from
     the kept plan; compare found a value that differs; diff found a difference; strip --check found something to
     remove
  2  an argument or a file was wrong; one message on standard error gives the reason
  130  Ctrl-C; no file is half written

explorer FILE is short for: explorer show --open FILE

On a terminal, commands that take longer than a second show their progress.
No command needs a network or an installation of Graphviz.
"""


_OPTION = re.compile(r"--[a-z-]+")
"""name of an option in the help of a command"""


class _Parser(argparse.ArgumentParser):
    """Argument parser without colours, whose codes would be shown as escapes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.color = False  # True by default since Python 3.14


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = _Parser(
        prog="explorer",
        description="Inspect model files: their contents, their plans, and the reasons for each decision.",
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
    """Return the arguments; a single FILE is preceded by the command that opens its page."""
    first = arguments[0] if arguments else "-"
    is_named = first.startswith("-") or first in COMMANDS  # even if a file has the name of a command
    is_file = not is_named and (Path(first).suffix or Path(first).exists())
    return ["show", "--open", *arguments] if is_file else arguments


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    own_arguments, forwarded = list(sys.argv[1:] if arguments is None else arguments), []
    # argparse would read the first argument after -- as the file
    if own_arguments[:1] == ["lab"] and "--" in own_arguments:
        own_arguments, forwarded = (
            own_arguments[: own_arguments.index("--")],
            own_arguments[own_arguments.index("--") + 1 :],
        )
    try:
        with terminal() as errors, raised() as interrupts:
            return _run(_spelled_out(own_arguments), forwarded, errors, interrupts)
    except KeyboardInterrupt:  # interrupted while no interrupt handler was set
        print(LINE, end="", file=sys.stderr)
        return STATUS


def _parsed(own_arguments: Sequence[str], forwarded: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; exit with a suggestion for an unknown command or option."""
    top = parser()
    first = own_arguments[0] if own_arguments else "-"
    if not first.startswith("-") and first not in COMMANDS:
        suggestion = _suggestion(first, COMMANDS)
        top.error(f"{first!r} is neither a command nor a file{suggestion}; commands: {', '.join(COMMANDS)}")
    options, unknown = top.parse_known_args(own_arguments, argparse.Namespace(forwarded=forwarded))
    if unknown:
        known = _OPTION.findall(options.parser.format_help())
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}{_suggestion(unknown[0], known)}")
    return options


def _suggestion(word: str, known: Iterable[str]) -> str:
    """Return a similar known name as a question in parentheses, or ""."""
    similar = get_close_matches(word.partition("=")[0], known, 1)
    return f" (did you mean {similar[0]}?)" if similar else ""


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print warnings without the line of code that caused them."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print_note(str(message))
        yield


def _run(own_arguments: Sequence[str], forwarded: Sequence[str], errors: Outlet, interrupts: Interrupts) -> int:
    options = _parsed(own_arguments, forwarded)
    try:
        with progress_shown(errors), _warnings_as_notes():
            status: int = options.command(options)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        # An exception caused by an interrupt is not reported as an error.
        if not interrupts.came and not isinstance(error, KeyboardInterrupt):
            print_error(error, debug=options.debug)
            return 2
        interrupts.came = True
    if interrupts.came:
        print(LINE, end="", file=sys.stderr)
        return STATUS
    return status
