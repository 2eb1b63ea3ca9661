"""Run the solution of exercises, and the solution with each usual mistake, in one process; print what checks say.

``python exercise_runs.py 06`` prints JSON: number → verdicts, that of the solution first.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
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


def main(notebook: str) -> None:
    """Print the verdicts of the exercises of a notebook."""
    warnings.simplefilter("ignore", OperationRedefined)  # a mistake redefines what the solution defined
    found = {}
    for exercise in exercises():
        if exercise.number.startswith(notebook):
            sources = [exercise.source, *(exercise.source.replace(*mistake) for mistake in exercise.mistakes)]
            found[exercise.number] = [verdict(exercise, source) for source in sources]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
