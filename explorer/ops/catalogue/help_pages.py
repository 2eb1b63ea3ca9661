"""Help pages of operations: shapes, dtypes, gradient, laws and an example.

The facts are obtained by calling the operation: ``infer`` returns the types, ``gradient`` the gradient's formula, and
the kernel the example's values. User-defined operations therefore have help pages too. If one of their methods fails,
the page shows the error.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Operation
from explorer.core.ir.operation_examples import Example, Integers
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array, TensorType
from explorer.ops.catalogue.formulas import formula

_WIDTH = 100
_DTYPES = ("bool", "int64", "float16", "float32", "float64", "complex128")
_LAWS = (
    ("elementwise", "elementwise"),
    ("linear", "linear in each operand"),
    ("commutative", "f(a, b) = f(b, a)"),
    ("associative", "f(f(a, b), c) = f(a, f(b, c)) up to rounding"),
    ("idempotent", "f(f(x)) = f(x)"),
    ("involution", "f(f(x)) = x up to rounding"),
    ("is_even", "f(−x) = f(x)"),
    ("monotone", "never decreasing"),
    ("defined_everywhere", "NaN only for NaN"),
    ("view", "a view of its operand, which moves no elements"),
)
"""class attribute → text of the law that the attribute declares"""
_RANGES = {"nonnegative": "results ≥ 0", "positive": "results > 0", "unit": "results from 0 to 1"}
_MAX_ELEMENTS = 32
"""maximum number of elements of each operand in an example"""
_COMPOSITION = "It is composed of other operations and uses their gradients and batching rules."


def page(operation: Operation) -> str:
    """Return the help page of an ``operation`` without attributes: signature, docstring, facts and an example."""
    cls = type(operation)
    names = operand_names(operation)
    text = [f"{cls.name}({', '.join(names)}) → expression", "", inspect.cleandoc(cls.__doc__ or ""), "", facts(cls)]
    return "\n".join([*text, "", *_row_text(lambda: _example(operation, names)).splitlines()])


def document(functions: Iterable[Callable[..., Any]]) -> None:
    """Append facts about the operation to the docstring of each recording function.

    For a composition, which has no operation class, append a note instead.
    """
    for function in functions:
        cls = registry.operations.get(function.__name__)
        own = facts(cls) if cls is not None else _COMPOSITION
        function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\n{own}"


def facts(cls: type[Operation]) -> str:
    """Describe an operation class's shapes, dtypes, gradient and laws, in one paragraph each."""
    rows = {"Shapes": _shapes, "Dtypes": _dtypes, "Gradient": _gradient, "Laws": _laws}
    return "\n".join(
        textwrap.fill(_row_text(partial(row, cls)), _WIDTH, initial_indent=f"{title:10}", subsequent_indent=" " * 10)
        for title, row in rows.items()
    )


def operand_names(operation: Operation) -> tuple[str, ...]:
    """Return the operands' names, taken from the signature of the kernel, the gradient or ``infer``."""
    cls = type(operation)
    count = cls.count_operands()
    for method, skipped in ((cls.kernel, 2), (cls.gradient, 3), (cls.infer, 1)):
        parameters = list(inspect.signature(method).parameters.values())[skipped:]
        if len(parameters) == count and all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters):
            return tuple(each.name for each in parameters)
    return ("*operands",) if count is None else tuple("xyzuvw"[:count])


def _row_text(row: Callable[[], str]) -> str:
    """Return ``row()``, or the error message if a user-defined method fails."""
    try:
        return row()
    except Exception as error:
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"


def _operation(cls: type[Operation], example: Example) -> Operation:
    operation: Operation = cls(**example.attributes)
    return operation


def _arrays(example: Example, shape: tuple[int, ...] | None = None) -> list[Array]:
    """Return an example's operands as arrays of evenly spaced values, rounded to two digits."""
    arrays = []
    for operand in example.operands:
        size = int(np.prod(shape or operand.shape))
        if isinstance(operand, Integers):
            elements: Array = operand.low + np.arange(size) % (operand.high - operand.low)
        else:
            elements = np.linspace(operand.low, operand.high, size).round(2)
        arrays.append(elements.reshape(shape or operand.shape).astype(operand.dtype))
    return arrays


def _types(arrays: Sequence[Array]) -> tuple[TensorType, ...]:
    return tuple(TensorType(array.shape, array.dtype) for array in arrays)


def _shapes(cls: type[Operation]) -> str:
    if cls.elementwise:
        count = cls.count_operands()
        return "any; the result has the operand's" if count == 1 else "any that broadcast, as in NumPy"
    rows = []
    for example in cls.examples[:3]:
        result = _operation(cls, example).type_of(_types(_arrays(example)))
        results = [str(part.shape) for part in getattr(result, "parts", [result])]
        attributes = "".join(f", {name}={value!r}" for name, value in example.attributes.items())
        rows.append(f"{', '.join(str(each.shape) for each in example.operands)}{attributes} → {', '.join(results)}")
    return "; ".join(dict.fromkeys(rows)) + " (examples)" if rows else "the same as its operands'"


def _dtypes(cls: type[Operation]) -> str:
    """Return the result's dtype for each operand dtype; operands that are integers in the example keep their dtype."""
    if not cls.examples:
        return "the same as its operands'"
    example = cls.examples[0]
    varied = [index for index, each in enumerate(example.operands) if not isinstance(each, Integers)]
    if not varied:
        varied = list(range(len(example.operands)))
    results: dict[str, str] = {}
    operation, declared = _operation(cls, example), _types(_arrays(example))
    for dtype in _DTYPES:
        types = list(declared)
        for index in varied:
            types[index] = types[index].with_dtype(np.dtype(dtype))
        try:
            result = operation.type_of(tuple(types))
        except ExplorerError:
            results[dtype] = ""
        else:
            parts = getattr(result, "parts", [result])
            results[dtype] = ", ".join(dict.fromkeys(part.dtype.name for part in parts))
    same = [dtype for dtype, result in results.items() if result == dtype]
    rows = [f"{', '.join(same)} stay"] if same else []
    others = [(dtype, result) for dtype, result in results.items() if result not in (dtype, "")]
    for result, group in groupby(sorted(others, key=lambda each: each[1]), key=lambda each: each[1]):
        rows.append(f"{', '.join(dtype for dtype, _ in group)} → {result}")
    rejected = [dtype for dtype, result in results.items() if not result]
    return "; ".join(rows + ([f"rejected: {', '.join(rejected)}"] if rejected else []))


def _gradient(cls: type[Operation]) -> str:
    if cls.nondifferentiable:
        return f"none: {cls.nondifferentiable}"
    if not cls.examples:
        return "composed of its parts' gradients"
    example = cls.examples[0]
    operation = _operation(cls, example)
    names = operand_names(operation)
    if len(names) != len(example.operands) or names == ("*operands",):
        names = tuple("abcdefgh"[: len(example.operands)])
    operands = [tensor(array, name=name) for name, array in zip(names, _arrays(example), strict=True)]
    result = operation(*operands)
    upstream = tensor(np.ones(result.shape, result.dtype), name="g")
    known = {result.uid: "y", upstream.uid: "g", **{each.uid: name for each, name in zip(operands, names, strict=True)}}
    gradients = operation.gradient(upstream, result, *operands)
    rows = [
        f"of {name}: {formula(gradient, known)}" if gradient is not None else f"of {name}: none"
        for name, gradient in zip(names, gradients, strict=True)
    ]
    return f"{'; '.join(rows)}; g is the gradient of the result y"


def _laws(cls: type[Operation]) -> str:
    declared = [text for attribute, text in _LAWS if getattr(cls, attribute)]
    declared += [_RANGES[cls.range]] if cls.range in _RANGES else []
    declared += [] if cls.pure else ["runs as often as it is recorded"]
    name = cls.name if not cls.attribute_names else f"operation({cls.name!r})"
    return f"{'; '.join(['its type, gradient and batches', *declared])}. ex.check(ex.{name}) tries them."


def _example(operation: Operation, names: tuple[str, ...]) -> str:
    """Return the source and the result of the first declared example; elementwise operands have three elements."""
    example = next(iter(operation.examples), None)
    if example is None:
        return ""
    arrays = _arrays(example, (3,) if operation.elementwise else None)
    if max(array.size for array in arrays) > _MAX_ELEMENTS:
        return ""
    with np.errstate(all="ignore"):
        value = operation.compute(*arrays)
    call_text = ", ".join(f"np.{' '.join(repr(array).split())}" for array in arrays)
    return f">>> ex.evaluate(ex.{operation.name}({call_text}))\n{value!r}"
