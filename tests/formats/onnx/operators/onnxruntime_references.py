"""Cases of ONNX Runtime's own operators, and what ONNX Runtime 1.32.0 gives for them, kept in onnxruntime.npz.

Written anew, where onnxruntime is installed, by ``python -m tests.formats.onnx.operators.onnxruntime_references``;
on a processor with VNNI: without, sums of two products of uint8 and int8 saturate at 16 bits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import ModelProto, TensorProto, helper

KEPT = Path(__file__).with_name("onnxruntime.npz")
N, STEPS, KEYS, HEADS, FEATURES = 2, 5, 7, 2, 16
SIZE = HEADS * FEATURES


class RuntimeCase(NamedTuple):
    """An operator of com.microsoft with its inputs (None is left out), attributes and number of outputs."""

    type: str
    inputs: list[Any]
    attributes: dict[str, Any] = {}  # noqa: RUF012  # never changed
    outputs: int = 1

    @property
    def arrays(self) -> dict[str, Any]:
        """The inputs by name."""
        return {f"x{place}": np.asarray(array) for place, array in enumerate(self.inputs) if array is not None}

    def model(self) -> ModelProto:
        """The model of the operator alone."""
        arrays = self.arrays
        names = [f"x{place}" if f"x{place}" in arrays else "" for place in range(len(self.inputs))]
        is_real = self.type in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "EmbedLayerNormalization")
        like = {"QLinearWhere": "x1", "QLinearConcat": "x2"}.get(self.type, "x0")
        element = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32) if is_real else arrays[like].dtype)
        results = [f"y{place}" for place in range(self.outputs)]
        # the second output of an embedding has the lengths by its mask
        is_whole = self.type == "EmbedLayerNormalization"
        graph = helper.make_graph(
            [helper.make_node(self.type, names, results, domain="com.microsoft", **self.attributes)],
            self.type,
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in arrays.items()
            ],
            [
                helper.make_tensor_value_info(name, TensorProto.INT32 if is_whole and place == 1 else element, None)
                for place, name in enumerate(results)
            ],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def cases() -> dict[str, RuntimeCase]:
    """Return the cases by name; their numbers are drawn from one seed."""
    random = np.random.default_rng(5)

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    def whole(dtype: Any, *shape: int) -> Any:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape).astype(dtype)

    angles = np.arange(16)[:, None] / 10000 ** (np.arange(FEATURES // 2) / (FEATURES // 2))
    tables = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    heads = {"num_heads": HEADS}
    across = [real(N, STEPS, SIZE), real(N, KEYS, SIZE), real(N, KEYS, SIZE)]
    within = [real(N, STEPS, SIZE), real(N, STEPS, SIZE), real(N, STEPS, SIZE)]
    packed = [real(N, STEPS, SIZE), real(SIZE, 3 * SIZE), real(3 * SIZE)]
    shared = [real(N, STEPS, SIZE), real(N, STEPS, FEATURES), real(N, STEPS, FEATURES)]
    lengths = [np.full(N, STEPS - 1, np.int32), np.array(STEPS, np.int32)]
    none: list[Any] = [None, None]
    empty = [np.zeros((N, 1, 0, FEATURES), np.float32)] * 2
    groups = {**heads, "kv_num_heads": 1}
    places = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    kept = np.array([[1] * KEYS, [1] * 4 + [0] * 3], np.int32)
    short = np.array([[1] * STEPS, [1] * 3 + [0] * 2], np.int32)
    # scales at which no result lies half-way between two numbers, where the order of products decides
    low, high = [np.float32(0.113), np.uint8(7)], [np.float32(0.0571), np.uint8(9)]
    signed_low, signed_high = [np.float32(0.113), np.int8(7)], [np.float32(0.0571), np.int8(-9)]
    bytes_ = whole(np.uint8, 3, 4)
    narrow = [bytes_, np.float32(0.03), np.uint8(120)]
    own = np.random.default_rng(6)
    words, segments = own.integers(0, 7, (N, STEPS)).astype(np.int32), own.integers(0, 2, (N, STEPS)).astype(np.int32)
    images = own.integers(0, 255, (1, 2, 5, 4)).astype(np.uint8)
    return {
        "across": RuntimeCase("MultiHeadAttention", across, heads),
        "across with a bias": RuntimeCase("MultiHeadAttention", [*across, real(3 * SIZE)], heads),
        "across, masked": RuntimeCase("MultiHeadAttention", [*across, None, kept], {**heads, "scale": 0.3}),
        "within, causal": RuntimeCase(
            "MultiHeadAttention",
            [*within, None, None, real(1, HEADS, STEPS, STEPS)],
            {**heads, "unidirectional": 1},
            3,
        ),
        "one product": RuntimeCase("Attention", packed, heads),
        "one product, masked": RuntimeCase("Attention", [*packed, short], heads),
        "one product, of lengths": RuntimeCase("Attention", [*packed, np.array([5, 3], np.int32)], heads),
        "one product, causal": RuntimeCase("Attention", packed, {**heads, "unidirectional": 1}, 2),
        "turned from a place on": RuntimeCase("RotaryEmbedding", [real(N, STEPS, SIZE), np.array([3]), *tables]),
        "turned in neighbours": RuntimeCase(
            "RotaryEmbedding", [real(N, HEADS, STEPS, FEATURES), places, *tables], {"interleaved": 1}
        ),
        "turned in part": RuntimeCase(
            "RotaryEmbedding",
            [real(N, STEPS, SIZE), places, *[table[:, :2] for table in tables]],
            {**heads, "rotary_embedding_dim": 4},
        ),
        "shared keys": RuntimeCase("GroupQueryAttention", [*shared, *none, *lengths], groups, 3),
        "shared keys, turned": RuntimeCase(
            "GroupQueryAttention", [*shared, *none, *lengths, *tables], {**groups, "do_rotary": 1}, 3
        ),
        "shared keys, an empty cache": RuntimeCase(
            "GroupQueryAttention",
            [*shared, *empty, *lengths, *tables],
            {**groups, "do_rotary": 1, "rotary_interleaved": 1},
            3,
        ),
        "sum": RuntimeCase("QLinearAdd", [bytes_, *low, whole(np.uint8, 4), *high, np.float32(0.2), np.uint8(3)]),
        "multiple": RuntimeCase(
            "QLinearMul",
            [whole(np.int8, 3, 4), *signed_low, whole(np.int8, 4), *signed_high, np.float32(0.2), np.int8(3)],
        ),
        "sigmoid": RuntimeCase("QLinearSigmoid", [*narrow, np.float32(1 / 256), np.uint8(0)]),
        "leaky": RuntimeCase("QLinearLeakyRelu", [*narrow, np.float32(0.02), np.uint8(100)], {"alpha": 0.1}),
        "quantised on the way": RuntimeCase(
            "DynamicQuantizeMatMul", [real(3, 8), whole(np.int8, 8, 5), np.float32(0.02), np.int8(3), real(5)]
        ),
        "quantised by columns": RuntimeCase(
            "DynamicQuantizeMatMul", [real(3, 8), whole(np.uint8, 8, 5), np.abs(real(5)), whole(np.uint8, 5)]
        ),
        "quantised zeros": RuntimeCase(
            "DynamicQuantizeMatMul", [np.zeros((3, 8), np.float32), whole(np.int8, 8, 5), np.float32(0.02)]
        ),
        "real result": RuntimeCase(
            "MatMulIntegerToFloat",
            [
                whole(np.uint8, 3, 8),
                whole(np.int8, 8, 5),
                np.float32(0.1),
                np.float32(0.02),
                np.uint8(5),
                np.int8(3),
                real(5),
            ],
        ),
        "product of matrices by batch": RuntimeCase(
            "FusedMatMul",
            [real(3, 2, 4), real(5, 2, 4)],
            {"transBatchA": 1, "transBatchB": 1, "transB": 1, "alpha": 0.5},
        ),
        **_activations(real),
        "embedded": RuntimeCase(
            "EmbedLayerNormalization",
            [words, segments, real(7, SIZE), real(6, SIZE), real(2, SIZE), real(SIZE), real(SIZE)],
            {"epsilon": 1e-5},
            2,
        ),
        "embedded at places": RuntimeCase(
            "EmbedLayerNormalization",
            [words, None, real(7, SIZE), real(6, SIZE), None, real(SIZE), real(SIZE), short, segments],
            {},
            3,
        ),
        "average of windows": RuntimeCase(
            "QLinearAveragePool",
            [images, *narrow[1:], np.float32(0.0231), np.uint8(100)],
            {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]},
        ),
        "average of channels": RuntimeCase(
            "QLinearGlobalAveragePool", [images, *narrow[1:], np.float32(0.0131), np.uint8(100)]
        ),
        "probabilities": RuntimeCase(
            "QLinearSoftmax", [bytes_, *narrow[1:], np.float32(1 / 256), np.uint8(0)], {"axis": -1, "opset": 13}
        ),
        "one after the other": RuntimeCase(
            "QLinearConcat",
            [np.float32(0.0913), np.uint8(9), bytes_, *low, whole(np.uint8, 3, 2), *high],
            {"axis": 1},
        ),
        "one or the other": RuntimeCase(
            "QLinearWhere",
            [real(3, 4) > 0, bytes_, *low, whole(np.uint8, 4), *high, np.float32(0.0913), np.uint8(9)],
        ),
        "quantised matrices": RuntimeCase(
            "QGemm",
            [
                *(whole(np.uint8, 8, 3), np.float32(0.1), np.uint8(120)),
                *(whole(np.uint8, 5, 8), np.float32(0.02), np.uint8(131)),
                *(whole(np.int8, 5).astype(np.int32) * 99, np.float32(9.7), np.uint8(128)),
            ],
            {"transA": 1, "transB": 1},
        ),
    }


def _activations(real: Any) -> dict[str, RuntimeCase]:
    """Return fused convolutions and products with each activation that follows them."""
    activations = {
        "Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4],
    }  # fmt: skip
    found = {}
    for name, parameters in activations.items():
        attributes = {"activation": name, **({"activation_params": parameters} if parameters else {})}
        images, filters = real(1, 2, 4, 5), real(3, 2, 3, 3)
        found[f"convolution and {name}"] = RuntimeCase(
            "FusedConv", [images, filters, real(3)], {**attributes, "pads": [1, 1, 1, 1], "strides": [1, 2]}
        )
        if name in ("Relu", "LeakyRelu"):
            letters = {"activation_alpha": 0.2} if parameters else {}
            found[f"product and {name}"] = RuntimeCase(
                "FusedGemm",
                [real(4, 3), real(4, 5), real(5)],
                {"activation": name, **letters, "transA": 1, "alpha": 0.5, "beta": 2.0},
            )
    found["convolution, sum and Relu"] = RuntimeCase(
        "FusedConv", [real(1, 2, 4, 5), real(3, 2, 1, 1), real(3), real(1, 3, 4, 5)], {"activation": "Relu"}
    )
    return found


if __name__ == "__main__":
    import onnxruntime

    references = {}
    for name, case in cases().items():
        session = onnxruntime.InferenceSession(case.model().SerializeToString())
        for place, array in enumerate(session.run(None, case.arrays)):
            references[f"{name}: {place}"] = array
    np.savez_compressed(KEPT, **references)
