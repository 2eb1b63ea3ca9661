"""Expressions: recorded values with an operation, operands, a type and a place in the user's code.

Recording computes nothing but the type, and costs about two microseconds: ``Expr`` has slots instead of a dataclass's
``__init__``, types are looked up by operand types before a rule is asked, and a node keeps the code object and
instruction of the user's line, from which file and line are computed only when somebody asks for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from explorer.core.array_api.numpy_protocol import NumpyProtocol
from explorer.core.array_api.operators_and_methods import Operators
from explorer.core.array_api.printing import nested
from explorer.core.array_api.suggestions import hint
from explorer.core.errors import OperandError, StateError
from explorer.core.ir.call_chain import CalledCode, function_code
from explorer.core.ir.hooks import RegisteredValue, View, hooks
from explorer.core.ir.identity_comparison import COMPARING
from explorer.core.ir.operation_checks import find_extension
from explorer.core.ir.recording_context import Scope, line_of, state
from explorer.core.ir.source_location import Place, place_of
from explorer.core.ir.view_options import ExploreOptions
from explorer.core.shape import Sizes
from explorer.core.types.custom_dtypes import converted, numbers_of
from explorer.core.types.device import Device
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.record.escape import visible

if TYPE_CHECKING:
    from types import CodeType

    from explorer.core.ir.operation import Operation

_uids = count()
next_uid = _uids.__next__


def number_from(first: int) -> None:
    """Number the expressions that are recorded from now on from ``first``, where there are fewer than that."""
    while next_uid() < first - 1:
        pass


class Expr(NumpyProtocol, Operators):
    """Recorded value: an operation on operands, with its type and the line that wrote it. Immutable, hashed by
    identity.

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
    code: CodeType | CalledCode | Place | None
    instruction: int

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # NumPy's meaning: elementwise, an expression
        # a call by the code that compares captured lists asks for identity (identity_comparison.py)
        equal: Any = self is other if _frame(1).f_code is COMPARING else super().__eq__(other)
        return cast("Expr", equal)

    __hash__ = object.__hash__

    if not TYPE_CHECKING:  # a type checker knows the attributes, and refuses others by itself

        def __getattr__(self, name: str) -> Any:
            suggestion = hint(name, [each for each in dir(type(self)) if each[0] != "_"])
            message = f"an expression has no attribute {name!r}" + (f"; {suggestion}" if suggestion else "")
            raise AttributeError(message, name=name, obj=self)

    @property
    def tensor_type(self) -> TensorType:
        """Type of a value with one output; raises OperandError for a tuple."""
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
        """Device that the value will live on."""
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
    def place(self) -> Place | None:
        """Line of the user's program, or of a model's file, that recorded this node."""
        if self.code is None or isinstance(self.code, Place):
            return self.code
        return place_of(function_code(self.code), self.instruction)

    def mark_used(self) -> None:
        """Mark this value as used; a tensor's storage becomes read-only."""

    @property
    def label(self) -> str:
        """Name of the node in pictures: its operation or function, or a tensor's name."""
        return self.operation.label

    def eval_register(self) -> RegisteredValue:
        """Register for evaluation in the thread's default plan and return a handle (MetaNN: EvalRegister)."""
        return hooks.register(self)

    def explore(self, **options: Unpack[ExploreOptions]) -> View:
        """Show the expression's graph and its plan in a widget; ``options`` are those of ``explorer.explore``."""
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
        # results are read-only and may be shared: np.array(x, copy=True) must get one of its own
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
            rule="an expression must not be pickled: it is known by its identity, which a copy would not have",
            fix="pickle its value (ex.evaluate(x)), or a plan's recording as JSON",
        )

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

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
        # values recorded before the outermost trace began may be read; they are the same in every call
        if state.traces and self.uid >= state.traces[0]:
            raise StateError(
                f"{what}() of a value inside an @ex.function",
                rule="a traced function must not read values: its body is recorded once, before any value is known",
                fix="use ex.where to choose by value, or pass the value as a static argument",
            )

    def __repr__(self) -> str:
        return visible(f"<{self.operation.label} #{self.uid}: {self.type}>")

    def __str__(self) -> str:
        return nested(self)


_new = object.__new__
_frame = sys._getframe


def record(operation: Operation, operands: tuple[Expr, ...]) -> Expr:
    """Record an operation on operands; an illegal combination raises OperandError on the user's line."""
    self = _new(Expr)
    self.operation = operation
    self.operands = operands
    types: tuple[AnyType, ...]
    if len(operands) == 2:  # half of the time of recording is spent here
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
            self.operation = operation = find_extension(operation, types, rejection)
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
    """Record an operation whose result type is known; ``hidden`` operands were marked as used before."""
    self = _new(Expr)
    self.operation, self.type = operation, type_
    self.operands = operands + hidden
    for operand in operands:
        if operand.__class__ is not Expr:
            operand.mark_used()
    assign_identity(self)
    return self


def assign_identity(node: Expr) -> None:
    """Give a new node its uid, scope and place; uids grow in order of recording, so operands have smaller ones."""
    node.uid = next_uid()
    context = state
    node.scope = context.scope
    node.code, node.instruction = context.origin or line_of(_frame(2))


def make_replacement(
    operation: Operation, operands: tuple[Expr, ...], original: Expr, scope: Scope | None, type_: AnyType | None = None
) -> Expr:
    """Make a node that replaces ``original``, in ``scope``, attributed to the original's line of the user's program.

    ``type_`` is its type if that is known already; otherwise the operation infers it.
    """
    self = _new(Expr)
    self.operation, self.operands, self.scope = operation, operands, scope
    self.type = operation.type_of(tuple([operand.type for operand in operands])) if type_ is None else type_
    self.uid, self.code, self.instruction = next_uid(), original.code, original.instruction
    return self
