"""An operator of a file that cannot be computed, drawn all the same."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType


class Opaque(Operation):
    """An operator that explorer cannot compute, with the types that its file notes for its outputs."""

    kind: str
    """the file's operator type"""
    results: tuple[TensorType, ...]
    """one an output, none at all where the file does not note them"""
    reason: str
    rule: str
    fix: str
    operator: str
    """its name in the file"""
    format: str
    view = True
    takes_tuples = True
    nondifferentiable = "an operator that cannot be computed has no gradient; register its type with file_operator"
    refuses_gradient = True
    unbatchable = "an operator that cannot be computed has no batching rule"

    def infer(self, *types: AnyType) -> AnyType:
        """The types that the file notes."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)

    def kernel(self, out: Any, *operands: Any) -> Any:
        """Refuses to run."""
        raise OperandError(
            f"operator {self.operator!r} of type {self.kind} ({self.format}) is drawn, and cannot be computed: "
            f"{self.reason}",
            rule=self.rule or "an operator runs when its type is known and its operands fit",
            fix=self.fix or f"net.check() lists all that keeps {self.operator!r} from running",
        )

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """None that are known of."""
        return 0

    @property
    def label(self) -> str:
        """The file's type, marked."""
        return f"{self.kind} (cannot run)"
