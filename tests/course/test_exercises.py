"""Exercises: every solution is right, every common mistake is wrong, and facts of the recording show why."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

import explorer as ex
from explorer.core.registry import Registry
from explorer.course import Exercise, Finding, Verdict, exercises

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
ALL = exercises()


@cache
def verdicts() -> dict[str, Any]:
    """Return verdicts of all exercises, by notebook in separate processes, because answers register operations and
    rules."""
    numbers = dict.fromkeys(exercise.number[:2] for exercise in ALL)
    command = [sys.executable, ROOT / "tests/support/exercise_runs.py", *numbers]
    ended = subprocess.run(command, cwd=NOTEBOOKS, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.number)
def test_an_exercise_is_complete(exercise: Exercise) -> None:
    assert exercise.level in (1, 2, 3)
    assert len(exercise.hints) >= 2
    assert len(set(exercise.mistakes)) >= 2
    assert exercise.task.endswith((".", "?"))
    for text in (exercise.task, exercise.title, *exercise.hints):
        assert text.count("`") % 2 == 0
        assert "*" not in re.sub("`[^`]*`", "", text), "a card knows no emphasis"
    for old, new in exercise.mistakes:
        assert exercise.source.count(old) == 1, f"{old!r} must stand in the solution once"
        assert old != new


@pytest.mark.spec("V-20")
@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.number)
def test_the_solution_is_right_and_mistakes_are_wrong(exercise: Exercise) -> None:
    """Each verdict contains facts of the answer's plan."""
    solved, *mistaken = verdicts()[exercise.number]
    assert "error" not in solved, solved["error"]
    assert solved["right"], solved["text"]
    assert len(mistaken) == len(exercise.mistakes)
    for said in mistaken:
        assert "error" not in said, said["error"]
        assert not said["right"], said["text"]
        assert "✗" in said["text"]
        assert said["text"] != solved["text"]


@pytest.mark.spec("H-12", headline=True)
@pytest.mark.parametrize("notebook", sorted({exercise.number[:2] for exercise in ALL}))
def test_no_object_in_the_notebook_solves_its_exercises(notebook: str) -> None:
    """Reject answers that avoid the task or are objects from the notebook's own cells; a wrong answer prints at most
    30 lines.
    """
    said = verdicts()[f"own {notebook}"]
    assert said or notebook in ("07", "19"), "no cell defines an object of a type that an exercise accepts"
    assert [row for row in said if row[2]] == []
    assert max([row[3] for row in said], default=0) <= 30


@pytest.mark.parametrize("exercise", ALL, ids=lambda exercise: exercise.number)
def test_the_type_of_a_wrong_answer_is_named(exercise: Exercise) -> None:
    said = exercise.check(b"no answer")
    assert not said.right
    assert exercise.answer in repr(said)
    assert "`bytes`" in repr(said)


def test_notebooks_contain_their_exercises() -> None:
    """Each exercise has a cell in its notebook, followed by a cell for the reader."""
    shown = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        for place, cell in enumerate(cells):
            if cell.cell_type == "code" and cell.source.startswith('ex.exercise("'):
                number = cell.source.split('"')[1]
                assert path.name.startswith(number[:2]), f"{number} stands in {path.name}"
                assert cells[place + 1].cell_type == "code"
                assert cells[place + 1].source.startswith("# "), f"no cell for an answer behind {number}"
                assert cell.outputs[0]["data"]["text/plain"] == repr(ex.exercise(number))
                shown.append(number)
    assert shown == [exercise.number for exercise in ALL]


def test_hints_are_shown_one_at_a_time() -> None:
    exercise = ex.exercise("09.1")
    exercise.hint(0)
    steps = [exercise.hint().paragraphs for _ in range(len(exercise.hints) + 1)]
    assert steps == [*(exercise.hints[: count + 1] for count in range(len(exercise.hints))), exercise.hints]
    assert exercise.hint(1).paragraphs == exercise.hints[:1]
    with pytest.raises(ex.OperandError, match="a number of hints"):
        exercise.hint("2")  # type: ignore[arg-type]


def test_the_error_of_an_unknown_exercise_suggests_similar_ones() -> None:
    with pytest.raises(ex.UnknownNameError, match=r"unknown exercise '09\.11'") as caught:
        ex.exercise("09.11")
    assert "09.1" in str(caught.value)
    with pytest.raises(ex.OperandError, match="as a string"):
        ex.exercise(6.1)  # type: ignore[arg-type]


def test_the_solution_is_folded_in_html_and_its_text_runs() -> None:
    card = ex.exercise("09.1").solution()
    assert card.code == ex.exercise("09.1").source
    assert "<details><summary>" in card._repr_html_()
    assert type(card._repr_html_()) is str
    assert "plan.register(x + 1)" in repr(card)


def test_markup_in_a_name_is_escaped() -> None:
    said = Verdict("Exercise 1", [Finding(False, "`<b>` & <script>")])
    assert "<code>&lt;b&gt;</code> &amp; &lt;script&gt;" in said._repr_html_()
    assert "<script>" not in said._repr_html_()
    assert repr(said) == "Exercise 1: not yet\n  ✗ `<b>` & <script>"


def test_a_verdict_without_findings_is_not_right() -> None:
    assert not Verdict("Exercise 1", [])
    assert Verdict("Exercise 1", [Finding(True, "so it is")])


def test_a_user_defined_exercise_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """ex.exercise finds a subclass with a number."""
    monkeypatch.setattr("explorer.course.exercise_base._EXERCISES", Registry("exercise"))

    class Two(Exercise):
        """Hand in 2."""

        number = "99.1"
        title, level, answer, accepts = "Two", 1, "a number", (int,)
        hints = ("It is even.", "1 + 1")
        source = "answer = 2"
        mistakes = (("2", "1"), ("2", "3"))

        def findings(self, answer: int) -> list[Finding]:
            return [Finding(answer == 2, f"{answer} was handed in.")]

    assert isinstance(ex.exercise("99.1"), Two)
    assert ex.exercise("99.1").check(2)
    assert not ex.exercise("99.1").check(True)
    assert repr(ex.exercise("99.1")).startswith("Exercise 99.1 ★☆☆ Two\n  Hand in 2.\n")


class OrderThatRaises(ex.passes.Order):
    """Raise an error."""

    def sequence(self, kernels: Any, producers: Any) -> list[int]:
        return [kernels[len(kernels)]]


class OrderOfNothing(ex.passes.Order):
    """Return no kernel."""

    def sequence(self, kernels: Any, producers: Any) -> list[int]:
        return []


def test_the_verdict_of_an_answer_that_raises_contains_the_error() -> None:
    """It has the error and the line, without a traceback of the engine."""
    said = ex.exercise("18.4").check(OrderThatRaises)
    assert not said
    assert re.search(r"✗ Line \d+ of the answer, `return \[kernels\[len\(kernels\)\]\]`, raised", repr(said))
    assert "IndexError: list index out of range" in " ".join(repr(said).split())


def test_the_verdict_of_a_rejected_answer_contains_the_error() -> None:
    said = " ".join(repr(ex.exercise("18.4").check(OrderOfNothing)).split())
    assert "✗ The answer cannot be planned and run: DeclarationError: OrderOfNothing.sequence with []" in said


@pytest.mark.parametrize(("answer", "said"), [(lambda x: x, "`<lambda>(x)`"), (lambda x, w: None, "`<lambda>(x, w)`")])
def test_the_verdict_of_a_function_with_another_signature_states_it(answer: Any, said: str) -> None:
    """An exception while the check calls the function is the answer's error."""
    verdict = ex.exercise("05.1").check(answer)
    assert not verdict
    assert f"✗ Calling {said} with the arguments of the exercise raised TypeError" in repr(verdict)


def test_a_plan_that_has_run_is_checked_like_any_other() -> None:
    plan = ex.EvalPlan()
    plan.register(ex.tensor([1.0, 2.0]) + 1)
    verdict = ex.exercise("12.2").check(plan.eval())
    assert not verdict
    assert "Written:" in repr(verdict)


@pytest.mark.spec("H-12")
def test_explorers_own_classes_and_copies_of_them_are_not_answers() -> None:
    """A pass of Explorer, or a subclass that inherits the method to be written, does not solve an exercise."""

    class Again(ex.passes.Dedup):
        """Compute equal expressions once."""

    assert "is Explorer's class" in repr(ex.exercise("18.1").check(ex.passes.Dedup))
    assert "is Explorer's class" in repr(ex.exercise("18.5").check(ex.passes.Fuse))
    assert "inherits `run`" in repr(ex.exercise("18.3").check(Again))
    assert "is Explorer's class" in repr(ex.exercise("15.1").check(type(ex.operation("tanh"))))


@pytest.mark.spec("H-12")
@pytest.mark.parametrize("otherwise", ["exp", "sin"])
def test_a_choice_between_other_functions_is_not_right(otherwise: str) -> None:
    answer = ex.cond(True, ex.exp, getattr(ex, otherwise), ex.tensor([0.5, -1.0]))
    assert "The branches contain exp." in repr(ex.exercise("01.4").check(answer))


@pytest.mark.spec("H-12")
def test_plans_of_other_programs_are_not_right() -> None:
    """Exercises about the program of the notebook check the results of the plan."""
    x, other = ex.tensor(np.ones((32, 64), np.float32)), ex.tensor(np.ones((64, 48), np.float32))
    two, twice = ex.EvalPlan(), ex.EvalPlan(without=["dedup"])
    for value in (ex.tanh(x), ex.tanh(x) + 1):
        two.register(value)
    twice.register(x @ other * 2 + x @ other)
    assert "✗ The results of the plan: add, tanh." in repr(ex.exercise("01.1").check(two))
    assert "✗ The result of the plan: add." in repr(ex.exercise("01.2").check(twice))
    assert not ex.exercise("01.3").check(2 * (x.T @ x))


def test_an_empty_answer_is_not_right() -> None:
    assert not ex.exercise("14.4").check(ex.tensor([]))


def test_an_exception_of_the_check_itself_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.course.chapters.notebook_09_fusion.recording_of", partial(divmod, 1))
    with pytest.raises(TypeError, match="divmod"):
        ex.exercise("09.1").check(ex.EvalPlan())
