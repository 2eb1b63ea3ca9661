"""Open, check, draw and run files in separate processes with limits of time and memory.

Run as a script with paths as arguments, it forks a process for each and prints its outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

SECONDS, MEMORY = 10, 3 << 30
"""CPU time and address space of one process; an interpreter with NumPy and onnx takes a second and 0.8 GB"""


class Outcome(NamedTuple):
    """Outcome of a file: "fine" or a message for each step, the exit status, CPU time and memory."""

    steps: dict[str, str]
    status: int
    seconds: float
    megabytes: int


def outcomes(paths: Iterable[Path]) -> dict[Path, Outcome]:
    """Return the outcomes of files, each within the limits."""
    given = list(paths)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.formats.limited", *map(str, given)]
    folder = Path(__file__).parents[2]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    return {path: Outcome(*json.loads(line)) for path, line in zip(given, done.stdout.splitlines(), strict=True)}


def _steps(path: str) -> dict[str, str]:
    import numpy as np

    import explorer as ex

    texts: dict[str, str] = {}

    def attempt(step: str, act: Any) -> Any:
        try:
            result = act()
        except ex.ExplorerError as error:
            texts[step] = f"refused: {error}"
        except BaseException as error:
            texts[step] = f"{type(error).__name__}: {error}"
        else:
            texts[step] = "fine"
            return result

    net = attempt("open", lambda: ex.open(path))
    if net is None:
        return texts
    findings = attempt("check", net.check)
    texts["findings"] = "\n".join(findings or ())
    plan = attempt("look", net.preview_plan)
    if plan is not None:
        attempt("explain", plan.explain)
        attempt("compare", lambda: net.compare(net))
    shapes = {name: [2 if not isinstance(n, int) else n for n in blob.shape or ()] for name, blob in net.inputs.items()}
    if all(len(shape) < 60 and np.prod(shape, dtype=float) < 1e6 for shape in shapes.values()):
        arrays = {name: np.ones(shape, net.inputs[name].dtype or "float32") for name, shape in shapes.items()}
        attempt("run", lambda: net.run(arrays))
    return texts


def _forked(path: str) -> str:
    import resource

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with os.fdopen(write, "w") as pipe:
            json.dump(_steps(path), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    return json.dumps([json.loads(text or "{}"), os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss >> 10])


if __name__ == "__main__":
    # once, before the forks
    import explorer.api
    import explorer.formats.onnx.operators
    import explorer.formats.onnx.reader
    import explorer.formats.pnnx.operators
    import explorer.formats.pnnx.param_reader  # noqa: F401  # imported for the forks

    for argument in sys.argv[1:]:
        print(_forked(argument), flush=True)
