"""Capture of each value during a run: its statistics, a histogram and a thumbnail.

Used by EvalPlan with record="values".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, kernel_of
from explorer.core.types.custom_dtypes import dtype_name, is_text, numbers_of
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.passes.batch import UnreadMembers
from explorer.record import Summary
from explorer.run.execution.program import Program


class ValueObserver(ABC):
    """Observer of all values, by uid; values inside a fused kernel are recomputed one by one."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kernels = program.planned.schedule.kernels
        self._rows: dict[int, list[tuple[int, int]]] = {}
        """uid of a batched value → (uid, row index) of the nodes whose values are its rows"""
        graph = program.planned.graph
        for uid, (batched_value, index) in graph.notes(UnreadMembers).items():
            self._rows.setdefault(graph.resolve(batched_value).uid, []).append((uid, index))
        for leaf in program.planned.schedule.leaves:
            self._observe(leaf)

    @abstractmethod
    def value(self, uid: int, value: Array) -> None:
        """Receive the value of node ``uid``; the array is valid only during the call."""

    def before_kernel(self, index: int) -> None:
        """Pass the values inside a kernel to ``value`` before the kernel runs, while its operands are valid."""
        kernel = self._kernels[index]
        if len(kernel.nodes) == 1:
            return
        program, inputs = self._program, self._program.planned.graph.inputs
        values_inside: dict[int, Any] = {}
        # Before the kernel runs, since it may overwrite its operands.
        for node in kernel.nodes[:-1]:
            operands = [
                values_inside[o.uid] if o.uid in values_inside else program.values[program.slots[o.uid]]
                for o in inputs[node.uid]
            ]
            values_inside[node.uid] = _computed(node, operands)
            self._deliver(node.uid, node.type.device.read(values_inside[node.uid]))

    def after_kernel(self, index: int) -> None:
        """Pass the result of a kernel to ``value``."""
        self._observe(self._kernels[index].result)

    def _observe(self, node: Expr) -> None:
        value = self._program.values[self._program.slots[node.uid]]
        # Each output of a tuple is passed as an item. None is a constant dropped after its last reader.
        if value is not None and not isinstance(value, tuple):
            self._deliver(node.uid, node.type.device.read(value))

    def _deliver(self, uid: int, value: Any) -> None:
        self.value(uid, value)
        for row, index in self._rows.get(uid, ()):
            self.value(row, value[index])


def _computed(node: Expr, operands: list[Any]) -> Any:
    """Return the value of a node inside a kernel, computed by its own operation on its device."""
    type_ = node.type
    if type_.device is cpu or not isinstance(type_, TensorType):
        return node.operation.compute(*operands)
    with type_.device.switch_to_device():
        memory = type_.device.empty(type_.shape, type_.dtype)
        result = kernel_of(node.operation, type_.device)(memory, *operands)
    return memory if result is None else result


BINS = 32
SIDE = 24
"""longest side of a thumbnail in cells"""
_BLOCK = 1 << 15
MAX_ELEMENTS = 16
"""maximum number of elements of a value that is also shown as text"""
_FIRST = 8
"""number of elements of a larger value that are shown as text if requested"""


def summarize(value: Array, first: bool = False) -> Summary:
    """Return statistics of the finite elements, counts of NaN and inf, a histogram and a thumbnail of the last axes.

    A string array has none of these. A small value has its elements as text; with ``first``, a larger one has its first
    elements.
    """
    if is_text(value.dtype):
        return Summary(value.shape, dtype_name(value.dtype), None, None, None, None, 0, 0, (), (), _text(value, first))
    with np.errstate(all="ignore"):
        return _summary(numbers_of(value), dtype_name(value.dtype), first)


def _text(value: Array, first: bool, **options: Any) -> str:
    """Return the elements of a small value; with ``first``, the first elements of a larger one in C order."""
    if value.size <= MAX_ELEMENTS:
        return np.array2string(value, separator=", ", threshold=MAX_ELEMENTS, **options)
    if not first:
        return ""
    some = np.array2string(value.flat[:_FIRST], separator=", ", max_line_width=10_000, **options)
    return f"{some.removesuffix(']')}, …]"


def _summary(value: Array, dtype: str, first: bool) -> Summary:
    """Summarize an array of numbers; complex numbers are represented by their absolute values."""
    real_values = np.abs(value) if value.dtype.kind == "c" else value
    flat = np.asarray(real_values, np.float64).ravel()
    is_finite = np.isfinite(flat)
    # A copy takes as long as the other statistics together.
    finite = flat if is_finite.all() else flat[is_finite]
    mean, deviation = _moments(finite)
    nan = 0 if finite is flat else int(np.isnan(flat).sum())
    minimum, maximum = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
    histogram: tuple[int, ...] = ()
    if minimum is not None and maximum is not None and minimum < maximum and np.isfinite(maximum - minimum):
        histogram = _histogram(finite, minimum, maximum)
    return Summary(
        value.shape,
        dtype,
        minimum,
        maximum,
        mean,
        deviation,
        nan,
        flat.size - finite.size - nan,
        histogram,
        _thumbnail(real_values, minimum, maximum),
        _text(value, first, precision=4, floatmode="maxprec"),
    )


def _histogram(finite: Array, minimum: float, maximum: float) -> tuple[int, ...]:
    """Return the number of elements in each of the BINS equal parts of a range; np.histogram rejects narrow ranges."""
    counts = np.zeros(BINS, np.intp)
    # The temporary arrays of one block fit into the cache.
    for start in range(0, finite.size, _BLOCK):
        bins = ((finite[start : start + _BLOCK] - minimum) / (maximum - minimum) * BINS).astype(np.intp)
        counts += np.bincount(np.minimum(bins, BINS - 1), minlength=BINS)
    return tuple(counts.tolist())


def _moments(finite: Array) -> tuple[float | None, float | None]:
    """Return mean and standard deviation; extreme numbers are scaled first, so their squares stay finite."""
    if not finite.size:
        return None, None
    largest = max(abs(float(finite.min())), abs(float(finite.max())))
    scale = largest if largest > 1e100 or 0 < largest < 1e-100 else 1.0
    scaled = finite if scale == 1.0 else finite / scale
    return float(scaled.mean()) * scale, float(scaled.std()) * scale


def _thumbnail(value: Array, minimum: float | None, maximum: float | None) -> tuple[tuple[int, ...], ...]:
    if minimum is None or maximum is None or value.ndim < 2 or min(value.shape) == 0:
        return ()
    # Use the first image of a stack, since a thumbnail only has to be recognizable.
    image: Any = value.reshape(-1, *value.shape[-2:])[0]
    rows, columns = (-(-size // SIDE) for size in image.shape)
    cells = np.asarray(image[::rows, ::columns], np.float64)
    shades = (np.nan_to_num(cells, nan=minimum, posinf=maximum, neginf=minimum) - minimum) / (
        (maximum - minimum) or 1.0
    )
    return tuple(tuple(row) for row in np.clip(np.rint(shades * 255), 0, 255).astype(int).tolist())


class ValueCapture(ValueObserver):
    """Summaries of all values of a run, keyed by uid."""

    def __init__(self, program: Program) -> None:
        self.summaries: dict[int, Summary] = {}
        super().__init__(program)

    def value(self, uid: int, value: Array) -> None:
        """Store the summary of a value."""
        self.summaries[uid] = summarize(value)
