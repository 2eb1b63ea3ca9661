"""Public functions that check how they are called: the names of their options, and plainly annotated arguments.

Python itself names a misspelt option and no valid one, and accepts any value. A wrapper of the function's own signature
is compiled for it, as dataclasses have their methods: a call costs a test of each checked argument, and no loop.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from explorer.core.argument_checks import refuse_option
from explorer.core.errors import OperandError
from explorer.record.reasons import counted_text


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
_Class = TypeVar("_Class", bound=type)
_ABSENT: Any = object()
"""value of a required argument that a call lacks"""
_REFUSES = "refuses_unknown_options"
"""attribute of a function that checks the names of its options"""
_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def has_options(function: Callable[..., Any]) -> bool:
    """Return whether a function has arguments that may be left out, or must be named."""
    return any(
        parameter.default is not Parameter.empty or parameter.kind is Parameter.KEYWORD_ONLY
        for parameter in inspect.signature(function).parameters.values()
    )


def named(function: _Function) -> _Function:
    """Refuse options that a function does not have, by UnknownNameError with the near valid names."""
    return _compiled(function, {})


def checked(function: _Function) -> _Function:
    """Refuse options that a function does not have, and wrong values of its plainly annotated arguments.

    OperandError names the wrong argument.
    """
    return _compiled(function, PLAIN)


def named_methods(declared: _Class) -> _Class:
    """Refuse unknown options of every public method of a class, and of its constructor."""
    package = __name__.partition(".")[0]
    methods: dict[str, Any] = {}
    for base in reversed(declared.__mro__):
        if base.__module__.partition(".")[0] == package:
            methods |= vars(base)
    for name, method in methods.items():
        is_called = inspect.isfunction(method) and (name[0] != "_" or name == "__init__")
        if is_called and not hasattr(method, _REFUSES) and has_options(method):
            setattr(declared, name, named(method))
    return declared


def _compiled(function: _Function, plain: Mapping[str, Plain]) -> _Function:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function  # it has names of its own to check
    single = {key: each for key, each in parameters.items() if each.kind is not Parameter.VAR_POSITIONAL}
    required = [key for key, each in single.items() if each.default is Parameter.empty]
    checked = {key: plain[each.annotation] for key, each in single.items() if each.annotation in plain}
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    names: dict[str, Any] = {
        "_function": function,
        "_known": [name for name, each in parameters.items() if each.kind in by_name and name != "self"],
        "_absent": _ABSENT,
        "_check": _check_plain,
        "_lacking": _lacking,
        "_refuse": refuse_option,
        "_exceeds": _exceeds,
        **{f"_default_{key}": _ABSENT if key in required else each.default for key, each in single.items()},
        **{f"_plain_{key}": rule for key, rule in checked.items()},
        **{f"_kind_{key}": rule.kinds[0] for key, rule in checked.items()},
    }
    name = function.__name__
    by_place = [key for key, each in parameters.items() if each.kind < Parameter.VAR_POSITIONAL and key != "self"]
    bounded = len(single) == len(parameters)
    lines = [
        f"def {name}({', '.join([*_declared(parameters), '**_others'])}):",
        *[f" if _excess: _exceeds({_title(function)!r}, _excess, _known, {by_place!r})"] * bounded,
        f" if _others: _refuse(next(iter(_others)), {_title(function)!r}, _known)",
        *[f" if {key} is _absent: return _lacking(_function, locals())" for key in required],
        *[_test(name, key) for key in checked],
        f" return _function({', '.join(_passed(parameters))})",
    ]
    # Source and not a closure: Python itself then binds the arguments, in C.
    exec(compile("\n".join(lines), f"{__file__}: {name}", "exec"), names)
    wrapper = functools.wraps(function)(names[name])
    # So that a subclass which inherits the method does not wrap it a second time.
    setattr(wrapper, _REFUSES, True)
    return cast("_Function", wrapper)


def _declared(parameters: Mapping[str, Parameter]) -> list[str]:
    """Return the parameters of a signature as source, with / and * where their kind changes."""
    declared: list[str] = []
    before: Any = Parameter.POSITIONAL_ONLY
    for key, parameter in parameters.items():
        if before is Parameter.POSITIONAL_ONLY is not parameter.kind and declared:
            declared.append("/")
        if parameter.kind is Parameter.KEYWORD_ONLY and before < Parameter.VAR_POSITIONAL:
            declared.append("*_excess")
        before = parameter.kind
        declared.append(f"*{key}" if before is Parameter.VAR_POSITIONAL else f"{key}=_default_{key}")
    if before is Parameter.POSITIONAL_ONLY and declared:
        declared.append("/")
    if before < Parameter.VAR_POSITIONAL:
        declared.append("*_excess")
    return declared


def _passed(parameters: Mapping[str, Parameter]) -> list[str]:
    """Return the arguments of a call that hands all parameters on, as source."""
    return [
        f"{key}={key}" if each.kind is Parameter.KEYWORD_ONLY else _STARS.get(each.kind, "") + key
        for key, each in parameters.items()
    ]


def _test(name: str, key: str) -> str:
    """Return the statement that checks an argument.

    The usual type and the default pass by identity; only other values cost a call of the check.
    """
    other = f"type({key}) is not _kind_{key} and {key} is not _default_{key}"
    return f" if {other}: _check({name!r}, {key!r}, {key}, _plain_{key})"


def _title(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of a class by its ``__init__``."""
    return function.__qualname__.split(".")[-2] if function.__name__ == "__init__" else function.__name__


def _lacking(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function without the required arguments that a call lacks: Python's own error names them."""
    positional: list[Any] = []
    by_name: dict[str, Any] = {}
    lacks = False
    for key, parameter in inspect.signature(function).parameters.items():
        value = arguments[key]
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            lacks = lacks or value is _ABSENT
            positional += [] if lacks else [value]  # a default behind it would take its place
        elif parameter.kind is not Parameter.VAR_POSITIONAL and value is not _ABSENT:
            by_name[key] = value
    return function(*positional, **by_name)


def _exceeds(function: str, excess: tuple[Any, ...], known: list[str], by_place: list[str]) -> None:
    """Raise OperandError for more arguments by position than a function takes."""
    options = [name for name in known if name not in by_place]
    others = f", and by name {', '.join(options)}" if options else ""
    raise OperandError(
        f"{function} of {counted_text(len(by_place) + len(excess), 'argument')} by position",
        rule=f"{function} must be given at most {len(by_place)} by position: {', '.join(by_place) or 'none'}{others}",
        fix=f"{function}({', '.join(by_place)})"
        + (", where several values for one of them are a tuple" if by_place else ""),
    )


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
