"""Variables, attributes and contents that a traced function reads from outside, and whether they have changed.

A survey of the function's code finds them once for each trace. At each call they are compared with their state at that
time: variables by identity, containers item by item, arrays by their bytes.

Code is inspected, never run. Each name in it (``co_names``, which contains globals, attributes and modules alike) is
followed from the globals, closures and defaults through containers, and to the attributes of objects. Contents too
large to compare at each call are rejected. Alternatives are worse: watching a run would see only one branch, proxies
for globals and closures would change the code's behaviour, and a list written by the user would become outdated. The
survey errs on the side of more: an unnecessary capture costs a comparison at each call, a missing one gives an outdated
result.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
)
from typing import Any
from weakref import ReferenceType

import numpy as np

from explorer.core.attributes import class_attribute, stands_for_expression
from explorer.core.errors import DeclarationError
from explorer.core.exact_keys import exact
from explorer.core.ir.expr import Expr
from explorer.core.ir.identity_comparison import Read, Watched
from explorer.core.ir.source_location import INTERNAL
from explorer.core.tracing.captured_contents import (
    attribute_with_contents,
    attributes,
    contents_of,
    environment,
    excess,
    is_stream,
    parts,
    reader,
    referred,
    same_number,
)
from explorer.core.tracing.static_attributes import (
    CONSTRUCTING,
    attribute_of,
    functions_of,
    has_attributes,
    implicit_methods,
    is_fixed,
    is_fixed_class,
    is_fixed_module,
    is_generated,
    is_known,
    is_traced,
    slots,
)

_COMPUTED = frozenset(
    {"getattr", "hasattr", "vars", "__dict__", "attrgetter", "methodcaller", "format", "format_map"}
).union(("asdict", "astuple", "fields", "replace", "copy", "deepcopy"))
"""names whose use means that attributes are looked up by computed names"""
_PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes, range, slice, type(...)))
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
"""names in the ``os`` module that read environment variables"""
_SOURCES_OF_ENVIRONMENT = (os, os.environ, os.getenv, getattr(os, "environb", os), getattr(os, "getenvb", os))
_UNSEEN = frozenset({"globals", "eval", "exec", "__import__"})
"""builtins that read variables whose names are not in the code"""
_UNSEEN_ATTRIBUTES = frozenset({"__globals__", "f_globals", "f_locals", "import_module"})
"""attributes through which such variables are read; ``sys.modules`` is another one"""

_CALLED = (FunctionType, MethodType, functools.partial, dict, MappingProxyType)
"""what a decorator of an installed package holds of the functions that it was given"""
_MOST = 20_000
"""readers of one function"""


class _Reading(threading.local):
    """Declared dependencies of the function that is being traced, per thread."""

    noted: list[tuple[Read, Any]] | None = None


reading = _Reading()


def note(read: Callable[[], Any]) -> None:
    """Declare that the function being traced depends on the result of ``read``: another object means another trace."""
    if reading.noted is not None:
        reading.noted.append((read, read()))


def watch(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Watched:
    """Return what a function reads from outside now, through the plain functions and methods that it uses.

    These are globals, closure variables, defaults, attributes of these and of the static ``arguments``, and the
    contents of containers and arrays among them. Raises DeclarationError for contents that cannot be compared.
    """
    survey = _Survey(getattr(function, "__name__", "the function"))
    survey.visit(function, "")
    for argument in arguments:
        survey.visit(argument, "an argument")
    survey.follow_attributes()
    return tuple(survey.readers)


class _Survey:
    """Readers of everything that a function may read, each with the object that it returned, in ``readers``."""

    def __init__(self, name: str) -> None:
        self.readers: list[tuple[Read, Any]] = []
        self._name = name
        self._names: set[str] = set()
        self._texts: set[str] = set()
        self._computed = False
        self._objects: list[tuple[Any, str]] = []
        self._seen: dict[int, Any] = {}
        self._classes: set[type] = set()
        self._compared: set[str] = set()
        self._absent: dict[int, tuple[dict[str, Any], set[str]]] = {}
        """names that are currently no globals of a module"""
        self._environment = False
        self._builtins = False

    def visit(self, start: Any, path: str) -> None:
        """Record what a function reads, and transitively what that reads; keep other objects for their attributes."""
        # A list instead of recursion: a user's linked list may be longer than Python's stack is deep.
        pending = [(start, path)]
        while pending:
            current, path = pending.pop()
            if type(current) in _PLAIN or id(current) in self._seen:
                continue
            # Keep the object, not only its id: a temporary's id may be reused a moment later.
            self._seen[id(current)] = current
            if any(current is source for source in _SOURCES_OF_ENVIRONMENT):
                self._environment = True
                if current is not os:
                    self._names.add("environ")
            elif isinstance(current, FunctionType):
                self._enter(current, path, pending)
            elif isinstance(current, MethodType):
                pending += [(current.__func__, path), (current.__self__, path)]
            elif current is builtins:
                self._builtins = True
            elif isinstance(current, BuiltinFunctionType):
                if current.__self__ is builtins and current.__name__ in _UNSEEN:
                    raise _unseen_variables(self._name, f"{current.__name__}(…)")
                pending.append((current.__self__, path))
            elif isinstance(current, type):
                self._class(current, path, pending, CONSTRUCTING)
            elif isinstance(current, ModuleType):
                if not is_fixed_module(current):
                    self._objects.append((current, path))
                    # A module's own ``__getattr__``, and the properties of a subclass of modules.
                    pending.append((vars(current).get("__getattr__"), path))
                    if type(current) is not ModuleType:
                        self._class(type(current), path, pending, ())
            else:
                self._value(current, path, pending)

    def follow_attributes(self) -> None:
        """Record the attributes that any of the functions names, until there are no more objects and names."""
        noted: set[tuple[int, str]] = set()
        compared: set[tuple[int, str]] = set()
        while True:
            fresh = [
                (held, name, path)
                for held, path in self._objects
                for name in self._names_for(held)
                if (id(held), name) not in noted
            ]
            if not fresh and not self._follow_compared(noted, compared):
                break
            for held, name, path in fresh:
                noted.add((id(held), name))
                self._attribute(held, name, f"{path}.{name}" if path else name)
        for held, path in self._objects:
            own = getattr(held, "__dict__", None)
            # An attribute that is added may be one that was looked for in vain; of modules a name is looked up.
            if isinstance(own, dict):
                self._add(functools.partial(attributes, held, own, len(own)), own, path)
        for name in sorted(self._names & _UNSEEN) if self._builtins else ():
            raise _unseen_variables(self._name, f"{name}(…)")
        for own, absent in self._absent.values():
            self._add(
                functools.partial(own.keys().isdisjoint, frozenset(absent)), True, "a variable that is bound later"
            )
        if self._environment and not self._names.isdisjoint(_ENVIRONMENT):
            self._add(functools.partial(environment, dict(os.environ)), os.environ, "os.environ")

    def _follow_compared(self, noted: set[tuple[int, str]], compared: set[tuple[int, str]]) -> bool:
        """Note what only generated methods compare, large arrays by identity alone; whether there was any.

        Such a method compares two large arrays by nothing else: they are one array, or NumPy raises.
        """
        fresh = [
            (held, name, path)
            for held, path in self._objects
            for name in self._compared
            if (id(held), name) not in noted and (id(held), name) not in compared
        ]
        for held, name, path in fresh:
            compared.add((id(held), name))
            own = getattr(held, "__dict__", None)
            read = own.get if isinstance(own, dict) else None
            if isinstance(class_attribute(type(held), name), MemberDescriptorType):
                read = functools.partial(getattr, held)
            value = read(name, None) if read is not None else None
            if read is not None and type(value) is np.ndarray and excess(value):
                self._add(functools.partial(read, name, None), value, f"{path}.{name}")
            else:
                noted.add((id(held), name))
                self._attribute(held, name, f"{path}.{name}" if path else name)
        return bool(fresh)

    def _names_for(self, held: Any) -> set[str]:
        if not self._computed:
            return self._names
        own = getattr(held, "__dict__", ()) if not isinstance(held, (type, ModuleType)) else ()
        fields = slots(type(held)) if not isinstance(held, FunctionType) else ()
        return {*self._names, *self._texts, *own, *fields}

    def _enter(self, function: FunctionType, path: str, pending: list[tuple[Any, str]]) -> None:
        code = function.__code__
        pending.append((getattr(function, "__wrapped__", None), ""))
        if not is_generated(function) and not code.co_filename.startswith(INTERNAL):
            self._objects.append((function, path or function.__name__))
        if is_fixed(code.co_filename):
            # A decorator of an installed package: the function that it was given is in its closure.
            cells = [contents_of(cell) for cell in function.__closure__ or ()]
            pending += [(value, "") for value in cells if isinstance(value, _CALLED)]
            return
        names, texts = _names_in(code)
        own = function.__globals__
        variables: dict[str, Read] = {name: functools.partial(own.get, name) for name in names if name in own}
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            variables[name] = functools.partial(contents_of, cell)
        unseen = sorted(_UNSEEN_ATTRIBUTES.intersection(names))
        if "modules" in names and ("sys" in names or any(value_of() is sys for value_of in variables.values())):
            unseen.append("sys.modules")
        if unseen:
            raise _unseen_variables(self._name, unseen[0], function.__name__)
        # builtins, which a global may hide, names that are bound later, and attributes
        absent = frozenset(names).difference(own)
        for name in sorted(absent & _UNSEEN):
            raise _unseen_variables(self._name, f"{name}(…)", function.__name__)
        self._add(functools.partial(getattr, function, "__code__"), code, function.__name__)  # autoreload replaces it
        if is_generated(function):
            self._compared |= names.keys()
        else:
            self._names |= names.keys()
            self._absent.setdefault(id(own), (own, set()))[1].update(absent)
        self._texts |= texts
        self._computed |= not _COMPUTED.isdisjoint(names)
        for name, value_of in variables.items():
            self._note(value_of, name, pending)
        pending += [(sys.modules.get(name), name) for name in names]
        for attribute in ("__defaults__", "__kwdefaults__"):
            if getattr(function, attribute):
                self._note(functools.partial(getattr, function, attribute), f"{function.__name__}.{attribute}", pending)

    def _class(self, cls: type, path: str, pending: list[tuple[Any, str]], further: tuple[str, ...]) -> None:
        """Record the methods that Python and explorer call implicitly."""
        is_new = cls not in self._classes
        self._classes.add(cls)
        if not is_fixed_class(cls):
            self._objects.append((cls, path))
        metaclass = type(cls)
        if metaclass is not type and metaclass not in self._classes and not is_fixed_class(metaclass):
            self._class(metaclass, f"type({path})", pending, ("__call__",))
        for name, base, method in implicit_methods(cls, further):
            if not is_new and name not in further:
                continue
            pending += [(part, path) for part in functions_of(method)]
            if not is_fixed_class(base) and method is class_attribute(cls, name):
                own = functools.partial(vars(cls).get, name) if base is cls else None
                self._add(own or functools.partial(class_attribute, cls, name), method, f"{path}.{name}")

    def _value(self, value: Any, path: str, pending: list[tuple[Any, str]]) -> None:
        if is_stream(value):
            raise _stream(self._name, value, path)
        size = excess(value)
        if size:
            raise _too_large_to_compare(self._name, value, path, size)
        contents = reader(value)
        if contents is not None:
            self._add(*contents, path)
        if isinstance(value, Expr):
            return
        contents_name = attribute_with_contents(value)
        if contents_name is not None:
            self._note(functools.partial(getattr, value, contents_name), path, pending)
        if isinstance(value, (ReferenceType, ContextVar)):
            self._add(functools.partial(referred, value), referred(value), path)
        pending += [(part, f"{path}[…]") for part in parts(value)]
        if stands_for_expression(value):
            if is_fixed_class(type(value)):
                self._add(value.__expr__, value.__expr__(), path)
                return
        elif class_attribute(type(value), "__array__") is not None and not is_known(
            type(value)
        ):  # another library's array
            pending.append((np.asarray(value), path))
        wrapped = attribute_of(getattr(value, "__dict__", {}), type(value), "__wrapped__")
        if wrapped is not None and not is_traced(value):
            pending.append((wrapped, path))
        if isinstance(value, (attrgetter, methodcaller)):
            self._names |= {part for name in value.__reduce__()[1] if isinstance(name, str) for part in name.split(".")}
        if is_traced(value):
            self._objects.append((value, path))
        if has_attributes(value):
            if not is_fixed_class(type(value)):
                self._add(functools.partial(type, value), type(value), path)
            self._objects.append((value, path))
            if type(value) not in self._classes:
                self._class(type(value), path, pending, ())

    def _attribute(self, held: Any, name: str, path: str) -> None:
        values: list[tuple[Any, str]] = []
        cls = type(held)
        own = getattr(held, "__dict__", None)
        if isinstance(held, type) and any(name in vars(base) for base in held.__mro__):
            for base in held.__mro__:
                if name in vars(base) and not is_fixed_class(base):
                    self._note(functools.partial(class_attribute, held, name), path, values)
                    values += [(part, path) for part in functions_of(vars(base)[name])]
        elif isinstance(own, dict) and name in own:
            self._note(functools.partial(own.get, name), path, values)
        else:
            method = class_attribute(cls, name)
            if isinstance(method, (MemberDescriptorType, GetSetDescriptorType)):
                self._descriptor(held, name, path, values)
            elif method is not None:
                shadowed = functools.partial(class_attribute, cls, name)
                if isinstance(own, dict):
                    shadowed = functools.partial(attribute_of, own, cls, name)
                self._add(shadowed, method, path)
                for base in cls.__mro__:  # a method may call the one that it overrides
                    if name in vars(base):
                        values += [(part, path) for part in functions_of(vars(base)[name])]
            elif self._computed and name in self._texts and isinstance(own, dict):
                self._add(functools.partial(own.get, name), None, path)
        for value, where in values:
            self.visit(value, where)

    def _descriptor(self, held: Any, name: str, path: str, pending: list[tuple[Any, str]]) -> None:
        """Record an attribute that C code reads: a slot, or a field of a C object."""
        read = functools.partial(getattr, held, name, None)
        if read() is read():
            self._note(read, path, pending)
        elif type(read()) in _PLAIN:
            self._add(functools.partial(same_number, read, exact(read())), True, path)

    def _note(self, read: Read, path: str, pending: list[tuple[Any, str]]) -> None:
        value = read()
        self._add(read, value, path)
        pending.append((value, path))

    def _add(self, read: Read, value: Any, path: str) -> None:
        self.readers.append((read, value))
        if len(self.readers) > _MOST:
            raise _too_many_readers(self._name, path, _MOST)


def _names_in(code: CodeType) -> tuple[dict[str, None], set[str]]:
    """Return the names in a piece of code and in the functions inside it, and the strings, which may name attributes.

    Globals, attributes and imported modules are not told apart: each name is looked for in all three ways.
    """
    names, texts = dict.fromkeys(code.co_names), set[str]()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner, further = _names_in(constant)
            names |= inner
            texts |= further
        else:
            items = constant if isinstance(constant, tuple) else (constant,)
            texts |= {item for item in items if isinstance(item, str)}
    return names, texts


def _too_large_to_compare(function: str, value: Any, path: str, size: str) -> DeclarationError:
    """Return the error for contents too large to compare at each call."""
    name = path or "a value"
    if isinstance(value, np.ndarray):
        rule = "a large array that a function reads from outside must not change afterwards"
        fix = (
            f"make it a tensor before the function, {name} = ex.tensor({name}), or pass it as an argument; or "
            f"freeze it: {name}.flags.writeable = False"
        )
    else:
        rule = "a container that a function reads from outside must be so small that it can be compared at each call"
        fix = "pass the items that it needs as arguments, or make it a tuple"
    return DeclarationError(
        f"{function} reads {name} from outside, a {type(value).__name__} of {size} that can be changed in place",
        rule=rule,
        fix=fix,
    )


def _unseen_variables(function: str, name: str, caller: str = "") -> DeclarationError:
    """Return the error for a builtin or an attribute that reads variables whose names are not in the code."""
    return DeclarationError(
        f"{function} uses {name}" + (f", in {caller}" if caller not in ("", function) else ""),
        rule="a function must read variables by their names: it runs once for many calls, and again when one of them "
        "has changed",
        fix="name the variable itself, or pass its value as an argument",
    )


def _stream(function: str, value: Any, path: str) -> DeclarationError:
    """Return the error for an object that returns another value each time, such as a random number generator."""
    return DeclarationError(
        f"{function} reads {path or 'a value'} from outside, a {type(value).__name__}",
        rule="a function's body runs once for many calls, so it must not draw from anything that gives another "
        "value each time",
        fix="draw the value outside and pass it as an argument",
    )


def _too_many_readers(function: str, path: str, limit: int) -> DeclarationError:
    """Return the error for a function that reads more than can be compared at each call."""
    return DeclarationError(
        f"{function} reads more than {limit:,} variables and attributes from outside, {path} among them",
        rule="what a function reads from outside must be so little that it can be compared at each call",
        fix="pass what it needs as arguments",
    )
