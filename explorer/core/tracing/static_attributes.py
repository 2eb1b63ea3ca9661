"""Attributes of objects and classes, looked up without running a property or a descriptor.

The survey of a traced function looks at objects of the user's, and must not run their code: a property may compute,
count or fail. So it reads ``__dict__`` and the bodies of classes as they are.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

from explorer.core.attributes import class_attribute
from explorer.core.ir.source_location import INTERNAL

CONSTRUCTING = ("__init__", "__new__", "__post_init__")
_STDLIB = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.lru_cache(maxsize=4096)
def is_fixed(path: str) -> bool:
    """Whether source at a path never changes: explorer's, the standard library's, or an installed package's."""
    if path.startswith(INTERNAL) or path.startswith("<frozen "):
        return True
    if any(part in path for part in _INSTALLED):
        return True
    return os.path.realpath(path).startswith(_STDLIB)


def is_known(cls: type) -> bool:
    """Whether explorer knows how a class's values change."""
    return (cls.__module__ or "").split(".")[0] in ("explorer", "numpy")


def functions_of(attribute: Any) -> list[Any]:
    """Return the functions of an attribute of a class: a property's, a method's."""
    if isinstance(attribute, property):
        return [attribute.fget]
    if isinstance(attribute, (classmethod, staticmethod)):
        return [attribute.__func__]
    if isinstance(attribute, functools.cached_property):
        return [attribute.func]
    return [] if isinstance(attribute, (MemberDescriptorType, GetSetDescriptorType)) else [attribute]


def is_traced(value: Any) -> bool:
    """Whether a value is a traced function, whose traces know their own dependencies."""
    return type(value).__module__ == "explorer.core.tracing.decorator"


def is_fixed_class(cls: type) -> bool:
    """Whether a class's methods never change: explorer's, the standard library's, or an installed package's."""
    return is_fixed(_file_of(cls))


def is_fixed_module(module: ModuleType) -> bool:
    """Whether a module never changes: explorer's, the standard library's, or an installed package's.

    One that a program makes (``types.ModuleType``) has no file, and neither has a built-in one, which has a loader.
    """
    path = getattr(module, "__file__", None)
    return is_fixed(path) if path else getattr(module, "__spec__", None) is not None


def _file_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    if cls.__module__ in sys.builtin_module_names:
        return "<frozen builtins>"
    return getattr(module, "__file__", None) or ""


def attribute_of(own: dict[str, Any], cls: type, name: str) -> Any:
    """Return the attribute of an object whose instance attributes are ``own``."""
    return own[name] if name in own else class_attribute(cls, name)


def slots(cls: type) -> list[str]:
    """Return the names of the slots that objects of a class have."""
    return [
        name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, MemberDescriptorType)
    ]


def has_attributes(value: Any) -> bool:
    """Whether a value is an object with attributes that is not explorer's or NumPy's own."""
    cls = type(value)
    if is_known(cls):
        return False
    return isinstance(getattr(value, "__dict__", None), dict) or bool(slots(cls))


def implicit_methods(cls: type, further: tuple[str, ...]) -> Iterator[tuple[str, type, Any]]:
    """Yield the methods that Python, and explorer, call without naming them: operators, comparisons, hashes.

    Each comes with its name and the class that defines it; ``further`` are names of more methods.
    """
    names = dict.fromkeys(
        name
        for base in cls.__mro__
        if not is_fixed_class(base)
        for name in vars(base)
        if name[:2] == name[-2:] == "__" and name not in (*CONSTRUCTING, "__del__")
    )
    if class_attribute(cls, "__expr__") is not None:
        names["type"] = None
    for name in [*names, *further]:
        for base in cls.__mro__:
            method = vars(base).get(name)
            if isinstance(method, (FunctionType, property, classmethod, staticmethod)):
                yield name, base, method


def is_generated(function: FunctionType) -> bool:
    """Whether it is a method that a dataclass generates."""
    return function.__code__.co_qualname.startswith("__create_fn__.")
