"""Matrix products.

One operation for all ranks, with NumPy's rules. BLAS computes it, and its speed depends on how it is called: tiles, the
gradient and the batching rule all merge leading axes into rows where they can, since one product of many rows is much
faster than many products of few.

With upstream gradient G the gradients are G Bᵀ and Aᵀ G, summed over the axes that were broadcast. An empty contracted
axis gives zeros. (ONNX: MatMul, Gemm; PNNX: torch.matmul, nn.Linear, F.linear.)
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.policy_operations import Adjustable
from explorer.core.ir.tiles import TILE_BYTES, Index, Tile, cut, even, scratch
from explorer.core.policy import Policies
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, broadcast_shapes
from explorer.ops.accumulation_dtype import AccumulationPolicy, accumulating
from explorer.ops.base import reshape, sum_to
from explorer.ops.manipulation.reshape import Transpose

__all__ = ["matmul"]

_FLOPS = 1 << 24
"""arithmetic operations that are worth a tile of their own: about 0.2 ms of BLAS on one core"""
_ROWS, _COLUMNS = 128, 256
"""least size of a tile: BLAS packs both operands of each, and fused operations run along its rows one by one"""

_FEW_ROWS = range(3, 33)
"""rows of the left operand whose product by a transposed matrix is computed faster as a transposed product"""
_LEAST_CONTRACTED, _LEAST_TURNED = 128, 1 << 16
"""least contracted axis and least size of such a matrix: below, the copy of the product takes the time back"""

_WHOLE_FLOPS = 1 << 17
"""arithmetic operations from which on whole numbers are worth their conversion to double precision"""
_EXACT = 1 << 53
"""largest sum of whole numbers that double precision holds, whatever the order"""


class Matmul(Adjustable):
    """Matrix product a @ b: (…, n, k), (…, k, m) → (…, n, m); a vector is a row on the left, a column on the right."""

    linear = accumulates = True
    policies = (AccumulationPolicy.dtype,)
    examples = (
        Example(real(2, 3), real(3, 4)),
        Example(real(3), real(3, 4)),
        Example(real(2, 3), real(3)),
        Example(real(3), real(3)),
        Example(real(5, 2, 3), real(3, 4)),
        Example(real(5, 2, 3), real(5, 3, 4)),
        Example(real(2, 1, 2, 3), real(5, 3, 4)),
        Example(real(5, 2, 3), real(3)),
    )

    def infer(self, a: TensorType, b: TensorType) -> TensorType:
        if not a.shape or not b.shape:
            raise self.refuse((a, b), "both operands must have at least one axis", "multiply by a scalar with *")
        if a.shape[-1] != b.shape[-2 if b.rank > 1 else 0]:
            raise self.refuse(
                (a, b),
                f"the last axis of a ({a.shape[-1]}) and the {'second last' if b.rank > 1 else 'only'} axis of b "
                f"({b.shape[-2 if b.rank > 1 else 0]}) must be equal",
                "transpose an operand (.T), or check which axis is contracted",
            )
        batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if batch is None:
            raise self.refuse((a, b), "the axes before the last two must broadcast together")
        shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
        return TensorType(shape, np.result_type(a.dtype, b.dtype), a.device)

    def kernel(self, out: Array, a: Array, b: Array) -> Array:
        _product(out, a, b)()
        return out

    def tiles(self, out: Array, prepared: None, a: Array, b: Array) -> list[Tile]:
        whole = tuple([slice(0, size) for size in out.shape])
        # as many tiles as its arithmetic is worth, and at least so many that each result fits the cache for fused
        # operations
        most = max(2 * out.size * a.shape[-1] // _FLOPS, out.nbytes // TILE_BYTES)
        if most < 2 or min(a.ndim, b.ndim) < 2:
            return [Tile(whole, _product(out, a, b))]
        # cut along the batch if there is one, else along the rows, which are contiguous, and only then along columns
        batch = [axis for axis, size in enumerate(out.shape[:-2]) if size > 1]
        rows, columns = out.ndim - 2, out.ndim - 1
        parts = {axis: [part] for axis, part in enumerate(whole)}
        for axis, least in ((batch[0], 1),) if batch else ((rows, _ROWS), (columns, _COLUMNS)):
            size = out.shape[axis]
            number = min(most, max(1, size // least))
            parts[axis] = even(size, -(-size // number))
            most = -(-most // number)

        def piece(place: Index) -> Tile:
            left = cut(a, (*place[:-1], slice(None)), out.ndim)
            right = cut(b, (*place[:-2], slice(None), place[-1]), out.ndim)
            return Tile(place, _product(out[place], left, right))

        return [piece(place) for place in itertools.product(*parts.values())]

    def kept_axes(self, operand: int, a: TensorType, b: TensorType) -> tuple[tuple[int, int], ...]:
        own = b if operand else a
        result = self.type_of((a, b))
        assert isinstance(result, TensorType)
        stacked = max(a.rank, b.rank) - 2
        shift = stacked - (own.rank - 2)
        pairs = [(i, i + shift) for i in range(own.rank - 2) if own.shape[i] == result.shape[i + shift]]
        if own.rank > 1:
            pairs.append((own.rank - 1, result.rank - 1) if operand else (own.rank - 2, stacked))
        return tuple(pairs)

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        left, right = reshape(a, _as_left(a.shape)), reshape(b, _as_right(b.shape))
        upstream = reshape(g, _product_shape(left.shape, right.shape))
        to_left = sum_to(upstream @ swap(right), left.shape)
        # a weight matrix shared by all: one product over all rows, where Aᵀ G would make a matrix for each and then sum
        # them
        if right.ndim == 2 and left.ndim > 2:
            rows = math.prod(left.shape[:-1])
            to_right = swap(reshape(left, (rows, left.shape[-1]))) @ reshape(upstream, (rows, upstream.shape[-1]))
        else:
            to_right = sum_to(swap(left) @ upstream, right.shape)
        return reshape(to_left, a.shape), reshape(to_right, b.shape)

    def batch(self, size: int, batched: tuple[bool, ...], a: Expr, b: Expr) -> Expr:
        own_a, own_b = a.shape[batched[0] :], b.shape[batched[1] :]
        left_shape, right_shape = _as_left(own_a), _as_right(own_b)
        single = Matmul().infer(TensorType(own_a, a.dtype), TensorType(own_b, b.dtype)).shape
        # members are so many more rows of one product
        if batched[0] and not batched[1] and len(right_shape) == 2:
            rows = size * math.prod(left_shape[:-1])
            return reshape(reshape(a, (rows, left_shape[-1])) @ reshape(b, right_shape), (size, *single))
        rank = max(len(left_shape), len(right_shape))
        # axes of size 1 behind the batch axis, so that the operands' own axes meet
        left = reshape(a, (size, *[1] * (rank - len(left_shape)), *left_shape) if batched[0] else left_shape)
        right = reshape(b, (size, *[1] * (rank - len(right_shape)), *right_shape) if batched[1] else right_shape)
        return reshape(left @ right, (size, *single))

    def under(self, policies: Policies) -> Operation:
        """Return the product that accumulates in the policies' dtype."""
        return accumulating(self, policies)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return 2 * result.size * types[0].shape[-1]

    def workspace(self, *types: TensorType) -> int:
        result = self.type_of(types)
        assert isinstance(result, TensorType)
        a, b = types
        if b.rank == 2 and a.rank > 1 and _is_worth_turning(math.prod(a.shape[:-1]), b.shape, result.dtype.char):
            return result.nbytes  # the turned product, where the weights are transposed in memory
        if result.dtype.kind not in "iu" or self.flops(result, *types) < _WHOLE_FLOPS:
            return 0
        # both operands and the product in double precision, and the product as int64
        return 8 * (sum([type_.size for type_ in types]) + 2 * result.size)


def _product(out: Array, a: Array, b: Array) -> Callable[[], Any]:
    """Return a function that multiplies two arrays into ``out``."""
    if b.ndim == 2 < a.ndim and a.flags.c_contiguous and out.flags.c_contiguous:
        # one product over all rows: NumPy would compute one for each of the stacked matrices
        rows = math.prod(a.shape[:-1])
        a, out = a.reshape(rows, a.shape[-1]), out.reshape(rows, out.shape[-1])
    elif b.ndim == 2 < a.ndim and math.prod(a.shape[:-2]) == 1:  # columns of a result, which have gaps between them
        first = (0,) * (a.ndim - 2)
        a, out = a[first], out[first]
    if out.dtype.kind in "iu" and isinstance(out, np.ndarray) and 2 * out.size * a.shape[-1] >= _WHOLE_FLOPS:
        return functools.partial(_whole_product, a, b, out)
    if _is_faster_turned(a, b) and out.ndim == 2:
        return functools.partial(_turned_product, a.T, b.T, out)
    return functools.partial(np.matmul, a, b, out)


def _is_faster_turned(a: Array, b: Array) -> bool:
    """Whether few rows times a transposed matrix are faster as the matrix times few columns.

    BLAS packs the right operand of each product, and takes longest where it must transpose it, too: 16 × 512 times the
    transpose of 512 × 512, as the weights of a linear layer lie in memory, takes 132 µs, and (w @ x.T).T takes 74. In
    float64 both take as long.
    """
    if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.ndim != 2 or b.ndim != 2:
        return False
    return _is_worth_turning(len(a), b.shape, b.dtype.char) and b.T.flags.c_contiguous and a.flags.c_contiguous


def _is_worth_turning(rows: int, right: Shape, char: str) -> bool:
    """Whether a right operand of a shape and dtype is large enough, and the rows few enough, for a turned product."""
    return char == "f" and rows in _FEW_ROWS and right[0] >= _LEAST_CONTRACTED and math.prod(right) >= _LEAST_TURNED


def _turned_product(columns: Array, matrix: Array, out: Array) -> Array:
    """Compute (matrix @ columns)ᵀ into ``out``."""
    shape = (len(matrix), columns.shape[1])
    product, turned = scratch(("turned", shape), [(shape, np.float32)], lambda memory: (memory, memory.T))
    np.matmul(matrix, columns, product)
    np.copyto(out, turned)
    return out


def _whole_product(a: Array, b: Array, out: Array) -> Array:
    """Multiply whole numbers by BLAS in double precision, where every sum is exact; else as NumPy does.

    NumPy has no BLAS for them, and takes ten times as long.
    """
    largest = [max(-int(array.min()), int(array.max())) for array in (a, b)]
    if a.shape[-1] * largest[0] * largest[1] > _EXACT:
        np.matmul(a, b, out)
    else:
        # by way of int64, so that what a narrow dtype does not hold wraps around, as NumPy's sums do
        total = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        np.copyto(out, total, casting="unsafe")
    return out


def _as_left(shape: Shape) -> Shape:
    return shape if len(shape) > 1 else (1, *shape)


def _as_right(shape: Shape) -> Shape:
    return shape if len(shape) > 1 else (*shape, 1)


def _product_shape(left: Shape, right: Shape) -> Shape:
    batch: Any = broadcast_shapes(left[:-2], right[:-2])
    return (*batch, left[-2], right[-1])


def swap(x: Expr) -> Expr:
    """Exchange the last two axes of ``x``."""
    return Transpose((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))(x)


matmul = Matmul()
