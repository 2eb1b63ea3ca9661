"""Plans saved in files: equal ones pass, others fail with the different decisions."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import FileError
from explorer.record import Recording
from explorer.testing.kept_plan import plan_changes, plan_text

pytest_plugins = ["pytester"]


def planned(**options: object) -> ex.EvalPlan:
    x = ex.tensor(np.ones((8, 8), np.float32))
    plan = ex.EvalPlan(**options)
    with ex.scope("block"):
        plan.register(ex.tanh(x + 1) * 2)
    return plan.prepare()


@pytest.fixture
def saved_plan(tmp_path: Path) -> Path:
    """Return the content of a saved plan."""
    path = tmp_path / "block.plan.json"
    ex.testing.assert_same_plan(planned(), path, update=True)
    return path


@pytest.mark.spec("V-22")
def test_a_plan_equals_the_saved_one_or_the_difference_is_reported(saved_plan: Path) -> None:
    """`ex.testing.assert_same_plan` compares with a file of codes and facts, and lists the different decisions."""
    before = saved_plan.read_text(encoding="utf-8")
    ex.testing.assert_same_plan(planned(), saved_plan)
    with pytest.raises(AssertionError) as caught:
        ex.testing.assert_same_plan(planned(without="fuse"), saved_plan)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"the plan differs from the plan in {saved_plan}"
    assert [
        line for line in lines if line.startswith("fuse · block / add 1 and 2 more: was ✓ ElementwiseChain [chain] (")
    ]
    assert [line for line in lines if line.startswith("kernel - add 1 → tanh → multiply 2")]
    assert "--explorer-update" in lines[-1]
    assert saved_plan.read_text(encoding="utf-8") == before


@pytest.mark.spec("V-22")
def test_a_file_contains_codes_and_facts_without_words_lines_and_times(saved_plan: Path) -> None:
    recording = planned().recording
    rows = json.loads(saved_plan.read_text(encoding="utf-8"))["decisions"]
    assert [(row["rule"], row["code"]) for row in rows] == [(row.rule, row.code) for row in recording.decisions]
    assert not [name for row in rows for name in row["facts"] if name.endswith("_us")]
    assert "line" not in saved_plan.read_text(encoding="utf-8")
    recording.decisions = [replace(row, reason="Said anew.", location="moved.py:1") for row in recording.decisions]
    recording.sources = [replace(row, line=row.line + 7) for row in recording.sources]
    assert plan_changes(recording, saved_plan) == []
    recording.decisions[0] = replace(recording.decisions[0], code="another")
    recording.schedule = replace(recording.schedule, peak=2048)
    decision, peak = plan_changes(recording, saved_plan)
    assert "now ✓ ElementwiseChain [another]: Said anew." in decision
    assert peak.endswith(", now 2 KB")


def test_equal_decisions_in_sequence_are_written_on_one_line(tmp_path: Path) -> None:
    recording = planned().recording
    recording.decisions = [recording.decisions[0]] * 50
    path = tmp_path / "many.json"
    path.write_text(plan_text(recording), encoding="utf-8")
    assert [row.get("times") for row in json.loads(path.read_text(encoding="utf-8"))["decisions"]] == [50]
    assert plan_changes(recording, path) == []
    recording.decisions = recording.decisions[:48]
    (line,) = plan_changes(recording, path)
    assert line.endswith("×2")


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: None,
        lambda rows: rows | {"explorer_plan": 2},
        lambda rows: rows | {"peak_bytes": "1"},
        lambda rows: rows | {"kernels": [1]},
        lambda rows: rows | {"decisions": 3},
        lambda rows: rows | {"decisions": [{"stage": "fuse"}]},
        lambda rows: rows | {"decisions": [{**rows["decisions"][0], "verdict": "maybe"}]},
        lambda rows: rows | {"decisions": [{**rows["decisions"][0], "times": 10**9}]},
        lambda rows: rows | {"decisions": [{**rows["decisions"][0], "times": 600_000}] * 2},
        lambda rows: [],
    ],
)
def test_another_file_raises_an_error_with_the_fix(saved_plan: Path, change: object) -> None:
    rows = json.loads(saved_plan.read_text(encoding="utf-8"))
    saved_plan.write_text(json.dumps(change(rows)), encoding="utf-8")
    with pytest.raises(FileError, match="--explorer-update"):
        ex.testing.assert_same_plan(planned(), saved_plan)


def test_a_missing_file_or_invalid_json_raises_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(FileError, match=r"(?s)cannot be read.*--explorer-update"):
        ex.testing.assert_same_plan(planned(), path)
    for text in ("[" * 100_000, "\udc80", "{"):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(FileError, match="is not JSON"):
            ex.testing.assert_same_plan(planned(), path)
    with pytest.raises(ex.OperandError, match="without a schedule"):
        ex.testing.assert_same_plan(Recording(), path, update=True)
    assert path.read_text(encoding="utf-8") == "{"


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EIO])
def test_a_failed_update_keeps_the_file(saved_plan: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only or full disk there is one clear error, and no scratch file remains."""
    before, names, real = saved_plan.read_bytes(), sorted(saved_plan.parent.iterdir()), os.open

    def refused(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, *rest, **options)

    plan = ex.EvalPlan(title="another")
    plan.register(ex.exp(ex.tensor([1.0, 2.0])) * 3)
    plan.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with pytest.raises((FileError, OSError), match=os.strerror(code)) as error:
            ex.testing.assert_same_plan(plan, saved_plan, update=True)
    assert saved_plan.name in str(error.value)
    assert (saved_plan.read_bytes(), sorted(saved_plan.parent.iterdir())) == (before, names)


@pytest.mark.parametrize("path", ["/proc/plan.json", "/dev/null/plan.json", "/sys/kernel/plan.json"])
def test_a_read_only_folder_raises_a_clear_error(path: str) -> None:
    with pytest.raises((FileError, OSError), match=re.escape(path)):
        ex.testing.assert_same_plan(planned().prepare(), path, update=True)


@pytest.mark.spec("V-22")
def test_the_pytest_option_writes_changed_files(pytester: pytest.Pytester) -> None:
    """`pytest --explorer-update` rewrites saved plans that differ, and no others."""
    source = """
        import explorer as ex
        def test_plan():
            plan = ex.EvalPlan({options})
            plan.register(ex.tanh(ex.tensor([1.0]) + 1))
            ex.testing.assert_same_plan(plan.prepare(), "kept.json")
    """
    path = pytester.path / "kept.json"
    pytester.makepyfile(source.format(options=""))
    pytester.runpytest_inprocess().assert_outcomes(failed=1)
    assert not path.exists()
    pytester.runpytest_inprocess("--explorer-update", "-n", "1").assert_outcomes(passed=1)
    first = path.stat().st_mtime_ns
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    pytester.runpytest_inprocess("--explorer-update").assert_outcomes(passed=1)
    assert path.stat().st_mtime_ns == first
    pytester.makepyfile(source.format(options="without='fuse'"))
    done = pytester.runpytest_inprocess()
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*fuse · add 1 and tanh: was ✓ ElementwiseChain*"])
    done.stdout.no_fnmatch_line("*kept_plan.py:*")
