"""Half precision: sums accumulate in float32 and are stored as float16; ``stash_type`` is the statistics' dtype."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from explorer.core.types.tensor_type import Array
from tests.formats.onnx.models import node, result
from tests.formats.onnx.standard import cases, outcome


@pytest.mark.spec("I-5")
@pytest.mark.soak
def test_depthwise_convolutions_in_half_precision_run(tmp_path: Path) -> None:
    """They occur in the standard's own cases, with random values."""
    chosen = [case for case in cases("causal_conv_with_state") if "fp16" in case.name]
    assert len(chosen) == 4
    kinds = [outcome(case, tmp_path / "m.onnx")[0] for case in chosen]
    assert "refused" not in kinds
    assert kinds.count("right") >= 2


X = (np.random.default_rng(0).normal(size=(2, 4, 8, 16)) * 300).astype(np.float16)
SIZE, ONES, ZEROS = np.abs(X), np.ones(4, np.float16), np.zeros(4, np.float16)
MICROSOFT = {"domain": "com.microsoft"}
NODES: list[tuple[NodeProto, tuple[Array, ...]]] = [
    (node("LayerNormalization", ["x", "a"], ["y", "m", "d"]), (X, np.ones(16, np.float16))),
    (node("RMSNormalization", ["x", "a"], ["y"]), (X, np.ones(16, np.float16))),
    (node("GroupNormalization", ["x", "a", "b"], ["y"], num_groups=2), (X, ONES, ZEROS)),
    (node("InstanceNormalization", ["x", "a", "b"], ["y"]), (X, ONES, ZEROS)),
    (
        node("BatchNormalization", ["x", "a", "b", "m", "v"], ["y", "n", "w"], training_mode=1),
        (X, ONES, ZEROS, ZEROS, ONES),
    ),
    (node("LpNormalization", ["x"], ["y"]), (X,)),
    (node("AveragePool", ["x"], ["y"], kernel_shape=[8, 16]), (X * 50,)),
    (node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], dilations=[2, 2]), (SIZE * 50,)),
    (node("LpPool", ["x"], ["y"], kernel_shape=[4, 4]), (X,)),
    (node("LRN", ["x"], ["y"], size=3), (X,)),
    (node("ReduceL2", ["x"], ["y"]), (X,)),
    (node("ReduceLogSum", ["x"], ["y"]), (SIZE,)),
    (node("Mean", ["x", "x2", "x3"], ["y"]), (SIZE * 50, SIZE * 50, SIZE * 50)),
    (node("SimplifiedLayerNormalization", ["x", "a"], ["y", "d"]), (X, np.ones(16, np.float16))),
    (node("SkipLayerNormalization", ["x", "s", "a"], ["y", "m", "d"], **MICROSOFT), (X, X, np.ones(16, np.float16))),
    (node("SkipSimplifiedLayerNormalization", ["x", "s", "a"], ["y"], **MICROSOFT), (X, X, np.ones(16, np.float16))),
]


@pytest.mark.spec("U-6")
@pytest.mark.parametrize(("made", "arrays"), NODES, ids=lambda each: getattr(each, "op_type", ""))
def test_half_precision_operators_equal_rounded_float64(
    made: NodeProto, arrays: tuple[Array, ...], tmp_path: Path
) -> None:
    """Norms, pools and reductions of float16 around 300 are rounded once; statistics are float32."""
    found = results(result(tmp_path, made, *arrays, opset=23))
    exact = results(result(tmp_path, made, *[array.astype(np.float64) for array in arrays], opset=23))
    statistics = {"m", "d"} if made.op_type != "BatchNormalization" else set()
    for name, array, wanted in zip(made.output, found, exact, strict=True):
        assert array.dtype == (np.float32 if name in statistics else np.float16)
        assert np.isfinite(array).all()
        np.testing.assert_allclose(array, wanted, rtol=1e-5 if name in statistics else 6e-4, atol=1e-6)


def results(value: Any) -> list[Array]:
    return [*value.values()] if isinstance(value, dict) else [value]


@pytest.mark.spec("U-6")
def test_statistics_have_the_dtype_in_stash_type(tmp_path: Path) -> None:
    """It is the dtype of Mean and InvStdDev, float32 by default."""
    x = np.random.default_rng(1).normal(size=(3, 64)) * 0.01 + 100
    scale = np.ones(64)

    def mean_of(dtype: str, **options: int) -> Array:
        made = node("LayerNormalization", ["x", "a"], ["y", "m", "d"], **options)
        _, mean, inverse = results(result(tmp_path, made, x.astype(dtype), scale.astype(dtype), opset=17))
        assert mean.dtype == inverse.dtype
        return mean

    exact = x.mean(1, keepdims=True)
    for dtype in ("float32", "float64"):
        assert mean_of(dtype).dtype == np.float32
        np.testing.assert_allclose(mean_of(dtype), exact, rtol=1e-6)
    rounded = mean_of("float32", stash_type=TensorProto.BFLOAT16)
    np.testing.assert_array_equal(rounded, exact.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32))
    assert mean_of("float32", stash_type=TensorProto.DOUBLE).dtype == np.float64
