"""The graphs on which the first view is measured: programs of many shapes, and models from files."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import explorer as ex
from tests.support.cells import MODELS

FILES = (
    "convbn.pnnx.param",
    "encoder.onnx",
    "lstm.onnx",
    "mobilenet_v2.onnx",
    "resnet18.onnx",
    "encoder.pnnx.param",
    "resnet18.pnnx.param",
)


def graphs() -> dict[str, Callable[[], Any]]:
    """Return functions that build a view of each graph, by name."""
    programs = (five, loss, samples, training, attention, forty, loop, tree, scan, wide, control)
    models = {name.removesuffix(".param"): lambda name=name: ex.open(MODELS / name).explore() for name in FILES}
    return {**{program.__name__: program for program in programs}, **models}


def drawn(*shape: int, name: str = "") -> Any:
    """Return a tensor with values scaled as a layer's weights."""
    values = np.random.default_rng(len(name)).normal(size=shape) / np.sqrt(shape[0])
    return ex.tensor(values.astype(np.float32), name=name)


def five() -> Any:
    """Return a view of a layer with two readers."""
    x, weight, bias = drawn(32, 64, name="x"), drawn(64, 48, name="W"), drawn(48, name="b")
    return ex.explore(ex.tanh(x @ weight + bias) + 2 * (x @ weight), run=False)


def loss() -> Any:
    """Return a view of a loss and its gradients."""
    x, weight = drawn(16, 20, name="x"), drawn(20, 5, name="W")
    target = ex.tensor(np.eye(5, dtype=np.float32)[np.arange(16) % 5], name="t")
    value = ex.nll_loss(target, ex.softmax(x @ weight))
    return ex.explore([value, *ex.grad(value, [x, weight])], run=False)


def samples() -> Any:
    """Return a view of the loss of 100 samples, computed one by one, and its gradients."""
    weights = drawn(64, 128, name="W1"), drawn(128, name="b1"), drawn(128, 10, name="W2"), drawn(10, name="b2")

    @ex.function
    def loss_of(sample: Any, target: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return ex.nll_loss(target, ex.softmax(ex.tanh(sample @ w1 + b1) @ w2 + b2))

    inputs = np.random.default_rng(0).normal(size=(100, 64)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[np.arange(100) % 10]
    total: Any = sum(loss_of(x, t, *weights) for x, t in zip(inputs, targets, strict=True)) / 100
    return ex.explore([total, *ex.grad(total, list(weights))], run=False)


def training() -> Any:
    """Return a view of a training step of a small classifier."""
    images, labels = np.random.default_rng(0).random((64, 8, 8)), np.arange(64) % 10
    module = ex.train.Module("digits", loss=ex.train.CrossEntropy(), optimizer=ex.train.Adam(rate=0.003))
    for layer in (ex.train.Linear("hidden", 64, 128), ex.relu, ex.train.Linear("scores", 128, 10)):
        module.add_node(layer)
    module.attach()
    return module.explore(images, labels)


def attention() -> Any:
    """Return a view of attention with four heads, written head by head."""
    x, output = drawn(16, 64, name="x"), drawn(64, 64, name="Wo")
    heads = []
    for head in range(4):
        q, k, v = (x @ drawn(64, 16, name=f"W{letter}{head}") for letter in "qkv")
        scores = q @ ex.transpose(k) / 4.0
        exponents = ex.exp(scores - ex.max(scores, axis=-1, keepdims=True))
        heads.append((exponents / ex.sum(exponents, axis=-1, keepdims=True)) @ v)
    return ex.explore(x + ex.concatenate(heads, axis=-1) @ output, run=False)


def forty() -> Any:
    """Return a view of a classifier with 40 inputs."""
    total: Any = sum(drawn(8, 32, name=f"in{index}") for index in range(40))
    return ex.explore(ex.softmax(total @ drawn(32, 10, name="W")), run=False)


def loop() -> Any:
    """Return a view of an unrolled loop of 2,000 steps."""
    x = drawn(16, name="x")
    for step in range(2000):
        x = ex.tanh(x) * 0.5 if step % 2 else x + 1.0
    return ex.explore(x, run=False)


def tree() -> Any:
    """Return a view of a binary tree of sums."""
    level = [drawn(16) for _ in range(32)]
    while len(level) > 1:
        level = [ex.tanh(left + right) for left, right in zip(level[::2], level[1::2], strict=True)]
    return ex.explore(ex.sum(level[0]), run=False)


def scan() -> Any:
    """Return a view of a recurrence and its gradients."""
    hidden, entry, bias = drawn(32, 32, name="Wh"), drawn(16, 32, name="Wx"), drawn(32, name="b")
    sequence = ex.tensor(np.random.default_rng(0).normal(size=(20, 4, 16)).astype(np.float32), name="xs")

    def step(h: Any, x: Any) -> Any:
        h = ex.tanh(h @ hidden + x @ entry + bias)
        return h, h

    last, _ = ex.scan(step, ex.tensor(np.zeros((4, 32), np.float32), name="h0"), sequence)
    value = ex.mean(last * last)
    return ex.explore([value, *ex.grad(value, [hidden, entry, bias])], run=False)


def wide() -> Any:
    """Return a view of 300 random operations on recent values."""
    pick = random.Random(7)
    values: list[Any] = [drawn(4, 4, name="x"), drawn(4, 4, name="y")]
    for _ in range(300):
        operation = pick.choice((ex.add, ex.multiply, ex.tanh, ex.relu))
        operands = [pick.choice(values[-40:]) for _ in range(2 if operation in (ex.add, ex.multiply) else 1)]
        values.append(operation(*operands))
    return ex.explore(values[-12:], run=False)


def control() -> Any:
    """Return a view of a condition and a loop."""
    x, weight, count = drawn(8, 8, name="x"), drawn(8, 8, name="W"), ex.tensor(100.0, name="n")
    h = ex.tanh(x @ weight)
    chosen = ex.cond(ex.sum(h) > 0, lambda h: ex.relu(h @ weight) + 1, lambda h: -h, h)
    steps, z = ex.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] * 0.9 + chosen), (count, chosen))
    return ex.explore([ex.sum(z), steps], run=False)
