"""Dynamic data: values whose operation is hidden from rewrite rules.

In MetaNN, dynamic data allows storing values of several types in one container. A Python list can contain any
expressions, so here the operation ``Dynamic`` only prevents rules from matching its operand.
"""

# ruff: noqa: D102  # the methods of an operation are documented in Operation

from __future__ import annotations

from typing import Any

from explorer.core.argument_checks import named
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.data.constructors import BiasVector, TrivialTensor, ZeroTensor
from explorer.data.custom_data import Data
from explorer.data.rank import category as category_of
from explorer.ops.creation.constants import Full, OneHot, Zero

_STRUCTURED = {ZeroTensor: Zero, TrivialTensor: Full, BiasVector: OneHot}


class Dynamic(Operation):
    """Identity that hides its operand from rewrite rules (MetaNN: DynamicData)."""

    view = True
    linear = True
    examples = (Example(real(2, 3)), Example(real()))

    def infer(self, x: TensorType) -> TensorType:
        return x

    def kernel(self, out: None, x: Any) -> Any:
        return x[...]

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g,)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@named
def make_dynamic(x: Any, category: str | None = None) -> Expr:
    """Record a value equal to ``x`` whose operation is hidden from rewrite rules; return dynamic data unchanged.

    Raise OperandError if ``x`` is not of the requested category, such as "matrix".

    >>> hidden = ex.make_dynamic(ex.Matrix([[1.0, 2.0]]), "matrix")
    >>> ex.evaluate(hidden + 1)
    array([[2., 3.]])
    """
    (x,) = as_operands((x,))
    if category is not None and category_of(x) != category:
        raise OperandError(
            f"make_dynamic({x!r}, {category!r})",
            rule=f"the value must be of the requested category; this is a {category_of(x)}",
            fix=f"reshape it, or request {category_of(x)!r}",
        )
    return x if isinstance(x.operation, Dynamic) else Dynamic()(x)


def try_cast(x: Expr, kind: Any) -> Any:
    """Return the value that dynamic data hides if it is of the class ``kind``, else None (MetaNN: TryCastTo).

    ``x`` is an expression, with or without ``make_dynamic``. ``kind`` is ``ex.Tensor``, a subclass of ``ex.Data`` or
    ``ex.Operation``, or a structured tensor's constructor (``ex.ZeroTensor``). Raise OperandError for another kind.

    >>> hidden = ex.make_dynamic(ex.Matrix([[1.0, 2.0]]))
    >>> ex.try_cast(hidden, ex.Tensor).shape, ex.try_cast(hidden, ex.Data)
    ((1, 2), None)
    """
    hidden = x.operands[0] if isinstance(x, Expr) and isinstance(x.operation, Dynamic) else x
    (concrete,) = as_operands((hidden,))
    target = _STRUCTURED.get(kind, kind) if callable(kind) else kind
    if isinstance(target, type) and issubclass(target, Data):
        data = getattr(concrete.operation, "data", None)
        return data if isinstance(data, target) else None
    if isinstance(target, type) and issubclass(target, Operation):
        return concrete if isinstance(concrete.operation, target) else None
    if isinstance(target, type) and issubclass(target, Expr):
        return concrete if isinstance(concrete, target) else None
    raise OperandError(
        f"try_cast to {kind!r}",
        rule="the type must be ex.Tensor, a subclass of ex.Data or ex.Operation, or a structured tensor",
        fix="ex.try_cast(x, ex.ZeroTensor)",
    )
