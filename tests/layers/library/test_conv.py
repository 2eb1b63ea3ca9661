"""Convolution layers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers

T = ex.train


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_layer_equals_the_function_with_its_parameters(groups: int) -> None:
    layer = layers.Conv2d("c", 4, 6, 3, stride=2, padding=1, groups=groups)
    layer.init(layers.Initializer(filler=layers.VarScale()))
    x = np.random.default_rng(0).normal(size=(2, 4, 7, 7)).astype(np.float32)
    weights = layer.save_weights()
    assert {name: array.shape for name, array in weights.items()} == {
        "c/weight": (6, 4 // groups, 3, 3),
        "c/bias": (6,),
    }
    wanted = ex.evaluate(ex.conv2d(x, weights["c/weight"], weights["c/bias"], strides=2, padding=1, groups=groups))
    assert (ex.evaluate(layer(x)) == wanted).all()
    assert wanted.shape == (2, 6, 4, 4)


def test_invalid_numbers_raise_an_error() -> None:
    for options, rule in (
        ({"size": 0}, "size must be"),
        ({"padding": -1}, "padding must be"),
        ({"groups": 3}, "multiples"),
    ):
        with pytest.raises(ex.DeclarationError, match=rule):
            layers.Conv2d("c", 4, 6, **options)


@pytest.mark.spec("T-1")
def test_a_convolutional_net_learns_digits() -> None:
    """Images, a convolution, pooling and a linear layer are a module that learns like any other."""
    stored = np.load(Path(__file__).parents[3] / "assets" / "handwriting.npz")
    images, labels = (stored["images"] / 16).astype(np.float32)[:, None], stored["labels"].astype(np.int64)
    held_out = np.arange(len(images)) % 5 == 0
    module = T.Module("digits", loss=T.CrossEntropy(), optimizer=T.Adam(0.005))

    def pooled(x: Any) -> Any:
        return ex.max_pool2d(x, 2)

    for layer in (layers.Conv2d("edges", 1, 8, 3, padding=1), ex.relu, pooled, T.Linear("scores", 128, 10)):
        module.add_node(layer)
    module.attach()
    history = module.fit(T.DataLoader(T.ArrayDataset(images[~held_out], labels[~held_out]), 64, shuffle=True), 12)
    assert history[-1].loss < 0.15 * history[0].loss
    right = module.predict(images[held_out]).argmax(-1) == labels[held_out]
    assert right.mean() >= 0.95
    assert [node.type for node in module.nodes.values()] == ["Conv2d", "relu", "pooled", "Linear"]


def test_a_partial_function_can_be_a_node() -> None:
    module = T.Module(loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    node = module.add_node(partial(ex.clip, low=0.0, high=1.0))
    module.attach()
    assert node.forward(np.array([[-1.0, 2.0]])).tolist() == [[0, 1]]
