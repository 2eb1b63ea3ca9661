"""Interning of operations: equal attributes give one instance.

Every comparison of operations is then one of identities: deduplication, rules and caches of types look operations up by
the object. Instances are held weakly, so that operations of discarded graphs go with them. The lock is taken only for
new ones.
"""

from __future__ import annotations

import os
import threading
from operator import is_
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.core.attributes import stands_for_expression
from explorer.core.bit_keys import exact
from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.core.shape import Sizes

_interning = threading.RLock()
"""guards the tables of instances; reentrant, because memory is collected inside, and a finaliser may make an operation
on the thread that holds it"""


def _renew() -> None:
    global _interning
    _interning = threading.RLock()


if hasattr(os, "register_at_fork"):
    # another thread of the parent may hold the lock while the process forks; in the child nobody would release it
    os.register_at_fork(after_in_child=_renew)


_PLAIN = frozenset((int, float, bool, str, tuple, type(None)))


class Interning(type):
    """Metaclass that makes one instance for each set of attributes."""

    _instances: WeakValueDictionary[Any, Any]

    attribute_names: tuple[str, ...]

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        """Return the instance with these attributes."""
        key: tuple[Any, ...] | None = None
        if len(arguments) == len(cls.attribute_names) and not named:
            key = cls._key(arguments)
            instance = cls._instances.get(key)
            if instance is not None:
                return instance
        if Sizes in map(type, arguments) or Sizes in map(type, named.values()):  # an attribute is a tuple of its own
            arguments = tuple([tuple(value) if type(value) is Sizes else value for value in arguments])
            named = {name: tuple(value) if type(value) is Sizes else value for name, value in named.items()}
        try:
            candidate = super().__call__(*arguments, **named)
        # the usual mistake, operands in place of attributes, gets an error of its own
        except TypeError:
            cls._check_attributes((*arguments, *named.values()))
            raise
        attributes = tuple([getattr(candidate, name) for name in cls.attribute_names])
        # __post_init__ may have replaced attributes by canonical ones: those are the key
        if key is None or not all(map(is_, attributes, arguments)):
            key = cls._key(attributes)
        with _interning:
            # Two threads may build the same operation: the first one entered is everybody's.
            instance = cls._instances.setdefault(key, candidate)
        if instance is candidate:
            cls._check_attributes(attributes)
        return instance

    def _check_attributes(cls, arguments: tuple[Any, ...]) -> None:
        """Raise DeclarationError if a class is called with operands instead of attributes."""
        operands = [
            value for value in arguments if type(value) not in _PLAIN and (isinstance(value, Expr) or _is_array(value))
        ]
        if operands:
            names = ", ".join(cls.attribute_names)
            raise DeclarationError(
                f"{cls.__name__}(…) with {len(operands)} of {len(arguments)} arguments that are operands",
                rule=f"a class of operations must be called with its attributes ({names or 'it has none'}), "
                "and the resulting operation with operands",
                fix=f"{cls.__name__}({', '.join(f'{name}=…' for name in cls.attribute_names)})(x, …)",
            )

    def _key(cls, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        key = tuple(map(exact, attributes))
        try:
            hash(key)
        except TypeError:
            raise DeclarationError(
                f"{cls.__name__} with the attributes {attributes}",
                rule="attributes must be numbers, strings, dtypes, functions, or tuples of them",
                fix="pass arrays as operands: ex.tensor(array)",
            ) from None
        return key


def _is_array(value: Any) -> bool:
    """Whether a value is an array of any library; NumPy scalars and data of a user's type are not."""
    is_array = hasattr(value, "__array__") and not isinstance(value, np.generic)
    return is_array and not stands_for_expression(value)
