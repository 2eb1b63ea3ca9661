"""Errors for values that a function reads from outside and that cannot be compared at each call.

Each says which variable it is, why a change of it could go unseen, and how the function can be written instead: its
body runs once, so that whatever it reads beyond its arguments must be watched.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import DeclarationError


def too_large_to_compare(function: str, value: Any, path: str, size: str) -> DeclarationError:
    """The error for contents that are too many to be compared at each call."""
    name = path or "a value"
    if isinstance(value, np.ndarray):
        rule = "a large array that a function reads from outside must not change afterwards"
        fix = (
            f"make it a tensor before the function, {name} = ex.tensor({name}), or pass it as an argument; or "
            f"freeze it: {name}.flags.writeable = False"
        )
    else:
        rule = "a container that a function reads from outside must be so small that it can be compared at each call"
        fix = "pass the items that it needs as arguments, or make it a tuple"
    return DeclarationError(
        f"{function} reads {name} from outside, a {type(value).__name__} of {size} that can be changed in place",
        rule=rule,
        fix=fix,
    )


def unseen_variables(function: str, name: str, caller: str = "") -> DeclarationError:
    """The error for a builtin or an attribute that reads variables whose names are not in the code."""
    return DeclarationError(
        f"{function} uses {name}" + (f", in {caller}" if caller not in ("", function) else ""),
        rule="a function must read variables by their names: it runs once for many calls, and again when one of them "
        "has changed",
        fix="name the variable itself, or pass its value as an argument",
    )


def stream(function: str, value: Any, path: str) -> DeclarationError:
    """The error for an object that gives another value each time, such as a generator of random numbers."""
    return DeclarationError(
        f"{function} reads {path or 'a value'} from outside, a {type(value).__name__}",
        rule="a function's body runs once for many calls, so it must not draw from anything that gives another "
        "value each time",
        fix="draw the value outside and pass it as an argument",
    )


def too_many_readers(function: str, path: str, limit: int) -> DeclarationError:
    """The error for a function that reads more than can be compared at each call."""
    return DeclarationError(
        f"{function} reads more than {limit:,} variables and attributes from outside, {path} among them",
        rule="what a function reads from outside must be so little that it can be compared at each call",
        fix="pass what it needs as arguments",
    )
