"""Mapped calls: single nodes that represent calls of one function on many elements.

``ex.map`` records mapped calls, whose gradients are mapped calls, too. Planning replaces a mapped call by the
function's vectorized body, or runs the body once per element (plan/passes/inline.py). Recording each call separately
would take as long as computing it.
"""

from __future__ import annotations

from typing import ClassVar

from explorer.core.ir.function import Body, Call
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType


class MappedCall(Call):
    """Calls of a function on the rows of its operands: (size, …) → (size, …) for each output."""

    size: int
    batched: tuple[bool, ...]
    """for each operand, whether it has one row per call; all other operands are shared by all calls"""
    inlinable: ClassVar[bool] = False

    @property
    def turns(self) -> int:  # type: ignore[override]  # a class variable in the base class
        """Number of function calls."""
        return self.size

    def infer(self, *types: AnyType) -> AnyType:
        for type_, is_batched in zip(types, self.batched, strict=True):
            if not isinstance(type_, TensorType) or not type_.numeric:
                raise self.refuse(types, "operands must have a NumPy dtype")
            if is_batched and (not type_.shape or type_.shape[0] != self.size):
                raise self.refuse(types, f"batched operands must have {self.size} elements along their first axis")
        member = super().infer(*types)
        if isinstance(member, TupleType):
            return TupleType(tuple([self._stacked(part) for part in member.parts]))
        return self._stacked(member)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.size * self.body.flops

    @property
    def label(self) -> str:
        return self.body.name if self.size == 1 else f"{self.body.name} ×{self.size}"

    def _stacked(self, type_: AnyType) -> TensorType:
        assert isinstance(type_, TensorType)
        return type_.with_shape((self.size, *type_.shape))


def call_like(call: Call, body: Body, batched: tuple[bool, ...] | None = None) -> Call:
    """Return a call of ``body``, mapped over as many elements as ``call`` if that is a mapped call.

    ``batched`` states for each operand whether it is mapped; None: as in ``call``.
    """
    if not isinstance(call, MappedCall):
        return Call(body)
    return MappedCall(body, call.size, call.batched if batched is None else batched)
