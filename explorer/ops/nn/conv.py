"""Convolution (cross-correlation, as in deep learning) along one to three axes, and its two adjoints.

The operations are two-dimensional: ``conv`` treats sequences as images of height 1, and computes convolutions of
volumes as sums of convolutions of planes. The gradients of each operation are the other two operations, so gradients of
any order exist. Unfolding whole images for h × w filters would need h · w times their memory, so the kernels
(``kernels``) divide a result into tiles and compute matrix products for each tile. On a GPU, many small products are
slow, so there one product of unfolded images is computed.

For filters w and images x, y[n, o, i, j] = Σ x[n, c, i · s − p + a · d, j · s − p + b · d] · w[o, c, a, b] over c, a,
b, with stride s, padding p and dilation d; pixels outside the image are 0. A NaN or ∞ affects only the results whose
windows contain it. Without pixels, channels or filters, results are empty or zeros. (ONNX: Conv; PNNX: nn.Conv2d,
F.conv2d.)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.policy_operations import Adjustable, composition
from explorer.core.ir.tiles import Tile, compute
from explorer.core.memory_budget import claim_steps
from explorer.core.policy import Items, Minor, Policies, PolicyClass
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import check_axes, reshape
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.concat import Stack
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import expand_dims, transpose
from explorer.ops.manipulation.slicing import Index0, part_of
from explorer.ops.nn.kernels import conv_any_device
from explorer.ops.nn.kernels.conv_filter_gradient import FilterGradient
from explorer.ops.nn.kernels.conv_forward import ConvForwardPlan, pack
from explorer.ops.nn.kernels.conv_input_gradient import ImageGradient
from explorer.ops.nn.kernels.window import Lengths, Padding, Pair, Window, window_of

__all__ = ["conv1d", "conv2d", "conv3d"]
_ONE: Lengths = (1, 1)
_NONE: Padding = ((0, 0), (0, 0))


class Convolution(Operation, abstract=True):
    """Base class of convolution and its adjoints: images (N, C, H, W), filters (O, C / groups, h, w).

    For an upstream gradient g, each of the three operations is the derivative of Σ g · w · x, a sum over windows, with
    respect to one factor. They therefore share one shape check (``result_shape``), and each operation's gradients are
    the other two operations.
    """

    family = "product"
    strides: Lengths = _ONE
    padding: Padding = _NONE
    dilation: Lengths = _ONE
    groups: int = 1
    linear: ClassVar[bool] = True
    accumulates: ClassVar[bool] = True

    def window(self, filters: Shape) -> Window:
        """Return the window for filters of shape ``filters``."""
        return Window((filters[2], filters[3]), self.strides, self.padding, self.dilation)

    @property
    def options(self) -> tuple[Lengths, Padding, Lengths, int]:
        """Attributes shared by convolution and its adjoints."""
        return self.strides, self.padding, self.dilation, self.groups

    def result_shape(self, images: Shape, filters: Shape, types: tuple[TensorType, ...]) -> Shape:
        """Return (N, O, H′, W′); raise OperandError if the shapes of images and filters do not match."""
        if len(images) != 4 or len(filters) != 4 or any(type_.dtype.kind == "b" for type_ in types):
            raise self.refuse(types, "images must be (N, C, H, W) and filters (O, C / groups, h, w), both numeric")
        if self.groups < 1 or images[1] != filters[1] * self.groups or filters[0] % self.groups:
            raise self.refuse(
                types,
                f"images must have {filters[1]} × {self.groups} channels (filter channels × groups), not {images[1]}"
                f", and the number of filters ({filters[0]}) must be divisible by the groups",
            )
        problem = self.window(filters).problem()
        if problem:
            raise self.refuse(types, problem)
        rows, columns = self.window(filters).output(images[2], images[3])
        if rows < 1 or columns < 1:
            raise self.refuse(types, f"the filter {filters[2]}×{filters[3]} must fit into the padded image")
        return images[0], filters[0], rows, columns


class ConvolutionPolicy(PolicyClass):
    """Policy that selects the algorithm of a convolution.

    With "priced", the plan chooses Winograd's algorithm if its estimated cost is lower. With "direct", the plan never
    does, so a NaN or ∞ affects only the results whose windows contain it.

    >>> ex.ConvolutionPolicy.algorithm("direct")
    ConvolutionPolicy.algorithm = 'direct'
    """

    algorithm = Minor("priced", among=("priced", "direct"))


class Conv2d(Adjustable, Convolution):
    """Cross-correlation of images (N, C, H, W) and filters (O, C / groups, h, w) → (N, O, H′, W′)."""

    policies: ClassVar[tuple[Minor, ...]] = (ConvolutionPolicy.algorithm,)
    packed_operand = 1
    channels_last = True
    examples: ClassVar[tuple[Example, ...]] = (
        Example(real(2, 3, 5, 5), real(4, 3, 3, 3), padding=((1, 1), (1, 1))),
        Example(real(1, 2, 6, 5), real(4, 1, 3, 2), strides=(2, 1), groups=2),
        Example(real(1, 1, 6, 6), real(1, 1, 2, 2), dilation=(2, 2), padding=((1, 0), (0, 2))),
    )

    def infer(self, images: TensorType, filters: TensorType) -> TensorType:
        shape = self.result_shape(images.shape, filters.shape, (images, filters))
        return TensorType(shape, np.result_type(images.dtype, filters.dtype), images.device)

    def workspace(self, images: TensorType, filters: TensorType) -> int:
        return self.convolving(images.shape, filters.shape).workspace(images.dtype.itemsize)

    def convolving(self, images: Shape, filters: Shape) -> ConvForwardPlan:
        """Return the tiling of the convolution for operands of shapes ``images`` and ``filters``."""
        return ConvForwardPlan(self.window(filters), self.groups, images, filters)

    def pack_operand(self, filters: Array) -> Array:
        return pack(filters, self.groups)

    def tiles(self, out: Array, prepared: Array, images: Array, filters: Array) -> list[Tile]:
        return self.convolving(images.shape, filters.shape).tiles(out, images, prepared)

    def kernel(self, out: Array, images: Array, filters: Array) -> Array:
        if not isinstance(out, np.ndarray):
            return conv_any_device.forward(out, images, filters, self.window(filters.shape), self.groups)
        compute(self.tiles(out, self.pack_operand(filters), images, filters))
        return out

    def kept_axes(self, operand: int, images: TensorType, filters: TensorType) -> tuple[tuple[int, int], ...]:
        # scaling an image scales its results; scaling a filter scales its channel of the result
        return ((0, 1),) if operand else ((0, 0),)

    def gradient(self, g: Expr, y: Expr, images: Expr, filters: Expr) -> tuple[Expr, Expr]:
        return (
            Conv2dImageGradient(*self.options, images.shape)(g, filters),
            Conv2dFilterGradient(*self.options, filters.shape)(g, images),
        )

    def batch(self, size: int, batched: tuple[bool, ...], images: Expr, filters: Expr) -> Expr:
        if batched[1]:
            return _batch_filters(self, size, batched, images, filters)
        merged = self(reshape(images, (size * images.shape[1], *images.shape[2:])), filters)
        return reshape(merged, (size, images.shape[1], *merged.shape[1:]))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return 2 * result.size * math.prod(types[1].shape[1:])

    def with_policies(self, policies: Policies) -> Operation:
        """Return the convolution with the algorithm set by ``policies``."""
        return DirectConv2d(*self.options) if policies.select(ConvolutionPolicy).algorithm == "direct" else self


class DirectConv2d(Conv2d):
    """Convolution that plans do not replace with another algorithm, because they replace only ``Conv2d`` itself."""

    policies = ()


class Conv2dImageGradient(Convolution):
    """Adjoint of convolution for images: (N, O, H′, W′), filters (O, C / groups, h, w) → ``shape`` (N, C, H, W).

    ``shape`` is an attribute, because the operands do not determine it: with a stride of 2, for example, images of 5
    and 6 rows give results of equal size. Transposed convolutions are recorded as this operation.
    """

    shape: Shape = ()
    packed_operand = 1
    channels_last = True
    examples = (
        Example(real(2, 4, 5, 5), real(4, 3, 3, 3), padding=((1, 1), (1, 1)), shape=(2, 3, 5, 5)),
        Example(real(1, 4, 2, 4), real(4, 1, 3, 2), strides=(2, 1), groups=2, shape=(1, 2, 6, 5)),
    )

    def infer(self, g: TensorType, filters: TensorType) -> TensorType:
        if self.result_shape(self.shape, filters.shape, (g, filters)) != g.shape:
            raise self.refuse((g, filters), f"the gradient must have the shape of the convolution of {self.shape}")
        return TensorType(self.shape, np.result_type(g.dtype, filters.dtype))

    def workspace(self, g: TensorType, filters: TensorType) -> int:
        return self.gradient_of(filters.shape).workspace(np.result_type(g.dtype, filters.dtype).itemsize)

    def gradient_of(self, filters: Shape) -> ImageGradient:
        """Return the tiling of the adjoint of a convolution with filters of shape ``filters``."""
        return ImageGradient(self.window(filters), self.groups, self.shape, filters)

    def pack_operand(self, filters: Array) -> list[Array]:
        return self.gradient_of(filters.shape).pack(filters)

    def tiles(self, out: Array, prepared: list[Array], g: Array, filters: Array) -> list[Tile]:
        return self.gradient_of(filters.shape).pieces(out, g, prepared)

    def kernel(self, out: Array, g: Array, filters: Array) -> Array:
        if not isinstance(out, np.ndarray):
            return conv_any_device.image_gradient(out, g, filters, self.window(filters.shape), self.groups)
        compute(self.tiles(out, self.pack_operand(filters), g, filters))
        return out

    def kept_axes(self, operand: int, g: TensorType, filters: TensorType) -> tuple[tuple[int, int], ...]:
        if operand:
            return ((1, 1),) if self.groups == 1 else ()  # the channels of all groups are concatenated
        return ((0, 0),)

    def gradient(self, upstream: Expr, y: Expr, g: Expr, filters: Expr) -> tuple[Expr, Expr]:
        return (
            Conv2d(*self.options)(upstream, filters),
            Conv2dFilterGradient(*self.options, filters.shape)(g, upstream),
        )

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, filters: Expr) -> Expr:
        if batched[1]:
            return _batch_filters(self, size, batched, g, filters)
        merged = (size * self.shape[0], *self.shape[1:])
        merged_gradient = Conv2dImageGradient(*self.options, merged)(
            reshape(g, (size * g.shape[1], *g.shape[2:])), filters
        )
        return reshape(merged_gradient, (size, *self.shape))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[0].size * math.prod(types[1].shape[1:])


class Conv2dFilterGradient(Convolution):
    """Adjoint of convolution for filters: (N, O, H′, W′), images (N, C, H, W) → ``shape`` (O, C / groups, h, w)."""

    shape: Shape = ()
    examples = (
        Example(real(2, 4, 5, 5), real(2, 3, 5, 5), padding=((1, 1), (1, 1)), shape=(4, 3, 3, 3)),
        Example(real(1, 4, 2, 4), real(1, 2, 6, 5), strides=(2, 1), groups=2, shape=(4, 1, 3, 2)),
    )

    def infer(self, g: TensorType, images: TensorType) -> TensorType:
        if self.result_shape(images.shape, self.shape, (g, images)) != g.shape:
            raise self.refuse(
                (g, images), f"the gradient must have the shape of the convolution with filters {self.shape}"
            )
        return TensorType(self.shape, np.result_type(g.dtype, images.dtype))

    def workspace(self, g: TensorType, images: TensorType) -> int:
        return self.gradient_of(images.shape).workspace(np.result_type(g.dtype, images.dtype).itemsize)

    def gradient_of(self, images: Shape) -> FilterGradient:
        """Return the tiling of the adjoint of a convolution of images of shape ``images``."""
        return FilterGradient(self.window(self.shape), self.groups, images, self.shape)

    def tiles(self, out: Array, prepared: None, g: Array, images: Array) -> list[Tile]:
        return self.gradient_of(images.shape).pieces(out, g, images)

    def kernel(self, out: Array, g: Array, images: Array) -> Array:
        if not isinstance(out, np.ndarray):
            return conv_any_device.filter_gradient(out, g, images, self.window(self.shape), self.groups)
        compute(self.tiles(out, None, g, images))
        return out

    def gradient(self, upstream: Expr, y: Expr, g: Expr, images: Expr) -> tuple[Expr, Expr]:
        return (
            Conv2d(*self.options)(images, upstream),
            Conv2dImageGradient(*self.options, images.shape)(g, upstream),
        )

    def batch(self, size: int, batched: tuple[bool, ...], g: Expr, images: Expr) -> Expr:
        return _batch_filters(self, size, batched, g, images)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return 2 * types[0].size * math.prod(self.shape[1:])


def _batch_filters(operation: Convolution, size: int, batched: tuple[bool, ...], first: Expr, second: Expr) -> Expr:
    """Record one convolution per batch element, because each has its own filters."""

    def part(node: Expr, is_batched: bool, index: int) -> Expr:
        return Index0(index)(node) if is_batched else node

    results = [operation(part(first, batched[0], i), part(second, batched[1], i)) for i in range(size)]
    return Stack()(*results)


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
    """Convolve ``x`` (N, C, L) with filters (O, C / groups, l) and add a bias (O,); the result is (N, O, L′).

    Strides, padding, dilation and groups are as in ``conv2d``. Raises OperandError if ``x`` or the filters have another
    rank.

    >>> x, filters = ex.tensor([[[1.0, 2.0, 4.0, 8.0]]]), ex.tensor([[[-1.0, 1.0]]])
    >>> ex.evaluate(ex.conv1d(x, filters))
    array([[[1., 2., 4.]]])
    """
    return conv(x, filters, bias, 1, strides, padding, dilation, groups)


@public
def conv2d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | Lengths = 1,
    padding: int | Lengths | Padding = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve ``x`` (N, C, H, W) with filters (O, C / groups, h, w) and add a bias (O,).

    The result is (N, O, H′, W′). The filters are not flipped (cross-correlation). H′ = ⌊(H + padding − dilation · (h −
    1) − 1) / stride⌋ + 1, where padding is the sum of both sides; W′ is computed likewise. Raises OperandError if the
    shapes do not match.

    >>> x, filters = ex.tensor(np.ones((1, 1, 4, 4))), ex.tensor(np.ones((1, 1, 3, 3)))
    >>> ex.evaluate(ex.conv2d(x, filters))
    array([[[[9., 9.],
             [9., 9.]]]])
    >>> ex.conv2d(x, filters, padding=1, strides=2).shape
    (1, 1, 2, 2)
    """
    return conv(x, filters, bias, 2, strides, padding, dilation, groups, policies)


@public
@composition
def conv3d(
    x: Any,
    filters: Any,
    bias: Any = None,
    *,
    strides: int | Lengths = 1,
    padding: int | tuple[Any, ...] = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve volumes ``x`` (N, C, D, H, W) with filters (O, C / groups, d, h, w).

    The result is (N, O, D′, H′, W′). One 2D convolution is recorded for each plane of the filters. Strides, padding and
    dilation are one number for all three axes or one number for each axis; padding may also be one pair (before, after)
    for each axis.

    >>> ex.conv3d(np.ones((1, 2, 5, 6, 7)), np.ones((4, 2, 3, 3, 3)), padding=1).shape
    (1, 4, 5, 6, 7)
    """
    return conv(x, filters, bias, 3, strides, padding, dilation, groups)


def conv(
    x: Any,
    filters: Any,
    bias: Any = None,
    axes: int = 2,
    strides: int | Lengths = 1,
    padding: int | tuple[Any, ...] = 0,
    dilation: int | Lengths = 1,
    groups: int = 1,
    policies: Items = (),
) -> Expr:
    """Convolve ``x`` (N, C, …) with filters (O, C / groups, …) along one to three axes and add a bias (O,).

    Strides, padding and dilation are one number for all axes or one number for each axis; padding may also be one pair
    (before, after) for each axis. Policies apply only to images. Raises OperandError if an operand has another rank.
    """
    x, filters = as_operands((x, filters))
    # for images, the operation itself checks the ranks
    if axes != 2:
        check_ranks(f"conv{axes}d", x, filters, axes, "O, C / groups")
    window = window_of(1, axes, strides, padding, dilation)
    if axes == 2:
        convolution = Conv2d(window.strides, window.padding, window.dilation, as_integer(groups, "groups"))
        return plus_bias(convolution(x, filters, policies=policies), bias)
    if axes == 3:
        return _conv_by_planes(x, filters, bias, window=window, groups=groups)
    image = window.as_image()
    y = conv(*as_images(x, filters), bias, 2, image.strides, image.padding, image.dilation, groups)
    return part_of(y, FIRST_ROW)


@rounded_once
def _conv_by_planes(x: Expr, filters: Expr, bias: Any, *, window: Window, groups: int) -> Expr:
    depths = filters.shape[2]
    step, sides, gap, plane = window.strides[0], window.padding[0], window.dilation[0], window.plane()
    problem = window.problem()
    # only the depth is padded here, because the convolutions pad the other two axes
    count = 0 if problem or not depths else (x.shape[2] + sum(sides) - gap * (depths - 1) - 1) // step + 1
    if count < 1:
        raise OperandError(
            f"conv3d of {x.type} with filters {filters.type}, strides {window.strides}, padding {window.padding}, "
            f"dilation {window.dilation}",
            rule=problem or "the filter must fit into the padded volume",
            fix="strides=1, padding=0, dilation=1" if problem else "padding=…, or a smaller filter",
        )
    padded_volume = padded(x, ((0, 0), (0, 0), sides, (0, 0), (0, 0)))

    def convolve_plane(depth: int) -> Expr:
        first = depth * gap
        # for each plane of the result, the plane of the volume that is convolved with this plane of the filters
        layers = part_of(padded_volume, (slice(None), slice(None), slice(first, first + (count - 1) * step + 1, step)))
        images = transpose(layers, (0, 2, 1, 3, 4))  # (N, D′, C, H, W), where each plane is an image
        images = reshape(images, (images.shape[0] * count, *images.shape[2:]))
        part = part_of(filters, (slice(None), slice(None), depth))
        y = conv(images, part, None, 2, plane.strides, plane.padding, plane.dilation, groups)
        return reshape(y, (x.shape[0], count, *y.shape[1:]))

    # limit the recorded convolutions, because a file can declare more planes than a plan supports
    claim_steps("a convolution of volumes", depths)
    total = add_n(*[convolve_plane(depth) for depth in range(depths)])
    return plus_bias(transpose(total, (0, 2, 1, 3, 4)), bias)


def plus_bias(y: Expr, bias: Any) -> Expr:
    """Add ``bias`` (O,), unless it is None, to ``y`` (N, O, …); raise OperandError if it does not have O elements."""
    if bias is None:
        return y
    (bias,) = as_operands((bias,))
    if bias.size != y.shape[1]:
        raise OperandError(
            f"a bias {bias.type} for {y.shape[1]} channels",
            rule="a bias must have one element per channel of the result",
            fix="bias=None for no bias",
        )
    return y + reshape(bias, (bias.size, *[1] * (y.ndim - 2)))


FIRST_ROW = (slice(None), slice(None), 0)
"""index that converts images of height 1 to sequences"""
_SPATIAL = {1: "L", 2: "H, W", 3: "D, H, W"}


def as_images(x: Expr, filters: Expr) -> tuple[Expr, Expr]:
    """Return sequences (N, C, L) as images of height 1, and their filters likewise."""
    return expand_dims(x, 2), expand_dims(filters, 2)


def check_ranks(function: str, x: Expr, filters: Expr, axes: int, channels: str) -> None:
    """Raise OperandError unless ``x`` has ``axes`` axes after N and C, and ``filters`` as many after ``channels``."""
    check_axes(function, f"N, C, {_SPATIAL[axes]}", x=x)
    check_axes(function, f"{channels}, {_SPATIAL[axes].lower()}", filters=filters)
