"""NumPy's functions on expressions: ``np.exp(a)``, ``np.ones(3) + a`` and ``np.concatenate([a, b])`` record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.registry import functions

_UFUNCS = {"true_divide": "divide", "conjugate": "conj"}
_FUNCTIONS = {"amax": "max", "amin": "min"}
_PROPERTIES = ("shape", "ndim", "size")
_REDUCTIONS = {"add": "sum", "maximum": "max", "minimum": "min"}


class NumpyProtocol:
    """Hands NumPy's ufuncs and functions to the operations of the same names."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
            axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
            _refuse_options(f"np.{ufunc.__name__}.reduce", options)
            return functions[_REDUCTIONS[ufunc.__name__]](*inputs, axis=axis, keepdims=keepdims)
        if method != "__call__":
            raise OperandError(
                f"np.{ufunc.__name__}.{method} of an expression",
                rule="ufuncs are recorded when they are called, and add, maximum and minimum when they reduce",
                fix="evaluate first: ex.evaluate(x)",
            )
        _refuse_options(f"np.{ufunc.__name__}", options)
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        return _find(name, f"np.{ufunc.__name__}")(*inputs)

    def __array_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        name = func.__name__
        if name in _PROPERTIES:
            return func(np.broadcast_to(np.empty(()), args[0].shape), *args[1:], **kwargs)
        record = _find(_FUNCTIONS.get(name, name), f"np.{name}")
        given = {key: value for key, value in kwargs.items() if value is not np._NoValue}
        known = inspect.signature(record).parameters
        _refuse_options(f"np.{name}", {key: given.pop(key) for key in list(given) if key not in known})
        try:
            inspect.signature(record).bind(*args, **given)
        except TypeError as error:
            raise OperandError(
                f"np.{name} of an expression: {error}", rule=f"ex.{name} takes these arguments"
            ) from None
        return record(*args, **given)


def _find(name: str, given: str) -> Callable[..., Any]:
    if name not in functions:
        raise UnknownNameError(
            name,
            kind="operation for NumPy's function",
            known=functions,
            fix=f"evaluate first: {given}(ex.evaluate(x))",
        )
    return functions[name]


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    defaults = (None, True, np._NoValue)
    given = [key for key, value in options.items() if not any(value is default for default in defaults)]
    if given:
        raise OperandError(
            f"{name} of an expression with {', '.join(given)}",
            rule="an expression is a new value: there is no array to write into yet",
            fix="leave these arguments out; use .astype for another dtype, ex.where for a mask",
        )
