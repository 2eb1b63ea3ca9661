"""Exercises of the notebooks, with tasks, hints, solutions, and checks of answers against recorded plans.

    ex.exercise("09.1")
    ex.exercise("09.1").check(plan)

To write your own exercise, subclass `Exercise`.
"""

from explorer.course import chapters as _chapters  # noqa: F401  # registers the exercises of every notebook
from explorer.course.exercise_base import Card, Exercise, Finding, Verdict, exercise, exercises

__all__ = ["Card", "Exercise", "Finding", "Verdict", "exercise", "exercises"]
