"""Child processes in which compilers run: a crash, a hang or a flag of a compiler does not affect the caller."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from explorer.core.errors import StateError

SECONDS = 300.0
"""default time limit"""
_TAIL = 600
"""characters of a child's error output in an error message"""


class Output(NamedTuple):
    """Output of a child process."""

    stdout: str
    stderr: str


def run_python(
    script: str | os.PathLike[str],
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    compiler: str,
    seconds: float = SECONDS,
) -> Output:
    """Run a Python script in a child process and return its output.

    Args:
        script: path of the script.
        arguments: its command-line arguments.
        environment: variables in addition to those of this process.
        compiler: name of the compiler, for error messages.
        seconds: time limit, after which the child is killed.

    Raises:
        StateError: if the child fails or exceeds the time limit; it contains the end of the error output.
    """
    # entries of sys.path that a notebook added, so that the child imports the same packages
    path = os.pathsep.join(entry for entry in sys.path if entry)
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    try:
        child = subprocess.run(
            [sys.executable, os.fspath(Path(script)), *arguments],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StateError(
            f"{compiler} did not finish in {seconds:g} s",
            rule="a program must compile within the time limit",
            fix="record a smaller program, or a smaller input",
        ) from error
    stdout, stderr = (text.decode(errors="replace") for text in (child.stdout, child.stderr))
    if child.returncode:
        raise StateError(
            f"{compiler} failed with exit status {child.returncode}: {stderr.strip()[-_TAIL:]}",
            rule="the compiler must accept the program and these arguments",
            fix="run the program with this compiler and without Explorer first",
        )
    return Output(stdout, stderr)
