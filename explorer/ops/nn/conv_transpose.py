"""Transposed convolutions: the adjoints of convolutions, as ``conv_transpose2d`` of frameworks.

A convolution's gradient for its images is this very function of the upstream gradient, so both share one operation.

Frameworks order their filters (C, O / groups, h, w), from input to output channels. For the convolution whose adjoint
it is, C is the output, so that these are its filters (O, C / groups, h, w) unchanged. (ONNX: ConvTranspose; PNNX:
nn.ConvTranspose1d and 2d, F.conv_transpose1d and 2d.)
"""

from __future__ import annotations

import math
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import public
from explorer.core.types.tensor_type import whole
from explorer.ops.manipulation.padding import padded
from explorer.ops.nn.conv import Conv2dImageGradient, plus_bias
from explorer.ops.nn.conv_1d_3d import along_line
from explorer.ops.nn.kernels.window import Padding, Pair, both_sides, pair

__all__ = ["conv_transpose1d", "conv_transpose2d"]

_PHASE = 16
"""number of operators that a phase of a transposed convolution counts as, since it is a convolution of its own"""


@public
def conv_transpose2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | Pair = 1,
    padding: int | Pair | Padding = 0,
    output_padding: int | Pair = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of a convolution: (N, C, H, W), filters (C, O / groups, h, w) → (N, O, H′, W′), plus a bias
    (O,).

    H′ = (H − 1) · stride − padding + dilation · (h − 1) + 1 + output_padding, where output_padding is smaller than the
    stride or the dilation.

    A result pixel is the sum of the products that a convolution with these filters would make of it. Raises
    OperandError for a result without pixels.

    >>> x, filters = ex.tensor(np.ones((1, 1, 2, 2))), ex.tensor(np.ones((1, 1, 2, 2)))
    >>> ex.evaluate(ex.conv_transpose2d(x, filters))
    array([[[[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]]]])
    """
    x, filters = as_operands((x, filters))
    steps, sides, spread = pair(strides, "strides"), [*both_sides(padding)], pair(dilation, "dilation")
    extra, count = [*pair(output_padding, "output_padding")], whole(groups, "groups")
    if x.ndim != 4 or filters.ndim != 4 or x.shape[1] != filters.shape[0]:
        raise OperandError(
            f"conv_transpose2d of {x.type} with filters {filters.type}",
            rule="images must be (N, C, H, W) and filters (C, O / groups, h, w)",
            fix="x[None] adds the axis N; the filters of a transposed convolution have the input's channels first",
        )
    if any(not 0 <= more < max(limits) for more, *limits in zip(extra, steps, spread, strict=True)):
        raise OperandError(
            f"conv_transpose2d: output_padding {extra} with strides {steps} and dilation {spread}",
            rule="output_padding must not be negative and must be smaller than the stride or the dilation",
            fix="output_padding=0, or a larger stride",
        )
    # from the stride on a convolution of the result would have more windows than x has pixels: less is cut off at the
    # end instead, and zeros are added
    zeros = [0, 0]
    for axis, (more, step, (before, after)) in enumerate(zip(extra, steps, sides, strict=True)):
        if more >= step:
            less = min(more, after)
            sides[axis], extra[axis], zeros[axis] = (before, after - less), 0, more - less
    size = [
        (x.shape[2 + axis] - 1) * steps[axis]
        - sum(sides[axis])
        + spread[axis] * (filters.shape[2 + axis] - 1)
        + 1
        + extra[axis]
        for axis in (0, 1)
    ]
    if min(size) < 1:
        raise OperandError(
            f"conv_transpose2d of {x.type}, filters {filters.type}, strides {steps}, padding {sides}",
            rule=f"the result must have at least one pixel, not {size[0]}×{size[1]}",
            fix="padding=0, or less padding",
        )
    # the kernel makes a convolution for each phase, and a tap of each row and column: both are counted before any
    # exists
    phases = [min(step, length) for step, length in zip(steps, size, strict=True)]
    taps = [phase * min(step, taken) for phase, step, taken in zip(phases, steps, filters.shape[2:], strict=True)]
    claim_steps("a transposed convolution", _PHASE * math.prod(phases) + sum(taps))
    shape = (x.shape[0], filters.shape[1] * count, *size)
    y = Conv2dImageGradient(steps, (sides[0], sides[1]), spread, count, shape)(x, filters)
    return plus_bias(padded(y, ((0, 0), (0, 0), *[(0, more) for more in zeros])) if any(zeros) else y, bias)


@public
def conv_transpose1d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int = 1,
    padding: int | Pair = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Expr:
    """Compute the adjoint of ``conv1d``: (N, C, L), filters (C, O / groups, l) → (N, O, L′).

    >>> ex.evaluate(ex.conv_transpose1d(np.ones((1, 1, 2)), np.ones((1, 1, 3)), strides=2))
    array([[[1., 1., 2., 1., 1.]]])
    """
    options = {"output_padding": (0, output_padding)}
    return along_line(conv_transpose2d, x, filters, bias, strides, padding, dilation, groups, **options)
