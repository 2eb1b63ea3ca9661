"""User-defined data types as operands of expressions.

There are two kinds. An object with a method ``__expr__()`` is replaced by the expression that the method returns. An
object of a subclass of ``Data`` has a ``type`` (shape, dtype, device), and ``evaluate()`` returns its array. The object
becomes a node with the name of its class, which rewrite rules can match (``roots = (Diagonal.Operation,)``).
"""

# ruff: noqa: D102  # the methods of an operation are documented in Operation

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Unpack

import numpy as np

from explorer.core.argument_checks import options_of
from explorer.core.array_api.numpy_protocol import NumpyProtocol
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.explore_options import PlannedViewOptions
from explorer.core.ir.expr import Expr, Operation, Operators, record
from explorer.core.ir.hooks import RegisteredValue, View, hooks
from explorer.core.shape import Sizes
from explorer.core.types.custom_dtypes import converted
from explorer.core.types.device import Device
from explorer.core.types.tensor_type import AnyType, Array, TensorType


class ExprLike(NumpyProtocol, Operators):
    """Base of objects that behave like expressions, with the same operators and methods for evaluation."""

    @abstractmethod
    def __expr__(self) -> Expr:
        """Return the expression that the object currently represents."""

    __hash__ = object.__hash__

    def eval_register(self) -> RegisteredValue:
        """Register for evaluation in the thread's default plan and return a handle (MetaNN: EvalRegister)."""
        return hooks.register(self)

    @options_of(PlannedViewOptions)
    def explore(self, **options: Unpack[PlannedViewOptions]) -> View:
        """Show the graph and its plan."""
        return hooks.explore(self.__expr__(), **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.__expr__().__array__(dtype, copy)

    def __len__(self) -> int:
        return len(self.__expr__())

    def __iter__(self) -> Iterator[Expr]:
        return iter(self.__expr__())

    def __bool__(self) -> bool:
        return bool(self.__expr__())

    def __float__(self) -> float:
        return float(self.__expr__())

    def __int__(self) -> int:
        return int(self.__expr__())


class UserData(Operation, abstract=True):
    """Operation of a node that contains user-defined data."""

    data: Data
    nondifferentiable = "data of a user's type has no operands"
    unbatchable = "data of a user's type has no operands to batch"

    def infer(self) -> TensorType:
        return self.data.type

    def kernel(self, out: Array) -> Array:
        value = self.data.evaluate()
        if isinstance(value, Expr) or not hasattr(value, "shape"):
            value = hooks.evaluate(value) if isinstance(value, Expr) else np.asarray(value)
        if value.shape != out.shape:
            raise OperandError(
                f"{self.name}.evaluate() returned an array of shape {value.shape}",
                rule=f"evaluate() must return an array of the data's type, {self.data.type}",
                fix="correct evaluate() or type",
            )
        out[...] = converted(value, out.dtype)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes to display: none, since the data is neither a number nor a string."""
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.data,)


class Data(ExprLike):
    """Base class of user-defined data types, which can store their values in any form.

    ``type`` is a property that returns the TensorType. ``evaluate()`` returns an array or an expression of that type,
    and is called when a plan needs the value. The data must not change after an expression uses it. Raise
    DeclarationError if a subclass lacks ``type``, ``evaluate`` or a docstring.

    >>> class Diagonal(ex.Data):
    ...     "A square matrix that stores its diagonal."
    ...     def __init__(self, diagonal):
    ...         self.diagonal = np.asarray(diagonal, np.float32)
    ...     @property
    ...     def type(self):
    ...         return ex.TensorType((self.diagonal.size, self.diagonal.size))
    ...     def evaluate(self):
    ...         return np.diag(self.diagonal)
    >>> ex.evaluate(Diagonal([1, 2]) + 1)
    array([[2., 1.],
           [1., 3.]], dtype=float32)
    """

    Operation: ClassVar[type[UserData]]
    """operation of the type's nodes, which rules can match"""

    def __init_subclass__(cls, *, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if abstract:
            return
        missing = [name for name in ("type", "evaluate") if getattr(cls, name) is getattr(Data, name)]
        if missing or not (cls.__doc__ or "").strip():
            raise DeclarationError(
                f"the data type {cls.__name__} without {' and '.join(missing) or 'a docstring (one sentence)'}",
                rule="a data type must have a docstring, a type, and evaluate()",
                fix="@property def type(self): return ex.TensorType(shape, dtype); def evaluate(self): return an array",
            )
        body = {"__doc__": cls.__doc__, "__module__": cls.__module__, "name": cls.__name__}
        cls.Operation = type(cls.__name__, (UserData,), body, abstract=True)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.type}>"

    @property
    def type(self) -> TensorType:
        """Shape, dtype and device of the value."""
        raise NotImplementedError

    def evaluate(self) -> Any:
        """Return the value as an array of the type's shape."""
        raise NotImplementedError

    @property
    def shape(self) -> Sizes:
        """Sizes of the dimensions."""
        return self.type.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements' dtype."""
        return self.type.dtype

    @property
    def device(self) -> Device:
        """Device of the value."""
        return self.type.device

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.type.size

    def __expr__(self) -> Expr:
        node: Expr | None = self.__dict__.get("_node")
        if node is None:
            type_ = self.type
            if not isinstance(type_, TensorType):
                raise DeclarationError(
                    f"{type(self).__name__}.type returned {type_!r}",
                    rule="type must be a TensorType",
                    fix="return ex.TensorType(shape, dtype)",
                )
            node = record(self.Operation(self), ())
            self.__dict__["_node"] = node
        return node
