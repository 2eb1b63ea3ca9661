"""Checks of the arguments of public functions: option names, number of arguments, and types of simple values.

Public functions check their arguments before they record or compute anything, so that errors name the argument that
is wrong. Python's own error for a misspelt option lists no valid names; the decorators of this module add suggestions.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_origin, get_type_hints

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, UnknownNameError
from explorer.record.reasons import counted_text

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)


class Plain(NamedTuple):
    """Types that an argument with a given annotation accepts, and the rule and fix for the error message."""

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
"""annotation → accepted types"""
_ELSEWHERE = {
    ("prepare", "without"): "give it when the plan is made: ex.EvalPlan(without=[…])",
    ("tensor", "requires_grad"): "not needed: ex.grad(loss, [x]) is the gradient of any operand",
    ("", "inplace"): "leave it out: an expression never changes, and the planner reuses memory",
    ("", "out"): "leave it out: the function returns the result",
    ("", "dtype"): "convert the result: y.astype(dtype)",
}
"""(function, or "" for any, and option) → what to write instead"""
_CHECKED = "checks_options"
"""attribute of functions that check their option names; subclasses do not wrap such functions again"""


def named(function: _Function) -> _Function:
    """Decorate a function to raise UnknownNameError, with suggestions, for unknown options."""
    parameters = inspect.signature(function).parameters
    if _accepts_any_option(parameters):
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            if refusal := _refusal(function, parameters, args, kwargs):
                raise refusal from None
            raise

    setattr(call, _CHECKED, True)
    return cast("_Function", call)


def checked(function: _Function) -> _Function:
    """Decorate a function to reject unknown options, and invalid values of arguments whose annotation is in `PLAIN`."""
    parameters = inspect.signature(function).parameters
    plain = {key: PLAIN[each.annotation] for key, each in parameters.items() if each.annotation in PLAIN}
    if _accepts_any_option(parameters) or not plain:
        return named(function)
    exact_types = {key: each.kinds[0] for key, each in plain.items()}
    positions = [
        (index, exact_types[key], each)
        for index, (key, each) in enumerate(parameters.items())
        if key in exact_types and each.kind < Parameter.VAR_POSITIONAL
    ]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        for index, kind, parameter in positions:
            if index < count and type(args[index]) is not kind:
                _check_plain(function, parameter, args[index])
        if kwargs:
            for key, value in kwargs.items():
                if key in exact_types and type(value) is not exact_types[key]:
                    _check_plain(function, parameters[key], value)
        try:
            return function(*args, **kwargs)
        except TypeError:
            if refusal := _refusal(function, parameters, args, kwargs):
                raise refusal from None
            raise

    setattr(call, _CHECKED, True)
    return cast("_Function", call)


class _Unset:
    """Default of an option in signatures, where leaving it out selects a default that the signature cannot state."""

    def __repr__(self) -> str:
        return "..."


def options_of(declared: type) -> Callable[[_Function], _Function]:
    """Decorate a function with ``**options: Unpack[declared]`` to list them in its signature, which help and IPython's
    completion read.

    >>> import inspect, typing
    >>> from explorer.core.argument_checks import options_of
    >>> class Options(typing.TypedDict, total=False):
    ...     theme: typing.Literal["light", "dark"]
    >>> @options_of(Options)
    ... def show(what, **options): ...
    >>> inspect.signature(show)
    <Signature (what, *, theme: Literal['light', 'dark'] = ...)>
    """
    # other types are shown as written, because their evaluated form is long
    hints = {
        name: hint if get_origin(hint) is Literal else getattr(declared.__annotations__[name], "__forward_arg__", hint)
        for name, hint in get_type_hints(declared).items()
    }

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        given = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        listed = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=_Unset(), annotation=hint) for name, hint in hints.items()
        ]
        # typeshed does not declare the attribute, which inspect reads
        function.__signature__ = signature.replace(parameters=[*given, *listed])  # type: ignore[attr-defined]
        return function

    return decorate


def named_methods(declared: _Class) -> _Class:
    """Decorate a class to reject unknown options in its constructor and in public methods, even inherited ones."""
    explorer_bases = [base for base in reversed(declared.__mro__) if base.__module__.startswith("explorer.")]
    for name, method in {name: method for base in explorer_bases for name, method in vars(base).items()}.items():
        is_called = inspect.isfunction(method) and (name[0] != "_" or name == "__init__")
        if is_called and not hasattr(method, _CHECKED) and has_options(method):
            setattr(declared, name, named(method))
    return declared


def has_options(function: Callable[..., Any]) -> bool:
    """Return whether a function has optional or keyword-only arguments."""
    return any(
        parameter.default is not Parameter.empty or parameter.kind is Parameter.KEYWORD_ONLY
        for parameter in inspect.signature(function).parameters.values()
    )


def refuse_option(name: str, function: str, known: Iterable[str]) -> None:
    """Raise UnknownNameError for the unknown option ``name`` of ``function``; suggest similar ``known`` names."""
    raise _unknown_options([name], function, [*known])


def check_name(value: Any, argument: str, known: Collection[str]) -> None:
    """Raise OperandError unless ``value`` is a string, and UnknownNameError unless it is in ``known``."""
    if isinstance(value, str) and value in known:
        return
    names = sorted(known)
    if not isinstance(value, str):
        raise OperandError(
            f"{argument}={value!r}",
            rule=f"{argument} must be one of the names {', '.join(names)}",
            fix=f"{argument}={names[0]!r}",
        )
    raise UnknownNameError(value, kind=argument, known=names)


def check_type(value: Any, argument: str, type_: type | tuple[type, ...], rule: str, fix: str) -> None:
    """Raise OperandError unless ``value`` is an instance of ``type_``; ``rule`` completes "argument must be …"."""
    if not isinstance(value, type_):
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be {rule}", fix=fix)


def check_integer(value: Any, argument: str, fix: str, minimum: int | None = None) -> int:
    """Return a Python or NumPy integer as an int; raise OperandError for anything else, including True."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
    if not is_integer or (minimum is not None and value < minimum):
        bound = "" if minimum is None else f" of {minimum} or more"
        raise OperandError(f"{argument}={value!r}", rule=f"{argument} must be an integer{bound}", fix=fix)
    return int(value)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether ``function`` accepts ``count`` positional arguments; True if its signature is unknown."""
    try:
        # Inspect the wrapper, because it is what is called: functools.wraps copies a function's name, but not its
        # arguments.
        inspect.signature(function, follow_wrapped=False).bind(*[None] * count)
    except ValueError:  # a builtin without a signature
        return True
    except TypeError:
        return False
    return True


def _accepts_any_option(parameters: Mapping[str, Parameter]) -> bool:
    """Return whether a function has ``**kwargs``, in which case it checks option names itself."""
    return any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())


def _by_position(parameters: Mapping[str, Parameter]) -> list[str]:
    return [key for key, parameter in parameters.items() if parameter.kind < Parameter.VAR_POSITIONAL and key != "self"]


def _refusal(
    function: Callable[..., Any], parameters: Mapping[str, Parameter], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ExplorerError | None:
    """Return the error for an unknown option or too many positional arguments.

    Returns None if the call is valid, because the TypeError was then raised inside the function, or if an argument is
    missing, because Python's own error names it.
    """
    # the class, for constructors
    title = function.__qualname__.split(".")[-2] if function.__name__ == "__init__" else function.__name__
    known = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and name != "self"
    ]
    by_position = _by_position(parameters)
    count = len(args) - ("self" in parameters)
    takes_any = any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters.values())
    if count > len(by_position) and not takes_any:
        options = [name for name in known if name not in by_position]
        keyword_options = f", and by name {', '.join(options)}" if options else ""
        names = ", ".join(by_position)
        return OperandError(
            f"{title} of {counted_text(count, 'argument')} by position",
            rule=f"{title} must be given at most {len(by_position)} by position: {names or 'none'}{keyword_options}",
            fix=f"{title}({names})" + (", where several values for one of them are a tuple" if by_position else ""),
        )
    unknown = [name for name in kwargs if name not in known]
    if not unknown:
        return None
    return _unknown_options(unknown, title, known)


def _unknown_options(names: Sequence[str], title: str, known: Collection[str]) -> UnknownNameError:
    """Return the error for the unknown options of a call: it names the first, and corrects all that it can."""
    fixes = [fix for name in names if (fix := _counterpart(name, known, title))]
    return UnknownNameError(names[0], kind=f"option of {title}", known=known, fix=", and ".join(fixes))


def _counterpart(name: str, known: Collection[str], title: str) -> str:
    """Return what to write instead of another library's option ``name``, or "" if there is no counterpart."""
    from explorer.names.other_libraries import option  # only needed for unknown names

    if counterpart := option(name, known):
        return f"{name} is called {counterpart} here"
    return _ELSEWHERE.get((title, name)) or _ELSEWHERE.get(("", name), "")


def _check_plain(function: Callable[..., Any], parameter: Parameter, value: Any) -> None:
    """Raise OperandError unless ``value`` has a type that the parameter accepts, or is the default.

    0 and 1 are accepted as booleans, but True and False are not accepted as numbers.
    """
    plain = PLAIN[parameter.annotation]
    if bool in plain.kinds:
        allowed = isinstance(value, plain.kinds) or (type(value) is int and value in (0, 1))
    else:
        # bool is a subclass of int
        allowed = isinstance(value, plain.kinds) and not isinstance(value, bool)
    if not allowed and value is not parameter.default:
        key = parameter.name
        raise OperandError(
            f"{function.__name__}: {key}={reprlib.repr(value)}",
            rule=f"{key} must be {plain.rule}",
            fix=f"{key}={plain.fix}",
        )
