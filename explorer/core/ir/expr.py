"""Expressions and operations: recorded values, and the computations that produce them.

An expression has an operation, operands, a type and a line of the user's code. Recording computes only the type, which
takes about two microseconds: ``Expr`` has slots instead of a dataclass's ``__init__``, and the result type is looked up
by operand types before inference runs. A node stores the code object and instruction of the user's line, from which the
file name and line number are computed on demand.

An operation's class body defines all its facets: type inference, kernel, gradient, batching and cost. A class that
lacks one is rejected when it is declared, so laws over the registry can rely on all of them. The fields of the class
are the operation's attributes. Instances are interned, so operations are compared by identity. Attributes are equal if
they have the same type and the same bits (1, 1.0 and True differ, and so do 0.0 and −0.0). Unlike in xDSL, on which
these classes are modelled, kernels are part of the operation's class, so a new operation changes only one file.

NumPy kernels are methods of the operations; all other kernels are in ``kernels``, where users register them with
``ex.kernel``. A user-defined dtype needs no kernel: by default, operands are decoded to numbers and the result is
encoded.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import count
from operator import is_
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, Unpack, cast, dataclass_transform
from weakref import WeakValueDictionary

import numpy as np

from explorer.core import registry
from explorer.core.argument_checks import named, named_methods, options_of, refuse_option
from explorer.core.array_api.numpy_protocol import NumpyProtocol
from explorer.core.array_api.printing import nested
from explorer.core.array_api.suggestions import hint
from explorer.core.attributes import check_names, stands_for_expression
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.exact_keys import exact
from explorer.core.ir.assigned_names import operand_names
from explorer.core.ir.explore_options import PlannedViewOptions
from explorer.core.ir.hooks import RegisteredValue, View, hooks
from explorer.core.ir.identity_comparison import COMPARING
from explorer.core.ir.operation_examples import Example
from explorer.core.ir.recording_context import Scope, line_of, state
from explorer.core.ir.source_location import CalledCode, SourceLocation, function_code, location_of
from explorer.core.ir.tiles import Tile
from explorer.core.policy import NO_POLICIES, Items, Policies
from explorer.core.registry import Registry, functions
from explorer.core.shape import Sizes
from explorer.core.types.custom_dtypes import (
    ElementType,
    accumulator_dtype,
    converted,
    element_of,
    is_text,
    numbers_of,
)
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, Array, TensorType, TupleType
from explorer.record.escape import visible
from explorer.record.renamed import warn_renamed

_uids = count()
next_uid = _uids.__next__


def number_from(first: int) -> None:
    """Give all expressions recorded from now on uids of at least ``first``."""
    while next_uid() < first - 1:
        pass


def _apply(name: str, *operands: Any, **attributes: Any) -> Expr:
    expression: Expr = functions[name](*operands, **attributes)
    return expression


def _binary(name: str, left: Any, right: Any) -> Expr:
    try:
        expression: Expr = functions[name](left, right)
    except OperandError:
        # NumPy's protocol: objects whose class has ``__array_ufunc__ = None`` perform the operation themselves.
        if None in (getattr(left, "__array_ufunc__", 0), getattr(right, "__array_ufunc__", 0)):
            return NotImplemented  # type: ignore[no-any-return]  # then Python calls the method of the other operand
        raise
    return expression


def _logic(connective: str, left: Any, right: Any) -> Expr:
    """Record the logical operation if both operands are boolean, else the bitwise operation, as NumPy does."""
    return _apply(f"{'logical' if _is_boolean(left) and _is_boolean(right) else 'bitwise'}_{connective}", left, right)


# ``True & x`` is logical, as in NumPy: a Python bool has no dtype, but counts as boolean.
def _is_boolean(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return type(value) is bool if dtype is None else dtype.kind == "b"


@named_methods
class Operators:
    """Python's operators and NumPy's array methods: every method records one operation and computes nothing.

    Operations are looked up by name, because higher modules declare them. The methods are written out instead of being
    generated, so that editors can complete them and type checkers know their arguments.
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return _binary("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return _binary("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return _binary("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return _binary("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return _binary("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Expr, Expr]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Expr:
        return _binary("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return _binary("power", other, self)

    def __and__(self, other: Any) -> Expr:
        return _logic("and", self, other)

    def __rand__(self, other: Any) -> Expr:
        return _logic("and", other, self)

    def __or__(self, other: Any) -> Expr:
        return _logic("or", self, other)

    def __ror__(self, other: Any) -> Expr:
        return _logic("or", other, self)

    def __xor__(self, other: Any) -> Expr:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Expr:
        return _binary("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Expr:
        return _binary("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Expr:
        return _binary("left_shift", other, self)

    def __rshift__(self, other: Any) -> Expr:
        return _binary("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Expr:
        return _binary("right_shift", other, self)

    def __invert__(self) -> Expr:
        return _apply("logical_not" if _is_boolean(self) else "invert", self)

    def __matmul__(self, other: Any) -> Expr:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Expr:
        return _binary("matmul", other, self)

    def __neg__(self) -> Expr:
        return _apply("negative", self)

    def __pos__(self) -> Expr:
        return _apply("positive", self)

    def __abs__(self) -> Expr:
        return _apply("absolute", self)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # NumPy's meaning: elementwise, an expression
        return _binary("equal", self, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # as above
        return _binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Expr:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return _binary("greater_equal", self, other)

    def __getitem__(self, index: Any) -> Expr:
        return _apply("getitem", self, index)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()) -> Expr:
        """Return the sum over ``axis`` (None: over all axes); ``keepdims`` keeps the reduced axes with size 1."""
        total: Expr = functions["sum"](self, axis, keepdims, policies=policies)
        return total

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, *, policies: Items = ()) -> Expr:
        """Return the mean over ``axis`` (None: over all axes); ``keepdims`` keeps the reduced axes with size 1."""
        average: Expr = functions["mean"](self, axis, keepdims, policies=policies)
        return average

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
        """Return the maximum over ``axis`` (None: over all axes); ``keepdims`` keeps the reduced axes with size 1."""
        return _apply("max", self, axis=axis, keepdims=keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Expr:
        """Return the minimum over ``axis`` (None: over all axes); ``keepdims`` keeps the reduced axes with size 1."""
        return _apply("min", self, axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Expr:
        """Return the same elements in another shape; a single size may be −1 and is then inferred from the others."""
        return _apply("reshape", self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Expr:
        """Permute the axes; without arguments, reverse them."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            (axes,) = axes
        elif not axes:
            return _apply("transpose", self, None)
        return _apply("transpose", self, axes)

    def flatten(self) -> Expr:
        """Return the elements along a single axis, in row-major order."""
        return _apply("flatten", self)

    def squeeze(self, axis: int | None = None) -> Expr:
        """Remove ``axis``, which must have size 1; None: remove all axes of size 1."""
        return _apply("squeeze", self, axis)

    def clip(self, min: Any = None, max: Any = None) -> Expr:
        """Limit the elements to at least ``min`` and at most ``max``; None: no limit."""
        return _apply("clip", self, min, max)

    def astype(self, dtype: Any) -> Expr:
        """Convert the elements to another dtype."""
        return _apply("cast", self, dtype)

    def to_device(self, device: Any) -> Expr:
        """Copy the value to another device."""
        return _apply("to_device", self, device)

    @property
    def T(self) -> Expr:  # noqa: N802  # NumPy's name
        """The value with its axes reversed."""
        return _apply("transpose", self, None)

    @property
    def mT(self) -> Expr:  # noqa: N802  # the name in the array API standard
        """The matrices in the last two axes, transposed."""
        return _apply("moveaxis", self, -1, -2)


class Expr(NumpyProtocol, Operators):
    """Recorded value: operation, operands, type and line of code. Immutable, and hashed by identity.

    >>> x = ex.tensor([1.0, 2.0], "float32", name="x")
    >>> y = 2 * x + 1
    >>> y.shape, y.dtype
    ((2,), dtype('float32'))
    >>> print(y)
    add: vector 2 float32
      multiply: vector 2 float32
        2: scalar float32
        x: vector 2 float32
      1: scalar float32
    >>> ex.evaluate(y)
    array([3., 5.], dtype=float32)
    """

    __slots__ = ("__weakref__", "code", "instruction", "operands", "operation", "scope", "type", "uid")
    uid: int
    operation: Operation
    operands: tuple[Expr, ...]
    type: AnyType
    scope: Scope | None
    code: CodeType | CalledCode | SourceLocation | None
    instruction: int

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # NumPy's meaning: elementwise, an expression
        # while captured lists are compared, == must test identity (identity_comparison.py)
        equal: Any = self is other if _frame(1).f_code is COMPARING else super().__eq__(other)
        return cast("Expr", equal)

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # type checkers know the attributes and reject all others

        def __getattr__(self, name: str) -> Any:
            if name == "place":
                warn_renamed("Expr.place", "Expr.location")
                return self.location
            suggestion = hint(name, [each for each in dir(type(self)) if each[0] != "_"])
            message = f"an expression has no attribute {name!r}" + (f"; {suggestion}" if suggestion else "")
            raise AttributeError(message, name=name, obj=self)

    @property
    def tensor_type(self) -> TensorType:
        """Type of a value with a single output; raises OperandError if there are several."""
        if type(self.type) is not TensorType:
            raise OperandError(
                f"{self.operation.name}: a value with the outputs {self.type}",
                rule="a value with several outputs must be unpacked before one of them is used",
                fix="unpack it: a, b = f(x)",
            )
        return self.type

    @property
    def shape(self) -> Sizes:
        """Sizes of the dimensions: a tuple with the properties length, rows, columns and channels."""
        return self.tensor_type.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.tensor_type.dtype

    @property
    def device(self) -> Device:
        """Device on which the value will be stored."""
        return self.tensor_type.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.tensor_type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor_type.size

    @property
    def location(self) -> SourceLocation | None:
        """Line of the user's program or of a model file that recorded this node."""
        if self.code is None or isinstance(self.code, SourceLocation):
            return self.code
        return location_of(function_code(self.code), self.instruction)

    def mark_used(self) -> None:
        """Mark this value as used, which makes a tensor's storage read-only."""

    @property
    def label(self) -> str:
        """Label of the node in diagrams: its operation or function, or a tensor's name."""
        return self.operation.label

    def eval_register(self) -> RegisteredValue:
        """Register the expression in the thread's default plan, and return its handle (MetaNN: EvalRegister)."""
        return hooks.register(self)

    @options_of(PlannedViewOptions)
    def explore(self, **options: Unpack[PlannedViewOptions]) -> View:
        """Show the expression's graph and plan in a widget; ``options`` are those of ``explorer.explore``."""
        return hooks.explore(self, **options)

    def __len__(self) -> int:
        if not self.shape:
            raise OperandError(
                "len() of a scalar", rule="the operand of len() must have at least one dimension", fix="x.size"
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Expr]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._refuse_in_trace("asarray")
        if copy is False:
            raise StateError(
                "np.asarray(…, copy=False) of an expression",
                rule="copy must be True or None, because evaluating makes a new array",
                fix="np.asarray(x)",
            )
        # results are read-only and may be shared, but np.array(x, copy=True) must return a new array
        value = hooks.evaluate(self)
        return value if dtype is None and not copy else np.array(converted(value, np.dtype(dtype or value.dtype)))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise StateError(
            f"writing to elements of {self!r}",
            rule="an expression must not be written to: it is a recorded value and never changes",
            fix="choose elements with ex.where, or write to a tensor before it is used",
        )

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: Any) -> Expr:
        return self

    def __reduce__(self) -> Any:
        raise StateError(
            f"pickling {self!r}",
            rule="an expression must not be pickled, because it is compared by identity, which copies lose",
            fix="pickle its value (ex.evaluate(x)), or a plan's recording as JSON",
        )

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise OperandError(
                f"{self.type} as an index",
                rule="a Python index must be an integer scalar",
                fix="int(x), x[ex.tensor(…)]",
            )
        return int(self._scalar("index"))

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the module `explorer.array_api`, with the functions of the Python array API standard."""
        return hooks.array_namespace(api_version)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Evaluate the expression, and return its value for another library, such as ``torch.from_dlpack(x)``.

        The value is a copy that the other library may write to.
        """
        self._refuse_in_trace("from_dlpack")
        if copy is False:
            raise BufferError("copy must be True or None, because the value of an expression must not be written to")
        value = np.array(hooks.evaluate(self))
        return value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the processor's device, to which a result is copied."""
        return np.empty(0).__dlpack_device__()

    def _scalar(self, what: str) -> Any:
        if self.size != 1:
            raise OperandError(
                f"{what}() of {self.type}",
                rule=f"the operand of {what}() must have exactly one element",
                fix="use ex.where for a choice by element, or reduce first (.sum(), .max())",
            )
        self._refuse_in_trace(what)
        return numbers_of(hooks.evaluate(self)).item()

    def _refuse_in_trace(self, what: str) -> None:
        # Values recorded before the outermost trace may be read, because they are the same in every call.
        if state.traces and self.uid >= state.traces[0]:
            raise StateError(
                f"{what}() of a value inside an @ex.function",
                rule="a traced function must not read values: its body is recorded once, before any value is known",
                fix="choose by value with ex.cond, or with ex.where by element, or pass the value as a static argument",
            )

    def __repr__(self) -> str:
        return visible(f"<{self.operation.label} #{self.uid}: {self.type}>")

    def __str__(self) -> str:
        return nested(self)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return hooks.cell_result(self, lambda: [self])


_new = object.__new__
_frame = sys._getframe


def record(operation: Operation, operands: tuple[Expr, ...]) -> Expr:
    """Record an operation on operands; raise OperandError, with the user's line, if their combination is invalid."""
    self = _new(Expr)
    self.operation = operation
    self.operands = operands
    types: tuple[AnyType, ...]
    if len(operands) == 2:  # this branch takes half of the recording time
        first, second = operands
        types = first.type, second.type
    elif len(operands) == 1:
        (first,) = operands
        types = (first.type,)
    else:
        types = tuple([operand.type for operand in operands])
    type_ = operation.known_types.get(types)
    if type_ is None:
        try:
            type_ = operation.type_of(types)
        except OperandError as rejection:
            refusal = _with_names(rejection, operands, _written_names(operation))
            self.operation = operation = _find_extension(operation, types, refusal)
            type_ = operation.type_of(types)
    self.type = type_
    for operand in operands:
        if operand.__class__ is not Expr:
            operand.mark_used()
    assign_identity(self)
    return self


def record_typed(
    operation: Operation, type_: AnyType, operands: tuple[Expr, ...], hidden: tuple[Expr, ...] = ()
) -> Expr:
    """Record an operation with a known result type.

    ``hidden`` operands, the values that a called body reads from outside, must already be marked as used.
    """
    self = _new(Expr)
    self.operation, self.type = operation, type_
    self.operands = operands + hidden
    for operand in operands:
        if operand.__class__ is not Expr:
            operand.mark_used()
    assign_identity(self)
    return self


def assign_identity(node: Expr) -> None:
    """Give a new node its uid, scope and source location.

    Uids increase in recording order, so operands have smaller uids than their consumers.
    """
    node.uid = next_uid()
    context = state
    node.scope = context.scope
    node.code, node.instruction = context.origin or line_of(_frame(2))


def make_replacement(
    operation: Operation, operands: tuple[Expr, ...], original: Expr, scope: Scope | None, type_: AnyType | None = None
) -> Expr:
    """Return a new node that replaces ``original``, with its source location and the given ``scope``.

    If ``type_`` is None, the operation infers the type.
    """
    self = _new(Expr)
    self.operation, self.operands, self.scope = operation, operands, scope
    self.type = operation.type_of(tuple([operand.type for operand in operands])) if type_ is None else type_
    self.uid, self.code, self.instruction = next_uid(), original.code, original.instruction
    return self


_interning = threading.RLock()
"""Lock for the tables of instances. It is reentrant, because the garbage collector may run a finalizer that creates an
operation while the thread already holds the lock."""


def _renew() -> None:
    global _interning
    _interning = threading.RLock()


if hasattr(os, "register_at_fork"):
    # if another thread holds the lock during a fork, it would never be released in the child process
    os.register_at_fork(after_in_child=_renew)


_PLAIN = frozenset((int, float, bool, str, tuple, type(None)))


_Operation = TypeVar("_Operation", bound="Operation")


class Interning(type):
    """Metaclass that creates only one instance per combination of attribute values."""

    _instances: WeakValueDictionary[Any, Any]

    attribute_names: tuple[str, ...]

    # Pyright takes the type of an instance from this annotation, and its arguments from the class's fields
    def __call__(cls: type[_Operation], *arguments: Any, **keywords: Any) -> _Operation:  # type: ignore[misc]
        """Return the instance with these attributes."""
        key: tuple[Any, ...] | None = None
        if len(arguments) == len(cls.attribute_names) and not keywords:
            key = cls._key(arguments)
            known: _Operation | None = cls._instances.get(key)
            if known is not None:
                return known
        if Sizes in map(type, arguments) or Sizes in map(type, keywords.values()):  # a shape is stored as a plain tuple
            arguments = tuple([tuple(value) if type(value) is Sizes else value for value in arguments])
            keywords = {name: tuple(value) if type(value) is Sizes else value for name, value in keywords.items()}
        try:
            candidate: _Operation = type.__call__(cls, *arguments, **keywords)
        # Users often pass operands instead of attributes, so this has its own error.
        except TypeError:
            cls._check_attributes((*arguments, *keywords.values()))
            raise
        attributes = tuple([getattr(candidate, name) for name in cls.attribute_names])
        # ``__post_init__`` may have replaced attributes by canonical values, which are then the key
        if key is None or not all(map(is_, attributes, arguments)):
            key = cls._key(attributes)
        with _interning:
            # Two threads may create the same operation; both then use the instance stored first.
            instance: _Operation = cls._instances.setdefault(key, candidate)
        if instance is candidate:
            cls._check_attributes(attributes)
        return instance

    def _check_attributes(cls, arguments: tuple[Any, ...]) -> None:
        operands = [
            value for value in arguments if type(value) not in _PLAIN and (isinstance(value, Expr) or _is_array(value))
        ]
        if operands:
            names = ", ".join(cls.attribute_names)
            raise DeclarationError(
                f"{cls.__name__}(…) with {len(arguments)} arguments, of which {len(operands)} are operands",
                rule=f"an operation class must be called with its attributes ({names or 'it has none'}), "
                "and the resulting operation with operands",
                fix=f"{cls.__name__}({', '.join(f'{name}=…' for name in cls.attribute_names)})(x, …)",
            )

    def _key(cls, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
        key = tuple(map(exact, attributes))
        try:
            hash(key)
        except TypeError:
            raise DeclarationError(
                f"{cls.__name__} with the attributes {attributes}",
                rule="attributes must be numbers, strings, dtypes, functions, or tuples of them",
                fix="pass arrays as operands: ex.tensor(array)",
            ) from None
        return key


def _is_array(value: Any) -> bool:
    """Return whether a value is an array of any library; False for NumPy scalars and data of user-defined types."""
    is_array = hasattr(value, "__array__") and not isinstance(value, np.generic)
    return is_array and not stands_for_expression(value)


Range: TypeAlias = Literal["real", "nonnegative", "positive", "unit"]
"""range of a result's elements: any number, ≥ 0, > 0, or between 0 and 1"""


_tokens = count()


class _Docstring:
    """Docstring of an operation class; for an instance, the operation's generated help page."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, operation: Operation | None, cls: type[Operation]) -> str:
        return self.text if operation is None else hooks.describe_operation(operation)


@named_methods
@dataclass_transform(frozen_default=True, eq_default=False)
class Operation(metaclass=Interning):
    """Base class of all operations; derive from ``Elementwise`` or another base in ``explorer.ops.base`` if one fits.

    ``infer`` returns the result's type or raises OperandError. ``kernel`` computes the result from NumPy arrays.
    ``gradient`` returns the operands' gradients as expressions (None for operands without a gradient). ``batch``
    records the same operation for operands with a leading batch axis. ``flops`` counts arithmetic operations.

    ``class X(Operation, extends=ex.matmul)`` adds operand types to an existing operation: X is recorded for operands
    that matmul's ``infer`` rejects and X's ``infer`` accepts.

    >>> class Antidiagonal(ex.Operation):
    ...     "Antidiagonal of a square matrix: (n, n) → (n,)."
    ...     nondifferentiable = unbatchable = "left out of this example"
    ...     examples = (ex.Example(ex.real(3, 3)),)
    ...     def infer(self, x):
    ...         return x.with_shape(x.shape[:1])
    ...     def kernel(self, out, x):
    ...         out[...] = np.diag(x[:, ::-1])
    ...         return out
    ...     def flops(self, result, x):
    ...         return 0
    >>> ex.evaluate(ex.antidiagonal(np.arange(9.0).reshape(3, 3)))
    array([2., 4., 6.])
    """

    name: ClassVar[str]
    """name in the registry and in diagrams; by default the class name in snake_case"""
    view: ClassVar[bool] = False
    """whether the kernel returns a view of its first operand or a broadcast constant, and allocates nothing"""
    family: ClassVar[str] = ""
    """what views show it as: "product" (also convolution), "elementwise", "normalization", "reduction" (also pooling)
    or "movement"; "" for none of them
    """
    elementwise: ClassVar[bool] = False
    """whether each element of the result depends only on the operands' elements at the same position"""
    linear: ClassVar[bool] = False
    """whether the result is linear in each operand while the other operands are constant"""
    commutative: ClassVar[bool] = False
    """whether f(a, b) = f(b, a)"""
    associative: ClassVar[bool] = False
    """whether f(f(a, b), c) = f(a, f(b, c)), up to rounding"""
    idempotent: ClassVar[bool] = False
    """whether f(f(x)) = f(x), and f(x, x) = x"""
    involution: ClassVar[bool] = False
    """whether f(f(x)) = x, up to rounding"""
    is_even: ClassVar[bool] = False
    """whether f(−x) = f(x)"""
    monotone: ClassVar[bool] = False
    """whether the result never decreases when the first operand increases"""
    defined_everywhere: ClassVar[bool] = False
    """whether the operation is unary and defined for every real number and ±∞, so only NaN gives NaN"""
    pure: ClassVar[bool] = True
    """whether the result depends only on the operands, and there are no side effects. Pure operations may be computed
    before the run, once for equal nodes, and in batches. Impure operations run as often as they were recorded."""
    portable: ClassVar[bool] = True
    """whether the kernel uses only NumPy's functions, and no arrays besides operands and result. It then also runs on
    devices whose arrays implement NumPy's protocols (``Device.runs_numpy``)."""
    reuses_operand: ClassVar[bool] = False
    """whether the kernel may overwrite an operand that has the result's type"""
    range: ClassVar[Range] = "real"
    nondifferentiable: ClassVar[str] = ""
    """reason why the operation has no gradient; "" if it has one"""
    refuses_gradient: ClassVar[bool] = False
    """whether requesting the gradient raises an error; otherwise, the result is treated as a constant"""
    unbatchable: ClassVar[str] = ""
    """reason why the operation has no batching rule; "" if it has one"""
    channels_last: ClassVar[bool] = False
    """whether the kernel is fastest on images (N, C, H, W) whose channels are adjacent in memory, and returns such
    images
    """
    examples: ClassVar[tuple[Example, ...]] = ()
    """example operands, from which arrays are drawn to check the laws"""

    takes_tuples: ClassVar[bool] = False
    """whether operands may have several outputs"""
    takes_elements: ClassVar[bool] = False
    """whether ``infer`` and ``kernel`` accept user-defined element types; other operations receive the decoded
    numbers
    """
    accepts_strings: ClassVar[bool] = False
    """whether strings are accepted as elements, and moved or compared like numbers"""
    string_operands: ClassVar[slice] = slice(None)
    """operands that may be strings, if all of them are strings"""
    changes_device: ClassVar[bool] = False
    """whether the result is on another device than the operand"""
    packed_operand: ClassVar[int | None] = None
    """index of the operand that the kernel packs into another layout; a constant is packed only once"""
    follows_format: ClassVar[bool] = False
    """whether tiles are fastest if the result has the memory layout of the last operand, an image"""
    accumulates: ClassVar[bool] = False
    """whether the kernel accumulates sums or products of elements. If so, floats narrower than float32 are converted to
    float32 first, and the result is rounded once (``accumulator_dtype``)."""
    c_rows: ClassVar[tuple[str, ...]] = ()
    """C lines that compute one row of an operation with ``reduced_axes``, for generated kernels.

    Each line but the last is ``name = expression``, and the last is the expression of the result. ``{0}`` and ``{1}``
    are elements of the operands, ``{t}`` is f32 or f64, and ``{n}`` is the number of elements in a row. An expression
    ``sum(name)``, ``max(name)``, ``min(name)`` or ``largest(name)`` combines the elements of a row; ``largest`` ignores
    NaN. A value that depends on an element only through such a combination is computed once per row."""
    attribute_names: ClassVar[tuple[str, ...]] = ()
    """names of the attributes, in the order of the class's fields"""

    _operand_count: ClassVar[int | None] = None
    """number of operands that ``infer`` accepts; None for any number"""
    known_types: dict[tuple[AnyType, ...], AnyType]
    """operand types → result type; a cache of ``infer``"""

    def __init_subclass__(
        cls, *, abstract: bool = False, extends: Operation | type[Operation] | None = None, **options: Any
    ) -> None:
        super().__init_subclass__(**options)
        check_names(cls, Operation, "the operation", _RENAMED)
        documented = bool((cls.__doc__ or "").strip())  # a dataclass without a docstring gets a generated one
        frozen_class: Any = dataclass(frozen=True, eq=False, repr=False)(cls)
        cls.attribute_names = tuple([field.name for field in fields(frozen_class)])
        # Each class has its own table, because operations of two classes differ even if their attributes are equal.
        cls._instances = WeakValueDictionary()
        if abstract:
            return
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        _check_required_members(cls, documented)
        cls._operand_count = cls.count_operands()
        cls.__doc__ = cast("str", _Docstring(cls.__doc__ or ""))
        _register(cls, None if cls.attribute_names else cls)
        if extends is not None:
            _extend(extends if isinstance(extends, type) else type(extends), cls)
        if cls.__module__ == "__main__":
            hooks.note_declaration(cls)

    token: int  # unique within the process

    def __post_init__(self) -> None:
        object.__setattr__(self, "known_types", {})
        object.__setattr__(self, "token", next(_tokens))

    # -- facets --------------------------------------------------------------------------------------------------

    # ``**_: Any`` after ``*args: Any`` lets type checkers accept subclasses that name their operands.

    def infer(self, *types: Any, **_: Any) -> AnyType:
        """Return the type of the result; raise OperandError (see ``refuse``) for invalid operands."""
        raise NotImplementedError

    def kernel(self, out: Any, *operands: Any, **_: Any) -> Any:
        """Compute the result into ``out``, an array of the inferred type or None for a view, and return it."""
        raise NotImplementedError

    def bind_kernel(self, out: Any, *operands: Any, **_: Any) -> Callable[[], Any]:
        """Return a function that runs ``kernel`` on these arrays each time it is called.

        Only the elements change between calls, so choices that depend on dtype or shape can be made here once.
        """
        return functools.partial(self.kernel, out, *operands)

    def gradient(self, upstream: Any, result: Any, *operands: Any, **_: Any) -> tuple[Expr | None, ...]:
        """Return the gradient of each operand as an expression of the upstream gradient, the result and the operands.

        The gradient of an operand that has none is None.
        """
        raise NotImplementedError

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Any, **_: Any) -> Expr:
        """Record the operation for operands with a leading batch axis of ``size``; ``batched`` marks these operands."""
        raise NotImplementedError

    def flops(self, result: Any, *types: Any, **_: Any) -> int:
        """Return the number of arithmetic operations, given the types of the result and the operands."""
        raise NotImplementedError

    def workspace(self, *types: Any, **_: Any) -> int:
        """Return the number of bytes of the kernel's temporaries if they exceed the operands' size, else 0."""
        return 0

    def kept_axes(self, operand: int, *types: Any, **_: Any) -> tuple[tuple[int, int], ...]:
        """Return pairs (operand axis, result axis) along which scaling the operand is the same as scaling the result.

        For example, products return a filter's output channel or a matrix's column, so that factors of the result can
        be moved into the weights.
        """
        return ()

    # -- tiled kernels; by default, an operation is computed as a whole -----------------------------------------------

    def pack_operand(self, operand: Any) -> Any:
        """Return the operand with index ``packed_operand`` in the kernel's layout; a constant is packed only once."""
        raise NotImplementedError

    def tiles(self, out: Any, prepared: Any, *operands: Any, **_: Any) -> list[Tile]:
        """Return the tiles that compute the result into ``out``. ``prepared`` is the packed operand, or None."""
        raise NotImplementedError

    @property
    def is_tileable(self) -> bool:
        """Whether the result can be computed in tiles."""
        return type(self).tiles is not Operation.tiles

    @property
    def reduced_axes(self) -> tuple[int, ...] | None:
        """Axes along which the operands' elements are combined, or None if the operation is not a reduction.

        All operands have the same shape. The kernel accepts any part of them that contains the reduced axes completely.
        """
        return None

    @property
    def combine_ufunc(self) -> np.ufunc | None:
        """Ufunc that combines the partial results of a row, or None if the kernel needs complete rows."""
        return None

    def partial_dtype(self, result: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of partial results for a result of dtype ``result``."""
        return accumulator_dtype(result) if self.accumulates else result

    def partial_reduce(self, out: Any, x: Any, axes: tuple[int, ...]) -> Any:
        """Reduce parts of rows, ``x``, along ``axes``; write the result to ``out``, in which ``axes`` have size 1."""
        raise NotImplementedError

    def finalize(self, out: Any, joined: Any, count: int) -> Any:
        """Compute the result into ``out`` from ``joined``, the combined partial results of rows with ``count`` elements
        each."""
        np.copyto(out, joined, casting="unsafe")
        return out

    # -- methods of every operation ------------------------------------------------------------------------------

    def __call__(self, *operands: Any, policies: Items = NO_POLICIES, **others: Any) -> Expr:
        """Record this operation on expressions, arrays or numbers; valid policies that it does not read are ignored."""
        if others:
            refuse_option(next(iter(others)), self.label, ["policies"])
        # Only check the policies: an invalid one is rejected even if it would have no effect.
        if policies is not NO_POLICIES:
            Policies(policies, self.label)
        for operand in operands:
            if not isinstance(operand, Expr):
                return record(self, self.operands_of(operands))
        return record(self, operands)

    def operands_of(self, values: tuple[Any, ...]) -> tuple[Expr, ...]:
        """Convert arrays and numbers among the operands to expressions."""
        return as_operands(values)

    @classmethod
    def count_operands(cls) -> int | None:
        """Return the number of operands in the signature of ``infer``, else of ``kernel``; None for any number."""
        for method, implicit in ((cls.infer, 1), (cls.kernel, 2)):
            parameters = list(inspect.signature(method).parameters.values())[implicit:]
            if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
                return len(parameters)
        return None

    def type_of(self, types: tuple[AnyType, ...]) -> AnyType:
        """Return the result type inferred from operand types; cached per tuple of types."""
        cached = self.known_types.get(types)
        if cached is not None:
            return cached
        for operand_type in types:
            if type(operand_type) is TupleType and not self.takes_tuples:
                raise self.refuse(types, "operands must have a single output", "unpack the value first: a, b = f(x)")
        expected = self._operand_count
        if expected is not None and len(types) != expected:
            raise self.refuse(types, f"{self.name} must have {expected} operand{'s' * (expected != 1)}")
        inferred = self.known_types[types] = self._inferred(types)
        return inferred

    def _inferred(self, types: tuple[AnyType, ...]) -> AnyType:
        devices = list(dict.fromkeys([type_.device for type_ in types if type(type_) is TensorType]))
        if len(devices) > 1:
            raise self.refuse(types, *rule_of_devices(devices, types))
        if not self.takes_tuples:
            self._check_strings(types)
        try:
            inferred = type_on_elements(self, types) or self.infer(*types)
        except np.exceptions.DTypePromotionError:
            rule, fix = "operands must have dtypes that NumPy promotes to a common one", "x.astype(np.float32)"
            raise self.refuse(types, rule, fix) from None
        return inferred if self.changes_device or not devices or devices[0] is cpu else on_device(inferred, devices[0])

    def _check_strings(self, types: tuple[AnyType, ...]) -> None:
        are_strings = [type(type_) is TensorType and is_text(type_.dtype) for type_ in types]
        if not any(are_strings):
            return
        if not self.accepts_strings:
            raise self.refuse(
                types, f"the operands of {self.name} must be numbers, because strings can only be moved and compared"
            )
        compared = are_strings[self.string_operands]
        if not all(compared) or sum(compared) != sum(are_strings):
            raise self.refuse(
                types, f"{self.name} must have only strings, or only numbers, as operands that it moves or compares"
            )

    def refuse(self, types: tuple[AnyType, ...], rule: str, fix: str = "") -> OperandError:
        """Return the OperandError for operands of these types, which violate ``rule``."""
        operand_types = (", ".join(map(repr, types[:6])) or "nothing") + f", … ({len(types)} in all)" * (len(types) > 6)
        return OperandError(f"{self.label} of {operand_types}", rule=rule, fix=fix)

    def refuse_by_name(self, types: tuple[AnyType, ...], parts_of: Callable[..., tuple[str, str]]) -> OperandError:
        """Return the OperandError whose rule and fix are a function of the operands' names: a, b, … if unknown."""
        error = self.refuse(types, *parts_of(*_LETTERS[: len(types)]))
        error.parts_of = parts_of
        return error

    @property
    def label(self) -> str:
        """Label of a node of this operation in diagrams."""
        return self.name

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes by name."""
        return {name: getattr(self, name) for name in self.attribute_names}

    def compute(self, *operands: Array) -> Any:
        """Run the NumPy kernel on arrays; return a newly allocated result, or a tuple if there are several outputs."""
        types = tuple([TensorType(array.shape, array.dtype) for array in operands])
        type_ = self.type_of(types)
        if self.view:
            return self.kernel(None, *operands)
        kernel = kernel_of(self, cpu, *types, type_)
        if isinstance(type_, TupleType):
            return kernel(tuple(np.empty(part.shape, part.dtype) for part in type_.parts), *operands)
        return kernel(np.empty(type_.shape, type_.dtype), *operands)

    def __repr__(self) -> str:
        attributes = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.name}({attributes})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.attributes.values())


def as_operands(values: tuple[Any, ...]) -> tuple[Expr, ...]:
    """Convert operands to expressions: numbers to constants of the weakest possible dtype, arrays to tensors.

    They are on the device of the first expression. Raises OperandError if all operands are numbers.
    """
    convert = registry.functions["as_expr"]
    # Handle x · 2 without lists and loops, because recording takes only two microseconds.
    if len(values) == 2:
        first, second = values
        if type(first) in WEAK and isinstance(second, Expr):
            type_ = second.tensor_type
            return convert(first, (type_.dtype,), type_.device), second
        if type(second) in WEAK and isinstance(first, Expr):
            type_ = first.tensor_type
            return first, convert(second, (type_.dtype,), type_.device)
    for value in values:
        if not isinstance(value, Expr):
            break
    else:
        return values
    device = next((value.tensor_type.device for value in values if isinstance(value, Expr)), state.device)
    converted = [each if isinstance(each, Expr) or type(each) in WEAK else convert(each, (), device) for each in values]
    types = [value.tensor_type for value in converted if isinstance(value, Expr)]
    if not types and values:
        raise OperandError(
            f"the numbers {', '.join(map(repr, values))} without any tensor",
            rule="an operation must have a tensor or an expression among its operands",
            fix="use Python's own arithmetic for numbers, or wrap one: ex.tensor(2.0)",
        )
    dtypes = tuple([type_.dtype for type_ in types])
    return tuple([value if isinstance(value, Expr) else convert(value, dtypes, types[0].device) for value in converted])


WEAK = (float, int, bool, complex)  # Python numbers take the dtype of the tensor operands if it can represent them


def operation(name: str) -> type[Operation]:
    """Return the operation class with this name.

    Raises UnknownNameError, with the most similar names, if there is none.

    >>> ex.operation("tanh").elementwise
    True
    """
    operation_class: type[Operation] = registry.operations.find(name)
    return operation_class


class OperationRedefined(UserWarning):
    """Warning that an operation replaces an earlier one with the same module and name."""


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
    "takes_text": "accepts_strings",
    "text_operands": "string_operands",
    "under": "with_policies",
}
"""previous name of an attribute or method → current name"""


def _check_required_members(cls: type[Operation], documented: bool) -> None:
    """Raise DeclarationError if a class lacks a method or attribute that every operation must define.

    ``documented`` states whether the class has its own docstring.
    """
    base = Operation
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


def _register(cls: type[Operation], factory: Callable[[], Operation] | None) -> None:
    """Register an operation class under its name, and the result of ``factory`` as the recording function."""
    registered = registry.operations.get(cls.name)
    # A class with the same module and name comes from a notebook cell that was run again.
    if registered is not None:
        if (registered.__module__, registered.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DeclarationError(
                f"a second operation {cls.name!r} ({cls.__module__}.{cls.__qualname__})",
                rule=f"an operation's name must be unique; {registered.__module__}.{registered.__qualname__} uses it",
                fix="set name = '…' in the class body",
            )
        warnings.warn(
            f"operation {cls.name!r} is declared again and replaces the earlier one", OperationRedefined, stacklevel=3
        )
    function = registry.functions.get(cls.name)
    if function is not None and not hasattr(function, "attribute_names") and function.__module__ != cls.__module__:
        raise DeclarationError(
            f"an operation {cls.name!r} ({cls.__module__}.{cls.__qualname__})",
            rule=f"names must be unique; {function.__module__}.{cls.name} is already a function with this name",
            fix="set name = '…' in the class body",
        )
    registry.operations[cls.name] = cls
    if factory is not None:
        registry.functions[cls.name] = factory()


def _extend(base: type[Operation], cls: type[Operation]) -> None:
    """Register ``cls`` for operands that ``base`` rejects, replacing an extension with the same module and name."""
    unknown = [name for name in cls.attribute_names if name not in base.attribute_names]
    if unknown:
        raise DeclarationError(
            f"operation {cls.name}, which extends {base.name}, with the attributes {', '.join(unknown)}",
            rule=f"it must have only attributes of {base.name}: {', '.join(base.attribute_names) or 'none'}",
            fix="leave them out, or declare a separate operation, without extends=",
        )
    extensions = registry.extensions.setdefault(base.name, [])
    for index, extension in enumerate(extensions):
        if (extension.__module__, extension.__qualname__) == (cls.__module__, cls.__qualname__):
            extensions[index] = cls
            return
    extensions.append(cls)


def _with_names(refusal: OperandError, operands: tuple[Expr, ...], written: tuple[str, ...]) -> OperandError:
    """Return the error ``refusal`` with the operands' names, if there are several operands and one has a name.

    ``written`` are the operands' names in the user's line, used for results and for arrays that were not wrapped in a
    tensor. Leaves, such as parameters of functions, have their own names.
    """
    if not 1 < len(operands) <= _NAMED:
        return refusal
    labels, are_named = [], []
    for operand, name in itertools.zip_longest(operands, written if len(written) == len(operands) else ()):
        is_unnamed = bool(operand.operands) or operand.label in ("tensor", operand.operation.name)
        labels.append(name if is_unnamed and name else operand.label)
        are_named.append(bool(name) or not is_unnamed)
    if not any(are_named):
        return refusal
    rule, fix = refusal.rule, refusal.fix
    if refusal.parts_of is not None:
        letters = [letter for letter in _LETTERS if letter not in labels]
        names = [
            label if is_named else letters[place]
            for place, (label, is_named) in enumerate(zip(labels, are_named, strict=True))
        ]
        rule, fix = refusal.parts_of(*names)
    return OperandError(f"{refusal.given} ({', '.join(labels)})", rule=rule, fix=fix)


def _written_names(operation: Operation) -> tuple[str, ...]:
    """Return the names of the operation's operands in the user's line, or () if they are not known."""
    code, instruction = state.origin or line_of(_frame(2))
    is_read = code is None or isinstance(code, SourceLocation)
    return () if is_read else operand_names(function_code(code), instruction, operation.name)


_NAMED = 4
"""maximum number of operands whose names an error lists"""
_LETTERS = "abcdefgh"
"""names of operands whose names are not known"""


def _find_extension(operation: Operation, types: tuple[AnyType, ...], refusal: OperandError) -> Operation:
    """Return the first registered extension that accepts operands of these ``types``, which ``operation`` rejects.

    If there is none, raise ``refusal``, the operation's own error, with the rules of all extensions.
    """
    rules = [refusal.rule]
    for operation_class in registry.extensions.get(type(operation).name, ()):
        attributes = operation.attributes
        extension: Operation = operation_class(**{name: attributes[name] for name in operation_class.attribute_names})
        try:
            extension.type_of(types)
        except OperandError as error:
            rules.append(f"or, for {extension.name}, {error.rule}")
        else:
            return extension
    if len(rules) == 1:
        raise refusal from None  # otherwise the traceback would contain the message twice
    raise OperandError(refusal.given, rule="; ".join(rules), fix=refusal.fix) from None


kernels: Registry[tuple[type[Operation], Device | ElementType], Callable[..., Any]] = Registry("kernel")
"""registered kernels: (operation class, device or element type) → function(operation, out, *operands)"""


@named
def kernel(*operations: str | Operation | type[Operation], on: Device | ElementType) -> Callable[..., Any]:
    """Decorate a function(operation, out, *operands) to register it as the kernel of ``operations``.

    ``on`` is the kernel's device or element type. Operands and ``out`` are arrays of the device, or arrays of the
    element type's stored values. Raises UnknownNameError for an unknown operation name.

    >>> board = ex.Device("board")
    >>> @ex.kernel("tanh", on=board)
    ... def tanh_on_board(operation, out, x):
    ...     return np.tanh(x, out=out)
    >>> ex.evaluate(ex.tanh(ex.tensor([0.0, 1.0], device=board)))
    array([0.        , 0.76159416])
    """
    classes = [_class_of(operation) for operation in operations]

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operation_class in classes:
            kernels[operation_class, on] = function
        return function

    return register


def _class_of(operation: str | Operation | type[Operation]) -> type[Operation]:
    if isinstance(operation, str):
        return registry.operations.find(operation)
    return operation if isinstance(operation, type) else type(operation)


def runs_on(operation: Operation, device: Device) -> bool:
    """Return whether ``operation`` has a kernel on ``device``."""
    return (
        device is cpu
        or (type(operation), device) in kernels
        or operation.changes_device
        # NumPy creates constants, which are then copied; views need no kernel if the arrays are NumPy's
        or operation.count_operands() == 0
        or (operation.view and device.addressable)
        or (operation.portable and device.runs_numpy)
    )


def kernel_of(operation: Operation, device: Device, *types: AnyType) -> Callable[..., Any]:
    """Return the kernel of ``operation`` on ``device``, bound to the operation's attributes.

    ``types`` are the types of the operands and the result. Raises DeclarationError if there is no such kernel.
    """
    if device is not cpu:
        return _on_device(operation, device)
    if operation.view:  # it computes no element
        return operation.kernel
    for type_ in types:
        parts = type_.parts if isinstance(type_, TupleType) else (type_,)
        for part in parts:
            element = element_of(part.dtype)
            if element is not None and not operation.takes_elements:
                return _on_elements(operation, element)
            if is_widened(operation, part.dtype):
                return functools.partial(compute_widened, operation)
    return operation.kernel


def _on_device(operation: Operation, device: Device) -> Callable[..., Any]:
    registered = kernels.get((type(operation), device))
    if registered is not None:
        return functools.partial(registered, operation)
    if operation.count_operands() == 0:
        return functools.partial(_described, operation, device)
    if (operation.view and device.addressable) or (operation.portable and device.runs_numpy):
        return functools.partial(compute_widened, operation) if operation.accumulates else operation.kernel
    raise DeclarationError(
        f"{operation.name} on {device.name}",
        rule="an operation must have a kernel registered for the device that it runs on",
        fix=f"@explorer.kernel({operation.name!r}, on={device.name}), or copy the operands: x.to_device(explorer.cpu)",
    )


def _described(operation: Operation, device: Device, out: Any) -> Any:
    """Compute an operation without operands using NumPy, and return the value as an array on the device."""
    type_ = operation.type_of(())
    assert isinstance(type_, TensorType)
    values = device.empty(type_.shape, type_.dtype) if out is None else out
    device.write(values, operation.compute())
    return values


def _on_elements(operation: Operation, element: ElementType) -> Callable[..., Any]:
    registered = kernels.get((type(operation), element))
    if registered is None:
        return functools.partial(_through_numbers, operation)

    def run(out: Any, *operands: Any) -> Any:
        result = registered(operation, _stored(out), *[_stored(operand) for operand in operands])
        if result is not None:
            _stored(out)[...] = result
        return out

    return run


def _stored(array: Any) -> Any:
    element = element_of(array.dtype)
    return array if element is None else element.stored(array)


def _through_numbers(operation: Operation, out: Any, *operands: Any) -> Any:
    computed = operation.compute(*[numbers_of(operand) for operand in operands])
    results: Sequence[Any] = computed if isinstance(computed, tuple) else (computed,)
    for target, result in zip(out if isinstance(out, tuple) else (out,), results, strict=True):
        element = element_of(target.dtype)
        if element is None:
            target[...] = result
        else:
            element.write(target, result)
    return out


def type_on_elements(operation: Operation, types: tuple[AnyType, ...]) -> AnyType | None:
    """Infer the result type for operands of an element type; return None if all operands have NumPy's dtypes.

    The operation's inference runs with the dtype of the decoded numbers. A floating result gets the element type.
    """
    if operation.view or operation.takes_elements:
        return None
    tensors = [type_ for type_ in types if isinstance(type_, TensorType)]
    elements = {element for type_ in tensors if (element := element_of(type_.dtype)) is not None}
    if not elements:
        return None
    element = min(elements, key=lambda each: each.name)
    # The operation would round twice, so the user must choose the result's dtype.
    if len(elements) > 1 or any(type_.dtype.kind in "fc" for type_ in tensors):
        raise operation.refuse(
            types,
            f"the other operands must be {element.name}, integers, booleans or Python numbers",
            f"convert an operand: x.astype({element.name})",
        )
    inferred = operation.infer(*[_of_numbers(type_) for type_ in types])
    if isinstance(inferred, TupleType):
        return TupleType(tuple([_of_element(part, element) for part in inferred.parts]))
    return _of_element(inferred, element)


def _of_numbers(type_: AnyType) -> AnyType:
    element = element_of(type_.dtype) if isinstance(type_, TensorType) else None
    return type_ if element is None or not isinstance(type_, TensorType) else type_.with_dtype(element.numbers)


def _of_element(type_: TensorType, element: ElementType) -> TensorType:
    return type_.with_dtype(element.dtype) if type_.dtype.kind == "f" else type_


def on_device(type_: AnyType, device: Device) -> AnyType:
    """Return ``type_``, or each of its parts, with ``device`` as its device."""
    if isinstance(type_, TupleType):
        return TupleType(tuple([TensorType(part.shape, part.dtype, device) for part in type_.parts]))
    return TensorType(type_.shape, type_.dtype, device)


def rule_of_devices(devices: Sequence[Device], types: Sequence[AnyType]) -> tuple[str, str]:
    """Return the rule violated by operands on several devices, and the fix."""
    names = " and ".join(sorted([device.name for device in devices]))
    rule = f"operands must be on one device, these are on {names}"
    if any(is_text(type_.dtype) for type_ in types if isinstance(type_, TensorType)):
        return f"{rule}; texts lie on cpu alone", "x.to_device('cpu'), or for a net net.to_device('cpu')"
    return rule, f"copy an operand, which is a node of its own: x.to_device(explorer.device({devices[0].name!r}))"


def is_widened(operation: Operation, dtype: np.dtype[Any]) -> bool:
    """Return whether ``operation`` computes a result of ``dtype`` in a wider dtype."""
    return operation.accumulates and accumulator_dtype(dtype) != dtype


def widened(array: Array) -> Array:
    """Return an array converted to the dtype in which its elements are accumulated."""
    return array.astype(accumulator_dtype(array.dtype), copy=False)


def compute_widened(operation: Operation, out: Array, *operands: Array) -> Any:
    """Compute an operation into ``out``, widening the operands first if it accumulates in a wider dtype."""
    if not is_widened(operation, out.dtype):
        return operation.kernel(out, *operands)
    wide_out = np.empty_like(out, dtype=accumulator_dtype(out.dtype))
    np.copyto(out, operation.kernel(wide_out, *map(widened, operands)), casting="unsafe")
    return out
