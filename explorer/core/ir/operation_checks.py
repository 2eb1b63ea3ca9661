"""Checks and registration of operation classes, and extensions of existing operations.

What a class of operations must have is asked once, when Python has read its body: an operation without a gradient rule
would else fail in the middle of somebody's training, months later. Each check names the facet and the way out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from explorer.core import registry
from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError, OperandError

if TYPE_CHECKING:
    from explorer.core.ir.operation import Operation
    from explorer.core.types.tensor_type import AnyType


class OperationRedefined(UserWarning):
    """Repeated declaration of an operation under the same module and name; it replaces the earlier one."""


_RENAMED = {
    "even": "is_even",
    "total": "defined_everywhere",
    "prepares": "packed_operand",
    "prepare": "pack_operand",
    "pieces": "tiles",
    "in_pieces": "is_tileable",
    "rows": "reduced_axes",
    "joins": "combine_ufunc",
    "part": "partial_reduce",
    "part_dtype": "partial_dtype",
    "finish": "finalize",
    "moves": "changes_device",
}
"""old name of a facet → today's"""


def check_facet_names(cls: type[Operation], base: type[Operation]) -> None:
    """Raise DeclarationError for a facet with an old name, or with one that is nearly a facet's."""
    check_names(cls, base, "the operation", _RENAMED)


def check_facets(cls: type[Operation], base: type[Operation], documented: bool) -> None:
    """Raise DeclarationError if a class lacks a facet that its ``base`` leaves open."""
    missing = [] if documented else ["a docstring (one sentence)"]
    facets = ("infer", "kernel", "flops")
    missing += [f"{facet}()" for facet in facets if getattr(cls, facet) is getattr(base, facet)]
    for facet, excuse in (("gradient", "nondifferentiable"), ("batch", "unbatchable")):
        if getattr(cls, facet) is getattr(base, facet) and not getattr(cls, excuse):
            missing.append(f"{facet}(), or {excuse} = 'why there is none'")
    if cls.combine_ufunc is not base.combine_ufunc and cls.partial_reduce is base.partial_reduce:
        missing.append("partial_reduce(), whose values combine_ufunc() combines")
    if cls.packed_operand is not None and cls.pack_operand is base.pack_operand:
        missing.append(f"pack_operand(), for the operand number {cls.packed_operand}")
    if not cls.examples and not cls.takes_tuples:
        missing.append("examples, on which the laws are checked")
    if missing:
        raise DeclarationError(
            f"operation {cls.__name__} lacks {'; '.join(missing)}",
            rule="an operation's class body must define or inherit every facet",
            fix="add the missing facets, or inherit them (Elementwise has infer, batch and flops)",
        )


def register_operation(cls: type[Operation], make: Callable[[], Operation] | None) -> None:
    """Register an operation's class under its name, and the result of ``make`` as the function of that name."""
    registered = registry.operations.get(cls.name)
    # the same module and name: a notebook's cell that runs again
    if registered is not None:
        if (registered.__module__, registered.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DeclarationError(
                f"a second operation {cls.name!r} ({cls.__module__}.{cls.__qualname__})",
                rule=f"an operation's name must be unique; {registered.__module__}.{registered.__qualname__} has it",
                fix="set name = '…' in the class body",
            )
        warnings.warn(
            f"operation {cls.name!r} is declared again and replaces the earlier one", OperationRedefined, stacklevel=3
        )
    function = registry.functions.get(cls.name)
    if function is not None and not hasattr(function, "attribute_names") and function.__module__ != cls.__module__:
        raise DeclarationError(
            f"an operation {cls.name!r} ({cls.__module__}.{cls.__qualname__})",
            rule=f"names must be unique; {function.__module__}.{cls.name} is a function of that name already",
            fix="set name = '…' in the class body",
        )
    registry.operations[cls.name] = cls
    if make is not None:
        registry.functions[cls.name] = make()


def extend(base: type[Operation], cls: type[Operation]) -> None:
    """Register ``cls`` for operands that ``base`` rejects; a class of the same module and name is replaced."""
    unknown = [name for name in cls.attribute_names if name not in base.attribute_names]
    if unknown:
        raise DeclarationError(
            f"operation {cls.name}, which extends {base.name}, with the attributes {', '.join(unknown)}",
            rule=f"its attributes must be of {base.name}: {', '.join(base.attribute_names) or 'it has none'}",
            fix="leave them out, or declare an operation of its own without extends=",
        )
    extensions = registry.extensions.setdefault(base.name, [])
    for index, extension in enumerate(extensions):
        if (extension.__module__, extension.__qualname__) == (cls.__module__, cls.__qualname__):
            extensions[index] = cls
            return
    extensions.append(cls)


def find_extension(operation: Operation, types: tuple[AnyType, ...], refusal: OperandError) -> Operation:
    """Return the first registered extension that accepts operands the operation itself rejects.

    Raises the original error, with the rules of all extensions, if there is none.
    """
    rules = [refusal.rule]
    for operation_class in registry.extensions.get(type(operation).name, ()):
        attributes = operation.attributes
        extension = operation_class(**{name: attributes[name] for name in operation_class.attribute_names})
        try:
            extension.type_of(types)
        except OperandError as error:
            rules.append(f"or, for {extension.name}, {error.rule}")
        else:
            return extension
    if len(rules) == 1:
        raise refusal
    raise OperandError(refusal.given, rule="; ".join(rules), fix=refusal.fix) from None
