"""Programs on devices with non-NumPy arrays: always on the tests' accelerator, and on a GPU if there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array
from explorer.ops.control.recurrence import recurrence as recurrence_of
from tests.support.accelerator import accelerator
from tests.support.unbatchable import Backwards

RNG = np.random.default_rng(0)
X: Array = RNG.normal(size=(24, 8)).astype(np.float32)
W: Array = RNG.normal(size=(8, 8)).astype(np.float32) * 0.3
IMAGES: Array = RNG.normal(size=(2, 4, 12, 10)).astype(np.float32)
FILTERS: Array = RNG.normal(size=(6, 2, 3, 3)).astype(np.float32) * 0.2

DEVICES = [accelerator.name, pytest.param("cuda", marks=pytest.mark.gpu)]
PROGRAMS: dict[str, Callable[[ex.Device], Any]] = {}
"""functions that record a program on a device"""


def program(function: Callable[[ex.Device], Any]) -> Callable[[ex.Device], Any]:
    PROGRAMS[function.__name__] = function
    return function


@program
def chain(device: ex.Device) -> Any:
    x = ex.tensor(X, device=device)
    return ex.exp(-ex.tanh(x * 2 + 1) / 3) + ex.gelu(x) - ex.erf(x)


@program
def attention(device: ex.Device) -> Any:
    x, w = ex.tensor(X, device=device), ex.tensor(W, device=device)
    loss = ((ex.softmax((x @ w) @ ex.transpose(x), 1) @ x) ** 2).mean() + ex.logsumexp(x, 0).max()
    return [loss, *ex.grad(loss, [x, w])]


@program
def normalization(device: ex.Device) -> Any:
    x = ex.tensor(X, device=device)
    return [ex.layer_norm(x).min(0), ex.var(x, 0), ex.grad(ex.prod(x, 1).sum(), [x])[0]]


@program
def classifier(device: ex.Device) -> Any:
    w = ex.tensor(W, device=device)
    labels = ex.tensor(np.arange(24) % 8, device=device)
    scores = ex.tensor(X, device=device) @ w
    loss = -(ex.log_softmax(scores, 1) * ex.one_hot(labels, 8)).sum(1).mean()
    right = ex.equal(ex.argmax(scores, 1), labels)
    return [loss, *ex.grad(loss, [w]), right, ex.all(right), ex.any(right)]


@program
def images(device: ex.Device) -> Any:
    x, filters = ex.tensor(IMAGES, device=device), ex.tensor(FILTERS, device=device)
    y = ex.relu(ex.conv2d(x, filters, padding=((1, 0), (2, 1)), strides=(1, 2), dilation=(2, 1), groups=2))
    y = ex.avg_pool2d(ex.max_pool2d(y, 2, strides=1), 2, padding=1, count_padding=False)
    y = ex.resize(ex.adaptive_avg_pool2d(y, (3, 2)), (5, 4))
    loss = (y * y).mean()
    return [y, loss, *ex.grad(loss, [x, filters])]


@program
def gathered(device: ex.Device) -> Any:
    table, rows = ex.tensor(X, device=device), ex.tensor(np.array([3, -1, 3, 0]), device=device)
    along = ex.tensor(np.array([[2, 7, -1], [0, 0, 5]]), device=device)
    taken = ex.take(table, rows, 0)
    chosen = ex.take_along_axis(table[:2], along, 1)
    loss = (taken**2).sum() + (chosen**3).sum()
    return [taken, chosen, table[[1, -2]], ex.take(table, [0, 2], 1), *ex.grad(loss, [table])]


@program
def members(device: ex.Device) -> Any:
    w = ex.tensor(W, device=device)
    loss = ex.map(lambda x: ex.tanh(x @ w).sum(), ex.tensor(X, device=device)).mean()
    return [loss, *ex.grad(loss, [w])]


@program
def members_one_by_one(device: ex.Device) -> Any:
    return ex.map(lambda x: Backwards()(x) * 2, ex.tensor(X, device=device))


@program
def branches(device: ex.Device) -> Any:
    x = ex.tensor(X, device=device)
    return ex.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)


@program
def loop(device: ex.Device) -> Any:
    start = (ex.tensor(np.array(0), device=device), ex.tensor(X, device=device))
    return list(ex.while_loop(lambda state: state[0] < 5, lambda state: (state[0] + 1, state[1] * 0.5), start))


@program
def recurrence(device: ex.Device) -> Any:
    w, start = ex.tensor(W, device=device), ex.tensor(np.zeros(8, np.float32), device=device)
    last, states = ex.scan(lambda h, x: (ex.tanh(h @ w + x), h), start, ex.tensor(X, device=device))
    return [last, states, *ex.grad((last**2).sum(), [w])]


@program
def cells(device: ex.Device) -> Any:
    """Return recurrences with their own kernels, including sequences with different lengths."""
    results: list[Any] = []
    lengths = ex.tensor(np.array([5, 2, 0]), device=device)
    for cell, gates, states in (("lstm", 4, 2), ("gru", 3, 1), ("early gru", 3, 1), ("rnn", 1, 1), ("relu rnn", 1, 1)):
        x = ex.tensor(np.resize(X, (5, 3, 4 * gates)), device=device)
        weights = ex.tensor(np.resize(W, (4, 4 * gates)), device=device)
        bias = ex.tensor(np.resize(X, 4 * gates), device=device)
        state = [ex.tensor(np.resize(X, (3, 4)), device=device)] * states
        for own in (None, lengths):
            sequence, last = recurrence_of(cell, cell, x, weights, bias, state, 0, cell == "gru", own)
            results += [sequence, *last]
    return results


@program
def half_precision(device: ex.Device) -> Any:
    x = ex.tensor(X.astype(np.float16), device=device)
    return [x.mean(0), ex.gelu(x), x.sum(1)]


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("place", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("without", [(), ("fuse", "batch", "simplify")], ids=["planned", "as written"])
def test_a_program_gives_its_cpu_result_on_a_device(name: str, place: str, without: tuple[str, ...]) -> None:
    values, expected = _values(PROGRAMS[name], ex.device(place), without), _values(PROGRAMS[name], ex.cpu, without)
    tolerance = 2e-3 if name == "half_precision" else 2e-5
    for value, other in zip(values, expected, strict=True):
        assert (value.shape, value.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(value, other, rtol=tolerance, atol=tolerance)


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("place", DEVICES)
def test_weights_are_trained_on_a_device(place: str) -> None:
    """Ten steps of gradient descent give the weights of the CPU."""
    steps = {}
    for device in (ex.device(place), ex.cpu):
        w = ex.tensor(W, device=device)
        x = ex.tensor(X, device=device)
        for _ in range(10):
            loss = ((ex.tanh(x @ w) - 0.5) ** 2).mean()
            (gradient,) = ex.grad(loss, [w])
            w = ex.tensor(ex.evaluate(w - 0.5 * gradient), device=device)
        steps[device] = ex.evaluate(w)
    here, there = steps.values()
    assert np.abs(here - W).max() > 1e-3
    np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-5)


@pytest.mark.spec("C-1")
@pytest.mark.parametrize("place", DEVICES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32"])
def test_division_with_remainder_on_a_device_equals_numpys(dtype: str, place: str) -> None:
    """Test large quotients, ∞, NaN and signed zeros."""
    numbers = [0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 0.1, 3e4, np.inf, -np.inf, np.nan]
    numbers += [1e17, -1e30] if dtype != "float16" else []
    if dtype == "int32":
        numbers = [0, 1, -1, 7, -7, 2**31 - 1, -(2**31)]
    a, b = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    x, y = ex.tensor(a, device=ex.device(place)), ex.tensor(b, device=ex.device(place))
    for values, ufunc in ((ex.evaluate(x % y), np.remainder), (ex.evaluate(x // y), np.floor_divide)):
        with np.errstate(all="ignore"):
            expected = ufunc(a, b)
        np.testing.assert_array_equal(values, expected)
        np.testing.assert_array_equal(np.signbit(values[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.spec("C-1")
def test_labels_and_rows_out_of_range_raise_an_error_on_a_device() -> None:
    labels = ex.tensor(np.array([0, 3]), device=accelerator)
    with pytest.raises(ex.RunError, match="label 3 with 3 classes"):
        ex.evaluate(ex.one_hot(labels, 3))
    with pytest.raises(ex.RunError, match="row 3 of a table with rows 0 … 2"):
        ex.evaluate(ex.take(ex.tensor(X[:3], device=accelerator), labels, 0))


def _values(build: Callable[[ex.Device], Any], device: ex.Device, without: tuple[str, ...]) -> list[Array]:
    plan = ex.EvalPlan(without=without)
    roots = build(device)
    handles = [plan.register(root) for root in (roots if isinstance(roots, list) else [roots])]
    plan.eval()
    return [handle.data() for handle in handles]
