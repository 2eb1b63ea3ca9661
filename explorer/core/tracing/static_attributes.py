"""Attributes of objects and classes, looked up without running properties or descriptors.

While a traced function is inspected, code of user objects must not run, because a property may compute, count or fail.
This module therefore reads ``__dict__`` and class bodies directly.
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
    """Return whether the source at ``path`` never changes: it belongs to explorer, Python or an installed package."""
    if path.startswith(INTERNAL) or path.startswith("<frozen "):
        return True
    if any(part in path for part in _INSTALLED):
        return True
    return os.path.realpath(path).startswith(_STDLIB)


def is_known(cls: type) -> bool:
    """Return whether explorer knows how the values of a class change."""
    return (cls.__module__ or "").split(".")[0] in ("explorer", "numpy")


def functions_of(attribute: Any) -> list[Any]:
    """Return the functions of which a class attribute, such as a property or a method, consists."""
    if isinstance(attribute, property):
        return [attribute.fget]
    if isinstance(attribute, (classmethod, staticmethod)):
        return [attribute.__func__]
    if isinstance(attribute, functools.cached_property):
        return [attribute.func]
    return [] if isinstance(attribute, (MemberDescriptorType, GetSetDescriptorType)) else [attribute]


def is_traced(value: Any) -> bool:
    """Return whether a value is a traced function, whose traces record their own dependencies."""
    return type(value).__module__ == "explorer.core.tracing.decorator"


def is_fixed_class(cls: type) -> bool:
    """Return whether a class's methods never change: it belongs to explorer, Python or an installed package."""
    return is_fixed(_file_of(cls))


def is_fixed_module(module: ModuleType) -> bool:
    """Return whether a module never changes: it belongs to explorer, Python or an installed package.

    Neither modules created by a program (``types.ModuleType``) nor built-in modules have a file, but only built-in
    modules have a loader.
    """
    path = getattr(module, "__file__", None)
    return is_fixed(path) if path else getattr(module, "__spec__", None) is not None


def _file_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    if cls.__module__ in sys.builtin_module_names:
        return "<frozen builtins>"
    return getattr(module, "__file__", None) or ""


def attribute_of(instance_attributes: dict[str, Any], cls: type, name: str) -> Any:
    """Return the attribute ``name`` of an object of class ``cls`` with the given instance attributes."""
    return instance_attributes[name] if name in instance_attributes else class_attribute(cls, name)


def slots(cls: type) -> list[str]:
    """Return the names of the slots of objects of a class."""
    return [
        name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, MemberDescriptorType)
    ]


def has_attributes(value: Any) -> bool:
    """Return whether a value has attributes and is not an object of explorer or NumPy."""
    cls = type(value)
    if is_known(cls):
        return False
    return isinstance(getattr(value, "__dict__", None), dict) or bool(slots(cls))


def implicit_methods(cls: type, extra_names: tuple[str, ...]) -> Iterator[tuple[str, type, Any]]:
    """Yield (name, defining class, method) for all methods that Python and explorer call implicitly.

    These are operators, comparisons and hashes, and methods whose names are in ``extra_names``.
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
    for name in [*names, *extra_names]:
        for base in cls.__mro__:
            method = vars(base).get(name)
            if isinstance(method, (FunctionType, property, classmethod, staticmethod)):
                yield name, base, method


def is_generated(function: FunctionType) -> bool:
    """Return whether a dataclass generated the method."""
    return function.__code__.co_qualname.startswith("__create_fn__.")
