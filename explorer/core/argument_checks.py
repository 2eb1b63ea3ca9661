"""Checks of arguments whose values are numbers, truth values, names, or objects of one type."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError


def check_name(value: Any, argument: str, known: Iterable[str]) -> None:
    """Raise OperandError for an argument that is no string, UnknownNameError for one that is none of the known."""
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
    """Raise OperandError for an argument of another type; ``rule`` goes on after its name."""
    if not isinstance(value, kind):
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be {rule}", fix=fix)


class Plain(NamedTuple):
    """What an argument of an annotation may be."""

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
"""annotation → the values of an argument that is so annotated"""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def checked(function: _Function) -> _Function:
    """The function, with its arguments of plain annotations checked in each call: OperandError names the argument."""
    parameters = inspect.signature(function).parameters
    plain = {key: PLAIN[held.annotation] for key, held in parameters.items() if held.annotation in PLAIN}
    if not plain:
        return function
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    name, places = function.__name__, [key for key, held in parameters.items() if held.kind in positional]
    first = min([place for place, key in enumerate(places) if key in plain], default=len(places))

    @functools.wraps(function)
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
    if bool in plain.kinds:
        allowed = isinstance(value, plain.kinds) or (type(value) is int and value in (0, 1))
    else:
        allowed = isinstance(value, plain.kinds) and not isinstance(value, bool)
    if not allowed:
        raise OperandError(
            f"{function}: {key}={reprlib.repr(value)}", rule=f"{key} must be {plain.rule}", fix=f"{key}={plain.fix}"
        )
