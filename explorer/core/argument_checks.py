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


def check_type(value: Any, argument: str, type_: type | tuple[type, ...], rule: str, fix: str) -> None:
    """Raise OperandError unless ``value`` is of the given type; ``rule`` completes the sentence "argument must be
    …"."""
    if not isinstance(value, type_):
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
    """Check the plainly annotated arguments of a function in each call: OperandError names the wrong one.

    A wrapper of its own signature is compiled for it, as dataclasses have their methods: a call costs a test of each
    checked argument and no tuple, dict or loop.
    """
    parameters = inspect.signature(function).parameters
    if not any(parameter.annotation in PLAIN for parameter in parameters.values()):
        return function
    names: dict[str, Any] = {"_function": function, "_check": _check_plain}
    declared: list[str] = []
    tests: list[str] = []
    passed: list[str] = []
    before: Any = inspect.Parameter.POSITIONAL_ONLY
    for key, parameter in parameters.items():
        kind, default = parameter.kind, parameter.default
        # / and * where the kind of parameter changes, as in the signature that is repeated
        if before is inspect.Parameter.POSITIONAL_ONLY is not kind and declared:
            declared.append("/")
        if kind is inspect.Parameter.KEYWORD_ONLY and before < inspect.Parameter.VAR_POSITIONAL:
            declared.append("*")
        before = kind
        has_default = default is not inspect.Parameter.empty
        declared.append(_STARS.get(kind, "") + key + (f"=_default_{key}" if has_default else ""))
        passed.append(f"{key}={key}" if kind is inspect.Parameter.KEYWORD_ONLY else _STARS.get(kind, "") + key)
        if has_default:
            names[f"_default_{key}"] = default
        if parameter.annotation in PLAIN:
            plain = names[f"_plain_{key}"] = PLAIN[parameter.annotation]
            names[f"_kind_{key}"] = plain.kinds[0]
            # the usual type and the default pass by identity; only other values cost a call of the check
            is_other = f"type({key}) is not _kind_{key}" + (f" and {key} is not _default_{key}" if has_default else "")
            tests.append(f" if {is_other}: _check({function.__name__!r}, {key!r}, {key}, _plain_{key})")
    if before is inspect.Parameter.POSITIONAL_ONLY:
        declared.append("/")
    name = function.__name__
    lines = [f"def {name}({', '.join(declared)}):", *tests, f" return _function({', '.join(passed)})"]
    exec(compile("\n".join(lines), f"{__file__}: {name}", "exec"), names)
    return cast("_Function", functools.wraps(function)(names[name]))


_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _check_plain(function: str, key: str, value: Any, plain: Plain) -> None:
    """Raise OperandError unless a value is of the plain type; 0 and 1 are truth values, True and False are no
    numbers."""
    if bool in plain.kinds:
        allowed = isinstance(value, plain.kinds) or (type(value) is int and value in (0, 1))
    else:
        # bool is a subclass of int
        allowed = isinstance(value, plain.kinds) and not isinstance(value, bool)
    if not allowed:
        raise OperandError(
            f"{function}: {key}={reprlib.repr(value)}", rule=f"{key} must be {plain.rule}", fix=f"{key}={plain.fix}"
        )
