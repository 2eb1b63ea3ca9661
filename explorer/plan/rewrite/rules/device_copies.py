"""Unnecessary copies between devices: round trips, and copies of constants.

In a small program, a copy is the most expensive operation, because it waits for the other device. But no rule moves an
operation to another device, because the user decides where a program computes.
"""

# ruff: noqa: D102  # match() is documented once, by Rule

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.ops.creation.constants import Full, OneHot, Zero
from explorer.ops.manipulation.device_copy import ToDevice
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.matchers import producer
from explorer.plan.rewrite.rule import Answer, Reason, Rule


class RoundTripCopy(Rule):
    """A copy of a copy is a copy of the original, or the original itself if it is on the target device."""

    numerics = "exact"
    roots = (ToDevice,)

    direct = Reason(
        "applied",
        "`{x}` is not copied to the device `{there}` and from there on, because copying changes no number: a copy of "
        "the copy is `{x}` itself, or a copy of `{x}`.",
        meaning="Copying an array to another device and back gives the same array. If a third device needs the array, "
        "it is copied there directly.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (copy,) = graph.operands(node)
        if producer(copy, ToDevice) is None:
            return None
        (x,) = graph.operands(copy)
        facts = {"x": x, "there": copy.device.name}
        return self.direct.applied(x if x.device is node.device else node.operation(x), **facts)


class RecreateConstantOnDevice(Rule):
    """A structured constant is created on the target device, not copied, because its elements are not stored."""

    numerics = "exact"
    roots = (ToDevice,)

    recreated = Reason(
        "applied",
        "The constant `{x}` is created on the device `{there}`, not copied to it, because only a shape and one number "
        "are stored, so there is no array to copy.",
        meaning="ex.ZeroTensor and ex.TrivialTensor are such constants: all their elements are equal. In an "
        "ex.BiasVector, only one element is not 0. Arrays of different numbers must be copied.",
    )

    def match(self, node: Expr, graph: PlanGraph) -> Answer:
        (x,) = graph.operands(node)
        operation, device = x.operation, node.device
        if isinstance(operation, Full):
            constant: Expr = Full(operation.value, operation.shape, operation.dtype, device)()
        elif isinstance(operation, Zero):
            constant = Zero(operation.shape, operation.dtype, operation.cause, device)()
        elif isinstance(operation, OneHot):
            constant = OneHot(operation.length, operation.position, operation.value, operation.dtype, device)()
        else:
            return None
        return self.recreated.applied(constant, x=x, there=device.name)
