"""The programs of mlp.py, attention.py and convnet.py, written for jax."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
rng = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) / 8).astype(np.float32)


def mlp(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> tuple[Array, Array]:
    h = jnp.tanh(x @ w1 + b1)
    z = h @ w2 + b2
    return jax.nn.softmax(z), 2 * h


def attention(x: Array, wq: Array, wk: Array, wv: Array) -> Array:
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = q @ k.T / 8.0
    scores = jnp.where(jnp.tril(jnp.ones((128, 128), bool)), scores, -jnp.inf)
    y = jax.nn.softmax(scores) @ v
    return jax.nn.gelu(y, approximate=False) + x


def conv(x: Array, filters: Array) -> Array:
    return jax.lax.conv_general_dilated(x, filters, (1, 1), "SAME")


def norm(x: Array, scale: Array, shift: Array) -> Array:
    return x * scale[:, None, None] + shift[:, None, None]


def convnet(x: Array, stem: Any, blocks: Any, head: Any) -> Array:
    x = jax.nn.relu(norm(conv(x, stem[0]), *stem[1:]))
    for first, second in blocks:
        h = jax.nn.relu(norm(conv(x, first[0]), *first[1:]))
        h = norm(conv(h, second[0]), *second[1:])
        x = jax.nn.relu(h + x)
    return jax.nn.softmax(x.mean((2, 3)) @ head[0] + head[1])


def filters(channels: int) -> tuple[np.ndarray, ...]:
    return weight(16, channels, 3, 3), weight(16), weight(16)


PROGRAMS = {
    "mlp": (mlp, (weight(32, 64), weight(64, 48), weight(48), weight(48, 10), weight(10))),
    "attention": (attention, (weight(128, 64), weight(64, 64), weight(64, 64), weight(64, 64))),
    "convnet": (
        convnet,
        (
            weight(2, 3, 32, 32),
            filters(3),
            tuple((filters(16), filters(16)) for _ in range(2)),
            (weight(16, 10), weight(10)),
        ),
    ),
}
