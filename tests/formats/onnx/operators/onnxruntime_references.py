"""Cases of ONNX Runtime's own operators, with results of ONNX Runtime 1.32.0 stored in onnxruntime.npz.

Write the file with ``python -m tests.formats.onnx.operators.onnxruntime_references`` if onnxruntime is installed, on a
processor with VNNI: without it, sums of two products of uint8 and int8 saturate at 16 bits.
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
    """Operator of com.microsoft, or of the standard after a dot, with inputs (None is omitted) and attributes."""

    type: str
    inputs: list[Any]
    attributes: dict[str, Any] = {}  # noqa: RUF012  # never changed
    outputs: int = 1
    opset: int = 17

    @property
    def arrays(self) -> dict[str, Any]:
        """Return the inputs by name."""
        return {f"x{place}": np.asarray(array) for place, array in enumerate(self.inputs) if array is not None}

    def _element(self, place: int, usual: int) -> int:
        """Return the element type of an output; lengths of masks and positions are integers."""
        whole = {("EmbedLayerNormalization", 1): TensorProto.INT32}
        whole |= {(".NonMaxSuppression", 0): TensorProto.INT64}
        whole |= {(".Unique", place): TensorProto.INT64 for place in (1, 2, 3)}
        return whole.get((self.type, place), usual)

    def model(self) -> ModelProto:
        """Return a model of only this operator."""
        arrays = self.arrays
        names = [f"x{place}" if f"x{place}" in arrays else "" for place in range(len(self.inputs))]
        kind, domain = self.type.removeprefix("."), "" if self.type[0] == "." else "com.microsoft"
        is_real = self.type in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "EmbedLayerNormalization")
        like = {"QLinearWhere": "x1", "QLinearConcat": "x2"}.get(self.type, "x0")
        element = helper.np_dtype_to_tensor_dtype(np.dtype(np.float32) if is_real else arrays[like].dtype)
        results = [f"y{place}" for place in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(kind, names, results, domain=domain, **self.attributes)],
            self.type,
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in arrays.items()
            ],
            [
                helper.make_tensor_value_info(name, self._element(place, element), None)
                for place, name in enumerate(results)
            ],
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def cases() -> dict[str, RuntimeCase]:
    """Return the cases by name; all their numbers come from one seed."""
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
    # with these scales no result is half-way between two numbers, so the order of products does not matter
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
        **_decoders(np.random.default_rng(11), tables),
        **_places(np.random.default_rng(12)),
        **_edges(np.random.default_rng(13)),
        **_buffers(np.random.default_rng(14)),
        **_detectors(np.random.default_rng(15)),
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
    """Return fused convolutions and products with each possible activation."""
    activations = {
        "Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4],
    }  # fmt: skip
    results = {}
    for name, parameters in activations.items():
        attributes = {"activation": name, **({"activation_params": parameters} if parameters else {})}
        images, filters = real(1, 2, 4, 5), real(3, 2, 3, 3)
        results[f"convolution and {name}"] = RuntimeCase(
            "FusedConv", [images, filters, real(3)], {**attributes, "pads": [1, 1, 1, 1], "strides": [1, 2]}
        )
        if name in ("Relu", "LeakyRelu"):
            letters = {"activation_alpha": 0.2} if parameters else {}
            results[f"product and {name}"] = RuntimeCase(
                "FusedGemm",
                [real(4, 3), real(4, 5), real(5)],
                {"activation": name, **letters, "transA": 1, "alpha": 0.5, "beta": 2.0},
            )
    results["convolution, sum and Relu"] = RuntimeCase(
        "FusedConv", [real(1, 2, 4, 5), real(3, 2, 1, 1), real(3), real(1, 3, 4, 5)], {"activation": "Relu"}
    )
    return results


def _decoders(random: np.random.Generator, tables: tuple[Any, Any]) -> dict[str, RuntimeCase]:
    """Return attention to cached keys and values of earlier runs."""

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    heads, past = {"num_heads": HEADS}, [real(N, HEADS, KEYS, FEATURES), real(N, HEADS, KEYS, FEATURES)]
    within, kept = [real(N, STEPS, SIZE) for _ in range(3)], np.ones((N, STEPS + KEYS), np.int32)
    kept[1, 2:7] = 0
    whole, packed = [None] * 3, [real(N, STEPS, SIZE), real(SIZE, 3 * SIZE), real(3 * SIZE)]
    causal, groups = {**heads, "unidirectional": 1}, {"num_heads": 4, "kv_num_heads": 2}
    step = [real(N, 1, 4 * FEATURES), real(N, 1, 2 * FEATURES), real(N, 1, 2 * FEATURES)]
    prompt = [real(N, STEPS, 4 * FEATURES), real(N, STEPS, 2 * FEATURES), real(N, STEPS, 2 * FEATURES)]
    cache, room = [real(N, 2, KEYS, FEATURES) for _ in range(2)], [real(N, 2, 12, FEATURES) for _ in range(2)]
    after = [np.array([KEYS, 3], np.int32), np.array(KEYS + 1, np.int32)]
    more = [real(1, STEPS, 4 * FEATURES), *[real(1, STEPS, 2 * FEATURES)] * 2, cache[0][:1], cache[1][:1]]
    ends = [np.array([STEPS + KEYS - 1], np.int32), np.array(STEPS + KEYS, np.int32)]
    joined = [real(N, 1, 8 * FEATURES), None, None]
    turned, query = {**groups, "do_rotary": 1}, "GroupQueryAttention"
    sinks, bias = [*[None] * 4, real(4)], [*[None] * 3, real(1, 1, 1, KEYS + 1)]
    starts = [np.array([STEPS - 1, 2], np.int32), np.array(STEPS, np.int32)]
    return {
        "behind a past": RuntimeCase("MultiHeadAttention", [*within, *whole, *past], heads, 3),
        "behind a past, causal": RuntimeCase("MultiHeadAttention", [*within, *whole, *past], causal, 3),
        "behind a past, masked": RuntimeCase("MultiHeadAttention", [*within, None, kept, None, *past], heads, 3),
        "keys by heads": RuntimeCase("MultiHeadAttention", [within[0], *past], heads),
        "one product behind a past": RuntimeCase("Attention", [*packed, kept, np.stack(past)], heads, 2),
        "one product behind a past, causal": RuntimeCase("Attention", [*packed, None, np.stack(past)], causal, 2),
        "a cache that grows": RuntimeCase(query, [*step, *cache, *after, *tables], turned, 3),
        "a cache with room": RuntimeCase(query, [*step, *room, *after, *tables], turned, 3),
        "a cache with room, at first": RuntimeCase(query, [*prompt, *room, *starts, *tables], turned, 3),
        "several steps behind a cache": RuntimeCase(query, [*more, *ends, *tables], turned, 3),
        "one operand for three": RuntimeCase(query, [*joined, *cache, *after], groups, 3),
        "a window of keys": RuntimeCase(query, [*step, *cache, *after], {**groups, "local_window_size": 3}, 3),
        "capped scores": RuntimeCase(query, [*step, *cache, *after], {**groups, "softcap": 1.5}, 3),
        "a smooth softmax": RuntimeCase(query, [*step, *cache, *after], {**groups, "smooth_softmax": 1}, 3),
        "a sink for each head": RuntimeCase(query, [*step, *cache, *after, *sinks], groups, 3),
        "a bias of scores": RuntimeCase(query, [*step, *cache, *after, *bias], groups, 3),
    }


def _places(random: np.random.Generator) -> dict[str, RuntimeCase]:
    """Return standard operators that the reference evaluator lacks or computes differently."""

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    regions = [[0, 0, 0, 5, 5], [1, 1.4, 2.6, 7.5, 8.5], [0, 6, 6, 2, 2], [0, -3, -2, 20, 30]]
    repeated = random.integers(0, 3, (3, 6)).astype(np.float32)
    repeated[:, 3], repeated[2] = repeated[:, 0], repeated[0]
    states, lengths = [real(2, 3, 4), real(2, 3, 4)], np.array([4, 0, 2], np.int32)
    weights = [real(2, 16, 3), real(2, 16, 4), None, lengths]
    recurrent = {"hidden_size": 4, "direction": "bidirectional"}
    images = random.integers(0, 255, (1, 3, 7, 6)).astype(np.uint8)
    # half of these means are half-way between two numbers
    halves = [images, np.float32(0.5), np.uint8(120), np.float32(0.25), np.uint8(101)]
    windows = {"kernel_shape": [2, 2], "strides": [2, 1]}
    return {
        "inverses": RuntimeCase("Inverse", [real(3, 4, 4)]),
        "regions": RuntimeCase(
            ".MaxRoiPool",
            [real(2, 3, 12, 10), np.array(regions, np.float32)],
            {"pooled_shape": [3, 2], "spatial_scale": 0.75},
        ),
        "parts as they come": RuntimeCase(".Unique", [repeated], {"sorted": 0, "axis": 1}, 4),
        "elements as they come": RuntimeCase(".Unique", [repeated], {"sorted": 0}, 1),
        "no length": RuntimeCase(".Resize", [real(1, 2, 4, 5), None, np.array([1, 1, 0.1, 1], np.float32)]),
        "no steps": RuntimeCase(".LSTM", [real(4, 3, 3), *weights, *states], recurrent, 3),
        "means half-way": RuntimeCase("QLinearAveragePool", halves, windows),
    }


def _edges(random: np.random.Generator) -> dict[str, RuntimeCase]:
    """Return masks with start positions, biases shorter than a cache, and windows beyond the padding."""

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    packed = [real(N, STEPS, SIZE), real(SIZE, 3 * SIZE), real(3 * SIZE)]
    step = [real(N, 1, 4 * FEATURES), real(N, 1, 2 * FEATURES), real(N, 1, 2 * FEATURES)]
    room = [real(N, 2, 12, FEATURES) for _ in range(2)]
    after = [np.array([KEYS, 3], np.int32), np.array(KEYS + 1, np.int32), *[None] * 3, real(1, 1, 1, KEYS + 1)]
    images = random.integers(0, 255, (1, 2, 4, 6)).astype(np.uint8)
    reaching = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 0, 0, 0], "ceil_mode": 1, "count_include_pad": 1}
    scales = [np.float32(0.03), np.uint8(120), np.float32(0.0231), np.uint8(100)]
    steps = {"num_heads": HEADS, "unidirectional": 1}
    return {
        "one product, of ends and starts": RuntimeCase(
            "Attention", [*packed, np.array([5, 4, 1, 2], np.int32)], {"num_heads": HEADS}
        ),
        "a bias shorter than a cache": RuntimeCase(
            "GroupQueryAttention", [*step, *room, *after], {"num_heads": 4, "kv_num_heads": 2}, 3
        ),
        "means beyond the padding": RuntimeCase("QLinearAveragePool", [images, *scales], reaching),
        "one step to more keys": RuntimeCase(
            "MultiHeadAttention", [real(N, 1, SIZE), real(N, KEYS, SIZE), real(N, KEYS, SIZE)], steps
        ),
    }


def _buffers(random: np.random.Generator) -> dict[str, RuntimeCase]:
    """Return one attention step with key and value buffers: empty, partly full, and one position from full."""

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    step, room = [real(N, 1, SIZE) for _ in range(3)], [real(N, HEADS, 12, FEATURES) for _ in range(2)]
    kept = np.ones((N, KEYS + 1), np.int32)
    kept[1, 2:5] = 0
    heads, shared = {"num_heads": HEADS}, {"num_heads": HEADS, "past_present_share_buffer": 1}
    length, bias = np.array([KEYS], np.int32), real(1, HEADS, 1, KEYS + 1)
    plain, masked = "MultiHeadAttention", "DecoderMaskedMultiHeadAttention"
    behind = [None] * 3
    return {
        "a buffer": RuntimeCase(plain, [*step, *behind, *room, length], {**heads, "scale": 0.3}, 3),
        "a buffer, empty": RuntimeCase(plain, [*step, *behind, *room, np.array([0], np.int32)], heads, 3),
        "a buffer, nearly full": RuntimeCase(plain, [*step, real(3 * SIZE), None, None, *room, length + 4], heads, 3),
        "a buffer, biased": RuntimeCase(plain, [*step, None, None, bias, *room, length], heads, 3),
        "a buffer, masked": RuntimeCase(masked, [*step, kept, None, *room, length], shared, 3),
        "a buffer, masked and biased": RuntimeCase(
            masked, [*step, kept, bias, *room, length, None, None, real(3 * SIZE)], shared, 3
        ),
    }


def _detectors(random: np.random.Generator) -> dict[str, RuntimeCase]:
    """Return regions, boxes and deformable taps of detectors inside, at the edges of, and outside images."""

    def real(*shape: int) -> Any:
        return random.normal(size=shape).astype(np.float32)

    images, corners = real(2, 3, 9, 11), random.uniform(-6, 30, (12, 2))
    regions = np.concatenate([corners, corners + random.uniform(-1, 20, (12, 2))], 1).astype(np.float32)
    aligned = [images, regions, random.integers(0, 2, 12)]
    bins = {"output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    results = {
        f"aligned regions, {mode}, {samples} samples, {coordinates}": RuntimeCase(
            ".RoiAlign",
            aligned,
            {**bins, "mode": mode, "sampling_ratio": samples, "coordinate_transformation_mode": coordinates},
        )
        for mode in ("avg", "max")
        for samples in (0, 2)
        for coordinates in ("half_pixel", "output_half_pixel")
    }
    results["aligned regions of opset 10"] = RuntimeCase(".RoiAlign", aligned, bins, opset=10)

    centres, sizes = random.uniform(0, 1, (2, 300, 2)), random.uniform(0.02, 0.5, (2, 300, 2))
    opposite = np.concatenate([centres, centres + sizes * random.choice([-1, 1], (2, 300, 2))], 2).astype(np.float32)
    scores = random.uniform(0, 1, (2, 3, 300)).round(2).astype(np.float32)  # some are equal
    limits = [np.array([40]), np.array([0.4], np.float32), np.array([0.3], np.float32)]
    results["boxes that stay"] = RuntimeCase(".NonMaxSuppression", [opposite, scores, *limits])
    results["all boxes that stay"] = RuntimeCase(".NonMaxSuppression", [opposite, scores, np.array([300]), limits[1]])
    centred = np.concatenate([centres, sizes], 2).astype(np.float32)
    results["boxes by their centres"] = RuntimeCase(
        ".NonMaxSuppression", [centred, scores, *limits], {"center_point_box": 1}
    )

    moved = random.uniform(-2.5, 2.5, (2, 24, 5, 6)).astype(np.float32)
    factors = random.uniform(0, 1, (2, 12, 5, 6)).astype(np.float32)
    windows = {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}
    taps = [real(2, 6, 7, 9), real(4, 3, 2, 3), moved, real(4)]
    results["moved taps"] = RuntimeCase(".DeformConv", taps, windows, opset=19)
    results["moved taps, masked"] = RuntimeCase(".DeformConv", [*taps, factors], windows, opset=19)

    points = random.uniform(-1.6, 1.6, (2, 4, 5, 2)).astype(np.float32)
    results |= {
        f"points of a grid, {mode}, {padding}": RuntimeCase(
            ".GridSample", [images, points], {"mode": mode, "padding_mode": padding, "align_corners": corners}, opset=20
        )
        for mode in ("linear", "nearest", "cubic")
        for padding, corners in (("zeros", 0), ("border", 1), ("reflection", 0))
    }
    return results


if __name__ == "__main__":
    import onnxruntime

    references = {}
    for name, case in cases().items():
        session = onnxruntime.InferenceSession(case.model().SerializeToString())
        for place, array in enumerate(session.run(None, case.arrays)):
            references[f"{name}: {place}"] = array
    np.savez_compressed(KEPT, **references)
