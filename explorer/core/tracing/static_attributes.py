"""Attributes of objects and classes as they stand, looked up without running a property or a descriptor."""

from __future__ import annotations

import functools
import sys
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any

from explorer.core.tracing.bytecode_names import is_fixed


def is_known(cls: type) -> bool:
    """Whether explorer knows by itself how a class's values change."""
    return (cls.__module__ or "").split(".")[0] in ("explorer", "numpy")


def functions_of(attribute: Any) -> list[Any]:
    """The functions behind an attribute of a class."""
    if isinstance(attribute, property):
        return [attribute.fget]
    if isinstance(attribute, (classmethod, staticmethod)):
        return [attribute.__func__]
    if isinstance(attribute, functools.cached_property):
        return [attribute.func]
    return [] if isinstance(attribute, (MemberDescriptorType, GetSetDescriptorType)) else [attribute]


def is_traced(value: Any) -> bool:
    """Whether it is a traced function: its traces tell by themselves what they depend on."""
    return type(value).__module__ == "explorer.core.tracing.decorator"


def is_fixed_class(cls: type) -> bool:
    """Whether a class's methods never change: explorer's, the standard library's, an installed package's."""
    return is_fixed(_file_of(cls))


def _file_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    if cls.__module__ in sys.builtin_module_names:
        return "<frozen builtins>"
    return getattr(module, "__file__", None) or ""


def class_attribute(cls: type, name: str) -> Any:
    """The attribute of a class as it stands in its body, or in that of a base; None without one."""
    for base in cls.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def attribute_of(own: dict[str, Any], cls: type, name: str) -> Any:
    """The attribute of an object with these own ones."""
    return own[name] if name in own else class_attribute(cls, name)


def slots(cls: type) -> list[str]:
    """The names of the slots that objects of a class have."""
    return [name for base in cls.__mro__ for name, held in vars(base).items() if isinstance(held, MemberDescriptorType)]


def has_attributes(value: Any) -> bool:
    """Whether it is an object with attributes, and none of explorer's or NumPy's own."""
    cls = type(value)
    if is_known(cls):
        return False
    return isinstance(getattr(value, "__dict__", None), dict) or bool(slots(cls))
