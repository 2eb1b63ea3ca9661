"""Convolutions along one axis and along three, composed of the one in two dimensions.

Sequences become images of height 1, and each depth of a volume's filter is a convolution of its own, whose results are
added. Kernels, their gradients and their tiles are written for images alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import whole
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import expand_dims, transpose
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.conv import conv2d, plus_bias
from explorer.ops.nn.kernels.window import Pair, for_each, pair

__all__ = ["conv1d", "conv3d"]


@public
@composition
def conv1d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int = 1,
    padding: int | Pair = 0,
    dilation: int = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve (N, C, L) with filters (O, C / groups, l), plus a bias (O,): → (N, O, L′).

    Strides, padding, dilation and groups mean what they mean for ``conv2d``. Raises OperandError for other ranks.

    >>> x, filters = ex.tensor([[[1.0, 2.0, 4.0, 8.0]]]), ex.tensor([[[-1.0, 1.0]]])
    >>> ex.evaluate(ex.conv1d(x, filters))
    array([[[1., 2., 4.]]])
    """
    return along_line(conv2d, x, filters, bias, strides, padding, dilation, groups)


@public
@composition
@rounded_once
def conv3d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | tuple[int, int, int] = 1,
    padding: int | tuple[Any, ...] = 0,
    dilation: int | tuple[int, int, int] = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve (N, C, D, H, W) with filters (O, C / groups, d, h, w): one convolution in two dimensions for each d.

    Strides, padding and dilation are one number for all three axes, or one for each; padding may also be a pair
    (before, after) for each.

    >>> ex.conv3d(np.ones((1, 2, 5, 6, 7)), np.ones((4, 2, 3, 3, 3)), padding=1).shape
    (1, 4, 5, 6, 7)
    """
    x, filters = as_operands((x, filters))
    if x.ndim != 5 or filters.ndim != 5:
        raise OperandError(
            f"conv3d of {x.type} with filters {filters.type}",
            rule="volumes must be (N, C, D, H, W), filters (O, C / groups, d, h, w)",
            fix="x[None] adds the axis N; ex.transpose puts the channels second",
        )
    steps = [whole(step, "strides") for step in for_each(strides, 3, "strides")]
    spread = [whole(step, "dilation") for step in for_each(dilation, 3, "dilation")]
    sides = [pair(side, "padding") for side in for_each(padding, 3, "padding")]
    if min(*steps, *spread) < 1 or min(map(min, sides)) < 0:
        raise OperandError(
            f"conv3d: strides {strides}, padding {padding}, dilation {dilation}",
            rule="strides and dilation must be at least 1, padding at least 0",
            fix="strides=1, padding=0, dilation=1",
        )
    # only the depth is padded with zeros here: the convolutions pad the other two axes themselves
    deep = padded(x, ((0, 0), (0, 0), sides[0], (0, 0), (0, 0)))
    count = (deep.shape[2] - spread[0] * (filters.shape[2] - 1) - 1) // steps[0] + 1
    if count < 1 or not filters.shape[2]:
        raise OperandError(
            f"conv3d of {x.type} with filters {filters.type}",
            rule="the filter must fit into the padded volume",
            fix="padding=…, or a smaller filter",
        )

    def plane(depth: int) -> Expr:
        first = depth * spread[0]
        # the slices of the volume that meet this slice of the filters: every steps[0]-th, one for each result
        layers = part_of(deep, (slice(None), slice(None), slice(first, first + (count - 1) * steps[0] + 1, steps[0])))
        images = transpose(layers, (0, 2, 1, 3, 4))  # (N, D′, C, H, W): each slice is an image
        y = conv2d(
            reshape(images, (images.shape[0] * count, *images.shape[2:])),
            part_of(filters, (slice(None), slice(None), depth)),
            strides=(steps[1], steps[2]),
            padding=(sides[1], sides[2]),
            dilation=(spread[1], spread[2]),
            groups=groups,
        )
        return reshape(y, (x.shape[0], count, *y.shape[1:]))

    # each slice of the filters records a convolution: a file can declare more of them than a plan may hold
    claim_steps("a convolution of volumes", filters.shape[2])
    total = add_n(*[plane(depth) for depth in range(filters.shape[2])])
    return plus_bias(transpose(total, (0, 2, 1, 3, 4)), bias)


def along_line(
    convolve: Callable[..., Expr],
    x: Any,
    filters: Any,
    bias: Any,
    strides: int,
    padding: int | Pair,
    dilation: int,
    groups: int,
    **options: Any,
) -> Expr:
    """Record a convolution in two dimensions, or its adjoint, of sequences (N, C, L) as images of height 1."""
    x, filters = as_operands((x, filters))
    if x.ndim != 3 or filters.ndim != 3:
        raise OperandError(
            f"{convolve.__name__.replace('2', '1')} of {x.type} with filters {filters.type}",
            rule="sequences must be (N, C, L), and filters must have three axes",
            fix="x[None] adds the axis N; ex.transpose puts the channels second",
        )
    y = convolve(
        expand_dims(x, 2),
        expand_dims(filters, 2),
        bias,
        strides=(1, strides),
        padding=((0, 0), pair(padding, "padding")),
        dilation=(1, dilation),
        groups=groups,
        **options,
    )
    return part_of(y, (slice(None), slice(None), 0))
