"""Worker process that tries each case with memory and CPU time limits, in a child process that may be killed.

``python -m tests.soak.fuzz.worker`` reads a line of JSON (seed, cases as [format, number], folder) from standard input
and writes one line of JSON for each case. Children are forked from a process that has imported everything, and try
cases until one of them ends the child.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import explorer as ex
from tests.soak.fuzz.cases import FORMATS, NOTE, Case, case
from tests.soak.fuzz.formats.probe import BrokenPromiseError

MEMORY, TIMES = 512 << 20, 4
"""additional bytes that a case may allocate, and a multiple of its files' size"""
SECONDS = 10
"""CPU seconds that a case may take"""
BATCH = 200
"""cases for one child, which limits the effect of one case on others"""


RIGHT = ("clean", "fine")
"""outcomes that are no failure"""
FAULT = 77
"""exit status of a child in which the fuzzer itself failed"""


def main() -> None:
    """Try the cases that standard input lists."""
    order = json.loads(sys.stdin.readline())
    _warm()
    cases = [(str(format), int(number)) for format, number in order["cases"]]
    while cases:
        outcomes, hurt = _batch(order["seed"], cases[:BATCH])
        done = len(outcomes)
        if hurt:
            outcomes.append(hurt)
        for (format, number), outcome in zip(cases, outcomes, strict=False):
            if outcome["kind"] not in RIGHT:
                result = case(format, order["seed"], number)
                folder = Path(order["folder"]) / f"{outcome['kind']}-{format}-{order['seed']}-{number}"
                result.keep(folder)
                outcome |= {"folder": str(folder), "origin": result.origin}
            print(json.dumps({"format": format, "number": number, **outcome}), flush=True)
        cases = cases[done + bool(hurt) :]


def _warm() -> None:
    """Import what files need and lay something out once, so that no case pays for it and no child starts threads."""
    from explorer.view.picture.svg import svg

    svg(ex.open(Path(__file__).parents[3] / "assets" / "models" / "simple_ops.pnnx.param").preview_plan().recording)
    for held in FORMATS.values():
        held.seeds()


def _batch(seed: int, cases: Sequence[tuple[str, int]]) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the outcomes of the cases in one child, including the case that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        status = FAULT
        try:
            with open(writing, "w", encoding="utf-8") as pipe:
                _child(seed, cases, pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        outcomes = [json.loads(line) for line in pipe if line.endswith("\n")]
    _, status, _ = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) == FAULT:
        raise RuntimeError("the fuzzer itself failed, as is written above")
    if status == 0:
        return outcomes, None
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if ended in (signal.SIGXCPU, signal.SIGALRM):
        return outcomes, {"kind": "hang", "where": f"{SECONDS} s", "seconds": SECONDS}
    return outcomes, {"kind": "crash", "where": f"status {status}, signal {ended}", "seconds": 0}


def _child(seed: int, cases: Sequence[tuple[str, int]], pipe: IO[str]) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        for number, (format, index) in enumerate(cases):
            inner = Path(folder) / str(number)
            inner.mkdir()
            result = case(format, seed, index)
            outcome = attempt(result, inner)
            shutil.rmtree(inner)
            pipe.write(json.dumps(outcome) + "\n")
            pipe.flush()


def attempt(found: Case, folder: Path) -> dict[str, Any]:
    """Try one case in this process with its limits; return the kind, location and seconds of the outcome."""
    path = found.write(folder)
    held = FORMATS[found.format]
    size = sum(len(data) for data in found.files.values() if data)
    before = _seconds()
    _limit(MEMORY + TIMES * size, before)
    note = {}
    try:
        with warnings.catch_warnings(), _silent():
            warnings.simplefilter("ignore")
            kind = held.probe(path, found.chance, found.is_whole)
    except MemoryError as error:
        kind, note = "memory", error_location(error)
    except BrokenPromiseError as error:
        kind, note = "broken", error_location(error)
    except Exception as error:
        kind, note = ("memory" if is_memory(error) else "bare"), error_location(error)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {"kind": kind, "seconds": round(_seconds() - before, 3), **note}


def is_memory(error: BaseException | None) -> bool:
    """Return whether an error results from a failed allocation."""
    while error is not None:
        if isinstance(error, MemoryError) and not isinstance(error, ex.ExplorerError):
            return True
        error = error.__cause__ or error.__context__
    return False


def error_location(error: BaseException) -> dict[str, str]:
    """Return the location in explorer of an error, and its message."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/explorer/" in frame.filename]
    place = f"{frames[-1].filename.rpartition('/explorer/')[2]}:{frames[-1].lineno}" if frames else "?"
    return {"where": f"{type(error).__name__} at {place}", "message": ascii(str(error))[:300]}


def _limit(memory: int, spent: float) -> None:
    """Set the limits of the next case: additional data memory, CPU seconds, and wall-clock seconds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    # Sandboxes reserve address space that they never use, so only writable data is limited.
    resource.setrlimit(resource.RLIMIT_DATA, (data + memory, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + SECONDS + 1, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_REAL, 6 * SECONDS)  # a sleeping process uses no CPU time


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _silent() -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def stored_case(folder: Path) -> Case:
    """Return the case that a folder contains."""
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    files = {path.name: None if path.is_fifo() else path.read_bytes() for path in folder.iterdir() if path.name != NOTE}
    return Case(note["format"], note["seed"], note["number"], note["origin"], files)


if __name__ == "__main__":
    main()
