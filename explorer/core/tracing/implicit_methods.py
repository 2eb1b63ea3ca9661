"""Methods that Python calls without a name in the code: constructors, operators, comparisons.

``a + b`` in a traced function may call any ``__add__`` of the user's, whose own globals then count as well. Methods
that compare are apart: nearly every class has some, and dataclasses generate them, so that entering them all would
watch much that no code compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from explorer.core.attributes import class_attribute
from explorer.core.tracing.bytecode_names import COMPARING, Comparison, Comparisons, is_fixed
from explorer.core.tracing.static_attributes import is_fixed_class

CONSTRUCTING = ("__init__", "__new__", "__post_init__")


def implicit_methods(cls: type, further: tuple[str, ...]) -> Iterator[tuple[str, type, Any]]:
    """Yield the methods that Python, and explorer, call without naming them, those that compare excepted.

    Each comes with its name and the class that defines it; ``further`` are names of more methods.
    """
    names = dict.fromkeys(
        name
        for base in cls.__mro__
        if not is_fixed_class(base)
        for name in vars(base)
        if name[:2] == name[-2:] == "__" and name not in CONSTRUCTING
    )
    if class_attribute(cls, "__expr__") is not None:
        names["type"] = None
    for name in [*names, *further]:
        if name == "__del__" or name in COMPARING:
            continue
        for base in cls.__mro__:
            method = vars(base).get(name)
            if isinstance(method, (FunctionType, property, classmethod, staticmethod)):
                yield name, base, method


def comparing_methods(cls: type, comparisons: Comparisons) -> Iterator[FunctionType]:
    """Yield the methods of a class that the comparisons of some code may call.

    Those that dataclasses generate read nothing of an object that is compared with a constant. A method of the standard
    library, as ``functools.total_ordering`` adds them, may call each of the others.
    """
    methods = {name: [vars(base).get(name) for base in cls.__mro__] for name in COMPARING}
    called = [name for name in COMPARING if name in comparisons]
    if any(_is_of_library(method) for name in called for method in methods[name]):
        called = [*COMPARING]
    for name in called:
        comparison = comparisons.get(name, Comparison.ANY)
        for method in methods[name]:
            if isinstance(method, FunctionType) and (comparison is Comparison.ANY or not is_generated(method)):
                yield method


def is_generated(function: FunctionType) -> bool:
    """Whether it is a method that a dataclass generates; it compares only what a method that is entered compares."""
    return function.__code__.co_qualname.startswith("__create_fn__.")


def _is_of_library(method: Any) -> bool:
    return isinstance(method, FunctionType) and not is_generated(method) and is_fixed(method.__code__.co_filename)
