"""Programs of jax, each as a function and its arguments. Import this module only where jax is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _normal(*shape: int) -> Any:
    random = np.random.default_rng(sum(shape))
    return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    h = jnp.tanh(x @ w1 + b1)
    z = h @ w2 + b2
    p = jax.nn.softmax(z)
    return p, 2 * h


def attention(x: Any, wq: Any, wk: Any, wv: Any) -> Any:
    q = x @ wq
    k = x @ wk
    v = x @ wv
    s = q @ k.T / np.sqrt(q.shape[-1])
    m = jnp.where(jnp.tril(jnp.ones(s.shape, bool)), s, -jnp.inf)
    a = jax.nn.softmax(m)
    y = a @ v
    return jax.nn.gelu(y) + x


def convolution(x: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolution_net(x: Any, kernels: Any, w: Any) -> Any:
    x = jax.nn.relu(convolution(x, kernels[0]))
    for first, second in zip(kernels[1::2], kernels[2::2], strict=True):
        x = jax.nn.relu(x + convolution(jax.nn.relu(convolution(x, first)), second))
    return jax.nn.softmax(x.mean((1, 2)) @ w)


def norm(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * gain


def split_heads(x: Any) -> Any:
    return x.reshape(x.shape[0], x.shape[1], 4, -1).transpose(0, 2, 1, 3)


def block(x: Any, p: Any) -> Any:
    h = norm(x, p["g1"])
    q, k, v = split_heads(h @ p["q"]), split_heads(h @ p["k"]), split_heads(h @ p["v"])
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9)
    y = (jax.nn.softmax(s) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + y @ p["o"]
    h = norm(x, p["g2"])
    return x + (jax.nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"]


def loss(params: Any, tokens: Any) -> Any:
    x = params["emb"][tokens[:, :-1]]
    for layer in params["layers"]:
        x = block(x, layer)
    z = norm(x, params["g"]) @ params["emb"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(z), tokens[:, 1:, None], -1).mean()


def training_step(params: Any, m: Any, v: Any, tokens: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(params, tokens)
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradients)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradients)
    params = jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return value, params, m, v


def _training_arguments() -> tuple[Any, ...]:
    layer = {name: _normal(64, 64) for name in "qkvo"}
    layer |= {"w1": _normal(64, 128), "w3": _normal(64, 128), "w2": _normal(128, 64)}
    layer |= {"g1": np.ones(64, np.float32), "g2": np.ones(64, np.float32)}
    params = {"emb": _normal(256, 64), "g": np.ones(64, np.float32), "layers": [layer, layer]}
    zeros = jax.tree.map(np.zeros_like, params)
    return params, zeros, zeros, np.random.default_rng(0).integers(0, 256, (4, 33))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp, (_normal(32, 64), _normal(64, 48), _normal(48), _normal(48, 10), _normal(10))),
    "attention": (attention, (_normal(128, 64), *[_normal(64, 64)] * 3)),
    "convolution_net": (
        convolution_net,
        (_normal(2, 32, 32, 3), [_normal(3, 3, 3, 16), *[_normal(3, 3, 16, 16)] * 8], _normal(16, 10)),
    ),
    "training_step": (training_step, _training_arguments()),
}
"""name → function and arguments; the step trains two blocks of a transformer with Adam"""
