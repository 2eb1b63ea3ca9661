"""NumPy's functions on expressions: ``np.exp(a)``, ``np.ones(3) + a`` and ``np.concatenate([a, b])`` record."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.array_api.numpy_functions import DESCRIBED, FUNCTIONS, NAMES, REDUCTIONS, REFUSED, UFUNCS, Recorded
from explorer.core.errors import OperandError, UnknownNameError


class NumpyProtocol:
    """Hands NumPy's ufuncs and functions to the operations that compute the same."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in REDUCTIONS:
            axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
            _refuse_options(f"np.{ufunc.__name__}.reduce", _chosen(options))
            return registry.functions[REDUCTIONS[ufunc.__name__]](*inputs, axis=axis, keepdims=keepdims)
        if method != "__call__":
            raise OperandError(
                f"np.{ufunc.__name__}.{method} of an expression",
                rule=f"ufuncs are recorded when they are called, and {', '.join(REDUCTIONS)} when they reduce",
                fix="evaluate first: ex.evaluate(x)",
            )
        _refuse_options(f"np.{ufunc.__name__}", _chosen(options))
        return _of_ufunc(ufunc)(*inputs)

    def __array_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        name = NAMES.get(func)
        if name in DESCRIBED:
            return func(*[_described(value) for value in args], **kwargs)
        recorded = FUNCTIONS.get(name) if name is not None else None
        if name is None or recorded is None:
            raise _unknown(func, "" if name is None else REFUSED[name])
        return _call(recorded, f"np.{name}", func, args, kwargs)


def _of_ufunc(ufunc: np.ufunc) -> Callable[..., Any]:
    """What records a ufunc: the operation that declares it as its own, or the table's."""
    name = ufunc.__name__
    if name in UFUNCS:
        return registry.functions[UFUNCS[name]]
    if getattr(registry.operations.get(name), "ufunc", None) is not ufunc:
        raise _unknown(ufunc)
    return registry.functions[name]


def _unknown(func: Callable[..., Any], reason: str = "") -> Exception:
    module = getattr(func, "__module__", None) or "numpy"
    name = f"{module.replace('numpy', 'np', 1)}.{func.__name__}"
    fix = f"evaluate first: {name}(ex.evaluate(x))"
    if reason:
        return OperandError(f"{name} of an expression", rule=reason, fix=fix)
    known = [
        *FUNCTIONS,
        *UFUNCS,
        *[name for name, operation_class in registry.operations.items() if hasattr(operation_class, "ufunc")],
    ]
    return UnknownNameError(name, kind="operation for NumPy's function", known=known, fix=fix)


def _call(
    recorded: Recorded, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Record with the arguments that NumPy's own signature gives a name to, each handed on by name."""
    record = registry.functions[recorded.name]
    numpys, known = _signature(func, name), inspect.signature(record).parameters
    try:
        bound = numpys.bind(*args, **kwargs)
    except TypeError as error:
        raise OperandError(f"{name} of an expression: {error}", rule=f"np.{func.__name__} takes {numpys}") from None
    bound.apply_defaults()
    spread: tuple[Any, ...] = ()
    given: dict[str, Any] = {}
    refused: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        parameter = numpys.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            spread = value
        elif parameter.kind is parameter.VAR_KEYWORD:
            for extra, held in value.items():
                (given if extra in known else refused)[extra] = held
        elif value is not np._NoValue and key not in recorded.free:
            ours = key if key in known else recorded.renamed.get(key, "")
            if ours in known:
                given[ours] = _as_array(value) if recorded.arrays and key in _OPERANDS else value
            elif value is not parameter.default and value is not None:
                refused[key] = value
    lacking = [key for key, held in given.items() if held is None and known[key].default is inspect.Parameter.empty]
    if lacking:
        missing = ", ".join([key for key, value in bound.arguments.items() if value is None])
        raise OperandError(
            f"{name} of an expression without {missing}",
            rule=f"ex.{recorded.name} must be given {', '.join(known)}",
            fix=f"ex.{recorded.name}({', '.join(known)})",
        )
    _refuse_options(name, refused)
    return record(*spread, **given)


_OPERANDS = ("a", "b", "arrays")


def _as_array(value: Any) -> Any:
    """A number as the array that NumPy makes of it, in a list of operands too; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)([_as_array(each) for each in value])
    return np.asarray(value) if isinstance(value, (bool, int, float, complex)) else value


@functools.cache
def _signature(func: Callable[..., Any], name: str) -> inspect.Signature:
    """NumPy's signature; releases before 2.4 tell none of a few functions that are written in C."""
    try:
        return inspect.signature(func)
    except ValueError:
        kind = inspect.Parameter
        required, rest = _IN_C[name]
        names = [kind(each, kind.POSITIONAL_OR_KEYWORD) for each in required]
        defaults = [kind(each, kind.POSITIONAL_OR_KEYWORD, default=value) for each, value in rest.items()]
        return inspect.Signature(names + defaults)


_IN_C: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "np.concatenate": (("arrays",), {"axis": 0, "out": None, "dtype": None, "casting": "same_kind"}),
    "np.dot": (("a", "b"), {"out": None}),
    "np.where": (("condition",), {"x": None, "y": None}),
}
"""the arguments of functions in C: those that are required, and the others with their defaults"""


def _described(value: Any) -> Any:
    """An array of the shape and dtype of an expression, which holds one element; anything else as it is."""
    if not isinstance(value, NumpyProtocol):
        return value
    kind: Any = value
    return np.broadcast_to(np.empty((), kind.dtype), kind.shape)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """A ufunc's options that are not its defaults: where=True, subok=True, None for the rest."""
    defaults = (None, True, np._NoValue)
    return {key: value for key, value in options.items() if not any(value is default for default in defaults)}


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    if options:
        raise OperandError(
            f"{name} of an expression with {', '.join(options)}",
            rule="these arguments must be left out: an expression is a new value, of the dtype of its operands",
            fix="use .astype for another dtype, ex.where for a mask; or evaluate first: ex.evaluate(x)",
        )
