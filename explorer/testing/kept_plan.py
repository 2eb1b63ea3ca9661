"""Plan files, which store the decisions of a plan for comparison with later plans.

A file contains codes and facts of decisions, but no sentences, line numbers, times or node numbers, so it does not
depend on wording, on edits elsewhere, or on the machine. ``assert_same_plan`` and ``explorer check --plan`` compare
plans with it, and rewrite it on request.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
from difflib import unified_diff
from typing import Any

from explorer.core.argument_checks import named
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file
from explorer.core.files.open_untrusted import content
from explorer.record import Decision, Recording
from explorer.record.escape import visible
from explorer.record.reasons import bytes_text, fact_text
from explorer.testing.subjects import AnyPlan, recording_of, schedule_of
from explorer.view.compare.decision_changes import Stated, changes
from explorer.view.export.decision_lines import MARKS, DecisionLine
from explorer.view.model.program_location import decision_location

_FORMAT = 1
_MAX_DECISIONS = 1_000_000
"""maximum number of decisions in a file, because an untrusted file may declare any number"""
_UNIT = re.compile(r"_(?:bytes|flops)$")
"""unit at the end of a fact's name, which is displayed after the value instead"""
_COLUMNS = {"stage": str, "verdict": str, "rule": str, "code": str, "place": str, "facts": dict, "times": int}


@named
def assert_same_plan(plan: AnyPlan, path: str | os.PathLike[str], *, update: bool | None = None) -> None:
    """Assert that a plan makes the same decisions as the plan in a file; a failure lists the differences.

    ``update=True`` rewrites the file instead of comparing. The default, None, does so if pytest was called with
    ``--explorer-update``. Keep the file next to the test, and review its diff before committing it.

    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tanh(ex.tensor([1.0]) + 1))
    >>> ex.testing.assert_same_plan(plan.prepare(), "tanh.plan.json", update=True)
    >>> ex.testing.assert_same_plan(plan, "tanh.plan.json")
    """
    __tracebackhide__ = True
    recording = recording_of(plan)
    if _is_updated() if update is None else update:
        write_plan(recording, path)
        return
    lines = plan_changes(recording, path)
    if lines:
        fix = "if the change is intended: pytest --explorer-update, or assert_same_plan(…, update=True)"
        raise AssertionError("\n".join([f"the plan differs from the plan in {os.fspath(path)}", *lines, fix]))


def _is_updated() -> bool:
    """Return whether the pytest plugin was called with the option to rewrite files."""
    plugin = sys.modules.get("explorer.pytest_plugin")
    return plugin is not None and plugin.update()


def plan_text(recording: Recording) -> str:
    """Return the content of a plan file: JSON with one line per kernel and per run of equal decisions."""
    tables: dict[str, list[Any]] = {"decisions": _merged_rows(_rows(recording)), "kernels": _kernels(recording)}
    rows = [
        f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in table) + "\n ]"
        for name, table in tables.items()
    ]
    assert recording.schedule is not None
    head = [f' "explorer_plan": {_FORMAT}', f' "peak_bytes": {json.dumps(recording.schedule.peak)}']
    return "{\n" + ",\n".join([*head, *rows]) + "\n}\n"


def write_plan(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a plan file unless it is unchanged; raise FileError if the existing file is not a plan file."""
    schedule_of(recording)
    text = plan_text(recording)
    before = content(path) if os.path.exists(path) else b""
    # not parsed, so a file with merge conflicts can be rewritten
    if before.strip() and b'"explorer_plan"' not in before:
        raise FileError(
            "this is not a plan file, and would be overwritten", path=os.fspath(path),
            rule="a plan must be written to its own file", fix="choose another file: x.plan.json",
        )  # fmt: skip
    if before != text.encode("utf-8"):
        write_file(path, text)


def plan_changes(recording: Recording, path: str | os.PathLike[str]) -> list[str]:
    """Return the differences between the plan in a file and a current plan, one per line."""
    schedule_of(recording)
    kept = _read(path)
    before = [_as_decision(row) for row in kept["decisions"] for _ in range(row.get("times", 1))]
    after = [
        _as_decision(row)._replace(location=decision_location(recording, decision), sentence=recording.reason(decision))
        for row, decision in zip(_rows(recording), recording.decisions, strict=True)
    ]
    lines = changes(before, after)
    kernels = unified_diff(kept["kernels"], _kernels(recording), n=0, lineterm="")
    lines += [f"kernel {line[0]} {line[1:]}" for line in list(kernels)[2:] if line[0] in "+-"]
    assert recording.schedule is not None
    peak = recording.schedule.peak
    if kept["peak_bytes"] != peak:
        lines.append(f"peak memory: was {_size_text(kept['peak_bytes'])}, now {_size_text(peak)}")
    return [visible(line) for line in lines]


def _size_text(size: int | None) -> str:
    return "unknown" if size is None else bytes_text(size)


def _rows(recording: Recording) -> list[dict[str, Any]]:
    return [
        {
            "stage": recording.stages[decision.stage].name,
            "verdict": decision.verdict,
            "rule": decision.rule,
            "code": decision.code,
            "place": decision_location(recording, decision, lines=False),
            "facts": _facts(recording, decision),
        }
        for decision in recording.decisions
    ]


def _facts(recording: Recording, decision: Decision) -> dict[str, Any]:
    """Return a decision's facts without times, and with labels in place of nodes."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return recording.label(value["node"])
        return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

    return {name: plain(value) for name, value in decision.facts.items() if not name.endswith("_us")}


def _merged_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counted = [(row, len(list(same))) for row, same in itertools.groupby(rows)]
    return [row if count == 1 else {**row, "times": count} for row, count in counted]


def _kernels(recording: Recording) -> list[str]:
    return [" → ".join(map(recording.label, kernel.nodes)) for kernel in schedule_of(recording)]


def _as_decision(row: dict[str, Any]) -> Stated:
    """Return a file's row as a decision, which is equal to another if line, code and facts are equal."""
    exact = json.dumps(row["facts"], ensure_ascii=False, sort_keys=True)
    line = DecisionLine(row["stage"], MARKS[row["verdict"]], row["place"], row["rule"], exact, row["code"])
    facts = {_UNIT.sub("", name).replace("_", " "): _value_text(name, value) for name, value in row["facts"].items()}
    return Stated(line, row["place"], ", ".join(f"{name}: {text}" for name, text in facts.items()), facts)


def _value_text(name: str, value: Any) -> str:
    """Return a fact's value as displayed elsewhere; a file may contain any JSON value."""
    values = value if isinstance(value, list) else [value]
    if values and all(isinstance(item, str) for item in values):
        return fact_text("", value, str)
    if all(isinstance(item, (int, float)) for item in values):
        return fact_text(name, value, str)
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Check the columns of a plan file and return its content; raise FileError if it is not a valid plan file."""
    name = str(os.fspath(path))
    fix = "write it: pytest --explorer-update, or explorer check MODEL --plan FILE --update"
    data = content(path, fix, what="the plan file")
    try:
        kept = json.loads(data)
        json.dumps(kept)  # facts are serialized again for the comparison
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise FileError(f"this is not JSON: {reason}", path=name, rule="it must be a plan file", fix=fix) from error
    tables = kept if isinstance(kept, dict) else {}
    if tables.get("explorer_plan") != _FORMAT:
        raise FileError(
            "this is not a plan file" if "explorer_plan" not in tables else "this is a plan file of another format",
            path=name, rule=f'it must have "explorer_plan": {_FORMAT}', fix=fix,
        )  # fmt: skip
    is_valid = (
        isinstance(tables.get("peak_bytes", ""), (int, type(None)))
        and _is_list(tables.get("kernels"), str)
        and _is_list(tables.get("decisions"), dict)
        and all(_is_row(row) for row in tables["decisions"])
        and sum(row.get("times", 1) for row in tables["decisions"]) <= _MAX_DECISIONS
    )
    if not is_valid:
        raise FileError("a part of this plan file is missing or has a wrong type", path=name,
            rule=f"decisions must have {', '.join(_COLUMNS)}", fix=fix)  # fmt: skip
    return tables


def _is_list(value: Any, member_type: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, member_type) for item in value)


def _is_row(row: dict[str, Any]) -> bool:
    complete = {"times": 1, **row}
    return (
        complete.keys() == _COLUMNS.keys()
        and all(isinstance(complete[name], column_type) for name, column_type in _COLUMNS.items())
        and complete["verdict"] in MARKS
        and complete["times"] > 0
    )
