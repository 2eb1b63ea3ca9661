"""Registries: maps from keys to objects, for operations, schemas, gradients, kernels, devices, formats and executors.

A registry is a dictionary in which each key is registered once. Every recorded operation needs look-ups, so they are as
fast as in any dictionary. A lock protects registration, removal and listing against concurrent threads.

The registries of operations and recording functions are at the end of this module. Lower packages use them to look up
functions of higher packages by name.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from explorer.core.argument_checks import checked, named_methods
from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.record.fork_locks import renew_in_children

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

Key = TypeVar("Key")
Value = TypeVar("Value")
_Registered = TypeVar("_Registered")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_MISSING: Final[Any] = object()


class _Lock:
    """Single lock for all registries, because changes are rare and short."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Create a new lock in a forked process, where the old one may belong to a thread that no longer exists."""
        self.held = threading.RLock()


changes = _Lock()
renew_in_children(changes)


@named_methods
class Registry(dict[Key, Value]):
    """Thread-safe map from keys to objects, such as classes, functions or tables, each with a line of help.

    ``of`` is the noun for an entry in error messages. ``register`` rejects a second object for the same key, unless
    ``replace`` is True. Listings are snapshots.

    >>> losses = ex.Registry("loss")
    >>> @losses.register("squared")
    ... def squared(x, y):
    ...     "The square of the difference."
    ...     return (x - y) ** 2
    >>> losses.create("squared", 5, 3)
    4
    >>> losses.help("squared"), list(losses)
    ('The square of the difference.', ['squared'])
    """

    def __init__(self, of: str, entries: Mapping[Key, Value] | None = None) -> None:
        super().__init__(entries or {})
        self.of = of
        self._help: dict[Key, str] = {}

    @overload
    def register(self, key: Key, *, help: str = "", replace: bool = False) -> Callable[[_Registered], _Registered]: ...

    @overload
    def register(self, key: Key, value: _Registered, *, help: str = "", replace: bool = False) -> _Registered: ...

    def register(self, key: Key, value: Any = _MISSING, *, help: str = "", replace: bool = False) -> Any:
        """Register an object under a key and return the object; without an object, return a decorator.

        ``help`` defaults to the first line of the docstring. Raises DeclarationError if a different object is
        registered under the key, unless ``replace`` is True.
        """
        if value is _MISSING:
            return lambda decorated: self.register(key, decorated, help=help, replace=replace)
        with changes.held:
            existing = self.get(key, _MISSING)
            if existing is not _MISSING and existing is not value and not replace:
                raise DeclarationError(
                    f"a second {self.of} {key!r}",
                    rule=f"a name must be registered only once; {key!r} is already {_description(existing)}",
                    fix=f"choose another name, or register({key!r}, …, replace=True)",
                )
            super().__setitem__(key, value)
            self._help.pop(key, None)
            if help:
                self._help[key] = help
        return value

    def __setitem__(self, key: Key, value: Value) -> None:
        self.register(key, value, replace=True)

    def __delitem__(self, key: Key) -> None:
        with changes.held:
            super().__delitem__(key)
            self._help.pop(key, None)

    def find(self, key: Key, fix: str = "") -> Value:
        """Return the object registered under ``key``; raise UnknownNameError, with the most similar keys, if there is
        none."""
        value: Value = self.get(key, _MISSING)
        if value is _MISSING:
            raise UnknownNameError(str(key), kind=self.of, known=[str(known) for known in self], fix=fix) from None
        return value

    def create(self, key: Key, *arguments: Any, **options: Any) -> Any:
        """Call the class or function registered under ``key`` with the given arguments, and return the result.

        Raises UnknownNameError for an unknown key, and DeclarationError if the object is neither a class nor a
        function.
        """
        maker: Any = self.find(key)
        if not callable(maker):
            raise DeclarationError(
                f"create({key!r}), which is {maker!r}",
                rule=f"a {self.of} must be a class or a function to be created by its key",
                fix=f"find({key!r}) returns it as it is",
            )
        return maker(*arguments, **options)

    def help(self, key: Key) -> str:
        """Return the help line of ``key``: its ``help``, or the first line of the object's docstring."""
        value = self.find(key)
        if key in self._help:
            return self._help[key]
        # other objects inherit their class's docstring, which does not describe them
        has_own_docstring = isinstance(value, type) or inspect.isroutine(value)
        lines = ((inspect.getdoc(value) if has_own_docstring else "") or "").strip().splitlines()
        return lines[0] if lines else ""

    # Listings are snapshots, because another thread may register an object during iteration.

    def _snapshot(self) -> dict[Key, Value]:
        with changes.held:
            return dict(super().items())

    def __iter__(self) -> Iterator[Key]:
        return iter(self._snapshot())

    def keys(self) -> dict_keys[Key, Value]:
        """Return a snapshot of the keys, in order of registration."""
        return self._snapshot().keys()

    def values(self) -> dict_values[Key, Value]:
        """Return a snapshot of the objects."""
        return self._snapshot().values()

    def items(self) -> dict_items[Key, Value]:
        """Return a snapshot of the keys and objects."""
        return self._snapshot().items()

    def __repr__(self) -> str:
        return f"<registry of {len(self)} {self.of} entries>"


def _description(value: Any) -> str:
    """Return the location of a function or class, or the string form of another object, for error messages."""
    return f"{value.__module__}.{value.__qualname__}" if hasattr(value, "__qualname__") else repr(value)


class _Functions(Registry[str, Callable[..., Any]]):
    def __missing__(self, name: str) -> Callable[..., Any]:
        """Import the operations if they have not been imported yet, and look up the name again."""
        import_module("explorer.ops")
        if name not in self:
            raise KeyError(name)
        return self[name]


operations: Registry[str, type[Any]] = Registry("operation")
"""operation name → its class"""
extensions: Registry[str, list[type[Any]]] = Registry("extended operation")
"""operation name → its extensions in order of registration"""
functions: Registry[str, Callable[..., Any]] = _Functions("operation")
"""function name → recording function; a class without attributes registers itself as its function"""


def public(function: _Function) -> _Function:
    """Register a recording function under its name; raise DeclarationError if another module uses the name.

    Arguments annotated as numbers, booleans, strings or policies are checked at each call.
    """
    name = function.__name__
    if (registered := functions.get(name)) and getattr(registered, "__module__", None) != function.__module__:
        raise DeclarationError(
            f"a second function {name!r}", rule="a function's name must be unique", fix=f"def {name}_2(…), for instance"
        )
    function = functions[name] = checked(function)
    return function


def function(name: str) -> Callable[..., Any]:
    """Return the recording function ``name``; raise UnknownNameError, with the most similar names, if there is none."""
    return functions.find(name)
