"""Hyperparameters of update rules and learning-rate policies: plain numbers, checked when an object of them is made.

A field's annotation says its type, the table ``ranges`` of its class the limits of a number.
"""

from __future__ import annotations

import math
import reprlib
import sys
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import DeclarationError


class Range(NamedTuple):
    """Limits of a number, both among its values unless ``is_open``, which leaves out the upper one."""

    least: float
    most: float
    rule: str
    """completes the sentence "the number must be …" """
    is_open: bool = False

    def holds(self, value: float) -> bool:
        """Whether a number lies within the limits."""
        return self.least <= value and (value < self.most if self.is_open else value <= self.most)


NOT_NEGATIVE = Range(0, math.inf, "0 or more")
SHARE = Range(0, 1, "a number from 0 to 1")
BELOW_ONE = Range(0, 1, "at least 0 and less than 1", is_open=True)

FIELDS: dict[str, tuple[tuple[type, ...], str, str]] = {
    "int": ((int,), "a whole number of 1 or more", "10"),
    "float": ((int, float), "a finite number", "0.1"),
    "bool": ((bool,), "True or False", "True"),
}
"""annotation of a field → its types, and the rule and the fix that an error shows"""


def check_numbers(owner: Any, name: str = "") -> None:
    """Raise DeclarationError for a hyperparameter that is no finite number of its field's type, or out of its range.

    ``name`` is that of the class that was called with the numbers, where it is not the owner's.
    """
    for field in fields(owner):
        # A text in modules that postpone the evaluation of annotations, a class in a notebook's cell.
        annotation = field.type if isinstance(field.type, str) else field.type.__name__
        if annotation not in FIELDS:
            raise DeclarationError(
                f"the field {field.name}: {annotation} of {type(owner).__name__}",
                rule=f"a field must be annotated as one of {', '.join(FIELDS)}, so that it can be written to a file",
                fix=f"{field.name}: float = 0.1",
            )
        own: Any = getattr(owner, field.name)
        limits = owner.ranges.get(field.name)
        value = check_number(name or type(owner).__name__, field.name, annotation, own, limits)
        if value is not own:
            object.__setattr__(owner, field.name, value)


def plain(value: Any) -> Any:
    """Return a number of NumPy's as Python's, whose dtype is that of what it is joined with; others as they are."""
    return value.item() if isinstance(value, (np.floating, np.integer, np.bool)) else value


def check_number(owner: str, name: str, annotation: str, value: Any, limits: Range | None) -> Any:
    """Return a hyperparameter, a number of NumPy's as Python's, which files can hold.

    Raises DeclarationError for one that is no finite number of the annotated type, or out of its range; ``owner`` is
    the class that was called with it.
    """
    value = plain(value)
    types, rule, example = FIELDS[annotation]
    is_right = isinstance(value, types) and isinstance(value, bool) == (bool in types)
    if is_right and isinstance(value, (int, float)):
        # By comparison: a whole number may be too large to become a float at all.
        is_right = abs(value) <= sys.float_info.max and (annotation != "int" or value > 0)
    if is_right and limits is not None:
        is_right, rule = limits.holds(value), limits.rule
    if not is_right:
        raise DeclarationError(
            f"{owner}({name}={reprlib.repr(value)})", rule=f"{name} must be {rule}", fix=f"{name}={example}"
        )
    return value
