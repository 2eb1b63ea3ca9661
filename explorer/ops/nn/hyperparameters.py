"""Checks of hyperparameters, the plain numbers that are fields of update rules and learning-rate policies.

The annotation of a field determines its type. The class attribute ``ranges`` maps field names to ranges.
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
    """Range of a number. The limits are included, except the upper limit if ``is_open`` is true."""

    low: float
    high: float
    rule: str
    """what the number must be, for error messages"""
    is_open: bool = False

    def contains(self, value: float) -> bool:
        """Return whether ``value`` is within the limits."""
        return self.low <= value and (value < self.high if self.is_open else value <= self.high)


NOT_NEGATIVE = Range(0, math.inf, "0 or more")
FRACTION = Range(0, 1, "a number from 0 to 1")
BELOW_ONE = Range(0, 1, "at least 0 and less than 1", is_open=True)

FIELDS: dict[str, tuple[tuple[type, ...], str, str]] = {
    "int": ((int,), "an integer of 1 or more", "10"),
    "float": ((int, float), "a finite number", "0.1"),
    "bool": ((bool,), "True or False", "True"),
}
"""field annotation → accepted types, and the rule and the fix in the error"""


def check_numbers(owner: Any, name: str = "") -> None:
    """Raise DeclarationError unless each field is a finite number of the annotated type within its range.

    ``name`` is the name of the class that the user called, if it is not the owner's class.
    """
    for field in fields(owner):
        # the annotation is a string under ``from __future__ import annotations``, and a class in notebook cells
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
    """Convert a NumPy number to a Python number, so that its dtype is weak; return other values unchanged."""
    return value.item() if isinstance(value, (np.floating, np.integer, np.bool)) else value


def check_number(owner: str, name: str, annotation: str, value: Any, limits: Range | None) -> Any:
    """Return the hyperparameter ``value``, converted to a Python number so that it can be saved.

    Raises DeclarationError unless it is a finite number of the type ``annotation`` within ``limits``. ``owner`` is the
    name of the class that the user called.
    """
    value = plain(value)
    types, rule, example = FIELDS[annotation]
    is_right = isinstance(value, types) and isinstance(value, bool) == (bool in types)
    if is_right and isinstance(value, (int, float)):
        # compare instead of converting, because an int may be too large to convert to float
        is_right = abs(value) <= sys.float_info.max and (annotation != "int" or value > 0)
    if is_right and limits is not None:
        is_right, rule = limits.contains(value), limits.rule
    if not is_right:
        raise DeclarationError(
            f"{owner}({name}={reprlib.repr(value)})", rule=f"{name} must be {rule}", fix=f"{name}={example}"
        )
    return value
