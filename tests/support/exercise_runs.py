"""Run the solutions of exercises, also with each usual mistake, and print the checks' verdicts.

``python exercise_runs.py 06 07`` prints JSON: number → verdicts, the solution's first. The exercises of each notebook
run in a fork, because answers register operations and rules. "own 06" maps to verdicts on each object that the cells of
notebook 06 define, as [exercise, name, right, lines].
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell

import explorer as ex
from explorer.core.ir.expr import OperationRedefined
from explorer.course import Exercise, exercises


def verdict(exercise: Exercise, source: str) -> dict[str, object]:
    """Run one source as a cell, and check its answer."""
    names: dict[str, object] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, f"<{exercise.number}>", "exec"), names)
        answer = names["answer"]
        said = exercise.check(answer)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    if isinstance(answer, type) and issubclass(answer, ex.Rule):
        answer.remove()
    return {"right": said.right, "text": repr(said), "html": said._repr_html_()}


def verdicts(notebook: str) -> dict[str, list[dict[str, object]]]:
    """Run the exercises of a notebook."""
    warnings.simplefilter("ignore", OperationRedefined)  # a mistake redefines names of the solution
    results = {}
    for exercise in exercises():
        if exercise.number.startswith(notebook):
            sources = [exercise.source, *(exercise.source.replace(*mistake) for mistake in exercise.mistakes)]
            results[exercise.number] = [verdict(exercise, source) for source in sources]
    return results


def own_objects(notebook: str) -> dict[str, list[list[object]]]:
    """Run the cells of a notebook, and check every object that they define as an answer to each exercise."""
    (path,) = Path().glob(f"{notebook}_*.ipynb")
    mine = [exercise for exercise in exercises() if exercise.number.startswith(notebook)]
    names: dict[str, object] = {"__name__": "__main__", "display": str, "get_ipython": InteractiveShell}
    checked: dict[int, object] = {}
    said: list[list[object]] = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code" or cell.source.startswith("ex.exercise("):
            continue
        linecache.cache[cell.id] = (len(cell.source), None, cell.source.splitlines(keepends=True), cell.id)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(cell.source, cell.id, "exec"), names)
            for name, value in names.items():
                if id(value) in checked or name.startswith("__"):
                    continue
                checked[id(value)] = value
                for exercise in [each for each in mine if isinstance(value, each.accepts)]:
                    verdict = exercise.check(value)
                    said.append([exercise.number, name, verdict.right, repr(verdict).count("\n") + 1])
    return {f"own {notebook}": said}


def forked(notebook: str, work: Callable[[str], object]) -> str:
    """Return the JSON result of a function on a notebook, called in a fork."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(write, "w") as pipe:
                json.dump(work(notebook), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise SystemExit(f"the exercises of notebook {notebook} ended with status {status}")
    return text


if __name__ == "__main__":
    found = {}
    for argument in sys.argv[1:]:
        found.update(json.loads(forked(argument, verdicts)))
        found.update(json.loads(forked(argument, own_objects)))
    json.dump(found, sys.stdout)
