"""Run the solution of exercises, and the solution with each usual mistake; print what checks say.

``python exercise_runs.py 06 07`` prints JSON: number → verdicts, that of the solution first. The exercises of a
notebook are run in a process of their own, a fork: answers define operations and rules.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
import warnings

import explorer as ex
from explorer.core.ir.operation_checks import OperationRedefined
from explorer.course import Exercise, exercises


def verdict(exercise: Exercise, source: str) -> dict[str, object]:
    """Run one source as a cell does, and check its answer."""
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
    warnings.simplefilter("ignore", OperationRedefined)  # a mistake redefines what the solution defined
    results = {}
    for exercise in exercises():
        if exercise.number.startswith(notebook):
            sources = [exercise.source, *(exercise.source.replace(*mistake) for mistake in exercise.mistakes)]
            results[exercise.number] = [verdict(exercise, source) for source in sources]
    return results


def forked(notebook: str) -> str:
    """Run the exercises of a notebook in a fork; its verdicts as JSON."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(write, "w") as pipe:
                json.dump(verdicts(notebook), pipe)
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
        found.update(json.loads(forked(argument)))
    json.dump(found, sys.stdout)
