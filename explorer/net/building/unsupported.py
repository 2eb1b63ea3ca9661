"""Unsupported operators of a file, drawn as operations that cannot run.

A net with such operators can be inspected, cut and edited. If it is run, their kernels raise the building error.
"""

from __future__ import annotations

from typing import Any, ClassVar

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Call, Item
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType

UNSIZED = "shape unknown"
"""note on an operator that can run only when the inputs have values"""


class Opaque(Operation):
    """Operator that explorer cannot compute, with the output types declared in its file."""

    kind: str
    """operator type in the file"""
    results: tuple[TensorType, ...]
    """one per output; empty if the file does not declare them"""
    reason: str
    rule: str
    fix: str
    operator: str
    """name in the file"""
    format: str
    note: str = "cannot run"
    """reason why it cannot run, shown in its label"""
    contents: str = ""
    """digest of its arguments and inner graphs, which distinguishes operators of two nets"""
    takes_tuples = True
    nondifferentiable = "an operator that cannot be computed has no gradient; register its type with file_operator"
    refuses_gradient = True
    unbatchable = "an operator that cannot be computed has no batching rule"

    def infer(self, *types: AnyType) -> AnyType:
        """Return the types declared in the file."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)

    def kernel(self, out: Any, *operands: Any) -> Any:
        """Raise OperandError, since the operator cannot be computed."""
        raise OperandError(
            f"operator {self.operator!r} of type {self.kind} ({self.format}) is drawn, but cannot be computed: "
            f"{self.reason}",
            rule=self.rule or "an operator must have a known type and operands that fit",
            fix=self.fix or f"net.check() lists what keeps {self.operator!r} from running",
        )

    def flops(self, result: AnyType, *types: AnyType) -> int:
        """Return 0, because the work is unknown."""
        return 0

    @property
    def label(self) -> str:
        """The operator type, with a note that it cannot run."""
        return f"{self.kind} ({self.note})"


class OpaqueCall(Opaque, Call):
    """Operator with a known inner graph but unknown result types, such as a loop that stacks its iterations."""

    inlinable: ClassVar[bool] = False


def is_unsized(value: object) -> bool:
    """Return whether a value has no type because values of the net's inputs determine its shape."""
    maker = value.operands[0] if isinstance(value, Expr) and isinstance(value.operation, Item) else value
    return (
        isinstance(maker, Expr)
        and isinstance(maker.operation, Opaque)
        and maker.operation.note == UNSIZED
        and isinstance(maker.type, TupleType)
        and not maker.type.parts
    )
