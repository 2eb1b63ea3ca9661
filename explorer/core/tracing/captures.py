"""Variables, attributes and contents that a traced function reads from outside, and whether they have changed.

To find them, the function's code is inspected once per trace, but not run, because a run would see only one branch.
Each call compares them with their state when the function was traced: variables by identity, containers item by item,
arrays by their bytes.

Each name in the code is looked up in the globals, closure variables and defaults, in the containers among them, and in
the attributes of objects, because ``co_names`` does not distinguish globals, attributes and modules. Contents that are
too large to compare at each call are rejected. When in doubt, a value is captured: an unnecessary capture costs a
comparison at each call, whereas a missing one gives outdated results.
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
    cell_contents_of,
    environment,
    excess_size,
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
"""names whose use indicates that attributes are looked up by computed names"""
_PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes, range, slice, type(...)))
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
"""names in the ``os`` module that read environment variables"""
_SOURCES_OF_ENVIRONMENT = (os, os.environ, os.getenv, getattr(os, "environb", os), getattr(os, "getenvb", os))
_FORBIDDEN_BUILTINS = frozenset({"globals", "eval", "exec", "__import__"})
"""builtins that read variables whose names are not in the code"""
_FORBIDDEN_ATTRIBUTES = frozenset({"__globals__", "f_globals", "f_locals", "import_module"})
"""attributes that give access to such variables, like ``sys.modules``"""

_CALLED = (FunctionType, MethodType, functools.partial, dict, MappingProxyType)
"""types of objects in which decorators of installed packages may store the decorated functions"""
_MAX_READERS = 20_000


class _Reading(threading.local):
    """Per-thread dependencies that the function being traced has declared."""

    dependencies: list[tuple[Read, Any]] | None = None


reading = _Reading()


def note(read: Callable[[], Any]) -> None:
    """Declare that the function being traced depends on the object that ``read`` returns.

    The function is traced again once ``read`` returns another object.
    """
    if reading.dependencies is not None:
        reading.dependencies.append((read, read()))


def watch(function: Callable[..., Any], arguments: Iterable[Any] = ()) -> Watched:
    """Return a reader for everything that a function reads from outside, directly or through other functions and
    methods.

    A reader is a function that returns the current object, paired with the object found now. There are readers for
    globals, closure variables, defaults, attributes of these and of the static ``arguments``, and the contents of
    containers and arrays among them. Raises DeclarationError for contents that cannot be compared.
    """
    survey = _Survey(getattr(function, "__name__", "the function"))
    survey.visit(function, "")
    for argument in arguments:
        survey.visit(argument, "an argument")
    survey.follow_attributes()
    return tuple(survey.readers)


class _Survey:
    """Collector of ``readers`` for everything that a function may read."""

    def __init__(self, name: str) -> None:
        self.readers: list[tuple[Read, Any]] = []
        self._name = name
        self._names: set[str] = set()
        self._strings: set[str] = set()
        self._computed = False
        self._objects: list[tuple[Any, str]] = []
        self._visited: dict[int, Any] = {}
        self._classes: set[type] = set()
        self._compared: set[str] = set()
        self._absent: dict[int, tuple[dict[str, Any], set[str]]] = {}
        """id of a module's globals → the globals, and the names that are not bound in the globals yet"""
        self._environment = False
        self._builtins = False

    def visit(self, start: Any, path: str) -> None:
        """Record everything that a function reads, directly or indirectly, and collect objects whose attributes it may
        read."""
        # a list instead of recursion, because a user's linked list may exceed Python's recursion limit
        pending = [(start, path)]
        while pending:
            current, path = pending.pop()
            if type(current) in _PLAIN or id(current) in self._visited:
                continue
            # store the object itself, because the id of a temporary object may be reused
            self._visited[id(current)] = current
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
                if current.__self__ is builtins and current.__name__ in _FORBIDDEN_BUILTINS:
                    raise _hidden_variables(self._name, f"{current.__name__}(…)")
                pending.append((current.__self__, path))
            elif isinstance(current, type):
                self._class(current, path, pending, CONSTRUCTING)
            elif isinstance(current, ModuleType):
                if not is_fixed_module(current):
                    self._objects.append((current, path))
                    # a module may define ``__getattr__``, and a subclass of ModuleType may define properties
                    pending.append((vars(current).get("__getattr__"), path))
                    if type(current) is not ModuleType:
                        self._class(type(current), path, pending, ())
            else:
                self._value(current, path, pending)

    def follow_attributes(self) -> None:
        """Record the attributes whose names occur in any of the functions, until no new objects and names are found."""
        recorded: set[tuple[int, str]] = set()
        compared: set[tuple[int, str]] = set()
        while True:
            new_reads = [
                (owner, name, path)
                for owner, path in self._objects
                for name in self._names_for(owner)
                if (id(owner), name) not in recorded
            ]
            if not new_reads and not self._follow_compared(recorded, compared):
                break
            for owner, name, path in new_reads:
                recorded.add((id(owner), name))
                self._attribute(owner, name, f"{path}.{name}" if path else name)
        for owner, path in self._objects:
            attributes_dict = getattr(owner, "__dict__", None)
            # a new attribute may have a name that was not found before
            if isinstance(attributes_dict, dict):
                self._add(
                    functools.partial(attributes, owner, attributes_dict, len(attributes_dict)), attributes_dict, path
                )
        for name in sorted(self._names & _FORBIDDEN_BUILTINS) if self._builtins else ():
            raise _hidden_variables(self._name, f"{name}(…)")
        for attributes_dict, absent_names in self._absent.values():
            self._add(
                functools.partial(attributes_dict.keys().isdisjoint, frozenset(absent_names)),
                True,
                "a variable that is bound later",
            )
        if self._environment and not self._names.isdisjoint(_ENVIRONMENT):
            self._add(functools.partial(environment, dict(os.environ)), os.environ, "os.environ")

    def _follow_compared(self, recorded: set[tuple[int, str]], compared: set[tuple[int, str]]) -> bool:
        """Record the attributes that only generated comparisons read; return whether there were any.

        Large arrays are compared by identity, because the generated ``__eq__`` raises an error for two different
        arrays.
        """
        new_reads = [
            (owner, name, path)
            for owner, path in self._objects
            for name in self._compared
            if (id(owner), name) not in recorded and (id(owner), name) not in compared
        ]
        for owner, name, path in new_reads:
            compared.add((id(owner), name))
            attributes_dict = getattr(owner, "__dict__", None)
            read = attributes_dict.get if isinstance(attributes_dict, dict) else None
            if isinstance(class_attribute(type(owner), name), MemberDescriptorType):
                read = functools.partial(getattr, owner)
            value = read(name, None) if read is not None else None
            if read is not None and type(value) is np.ndarray and excess_size(value):
                self._add(functools.partial(read, name, None), value, f"{path}.{name}")
            else:
                recorded.add((id(owner), name))
                self._attribute(owner, name, f"{path}.{name}" if path else name)
        return bool(new_reads)

    def _names_for(self, owner: Any) -> set[str]:
        if not self._computed:
            return self._names
        attributes_dict = getattr(owner, "__dict__", ()) if not isinstance(owner, (type, ModuleType)) else ()
        fields = slots(type(owner)) if not isinstance(owner, FunctionType) else ()
        return {*self._names, *self._strings, *attributes_dict, *fields}

    def _enter(self, function: FunctionType, path: str, pending: list[tuple[Any, str]]) -> None:
        code = function.__code__
        pending.append((getattr(function, "__wrapped__", None), ""))
        if not is_generated(function) and not code.co_filename.startswith(INTERNAL):
            self._objects.append((function, path or function.__name__))
        if is_fixed(code.co_filename):
            # the closure of a decorator in an installed package contains the decorated function
            cells = [cell_contents_of(cell) for cell in function.__closure__ or ()]
            pending += [(value, "") for value in cells if isinstance(value, _CALLED)]
            return
        names, strings = _names_in(code)
        namespace = function.__globals__
        variables: dict[str, Read] = {
            name: functools.partial(namespace.get, name) for name in names if name in namespace
        }
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            variables[name] = functools.partial(cell_contents_of, cell)
        forbidden = sorted(_FORBIDDEN_ATTRIBUTES.intersection(names))
        if "modules" in names and ("sys" in names or any(value_of() is sys for value_of in variables.values())):
            forbidden.append("sys.modules")
        if forbidden:
            raise _hidden_variables(self._name, forbidden[0], function.__name__)
        # builtins that a global may shadow, variables bound later, and attributes
        absent = frozenset(names).difference(namespace)
        for name in sorted(absent & _FORBIDDEN_BUILTINS):
            raise _hidden_variables(self._name, f"{name}(…)", function.__name__)
        self._add(functools.partial(getattr, function, "__code__"), code, function.__name__)  # autoreload replaces it
        if is_generated(function):
            self._compared |= names.keys()
        else:
            self._names |= names.keys()
            self._absent.setdefault(id(namespace), (namespace, set()))[1].update(absent)
        self._strings |= strings
        self._computed |= not _COMPUTED.isdisjoint(names)
        for name, value_of in variables.items():
            self._record(value_of, name, pending)
        pending += [(sys.modules.get(name), name) for name in names]
        for attribute in ("__defaults__", "__kwdefaults__"):
            if getattr(function, attribute):
                self._record(
                    functools.partial(getattr, function, attribute), f"{function.__name__}.{attribute}", pending
                )

    def _class(self, cls: type, path: str, pending: list[tuple[Any, str]], extra_names: tuple[str, ...]) -> None:
        is_new = cls not in self._classes
        self._classes.add(cls)
        if not is_fixed_class(cls):
            self._objects.append((cls, path))
        metaclass = type(cls)
        if metaclass is not type and metaclass not in self._classes and not is_fixed_class(metaclass):
            self._class(metaclass, f"type({path})", pending, ("__call__",))
        for name, base, method in implicit_methods(cls, extra_names):
            if not is_new and name not in extra_names:
                continue
            pending += [(part, path) for part in functions_of(method)]
            if not is_fixed_class(base) and method is class_attribute(cls, name):
                lookup = functools.partial(vars(cls).get, name) if base is cls else None
                self._add(lookup or functools.partial(class_attribute, cls, name), method, f"{path}.{name}")

    def _value(self, value: Any, path: str, pending: list[tuple[Any, str]]) -> None:
        if is_stream(value):
            raise _stream(self._name, value, path)
        size = excess_size(value)
        if size:
            raise _too_large_to_compare(self._name, value, path, size)
        contents = reader(value)
        if contents is not None:
            self._add(*contents, path)
        if isinstance(value, Expr):
            return
        contents_name = attribute_with_contents(value)
        if contents_name is not None:
            self._record(functools.partial(getattr, value, contents_name), path, pending)
        if isinstance(value, (ReferenceType, ContextVar)):
            self._add(functools.partial(referred, value), referred(value), path)
        pending += [(part, f"{path}[…]") for part in parts(value)]
        if stands_for_expression(value):
            if is_fixed_class(type(value)):
                self._add(value.__expr__, value.__expr__(), path)
                return
        elif class_attribute(type(value), "__array__") is not None and not is_known(
            type(value)
        ):  # the value is an array of another library
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

    def _attribute(self, owner: Any, name: str, path: str) -> None:
        values: list[tuple[Any, str]] = []
        cls = type(owner)
        attributes_dict = getattr(owner, "__dict__", None)
        if isinstance(owner, type) and any(name in vars(base) for base in owner.__mro__):
            for base in owner.__mro__:
                if name in vars(base) and not is_fixed_class(base):
                    self._record(functools.partial(class_attribute, owner, name), path, values)
                    values += [(part, path) for part in functions_of(vars(base)[name])]
        elif isinstance(attributes_dict, dict) and name in attributes_dict:
            self._record(functools.partial(attributes_dict.get, name), path, values)
        else:
            method = class_attribute(cls, name)
            if isinstance(method, (MemberDescriptorType, GetSetDescriptorType)):
                self._descriptor(owner, name, path, values)
            elif method is not None:
                lookup = functools.partial(class_attribute, cls, name)
                if isinstance(attributes_dict, dict):
                    lookup = functools.partial(attribute_of, attributes_dict, cls, name)
                self._add(lookup, method, path)
                for base in cls.__mro__:  # a method may call the method that it overrides
                    if name in vars(base):
                        values += [(part, path) for part in functions_of(vars(base)[name])]
            elif self._computed and name in self._strings and isinstance(attributes_dict, dict):
                self._add(functools.partial(attributes_dict.get, name), None, path)
        for value, where in values:
            self.visit(value, where)

    def _descriptor(self, owner: Any, name: str, path: str, pending: list[tuple[Any, str]]) -> None:
        """Record an attribute with a C descriptor: a slot, or a field of a C object."""
        read = functools.partial(getattr, owner, name, None)
        if read() is read():
            self._record(read, path, pending)
        elif type(read()) in _PLAIN:
            self._add(functools.partial(same_number, read, exact(read())), True, path)

    def _record(self, read: Read, path: str, pending: list[tuple[Any, str]]) -> None:
        value = read()
        self._add(read, value, path)
        pending.append((value, path))

    def _add(self, read: Read, value: Any, path: str) -> None:
        self.readers.append((read, value))
        if len(self.readers) > _MAX_READERS:
            raise _too_many_readers(self._name, path, _MAX_READERS)


def _names_in(code: CodeType) -> tuple[dict[str, None], set[str]]:
    """Return the names in a code object and its nested functions, and its strings, which may be attribute names.

    Globals, attributes and imported modules are not distinguished, so each name is looked up as all three.
    """
    names, strings = dict.fromkeys(code.co_names), set[str]()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_names, inner_strings = _names_in(constant)
            names |= inner_names
            strings |= inner_strings
        else:
            items = constant if isinstance(constant, tuple) else (constant,)
            strings |= {item for item in items if isinstance(item, str)}
    return names, strings


def _too_large_to_compare(function: str, value: Any, path: str, size: str) -> DeclarationError:
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


def _hidden_variables(function: str, name: str, caller: str = "") -> DeclarationError:
    """Return the error for a builtin or attribute that reads variables whose names are not in the code."""
    return DeclarationError(
        f"{function} uses {name}" + (f", in {caller}" if caller not in ("", function) else ""),
        rule="a function must read variables by their names: it runs once for many calls, and again when one of them "
        "has changed",
        fix="name the variable itself, or pass its value as an argument",
    )


def _stream(function: str, value: Any, path: str) -> DeclarationError:
    return DeclarationError(
        f"{function} reads {path or 'a value'} from outside, a {type(value).__name__}",
        rule="a function's body runs once for many calls, so it must not draw from anything that gives another "
        "value each time",
        fix="draw the value outside and pass it as an argument",
    )


def _too_many_readers(function: str, path: str, limit: int) -> DeclarationError:
    return DeclarationError(
        f"{function} reads more than {limit:,} variables and attributes from outside, {path} among them",
        rule="what a function reads from outside must be so little that it can be compared at each call",
        fix="pass what it needs as arguments",
    )
