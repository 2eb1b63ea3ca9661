"""NumPy's functions on expressions: ``np.exp(a)``, ``np.ones(3) + a`` and ``np.concatenate([a, b])`` are recorded.

NumPy calls ``__array_ufunc__`` or ``__array_function__`` if an operand is an expression. Arguments are bound to NumPy's
signature and passed on by name, because NumPy and explorer order and name them differently. An argument that explorer's
function lacks raises an error instead of being dropped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.array_api.numpy_compositions import HINTS
from explorer.core.array_api.numpy_functions import DESCRIBED, FUNCTIONS, NAMES, REDUCTIONS, REFUSED, UFUNCS, Recorded
from explorer.core.errors import OperandError, UnknownNameError


class NumpyProtocol:
    """Dispatch of NumPy's ufuncs and functions to the equivalent operations."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in REDUCTIONS:
            # unlike np.sum, a ufunc's reduce defaults to axis 0
            axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
            _refuse_options(f"np.{ufunc.__name__}.reduce", _non_default(options))
            return registry.functions[REDUCTIONS[ufunc.__name__]](*inputs, axis=axis, keepdims=keepdims)
        if method != "__call__":
            raise OperandError(
                f"np.{ufunc.__name__}.{method} of an expression",
                rule=f"a ufunc must be called, or reduced if it is one of {', '.join(REDUCTIONS)}",
                fix="evaluate first: ex.evaluate(x)",
            )
        _refuse_options(f"np.{ufunc.__name__}", _non_default(options))
        return _of_ufunc(ufunc)(*inputs)

    def __array_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        name = NAMES.get(func)
        if name in DESCRIBED:
            return func(*map(_described, args), **{key: _described(value) for key, value in kwargs.items()})
        recorded = FUNCTIONS.get(name) if name is not None else None
        if name is None or recorded is None:
            raise _unknown(func, REFUSED.get(name or "", ""), HINTS.get(name or "", ""))
        return _call(recorded, f"np.{name}", func, args, kwargs)


def _of_ufunc(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the recording function of a ufunc, from `UFUNCS` or from the operation that declares the ufunc."""
    name = ufunc.__name__
    if name in UFUNCS:
        return registry.functions[UFUNCS[name]]
    if getattr(registry.operations.get(name), "ufunc", None) is not ufunc:
        raise _unknown(ufunc)
    return registry.functions[name]


def _unknown(func: Callable[..., Any], reason: str = "", hint: str = "") -> Exception:
    module = getattr(func, "__module__", None) or "numpy"
    name = f"{module.replace('numpy', 'np', 1)}.{func.__name__}"
    fix = f"evaluate first: {name}(ex.evaluate(x))"
    if hint:
        reason, fix = "a function of NumPy must be one that is recorded", f"write {hint}; or {fix}"
    if reason:
        return OperandError(f"{name} of an expression", rule=reason, fix=fix)
    recorded_names = [
        *FUNCTIONS,
        *UFUNCS,
        *[name for name, operation_class in registry.operations.items() if hasattr(operation_class, "ufunc")],
    ]
    return UnknownNameError(name, kind="operation for NumPy's function", known=recorded_names, fix=fix)


def _call(
    recorded: Recorded, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Record a NumPy function: bind its arguments to NumPy's signature, then pass each on by name."""
    record = recorded.function or registry.functions[recorded.name]
    signature, parameters = _signature(func, name), inspect.signature(record).parameters
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise OperandError(
            f"{name} of an expression: {error}",
            rule=f"the arguments must match np.{func.__name__}{signature}",
            fix=f"help(np.{func.__name__}); help(ex.{name}) lists the supported arguments",
        ) from None
    bound.apply_defaults()
    positional: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for key, value in bound.arguments.items():
        parameter = signature.parameters[key]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional = value
        elif parameter.kind is parameter.VAR_KEYWORD:
            for extra, extra_value in value.items():
                (keywords if extra in parameters else unsupported)[extra] = extra_value
        # NumPy's marker for an omitted argument
        elif value is not np._NoValue and key not in recorded.free:
            target = key if key in parameters else recorded.renamed.get(key, "")
            if target in parameters:
                keywords[target] = _as_array(value) if recorded.arrays and key in _OPERANDS else value
            elif value is not parameter.default and value is not None:
                unsupported[key] = value
    unset = [
        key
        for key, extra_value in keywords.items()
        if extra_value is None and parameters[key].default is inspect.Parameter.empty
    ]
    if unset:
        missing = ", ".join([key for key, value in bound.arguments.items() if value is None])
        raise OperandError(
            f"{name} of an expression without {missing}",
            rule=f"ex.{recorded.name} must have the arguments {', '.join(parameters)}",
            fix=f"ex.{recorded.name}({', '.join(parameters)})",
        )
    _refuse_options(name, unsupported)
    return record(*positional, **keywords)


_OPERANDS = ("a", "b", "arrays", "tup")


def _as_array(value: Any) -> Any:
    """Convert a number, or each number in a list of operands, to a NumPy array; return other values unchanged."""
    if isinstance(value, (list, tuple)):
        return type(value)([_as_array(element) for element in value])
    return np.asarray(value) if isinstance(value, (bool, int, float, complex)) else value


@functools.cache
def _signature(func: Callable[..., Any], name: str) -> inspect.Signature:
    """Return a function's signature; before version 2.4, NumPy has none for some functions written in C."""
    try:
        return inspect.signature(func)
    except ValueError:
        parameter = inspect.Parameter
        required, optional = _C_SIGNATURES[name]
        names = [parameter(argument, parameter.POSITIONAL_OR_KEYWORD) for argument in required]
        defaults = [
            parameter(argument, parameter.POSITIONAL_OR_KEYWORD, default=value) for argument, value in optional.items()
        ]
        return inspect.Signature(names + defaults)


_C_SIGNATURES: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any]]] = {
    "np.concatenate": (("arrays",), {"axis": 0, "out": None, "dtype": None, "casting": "same_kind"}),
    "np.dot": (("a", "b"), {"out": None}),
    "np.inner": (("a", "b"), {}),
    "np.where": (("condition",), {"x": None, "y": None}),
}
"""NumPy function written in C → names of its required arguments, and defaults of its optional arguments"""


def _described(value: Any) -> Any:
    """Return an array with an expression's shape and dtype but a single stored element; return other values as is."""
    if not isinstance(value, NumpyProtocol):
        return value
    expression: Any = value
    # Repeat one element with stride 0, because the full array may not fit in memory.
    return np.broadcast_to(np.empty((), expression.dtype), expression.shape)


def _non_default(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ufunc's options that differ from their defaults: True for where and subok, None for all others."""
    # Compare by identity, because ``==`` is elementwise for arrays.
    defaults = (None, True, np._NoValue)
    return {key: value for key, value in options.items() if not any(value is default for default in defaults)}


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    if options:
        raise OperandError(
            f"{name} of an expression with {', '.join(options)}",
            rule="these arguments must be omitted, because an expression is a new value with the dtype of its operands",
            fix="use .astype for another dtype, ex.where for a mask; or evaluate first: ex.evaluate(x)",
        )
