"""Rare forms of windows against sums and maxima that are computed one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.onnx.models import FLOAT, model, node, opened
from tests.formats.onnx.models import result as result_of_inputs

FORMS: list[dict[str, Any]] = [
    {"kernel_shape": [3], "strides": [3], "ceil_mode": 1},
    {"kernel_shape": [3], "pads": [2, 0], "ceil_mode": 1},
    {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [2, 0, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "dilations": [2, 1], "strides": [1, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 1, 2], "strides": [2, 1, 3], "pads": [1, 0, 0, 0, 0, 1], "dilations": [1, 1, 2]},
]
"""attributes of windows over axes of 4, 5 and 6 elements"""


def x_of(form: dict[str, Any]) -> np.ndarray:
    shape = (2, 2, *(4, 5, 6)[: len(form["kernel_shape"])])
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def result(kind: str, form: dict[str, Any], x: np.ndarray, outputs: int, folder: Path, **attributes: Any) -> Any:
    names = [f"y{place}" for place in range(outputs)]
    proto = model([node(kind, ["x"], names, **form, **attributes)], {"x": (FLOAT, x.shape)}, names, opset=22)
    value = opened(proto, folder).run(x)
    return tuple(value.values()) if outputs > 1 else value


def windows(form: dict[str, Any], shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Yield each window's position and the positions of its taps, which may be in the padding and beyond."""
    axes = []
    count = len(form["kernel_shape"])
    ones = [1] * count
    numbers = zip(
        shape[2:], form["kernel_shape"], form.get("strides", ones), form.get("dilations", ones),
        form.get("pads", [0] * 2 * count)[:count], form.get("pads", [0] * 2 * count)[count:], strict=True,
    )  # fmt: skip
    for length, size, step, gap, before, after in numbers:
        reach, end = gap * (size - 1), length + after
        starts = [start for start in range(-before, end, step) if start + reach < end]
        # one more window if it begins before the padding at the end
        if form.get("ceil_mode") and starts[-1] + reach < end - 1 and starts[-1] + step < length:
            starts.append(starts[-1] + step)
        axes.append([[start + gap * tap for tap in range(size)] for start in starts])
    for place in itertools.product(*[range(len(axis)) for axis in axes]):
        yield place, [*itertools.product(*[axis[i] for axis, i in zip(axes, place, strict=True)])]


def is_inside(tap: tuple[int, ...], shape: tuple[int, ...], pads: list[int]) -> bool:
    count = len(tap)
    return all(-pads[i] <= at < shape[i] + pads[i + count] for i, at in enumerate(tap))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_windows_follow_the_counts_and_padding_of_the_standard(form: dict[str, Any], tmp_path: Path) -> None:
    x = x_of(form)
    shape, count = x.shape[2:], len(x.shape) - 2
    pads = form.get("pads", [0] * 2 * count)
    largest, places = result("MaxPool", form, x, 2, tmp_path)
    _, by_columns = result("MaxPool", form, x, 2, tmp_path, storage_order=1)
    means, padded_means = [result("AveragePool", form, x, 1, tmp_path, count_include_pad=flag) for flag in (0, 1)]
    norms = result("LpPool", form, x, 1, tmp_path, p=3)
    seen = 0
    for place, taps in windows(form, x.shape):
        inside = [tap for tap in taps if is_inside(tap, shape, [0] * 2 * count)]
        counted = [tap for tap in taps if is_inside(tap, shape, pads)]
        for n, c in itertools.product(range(2), range(2)):
            values = np.array([x[(n, c, *tap)] for tap in inside])
            at, plane = (n, c, *place), (n * 2 + c) * np.prod(shape)
            first = inside[int(values.argmax())]
            assert largest[at] == values.max()
            assert places[at] == plane + np.ravel_multi_index(first, shape)
            assert by_columns[at] == plane + np.ravel_multi_index(first, shape, order="F")
            np.testing.assert_allclose(means[at], values.mean(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(padded_means[at], values.sum() / len(counted), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(norms[at], (abs(values) ** 3).sum() ** (1 / 3), rtol=1e-5)
            seen += 1
    assert all(each.size == seen for each in (largest, places, by_columns, means, padded_means, norms))


def test_zeros_of_integers_exceed_the_padding(tmp_path: Path) -> None:
    x = np.zeros((1, 1, 2, 2), np.uint8)
    operator = node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], pads=[1, 1, 0, 0])
    places = opened(model([operator], {"x": (2, x.shape)}, ["y", "i"], opset=22), tmp_path).run(x)["i"]
    np.testing.assert_array_equal(places[0, 0], [[0, 0], [0, 0]])


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"strides": [2, 1, 3], "output_padding": [1, 0, 2]},
        {"strides": [1, 2, 2], "dilations": [2, 1, 2], "pads": [1, 0, 2, 0, 1, 1]},
        {"strides": [2, 2, 2], "output_shape": [5, 6, 3]},
    ],
    ids=str,
)
def test_a_three_dimensional_transposed_convolution_is_the_adjoint(
    form: dict[str, Any], groups: int, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(2, 4, 3, 3, 2)).astype(np.float32)
    filters = random.normal(size=(4, 2, 2, 3, 2)).astype(np.float32)
    bias = random.normal(size=2 * groups).astype(np.float32)
    operator = node("ConvTranspose", ["x", "w", "b"], ["y"], group=groups, **form)
    net = opened(model([operator], {"x": (FLOAT, x.shape)}, ["y"], {"w": filters, "b": bias}), tmp_path)
    strides, dilation = form.get("strides", [1] * 3), form.get("dilations", [1] * 3)
    extra, pads = form.get("output_padding", [0] * 3), form.get("pads", [0] * 6)
    numbers = zip(strides, x.shape[2:], dilation, filters.shape[2:], extra, strict=True)
    whole = np.zeros((2, 2 * groups, *[s * (n - 1) + d * (k - 1) + 1 + e for s, n, d, k, e in numbers]))
    for place in itertools.product(*map(range, x.shape[2:])):
        for tap in itertools.product(*map(range, filters.shape[2:])):
            at = tuple([p * s + t * d for p, s, t, d in zip(place, strides, tap, dilation, strict=True)])
            for group in range(groups):
                own = slice(group * 4 // groups, (group + 1) * 4 // groups)
                products = x[(slice(None), own, *place)] @ filters[(own, slice(None), *tap)]
                whole[(slice(None), slice(2 * group, 2 * group + 2), *at)] += products
    if "output_shape" in form:  # an odd row is removed at the start
        cuts = [length - goal for length, goal in zip(whole.shape[2:], form["output_shape"], strict=True)]
        pads = [cut - cut // 2 for cut in cuts] + [cut // 2 for cut in cuts]
    inner = [slice(low, length - high) for low, high, length in zip(pads[:3], pads[3:], whole.shape[2:], strict=True)]
    expected = whole[(slice(None), slice(None), *inner)] + bias[:, None, None, None]
    np.testing.assert_allclose(net.run(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_same_padding_with_strides_larger_than_the_filters_removes_nothing(
    width: int, auto: str, tmp_path: Path
) -> None:
    """The filters cover fewer than length · stride pixels, and the result is as small in ONNX Runtime."""
    random = np.random.default_rng(6)
    x, filters = (random.normal(size=shape).astype(np.float32) for shape in ((1, 2, 4, 3), (2, 3, width, 2)))
    form: dict[str, Any] = {"strides": [3, 4], "output_padding": [0, 1]}
    padded = result_of_inputs(tmp_path, node("ConvTranspose", ["x", "w"], ["y"], auto_pad=auto, **form), x, filters)
    whole = result_of_inputs(tmp_path, node("ConvTranspose", ["x", "w"], ["y"], **form), x, filters)
    assert padded.shape == (1, 3, 3 * 3 + width, 4 * 2 + 3)
    np.testing.assert_array_equal(padded, whole)


@pytest.mark.parametrize(("auto", "pads"), [("SAME_UPPER", [2, 1, 2, 2]), ("SAME_LOWER", [2, 2, 2, 1])])
@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_same_padding_includes_dilation(kind: str, ceil: int, auto: str, pads: list[int], tmp_path: Path) -> None:
    """The result has ⌈length / stride⌉ windows, as in the standard; ONNX Runtime ignores dilation in the padding."""
    x = np.random.default_rng(4).normal(size=(1, 2, 9, 10)).astype(np.float32)
    form: dict[str, Any] = {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [1, 1]}
    padded = result(kind, {**form, "auto_pad": auto, "ceil_mode": ceil}, x, 1, tmp_path)
    assert padded.shape == x.shape
    np.testing.assert_array_equal(padded, result(kind, {**form, "pads": pads}, x, 1, tmp_path))


@pytest.mark.parametrize("type", ["Conv", "ConvTranspose", "DeformConv"])
def test_the_kernel_shape_must_match_the_filters(type: str, tmp_path: Path) -> None:
    """ONNX Runtime rejects another one; explorer previously ignored it."""
    types = {"x": (FLOAT, (1, 1, 4, 4)), "w": (FLOAT, (1, 1, 2, 2)), "o": (FLOAT, (1, 8, 3, 3))}
    names = ["x", "w", "o"] if type == "DeformConv" else ["x", "w"]
    for size, count in ((2, 0), (3, 1)):
        proto = model([node(type, names, ["y"], kernel_shape=[2, size])], {name: types[name] for name in names}, ["y"])
        findings = opened(proto, tmp_path).check()
        assert len(findings) == count
        assert all("kernel_shape must be the filters' shape, (2, 2)" in finding for finding in findings)
