"""Exercises of the notebooks: each shows its task and hints, and checks an answer by what a plan recorded of it.

    ex.exercise("09.1")
    ex.exercise("09.1").check(plan)

An exercise of one's own is a subclass of `Exercise`, one class body.
"""

from explorer.course import chapters as _chapters  # noqa: F401  # enters the exercises of every notebook
from explorer.course.exercise_base import Card, Exercise, Finding, Verdict, exercise, exercises

__all__ = ["Card", "Exercise", "Finding", "Verdict", "exercise", "exercises"]
