"""Checks of arguments whose values are numbers, truth values, names, or objects of one type.

Public functions call them before anything is recorded or computed, so that a wrong argument is an OperandError that
names it.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError


def check_name(value: Any, argument: str, known: Iterable[str]) -> None:
    """Raise OperandError unless ``value`` is a string, and UnknownNameError unless it is one of the ``known`` names."""
    names = sorted(known)
    if not isinstance(value, str):
        raise OperandError(
            f"{argument}={value!r}",
            rule=f"{argument} must be one of the names {', '.join(names)}",
            fix=f"{argument}={names[0]!r}",
        )
    if value not in names:
        raise UnknownNameError(value, kind=argument, known=names)


def check_type(value: Any, argument: str, kind: type | tuple[type, ...], rule: str, fix: str) -> None:
    """Raise OperandError unless ``value`` is of the given type; ``rule`` completes the sentence "argument must be
    …"."""
    if not isinstance(value, kind):
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be {rule}", fix=fix)


class Plain(NamedTuple):
    """Types that an annotated argument accepts, with the rule and the fix that an error shows."""

    kinds: tuple[type, ...]
    rule: str
    fix: str


_NUMBER = Plain((int, float, np.integer, np.floating), "a real number", "1.0")
PLAIN = {
    "bool": Plain((bool, np.bool_), "True or False", "True"),
    "float": _NUMBER,
    "float | None": Plain((*_NUMBER.kinds, type(None)), "a real number or None", "1.0"),
    "str": Plain((str,), "a string", "'…'"),
    "Items": Plain((tuple, list), "a list or a tuple of policies", "[ex.PAccumulateIn('float64')]"),
}
"""annotation → the types that an argument with it accepts"""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def checked(function: _Function) -> _Function:
    """Check the plainly annotated arguments of a function in each call: OperandError names the wrong one."""
    parameters = inspect.signature(function).parameters
    plain = {key: PLAIN[parameter.annotation] for key, parameter in parameters.items() if parameter.annotation in PLAIN}
    if not plain:
        return function
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    name, places = function.__name__, [key for key, parameter in parameters.items() if parameter.kind in positional]
    first = min([place for place, key in enumerate(places) if key in plain], default=len(places))

    @functools.wraps(function)
    # Values that are not checked are not looked at: a call of few arguments costs one comparison.
    def call(*values: Any, **named: Any) -> Any:
        if len(values) > first:
            for key, value in zip(places[first:], values[first:], strict=False):
                if key in plain and type(value) is not plain[key].kinds[0]:
                    _check_plain(name, key, value, plain[key])
        for key, value in named.items():
            if key in plain and type(value) is not plain[key].kinds[0]:
                _check_plain(name, key, value, plain[key])
        return function(*values, **named)

    return cast("_Function", call)


def _check_plain(function: str, key: str, value: Any, plain: Plain) -> None:
    """Raise OperandError unless a value is of the plain type; 0 and 1 are truth values, True and False are no
    numbers."""
    if bool in plain.kinds:
        allowed = isinstance(value, plain.kinds) or (type(value) is int and value in (0, 1))
    else:
        allowed = isinstance(value, plain.kinds) and not isinstance(value, bool)
    if not allowed:
        raise OperandError(
            f"{function}: {key}={reprlib.repr(value)}", rule=f"{key} must be {plain.rule}", fix=f"{key}={plain.fix}"
        )
