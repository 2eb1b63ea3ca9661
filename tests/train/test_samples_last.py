"""Modules with the batch along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.small_module import built, data

T = ex.train


def _node(layer: Any, samples: str = "first", dtype: str = "float64") -> Any:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1), dtype=dtype, samples=samples)
    node = module.add_node(layer)
    module.attach()
    return node


@pytest.mark.spec("T-8", "T-12", headline=True)
def test_the_batch_axis_may_be_last() -> None:
    """Train with samples along the first or, with an option, the last axis; outputs and losses are equal."""
    x, label = data()
    first, last = built(dtype="float64"), built(dtype="float64", samples="last")
    turned, turned_label = x.transpose(1, 2, 0), label.T
    for _ in range(3):
        np.testing.assert_allclose(last.predict(turned), first.predict(x).T, rtol=1e-12)
        assert last.train_on(turned, turned_label) == pytest.approx(first.train_on(x, label), rel=1e-12)
    with pytest.raises(ex.DeclarationError, match="along the same axis"):
        T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1)).add_node(T.Linear("a", 1, 1, "last"))


@pytest.mark.spec("T-8")
@pytest.mark.parametrize("loss", [ex.train.CrossEntropy, ex.train.MeanSquaredError])
@pytest.mark.parametrize("rows", [True, False])
def test_a_loss_reads_classes_next_to_a_last_batch_axis(loss: Any, rows: bool) -> None:
    """Outputs (classes, samples) have the loss and the gradients of outputs (samples, classes)."""
    if not rows and loss is T.MeanSquaredError:
        return
    generator = np.random.default_rng(4)
    x, numbers = generator.normal(size=(7, 5)), generator.integers(3, size=7)
    label = np.eye(3)[numbers] if rows else numbers
    modules = []
    for samples in ("first", "last"):
        module = T.Module("m", loss=loss(), optimizer=T.SGD(0.1), dtype="float64", samples=samples)
        module.add_node(T.Linear("l", 5, 3, samples))
        module.attach(seed=1)
        modules.append(module)
    first, last = modules
    turned = label.T if rows else label
    assert last.train_on(x.T, turned) == pytest.approx(first.train_on(x, label), rel=1e-12)
    last.forward(x.T)
    first.forward(x)
    assert last.backward(turned) == pytest.approx(first.backward(label), rel=1e-12)
    for name, gradient in first.gradients.items():
        np.testing.assert_allclose(last.gradients[name], gradient, rtol=1e-12)


@pytest.mark.spec("T-12", "T-8", headline=True)
def test_a_linear_layer_with_samples_last_follows_the_textbook() -> None:
    """Compute a linear layer with samples last: Wᵀ I + b, dW = I Gᵀ, db = Σ G over samples, dI = W G."""
    generator = np.random.default_rng(0)
    node = _node(T.Linear("l", 6, 2, "last"), "last")
    w, b = (node.parameters[name].array for name in ("l/weight", "l/bias"))
    x, g = generator.normal(size=(2, 3, 4)), generator.normal(size=(2, 4))
    merged = x.reshape(6, 4)
    assert w.shape == (6, 2)
    assert b.shape == (2,)
    np.testing.assert_allclose(node.forward(x), w.T @ merged + b[:, None], rtol=1e-12)
    np.testing.assert_allclose(node.backward(g), (w @ g).reshape(x.shape), rtol=1e-12)
    np.testing.assert_allclose(node.gradients["l/weight"], merged @ g.T, rtol=1e-12)
    np.testing.assert_allclose(node.gradients["l/bias"], g.sum(1), rtol=1e-12)
    for samples, axis in (("last", "the last axis"), ("first", "the first axis")):
        layer = T.Linear("l", 6, 2, samples)
        layer.init(ex.layers.Initializer(filler=ex.layers.Constant(0.0)))
        with pytest.raises(ex.OperandError, match=rf"linear layer of 6 inputs with .*, 8 elements a sample\n.*{axis}"):
            layer(np.ones((2, 4, 4) if samples == "last" else (4, 2, 4), np.float32))


@pytest.mark.spec("T-1")
@pytest.mark.parametrize("samples", ["first", "last"])
def test_an_empty_batch_raises_an_error(samples: str) -> None:
    """Its loss would make the epoch's loss NaN; a prediction without samples is empty."""
    module = built(samples=samples)
    x = np.ones((0, 6) if samples == "first" else (6, 0))
    label = np.ones((0, 2) if samples == "first" else (2, 0))
    assert module.predict(x).shape == label.shape
    for call in (lambda: module.train_on(x, label), lambda: module.fit([(x, label)])):
        with pytest.raises(ex.OperandError, match="at least one sample"):
            call()
    module.forward(x)
    with pytest.raises(ex.OperandError, match="at least one sample"):
        module.backward(label)
    assert module.require_optimizer().iteration == 0
