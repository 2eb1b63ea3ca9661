"""Matrix products.

One operation handles operands of all ranks, with NumPy's rules. BLAS computes the products. One product with many rows
is much faster than many products with few rows, so the kernel, the gradient and the batching rule merge leading axes
into rows if possible.

For an upstream gradient G the gradients are G Bᵀ and Aᵀ G, summed over broadcast axes. If the contracted axis is empty,
the result is zeros. (ONNX: MatMul, Gemm; PNNX: torch.matmul, nn.Linear, F.linear.)
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

_MIN_FLOPS = 1 << 24
"""minimum flops of a tile, about 0.2 ms of BLAS on one core"""
_MIN_ROWS, _MIN_COLUMNS = 128, 256
"""minimum rows and columns of a tile; BLAS packs both operands for each tile, and fused operations run row by row"""

_FEW_ROWS = range(3, 33)
"""if the right operand is a transposed matrix and the left operand has this many rows, computing the transposed product
is faster"""
_MIN_CONTRACTED, _MIN_TRANSPOSED = 128, 1 << 16
"""minimum size of the contracted axis, and minimum number of elements of the transposed matrix; for smaller matrices,
copying the product takes longer than the transposed product saves"""

_MIN_INTEGER_FLOPS = 1 << 17
"""minimum flops for which converting integers to double precision saves time"""
_LARGEST_EXACT = 1 << 53
"""largest integer sum that double precision represents exactly in any order of addition"""


class Matmul(Adjustable):
    """Matrix product a @ b: (…, n, k), (…, k, m) → (…, n, m).

    A vector is treated as a row on the left, and as a column on the right.
    """

    family = "product"
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
            raise self.refuse_by_name((a, b), functools.partial(_rule_and_fix, a.shape, b.shape))
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
        # choose enough tiles for parallel work, and tiles so small that fused operations find their results in the
        # cache
        tile_count = max(2 * out.size * a.shape[-1] // _MIN_FLOPS, out.nbytes // TILE_BYTES)
        if tile_count < 2 or min(a.ndim, b.ndim) < 2:
            return [Tile(whole, _product(out, a, b))]
        # divide the batch if there is one, otherwise the rows, which are contiguous, and then the columns
        batch = [axis for axis, size in enumerate(out.shape[:-2]) if size > 1]
        rows, columns = out.ndim - 2, out.ndim - 1
        parts = {axis: [part] for axis, part in enumerate(whole)}
        for axis, min_size in ((batch[0], 1),) if batch else ((rows, _MIN_ROWS), (columns, _MIN_COLUMNS)):
            size = out.shape[axis]
            number = min(tile_count, max(1, size // min_size))
            parts[axis] = even(size, -(-size // number))
            tile_count = -(-tile_count // number)

        def piece(index: Index) -> Tile:
            left = cut(a, (*index[:-1], slice(None)), out.ndim)
            right = cut(b, (*index[:-2], slice(None), index[-1]), out.ndim)
            return Tile(index, _product(out[index], left, right))

        return [piece(index) for index in itertools.product(*parts.values())]

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
        # if all matrices share one weight matrix, compute one product over all rows, because Aᵀ G would compute one
        # matrix per batch element and sum them
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
        # merge the batch into the rows of one product
        if batched[0] and not batched[1] and len(right_shape) == 2:
            rows = size * math.prod(left_shape[:-1])
            return reshape(reshape(a, (rows, left_shape[-1])) @ reshape(b, right_shape), (size, *single))
        rank = max(len(left_shape), len(right_shape))
        # insert axes of size 1 after the batch axis, so that the operands' other axes are aligned
        left = reshape(a, (size, *[1] * (rank - len(left_shape)), *left_shape) if batched[0] else left_shape)
        right = reshape(b, (size, *[1] * (rank - len(right_shape)), *right_shape) if batched[1] else right_shape)
        return reshape(left @ right, (size, *single))

    def with_policies(self, policies: Policies) -> Operation:
        """Return the product with the accumulation dtype set by ``policies``, if any."""
        return accumulating(self, policies)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return 2 * result.size * types[0].shape[-1]

    def workspace(self, *types: TensorType) -> int:
        result = self.type_of(types)
        assert isinstance(result, TensorType)
        a, b = types
        if b.rank == 2 and a.rank > 1 and _is_worth_transposing(math.prod(a.shape[:-1]), b.shape, result.dtype.char):
            return result.nbytes  # for the transposed product
        if result.dtype.kind not in "iu" or self.flops(result, *types) < _MIN_INTEGER_FLOPS:
            return 0
        # memory for both operands and the product in double precision, and for the product as int64
        return 8 * (sum([type_.size for type_ in types]) + 2 * result.size)


def _rule_and_fix(left: Shape, right: Shape, a: str, b: str) -> tuple[str, str]:
    """Return the rule for the contracted axes of ``a`` and ``b``, and changes that make their product possible."""
    columns, rows = left[-1], right[-2 if len(right) > 1 else 0]
    axis = "second last" if len(right) > 1 else "only"
    rule = f"the last axis of {a} ({columns}) and the {axis} axis of {b} ({rows}) must be equal"
    products = [f"{a} @ {b}.T"] if len(right) == 2 and right[1] == columns else []
    products += [f"{a}.T @ {b}"] if len(left) == 2 and left[0] == rows else []
    products += [f"{b} @ {a}"] if len(left) == len(right) == 2 and left[0] == right[1] else []
    if products:
        return rule, f"write {' or '.join(products)}"
    names = ["columns" if len(left) > 1 else "elements", "rows" if len(right) > 1 else "elements"]
    return rule, f"{b} must have {columns} {names[1]}, or {a} {rows} {names[0]}"


def _product(out: Array, a: Array, b: Array) -> Callable[[], Any]:
    if b.ndim == 2 < a.ndim and a.flags.c_contiguous and out.flags.c_contiguous:
        # compute one product over all rows, because NumPy would compute one product for each stacked matrix
        rows = math.prod(a.shape[:-1])
        a, out = a.reshape(rows, a.shape[-1]), out.reshape(rows, out.shape[-1])
    elif b.ndim == 2 < a.ndim and math.prod(a.shape[:-2]) == 1:  # a tile of columns is not contiguous
        first = (0,) * (a.ndim - 2)
        a, out = a[first], out[first]
    if out.dtype.kind in "iu" and isinstance(out, np.ndarray) and 2 * out.size * a.shape[-1] >= _MIN_INTEGER_FLOPS:
        return functools.partial(_integer_product, a, b, out)
    if _is_faster_transposed(a, b) and out.ndim == 2:
        return functools.partial(_transposed_product, a.T, b.T, out)
    if _are_matrices_of_blas(out, a, b):
        # it calls the same function of BLAS, with less work before it, which takes as long as a product of few rows
        return functools.partial(a.dot, b, out)
    return functools.partial(np.matmul, a, b, out)


def _are_matrices_of_blas(out: Array, *operands: Array) -> bool:
    """Return whether NumPy computes a product of two matrices in ``out`` by BLAS, without copies."""
    return (
        out.ndim == 2
        and out.dtype.char in "fd"
        and out.flags.c_contiguous
        and all(
            isinstance(each, np.ndarray) and each.ndim == 2 and each.dtype == out.dtype and each.flags.aligned
            for each in (out, *operands)
        )
        and all(each.flags.c_contiguous or each.flags.f_contiguous for each in operands)
    )


def _is_faster_transposed(a: Array, b: Array) -> bool:
    """Return whether (bᵀ @ aᵀ)ᵀ is faster than a @ b, for example if ``a`` has few rows and ``b`` is transposed.

    BLAS packs the right operand, which is slowest if it is transposed. For a linear layer's weights w, x @ w.T with
    shapes 16 × 512 and 512 × 512 takes 132 µs, but (w @ x.T).T takes 74 µs. In float64 both take equally long.
    """
    if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.ndim != 2 or b.ndim != 2:
        return False
    return _is_worth_transposing(len(a), b.shape, b.dtype.char) and b.T.flags.c_contiguous and a.flags.c_contiguous


def _is_worth_transposing(rows: int, right: Shape, char: str) -> bool:
    return char == "f" and rows in _FEW_ROWS and right[0] >= _MIN_CONTRACTED and math.prod(right) >= _MIN_TRANSPOSED


def _transposed_product(columns: Array, matrix: Array, out: Array) -> Array:
    shape = (len(matrix), columns.shape[1])
    product, transposed = scratch(("turned", shape), [(shape, np.float32)], lambda memory: (memory, memory.T))
    np.matmul(matrix, columns, product)
    np.copyto(out, transposed)
    return out


def _integer_product(a: Array, b: Array, out: Array) -> Array:
    """Multiply integer matrices: in double precision with BLAS if every sum is exact, otherwise with NumPy.

    NumPy does not use BLAS for integers, and takes ten times as long.
    """
    largest = [max(-int(array.min()), int(array.max())) for array in (a, b)]
    if a.shape[-1] * largest[0] * largest[1] > _LARGEST_EXACT:
        np.matmul(a, b, out)
    else:
        # convert to int64 first, so that overflow of narrow dtypes wraps around as in NumPy
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
