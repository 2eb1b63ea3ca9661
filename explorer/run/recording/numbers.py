"""Numbers among the leaves of a plan: tensors of one element, which stand for a number as ``2`` does."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.core.ir.expr import Expr
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import numbers_of
from explorer.core.types.device import cpu


def numbers(nodes: Sequence[Expr]) -> dict[int, float]:
    """Return the values of real leaves of one element that are in memory, by node id."""
    return {
        number: float(numbers_of(node.storage.array).item())
        for number, node in enumerate(nodes)
        if isinstance(node, Tensor)
        and type(node.storage) is Storage  # another one may read a file for its value
        and node.storage.device is cpu
        and node.tensor_type.size == 1
        and node.dtype.kind not in "bcU"
    }
