"""Programs in extended precision: the campaigns' reference, independent of Explorer.

A value has several lanes: `native`, each operation rounded once to the dtype that NumPy gives; `exact`, in long double
throughout; `noisy`, in long double with every inexact operation off by a few units in the last place, or by n · eps ·
Σ|terms| for sums. The spread of the noisy lanes around the exact one is the possible effect of rounding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

import explorer as ex

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LANES = 6


def is_floating(dtype: Any) -> bool:
    """Return whether a dtype is real or complex floating-point, including bfloat16."""
    return dtype.kind in "fc" or dtype == BFLOAT16


def limits(dtype: Any) -> Any:
    """Return NumPy's finfo of a dtype, including bfloat16."""
    return ml_dtypes.finfo(dtype) if dtype == BFLOAT16 else np.finfo(dtype)


def widen(x: Any) -> Any:
    """Convert a floating-point array to long double."""
    if not isinstance(x, np.ndarray) or not is_floating(x.dtype):
        return x
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


class Value:
    """Array in several lanes, with NumPy's operators."""

    __array_ufunc__ = None

    def __init__(self, native: Array, exact: Any, noisy: Sequence[Any]) -> None:
        self.native, self.exact, self.noisy = native, exact, noisy
        self.shape, self.dtype, self.ndim = native.shape, native.dtype, native.ndim

    def __getitem__(self, index: Any) -> Value:
        return apply("getitem", self, index)

    def __neg__(self) -> Value:
        return apply("negative", self)


def _operators() -> None:
    names = {
        "add": "add",
        "sub": "subtract",
        "mul": "multiply",
        "truediv": "divide",
        "pow": "power",
        "matmul": "matmul",
    }
    for short, name in names.items():
        setattr(Value, f"__{short}__", lambda a, b, name=name: apply(name, a, b))
        setattr(Value, f"__r{short}__", lambda a, b, name=name: apply(name, b, a))
    for short, name in {"gt": "greater", "lt": "less", "ge": "greater_equal", "le": "less_equal"}.items():
        setattr(Value, f"__{short}__", lambda a, b, name=name: apply(name, a, b))


_operators()


def tensor(array: Any) -> Value:
    """Return a given array, which is equal in all lanes."""
    array = np.asarray(array)
    wide = widen(array)
    return Value(array, wide, [wide] * noise.lanes)


class Noise:
    """Random signs of the noise, and the number of noisy lanes."""

    def __init__(self) -> None:
        self.begin(LANES, 0)

    def begin(self, lanes: int, seed: int, everywhere: bool = False) -> None:
        self.is_everywhere = everywhere
        """whether operations that are exact for these numbers round, too, because they are inexact for other weights"""
        self.is_strained = False
        """whether overflow of a sum or a product depends on the order of its terms"""
        self.overflowed = False
        """whether long double overflowed, which may make the exact lane wrong"""
        self.lanes, self._random = lanes, np.random.default_rng(seed)

    def signs(self, shape: tuple[int, ...]) -> Array:
        return self._random.choice((-1.0, 1.0), shape)


noise = Noise()


def _windows(x: Array, size: tuple[int, int], strides: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=(2, 3))
    return windows[:, :, ::strides, ::strides]


def _conv2d(x: Array, w: Array, strides: int = 1) -> Array:
    return np.asarray(np.einsum("nchwij,ocij->nohw", _windows(x, w.shape[2:], strides), w))


def _erf(x: Array) -> Array:
    with mpmath.mp.workdps(25):
        return np.frompyfunc(
            lambda v: np.longdouble(str(mpmath.erf(mpmath.mpf(str(v))))) if np.isfinite(v) else np.sign(v), 1, 1
        )(x).astype(np.longdouble)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getitem": lambda x, index: x[index],
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": _erf,
    "relu": lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0)).astype(x.dtype),
    "cast": lambda x, dtype: x.astype(dtype),
    "stack": lambda *members, axis=0: np.stack(members, axis),
    "concatenate": lambda *members, axis=0: np.concatenate(members, axis),
    "conv2d": _conv2d,
    "avg_pool2d": lambda x, size: _windows(x, (size, size), size).mean((-1, -2)),
    "max_pool2d": lambda x, size: _windows(x, (size, size), size).max((-1, -2)),
    "add_n": lambda *terms: functools.reduce(np.add, terms),
    "take": lambda x, indices, axis=None: np.take(x, indices, axis),
    "pad": lambda x, width: np.pad(x, width),
    "round_half_even": np.rint,
}
_CHOOSING = {
    *("getitem", "cast", "stack", "concatenate", "max_pool2d", "take", "pad", "relu", "where", "maximum", "minimum"),
    *("max", "min", "transpose", "reshape", "flip", "roll", "broadcast_to", "expand_dims", "clip", "sort", "negative"),
    *("absolute", "sign", "positive", "squeeze", "fmax", "fmin", "copysign", "tile", "repeat", "tril", "triu"),
}
"""operations that compute no new numbers and have the native lane's dtype"""
_ADDING: dict[str, Callable[..., Any]] = {
    **{name: partial(lambda name, x, **o: getattr(np, name)(abs(x), **o), name) for name in ("sum", "mean", "cumsum")},
    "add_n": lambda *terms: functools.reduce(np.add, [abs(term) for term in terms]),
    "matmul": lambda a, b: abs(a) @ abs(b),
    "einsum": lambda text, *x: np.einsum(text, *map(abs, x)),
    "conv2d": lambda x, w, **o: _conv2d(abs(x), abs(w), **o),
    "avg_pool2d": lambda x, size: _FUNCTIONS["avg_pool2d"](abs(x), size),
    "prod": lambda x, **o: abs(np.prod(x, **o)),
}
"""operations that add (or multiply) in an unspecified order, with their Σ|terms|"""


def _lane(values: Any, get: Callable[[Value], Any]) -> Any:
    if isinstance(values, Value):
        return get(values)
    if isinstance(values, (list, tuple)) and any(isinstance(value, Value) for value in values):
        return [_lane(value, get) for value in values]
    return values


def apply(name: str, *operands: Any, **options: Any) -> Value:
    """Apply one operation in all lanes."""
    function: Callable[..., Any] = _FUNCTIONS.get(name) or getattr(np, name)
    arrays = [value for value in operands if isinstance(value, Value)]
    if name in ("multiply", "add", "subtract", "divide", "power", "maximum", "minimum", "where") or name in _COMPARING:
        operands = tuple([_scalar(value, arrays) for value in operands])
        arrays = [value for value in operands if isinstance(value, Value)]
    natives = [_lane(value, lambda v: v.native) for value in operands]
    wides = [_lane(value, lambda v: widen(v.native)) for value in operands]
    dtype = options.get("dtype") or _dtype(function if name != "erf" else np.sqrt, natives, options)
    if not is_floating(dtype):
        exact = function(*[_lane(value, lambda v: v.exact) for value in operands], **options)
        noisy = [
            function(*[_lane(v, lambda v, i=i: v.noisy[i]) for v in operands], **options) for i in range(noise.lanes)
        ]
        return Value(np.asarray(function(*wides, **options)), exact, noisy)
    wide_dtype = np.clongdouble if dtype.kind == "c" else np.longdouble
    if name == "cast":
        options, function = {}, _itself
    if name in _ADDING or not any(is_floating(value.dtype) for value in arrays):  # NumPy first converts integers
        whole = [Value(v.native.astype(dtype), v.exact.astype(wide_dtype), [n.astype(wide_dtype) for n in v.noisy])
                 if isinstance(v, Value) else v for v in operands]  # fmt: skip
        operands, wides = tuple(whole), [widen(v.native) if isinstance(v, Value) else v for v in whole]
    local = np.asarray(function(*wides, **options)).astype(wide_dtype)
    native = local.astype(dtype)
    exact = np.asarray(function(*[_lane(value, lambda v: v.exact) for value in operands], **options)).astype(wide_dtype)
    noise.overflowed |= not np.isfinite(exact).all()
    # NumPy rounds the parts of complex products and quotients separately.
    always = (noise.is_everywhere or dtype.kind == "c") and name not in _CHOOSING
    inexact = ((native != local) | always) & np.isfinite(local)
    eps = float(limits(dtype).eps)
    chooses = name in _CHOOSING and all(v.dtype.kind != "c" or name not in ("absolute", "sign") for v in arrays)
    terms: Any = 0
    if name in _ADDING:
        terms = _ADDING[name](*wides, **options)
        count = max(v.native.size for v in arrays)
        is_whole = all(
            np.all(np.isfinite(w) & (w == np.rint(w)))
            for w in wides
            if isinstance(w, np.ndarray) and w.dtype.kind == "f"
        )
        inexact = np.isfinite(local) & ~(is_whole & (not noise.is_everywhere) & (terms < 1 / eps) & (native == local))
        noise.is_strained |= bool(np.any(terms * count > float(limits(dtype).max))) or name == "prod"
        terms = np.nan_to_num(terms * count * min(eps, 2.0**-23), nan=0, posinf=0)
    if not chooses:  # beyond the dtype's range the rounding is unknown
        inexact = inexact | (~np.isfinite(local) & np.isfinite(exact))
    factor = 1 if chooses else 2
    noisy = []
    for lane in range(noise.lanes):
        value = np.asarray(function(*[_lane(v, lambda v, i=lane: v.noisy[i]) for v in operands], **options))
        value = value.astype(wide_dtype)
        if np.any(inexact):
            signs = noise.signs(value.shape)
            if dtype.kind == "c":
                signs = (signs + 1j * noise.signs(value.shape)) / 2
            value = np.where(inexact, value + (factor * eps * np.abs(value) + terms) * signs, value)
        noisy.append(value)
    return Value(native, exact, noisy)


def _itself(x: Any) -> Any:
    return x


def _dtype(function: Callable[..., Any], natives: list[Any], options: dict[str, Any]) -> Any:
    """Return the dtype of NumPy's result; bfloat16 is treated as float16."""
    stand_ins = [
        [_half(each) for each in value] if isinstance(value, list) else _half(value)  # arrays of a stack
        for value in natives
    ]
    dtype = np.asarray(function(*stand_ins, **options)).dtype
    halved = any(
        each is not value for each, value in zip(stand_ins, natives, strict=True) if not isinstance(value, list)
    )
    if dtype == np.float16 and halved:
        mixed = any(isinstance(value, np.ndarray) and value.dtype == np.float16 for value in natives)
        return np.dtype(np.float32) if mixed else BFLOAT16
    return dtype


def _half(value: Any) -> Any:
    return value.astype(np.float16) if isinstance(value, np.ndarray) and value.dtype == BFLOAT16 else value


_COMPARING = ("greater", "less", "greater_equal", "less_equal", "equal", "not_equal")


BFLOAT16_AND_FLOAT = (ex.tensor(np.ones(1, BFLOAT16)) + 0.5).dtype
"""Explorer's promotion; NumPy's depends on the version of ml_dtypes"""


def _scalar(value: Any, arrays: list[Value]) -> Any:
    """Convert a Python number to the dtype that it has next to arrays."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and arrays:
        dtypes = [other.dtype for other in arrays if other.dtype.kind != "b"] or [np.dtype(np.int64)]
        dtype = np.result_type(*dtypes)
        if isinstance(value, float) and dtype == BFLOAT16:
            dtype = BFLOAT16_AND_FLOAT
        if is_floating(dtype) or isinstance(value, int):
            return tensor(np.asarray(value).astype(dtype))
        return tensor(np.asarray(value, np.float64))
    return value


def _wide_halves(x: Value) -> Value:
    return apply("cast", x, dtype=np.dtype(np.float32)) if x.dtype in (np.float16, BFLOAT16) else x


def composite(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function of primitives that computes halves in float32 and rounds the result to their dtype."""

    def call(x: Value, *others: Any, **options: Any) -> Value:
        wanted = x.dtype if is_floating(x.dtype) else np.sqrt(np.ones(1, x.dtype)).dtype
        x = x if is_floating(x.dtype) else apply("cast", x, dtype=wanted)
        result = function(_wide_halves(x), *[_wide_halves(o) if isinstance(o, Value) else o for o in others], **options)
        return result if result.dtype == wanted else apply("cast", result, dtype=wanted)

    return call


def _shifted(x: Value, axis: Any) -> tuple[Value, Value]:
    """Return the value minus its maximum (or the largest finite number for ∞), and the subtrahend."""
    top = float(limits(x.dtype).max)
    largest = xp.clip(xp.max(x, axis=axis, keepdims=True), -top, top)
    return x - largest, largest


def _softmax(x: Value, axis: Any = -1) -> Value:
    powers = xp.exp(_shifted(x, axis)[0])
    return powers / xp.sum(powers, axis=axis, keepdims=True)


def _log_softmax(x: Value, axis: Any = -1) -> Value:
    x, _ = _shifted(x, axis)
    return x - xp.log(xp.sum(xp.exp(x), axis=axis, keepdims=True))


def _logsumexp(x: Value, axis: Any = None, keepdims: bool = False) -> Value:
    rest, largest = _shifted(x, axis)
    total = xp.log(xp.sum(xp.exp(rest), axis=axis, keepdims=True)) + largest
    return xp.reshape(total, np.sum(x.native, axis=axis, keepdims=keepdims).shape)


def _var(x: Value, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Value:
    off = x - xp.mean(x, axis=axis, keepdims=True)
    count = x.native.size // max(1, np.sum(x.native, axis=axis).size)
    return xp.sum(off * off, axis=axis, keepdims=keepdims) / float(count - ddof)


def _layer_norm(x: Value, axes: int = 1, epsilon: float = 1e-5) -> Value:
    last = tuple(range(x.ndim - axes, x.ndim))
    off = x - xp.mean(x, axis=last, keepdims=True)
    return off / xp.sqrt(xp.mean(off * off, axis=last, keepdims=True) + epsilon)


def _softplus(x: Value) -> Value:
    return xp.maximum(x, 0.0) + xp.log1p(xp.exp(-xp.absolute(x)))


def _map(function: Callable[..., Any], *columns: Value) -> Value:
    return xp.stack([function(*[column[i] for column in columns]) for i in range(columns[0].shape[0])])


def _scan(step: Callable[..., Any], state: Value, sequence: Value) -> tuple[Value, Value]:
    outputs = []
    for index in range(sequence.shape[0]):
        state, output = step(state, sequence[index])
        outputs.append(output)
    return state, xp.stack(outputs)


_COMPOSITES: dict[str, Callable[..., Any]] = {
    "softmax": composite(_softmax),
    "log_softmax": composite(_log_softmax),
    "logsumexp": composite(_logsumexp),
    "sigmoid": composite(lambda x: 1.0 / (1.0 + xp.exp(-x))),
    "log_sigmoid": composite(lambda x: -_softplus(-x)),
    "softplus": composite(_softplus),
    "silu": composite(lambda x: x / (1.0 + xp.exp(-x))),
    "gelu": composite(lambda x: 0.5 * x * (1.0 + xp.erf(x * float(np.sqrt(0.5))))),
    "mish": composite(lambda x: x * xp.tanh(_softplus(x))),
    "relu6": lambda x: apply("clip", x, 0, 6),
    "leaky_relu": composite(lambda x: xp.where(x > 0.0, x, x * 0.01)),
    "elu": composite(lambda x: xp.where(x > 0.0, x, xp.expm1(xp.minimum(x, 0.0)))),
    "hardsigmoid": composite(lambda x: xp.minimum(xp.maximum(x / 6.0 + 0.5, 0.0), 1.0)),
    "softsign": composite(lambda x: x / (1.0 + xp.absolute(x))),
    "var": composite(_var),
    "std": composite(lambda x, **options: xp.sqrt(_var(x, **options))),
    "vector_norm": composite(lambda x, **options: xp.sqrt(xp.sum(x * x, **options))),
    "layer_norm": composite(_layer_norm),
    "rms_norm": composite(lambda x, epsilon: x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + epsilon)),
    "normalize": composite(lambda x, axis=1: x / xp.maximum(xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True)), 1e-12)),
    "nll_loss": composite(lambda t, p: -xp.sum(t * xp.log(p)) / xp.sum(t)),
    "function": lambda body: body,
    "map": _map,
    "scan": _scan,
    "cond": lambda test, then, other, *x: xp.where(test, then(*x), other(*x)),
    "stack": lambda members, axis=0: apply("stack", *members, axis=axis),
    "concatenate": lambda members, axis=0: apply("concatenate", *members, axis=axis),
    "one_hot": lambda labels, classes, dtype: tensor(np.eye(classes, dtype=dtype)[labels]),
    "tensor": tensor,
    "cast": lambda x, dtype: apply("cast", x, dtype=BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)),
}


class Namespace:
    """Functions with Explorer's names over values in lanes."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _COMPOSITES.get(name) or partial(apply, name)


xp = Namespace()
