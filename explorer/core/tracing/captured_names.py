"""A survey of a function: the variables, attributes and contents that it, and the functions that it uses, may read.

Code is looked at, never run: a name that it mentions is followed from the globals, closures and defaults through
containers, and to the attributes of objects. Contents that are too many to be compared at each call are refused.

``captures.watch`` runs it once for each trace. Watching a run instead would see one branch only, proxies for globals
and closures would change what the code sees, and a list that the user writes would be wrong one day. The survey errs on
the side of more: something that is watched in vain costs a comparison for each call, something missed gives an old
result.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
from contextvars import ContextVar
from operator import attrgetter, methodcaller
from types import (
    BuiltinFunctionType,
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
from explorer.core.bit_keys import exact
from explorer.core.ir.expr import Expr
from explorer.core.ir.identity_comparison import Read
from explorer.core.ir.source_location import INTERNAL
from explorer.core.tracing.bytecode_names import Comparisons, is_fixed, merge, reads
from explorer.core.tracing.capture_errors import stream, too_large_to_compare, too_many_readers, unseen_variables
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
from explorer.core.tracing.implicit_methods import (
    CONSTRUCTING,
    comparing_methods,
    implicit_methods,
    is_generated,
)
from explorer.core.tracing.static_attributes import (
    attribute_of,
    functions_of,
    has_attributes,
    is_fixed_class,
    is_fixed_module,
    is_known,
    is_traced,
    slots,
)

_PLAIN = frozenset((NoneType, bool, int, float, complex, str, bytes, range, slice, type(...)))
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb"})
"""names of the ``os`` module's that read environment variables"""
_SOURCES_OF_ENVIRONMENT = (os, os.environ, os.getenv, getattr(os, "environb", os), getattr(os, "getenvb", os))
_UNSEEN = frozenset({"globals", "eval", "exec", "__import__"})
"""builtins that read variables whose names are not in the code"""
_UNSEEN_ATTRIBUTES = frozenset({"__globals__", "f_globals", "f_locals", "import_module"})
"""attributes through which such variables are read; ``sys.modules`` is another one"""

_CALLED = (FunctionType, MethodType, functools.partial, dict, MappingProxyType)
"""what a decorator of an installed package holds of the functions that it was given"""
_MOST = 20_000
"""readers of one function"""


class Survey:
    """Readers of all that a function may read, each with the object that it gave, in ``readers``."""

    def __init__(self, name: str) -> None:
        self.readers: list[tuple[Read, Any]] = []
        self._name = name
        self._names: set[str] = set()
        self._texts: set[str] = set()
        self._computed = False
        self._comparisons: Comparisons = {}
        self._objects: list[tuple[Any, str]] = []
        self._seen: dict[int, Any] = {}
        self._classes: dict[type, str] = {}
        self._compared: set[str] = set()
        self._environment = False
        self._builtins = False

    def visit(self, start: Any, path: str) -> None:
        """Note what a function reads, and what that reads in turn; keep other objects for their attributes."""
        # A list and no recursion: a linked list of the user's may be longer than Python's stack is deep.
        pending = [(start, path)]
        while pending:
            current, path = pending.pop()
            if type(current) in _PLAIN or id(current) in self._seen:
                continue
            # the object too, not its id alone: a temporary's id may be another object's a moment later
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
                    raise unseen_variables(self._name, f"{current.__name__}(…)")
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
        """Note the attributes that any of the functions names, until there are no more objects and names."""
        noted: set[tuple[int, str]] = set()
        compared: set[tuple[int, str]] = set()
        while True:
            self._enter_comparisons()
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
            raise unseen_variables(self._name, f"{name}(…)")
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
        read = reads(code)
        unseen = sorted(_UNSEEN_ATTRIBUTES.intersection((*read.variables, *read.attributes)))
        reads_sys = "sys" in read.modules or any(function.__globals__.get(name) is sys for name in read.variables)
        if unseen or ("modules" in read.attributes and reads_sys):
            raise unseen_variables(self._name, unseen[0] if unseen else "sys.modules", function.__name__)
        self._add(functools.partial(getattr, function, "__code__"), code, function.__name__)  # autoreload exchanges it
        if is_generated(function):
            self._compared |= read.attributes
        else:
            self._names |= read.attributes
            merge(self._comparisons, read.comparisons)
        self._texts |= read.texts
        self._computed |= read.computed
        variables: dict[str, Read] = {
            name: functools.partial(contents_of, cell)
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False)
        }
        for name in read.variables:
            if name in _UNSEEN and name not in function.__globals__:
                raise unseen_variables(self._name, f"{name}(…)", function.__name__)
            if name in function.__globals__:
                variables[name] = functools.partial(function.__globals__.get, name)
            else:  # a builtin, which a global may hide, or a name that is bound later
                self._add(functools.partial(function.__globals__.get, name), None, name)
        for name, value_of in variables.items():
            self._note(value_of, name, pending)
        pending += [(sys.modules.get(name), name) for name in read.modules]
        for attribute in ("__defaults__", "__kwdefaults__"):
            if getattr(function, attribute):
                self._note(functools.partial(getattr, function, attribute), f"{function.__name__}.{attribute}", pending)

    def _class(self, cls: type, path: str, pending: list[tuple[Any, str]], further: tuple[str, ...]) -> None:
        """Enter the methods that Python, and explorer, call without naming them, those that compare excepted."""
        self._classes.setdefault(cls, path)
        if not is_fixed_class(cls):
            self._objects.append((cls, path))
        metaclass = type(cls)
        if metaclass is not type and metaclass not in self._classes and not is_fixed_class(metaclass):
            self._class(metaclass, f"type({path})", pending, ("__call__",))
        for name, base, method in implicit_methods(cls, further):
            pending += [(part, path) for part in functions_of(method)]
            if not is_fixed_class(base) and method is class_attribute(cls, name):
                own = functools.partial(vars(cls).get, name) if base is cls else None
                self._add(own or functools.partial(class_attribute, cls, name), method, f"{path}.{name}")

    def _enter_comparisons(self) -> None:
        """Enter the methods that compare objects, as far as the code that was read compares any."""
        seen = None
        while seen != (self._comparisons, len(self._classes)):
            seen = {**self._comparisons}, len(self._classes)
            for cls, path in [*self._classes.items()]:
                for method in [*comparing_methods(cls, self._comparisons)]:
                    self.visit(method, path)

    def _value(self, value: Any, path: str, pending: list[tuple[Any, str]]) -> None:
        if is_stream(value):
            raise stream(self._name, value, path)
        size = excess(value)
        if size:
            raise too_large_to_compare(self._name, value, path, size)
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
        """Note an attribute that code in C reads: a slot, or a field of an object of C."""
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
            raise too_many_readers(self._name, path, _MOST)
