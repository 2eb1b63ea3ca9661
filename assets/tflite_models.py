"""Small TensorFlow Lite files, written with the package ``tflite``: named graphs, and cases of one operator each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

Array = np.ndarray[Any, Any]
SEED = 17
GRID = 128
_VERSIONS = {"BROADCAST_TO": 2}
"""versions of operators whose version 1 the interpreter does not support"""
SAME, VALID = tflite.Padding.SAME, tflite.Padding.VALID


@dataclass(frozen=True)
class Tensor:
    """Tensor of a file; a constant if it has ``data``."""

    shape: Sequence[int] = ()
    dtype: str = "float32"
    data: Array | bytes | None = None
    signature: Sequence[int] = ()
    scale: Sequence[float] = ()
    zero_point: Sequence[int] = ()
    axis: int = 0
    is_variable: bool = False
    has_rank: bool = False
    sparsity: tuple[Sequence[int], Sequence[int], Sequence[Any]] | None = None
    """order of axes, axes of blocks, and levels: a length, or starts and coordinates of nonzero children"""


@dataclass(frozen=True)
class Node:
    """Operator: type, names of operands and results, and options with the package's names."""

    type: str
    inputs: Sequence[str | None]
    outputs: Sequence[str]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    custom: str = ""


@dataclass(frozen=True)
class Graph:
    """Graph of a file."""

    tensors: Mapping[str, Tensor]
    nodes: Sequence[Node]
    inputs: Sequence[str]
    outputs: Sequence[str]
    name: str = ""
    repeats: int = 1
    """number of times that the list of operators repeats the offsets of its tables"""


def constant(array: Any, dtype: str | None = None, **options: Any) -> Tensor:
    """Return a constant of an array's shape and dtype."""
    elements = np.asarray(array, dtype)
    return Tensor(elements.shape, elements.dtype.name, elements, **options)


class Writer:
    """Writer of a file."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)
        self.buffers: list[int] = []
        self.codes: list[tuple[str, str]] = []

    def file(
        self,
        graphs: Sequence[Graph],
        signatures: Sequence[tuple[str, int, Any, Any]] = (),
        metadata: Mapping[str, bytes] | None = None,
    ) -> bytes:
        """Return the bytes of a file; signatures are (key, graph, inputs, outputs), with dicts of names and indices."""
        b = self.builder
        self.buffers.append(self.table("Buffer", {}))  # the first buffer is empty, by convention
        parts = [self.graph(graph) for graph in graphs]
        signature_offsets = [self.signature(*signature) for signature in signatures]
        codes = [self.code(*code) for code in self.codes]
        entries = [self.entry(name, raw) for name, raw in (metadata or {}).items()]
        fields = {
            "Version": 3,
            "OperatorCodes": self.offsets(codes),
            "Subgraphs": self.offsets(parts),
            "Description": b.CreateString("a test of Explorer"),
            "Buffers": self.offsets(self.buffers),
            **({"Metadata": self.offsets(entries)} if entries else {}),
            **({"SignatureDefs": self.offsets(signature_offsets)} if signature_offsets else {}),
        }
        b.Finish(self.table("Model", fields), b"TFL3")
        return bytes(b.Output())

    def table(self, name: str, fields: Mapping[str, Any]) -> int:
        """Write a table of the schema."""
        getattr(tflite, f"{name}Start")(self.builder)
        for key, value in fields.items():
            getattr(tflite, f"{name}Add{key}")(self.builder, value)
        return int(getattr(tflite, f"{name}End")(self.builder))

    def offsets(self, tables: Sequence[int]) -> int:
        """Write a list of tables."""
        self.builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.builder.PrependUOffsetTRelative(table)
        return int(self.builder.EndVector())

    def numbers(self, values: Any, dtype: str = "int32") -> int:
        """Write a list of numbers."""
        return int(self.builder.CreateNumpyVector(np.asarray(values, dtype)))

    def entry(self, name: str, raw: bytes) -> int:
        """Write an entry of the metadata and its buffer."""
        data = self.numbers(np.frombuffer(raw, np.uint8), "uint8")
        self.buffers.append(self.table("Buffer", {"Data": data}))
        return self.table("Metadata", {"Name": self.builder.CreateString(name), "Buffer": len(self.buffers) - 1})

    def graph(self, graph: Graph) -> int:
        """Write a graph."""
        indices_by_name = {name: place for place, name in enumerate(graph.tensors)}
        tensors = [self.tensor(name, tensor) for name, tensor in graph.tensors.items()]
        nodes = [self.node(node, indices_by_name) for node in graph.nodes]
        fields = {
            "Tensors": self.offsets(tensors),
            "Inputs": self.numbers([indices_by_name[name] for name in graph.inputs]),
            "Outputs": self.numbers([indices_by_name[name] for name in graph.outputs]),
            "Operators": self.offsets(nodes * graph.repeats),
            "Name": self.builder.CreateString(graph.name),
        }
        return self.table("SubGraph", fields)

    def tensor(self, name: str, tensor: Tensor) -> int:
        """Write a tensor and its buffer."""
        buffer = 0
        if tensor.data is not None:
            raw = tensor.data if isinstance(tensor.data, bytes) else np.ascontiguousarray(tensor.data).tobytes()
            data = self.numbers(np.frombuffer(raw, np.uint8), "uint8")
            self.buffers.append(self.table("Buffer", {"Data": data}))
            buffer = len(self.buffers) - 1
        fields: dict[str, Any] = {
            "Shape": self.numbers(tensor.shape),
            "Type": getattr(tflite.TensorType, tensor.dtype.upper()),
            "Buffer": buffer,
            "Name": self.builder.CreateString(name),
            "IsVariable": tensor.is_variable,
            "HasRank": tensor.has_rank,
        }
        if tensor.signature:
            fields["ShapeSignature"] = self.numbers(tensor.signature)
        if tensor.scale:
            scales = {
                "Scale": self.numbers(tensor.scale, "float32"),
                "ZeroPoint": self.numbers(tensor.zero_point, "int64"),
                "QuantizedDimension": tensor.axis,
            }
            fields["Quantization"] = self.table("QuantizationParameters", scales)
        if tensor.sparsity is not None:
            order, blocks, levels = tensor.sparsity
            parts = [self.level(level) for level in levels]
            lists = {"TraversalOrder": self.numbers(order), "BlockMap": self.numbers(blocks)}
            fields["Sparsity"] = self.table("SparsityParameters", {**lists, "DimMetadata": self.offsets(parts)})
        return self.table("Tensor", fields)

    def level(self, level: Any) -> int:
        """Write a level of a sparse tensor."""
        if isinstance(level, int):
            return self.table("DimensionMetadata", {"Format": tflite.DimensionType.DENSE, "DenseSize": level})
        starts, coordinates = (
            self.table(f"{kind}Vector", {"Values": self.numbers(values, kind.lower())})
            for kind, values in zip(("Int32", "Uint8"), level, strict=True)
        )
        fields = {
            "Format": tflite.DimensionType.SPARSE_CSR,
            "ArraySegmentsType": tflite.SparseIndexVector.Int32Vector,
            "ArraySegments": starts,
            "ArrayIndicesType": tflite.SparseIndexVector.Uint8Vector,
            "ArrayIndices": coordinates,
        }
        return self.table("DimensionMetadata", fields)

    def node(self, node: Node, indices_by_name: Mapping[str, int]) -> int:
        """Write an operator."""
        code = node.type, node.custom
        if code not in self.codes:
            self.codes.append(code)
        fields: dict[str, Any] = {
            "OpcodeIndex": self.codes.index(code),
            "Inputs": self.numbers([-1 if name is None else indices_by_name[name] for name in node.inputs]),
            "Outputs": self.numbers([indices_by_name[name] for name in node.outputs]),
        }
        if node.options:
            values = {key: self.option(value) for key, value in node.values.items()}
            newer = "2" * (not hasattr(tflite.BuiltinOptions, node.options))
            kinds = getattr(tflite, f"BuiltinOptions{newer}")
            fields[f"BuiltinOptions{newer}Type"] = getattr(kinds, node.options)
            fields[f"BuiltinOptions{newer}"] = self.table(node.options, values)
        return self.table("Operator", fields)

    def option(self, value: Any) -> Any:
        """Write an option's string, bytes or list, and return its offset; return a number."""
        if isinstance(value, str):
            return self.builder.CreateString(value)
        if isinstance(value, bytes):
            return self.builder.CreateByteVector(value)
        return self.numbers(value) if isinstance(value, (list, tuple)) else value

    def code(self, type: str, custom: str) -> int:
        """Write an operator code."""
        number = getattr(tflite.BuiltinOperator, type)
        fields = {"DeprecatedBuiltinCode": min(number, 127), "BuiltinCode": number, "Version": _VERSIONS.get(type, 1)}
        if custom:
            fields["CustomCode"] = self.builder.CreateString(custom)
        return self.table("OperatorCode", fields)

    def signature(self, key: str, graph: int, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> int:
        """Write a signature."""
        sides = []
        for side in (inputs, outputs):
            names = [self.builder.CreateString(name) for name in side]
            maps = [
                self.table("TensorMap", {"Name": name, "TensorIndex": index})
                for name, index in zip(names, side.values(), strict=True)
            ]
            sides.append(self.offsets(maps))
        text = self.builder.CreateString(key)
        fields = {"Inputs": sides[0], "Outputs": sides[1], "SignatureKey": text, "SubgraphIndex": graph}
        return self.table("SignatureDef", fields)


def file(*graphs: Graph, signatures: Sequence[tuple[str, int, Any, Any]] = ()) -> bytes:
    """Return the bytes of a file with these graphs."""
    return Writer().file(graphs, signatures)


@dataclass(frozen=True)
class Input:
    """Input with its own type, and its array."""

    tensor: Tensor
    array: Array


@dataclass(frozen=True)
class Case:
    """File with one operator; ``operands`` are shapes of inputs, arrays of inputs, or constants."""

    type: str
    operands: Sequence[tuple[int, ...] | Array | Input | Tensor | None]
    options: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    results: Sequence[Tensor] = (Tensor(),)

    def inputs(self) -> list[Array]:
        """Return the arrays of the inputs; an input given as a shape has random multiples of 1 / GRID."""
        rng = np.random.default_rng(SEED)
        arrays = []
        for operand in self.operands:
            if isinstance(operand, tuple):
                arrays.append((rng.integers(-3 * GRID, 3 * GRID, operand) / GRID).astype(np.float32))
            elif isinstance(operand, np.ndarray):
                arrays.append(operand)
            elif isinstance(operand, Input):
                arrays.append(operand.array)
        return arrays

    def file(self) -> bytes:
        """Return the bytes of the file."""
        tensors: dict[str, Tensor] = {}
        names: list[str | None] = []
        arrays = iter(self.inputs())
        for place, operand in enumerate(self.operands):
            if operand is None:
                names.append(None)
                continue
            names.append(f"{'c' if isinstance(operand, Tensor) else 'x'}{place}")
            if isinstance(operand, Tensor):
                tensors[f"c{place}"] = operand
            else:
                array = next(arrays)
                plain = Tensor(array.shape, array.dtype.name)
                tensors[f"x{place}"] = operand.tensor if isinstance(operand, Input) else plain
        results = [f"y{place}" for place in range(len(self.results))]
        tensors |= dict(zip(results, self.results, strict=True))
        node = Node(self.type, names, results, self.options, self.values)
        return file(Graph(tensors, [node], [name for name in names if name and name[0] == "x"], results))


def _grid(*shape: int, seed: int = 1) -> Tensor:
    """Return a constant with random multiples of 1 / GRID."""
    return constant(np.random.default_rng(seed).integers(-GRID, GRID, shape) / GRID, "float32")


def _ints(*values: Any) -> Tensor:
    return constant(values, "int32")


def _one(value: int) -> Tensor:
    return constant(value, "int32")


def _windows() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    image = (2, 9, 8, 4)
    for name, padding in (("same", SAME), ("valid", VALID)):
        for stride, dilation in ((1, 1), (2, 1), (3, 1), (1, 2)):
            values = {
                "Padding": padding, "StrideW": stride, "StrideH": 1 + stride // 2, "DilationWFactor": dilation,
                "DilationHFactor": dilation,
            }  # fmt: skip
            cases[f"conv {name} {stride} {dilation}"] = Case(
                "CONV_2D", [image, _grid(5, 3, 2, 4), _grid(5)], "Conv2DOptions", values
            )
            if stride != 3:
                # the interpreter's depthwise kernels need the same stride along both axes
                deep = {**values, "StrideH": stride, "DepthMultiplier": 2}
                cases[f"depthwise {name} {stride} {dilation}"] = Case(
                    "DEPTHWISE_CONV_2D", [image, _grid(1, 3, 3, 8), _grid(8)], "DepthwiseConv2DOptions", deep
                )
        for stride in (1, 2, 3):
            pool = {
                "Padding": padding, "StrideW": stride, "StrideH": stride, "FilterWidth": 3, "FilterHeight": 2,
                "FusedActivationFunction": stride % 2,
            }  # fmt: skip
            for type in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
                cases[f"{type} {name} {stride}"] = Case(type, [image], "Pool2DOptions", pool)
            for length in (6, 7):
                count = -(-length // stride) if padding == SAME else -(-(length - 2) // stride)
                shape = _ints(1, length, length, 3)
                cases[f"transposed {name} {stride} {length}"] = Case(
                    "TRANSPOSE_CONV",
                    [shape, _grid(3, 3, 3, 4), (1, count, count, 4)],
                    "TransposeConvOptions",
                    {"Padding": padding, "StrideW": stride, "StrideH": stride},
                )
    for word in ("NONE", "RELU", "RELU6", "RELU_N1_TO_1"):
        number = getattr(tflite.ActivationFunctionType, word)
        values = {"StrideW": 1, "StrideH": 1, "FusedActivationFunction": number}
        cases[f"conv {word}"] = Case("CONV_2D", [image, _grid(5, 1, 1, 4), _grid(5)], "Conv2DOptions", values)
        cases[f"add {word}"] = Case("ADD", [image, (4,)], "AddOptions", {"FusedActivationFunction": number})
    return cases


def _elementwise() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    unary = (
        "ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIGN", "SIN", "SQUARE", "RELU", "RELU6", "RELU_N1_TO_1",
        "RELU_0_TO_1", "LOGISTIC", "TANH", "ELU", "HARD_SWISH", "LOG_SOFTMAX", "L2_NORMALIZATION",
    )  # fmt: skip
    cases |= {type: Case(type, [(3, 5)]) for type in unary}
    positive = np.linspace(0.25, 9, 15, dtype=np.float32).reshape(3, 5)
    cases |= {type: Case(type, [positive]) for type in ("LOG", "SQRT", "RSQRT")}
    boolean = Tensor(dtype="bool")
    for type in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"):
        x = np.array([[1, 2, 3], [3, 2, 1]], np.float32)
        cases[type] = Case(type, [x, np.array([1, 2, 2], np.float32)], results=[boolean])
    for type in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        cases[type] = Case(type, [(2, 3, 4), np.array([[0.5], [-1.25], [3]], np.float32)])
    tenths = np.array([1, 0.3, -0.7, 2.1], np.float32)
    cases["FLOOR_DIV tenths"] = Case("FLOOR_DIV", [tenths, np.array([0.1], np.float32)])
    whole = np.array([[-7, -6, 5], [7, 6, -5]], np.int32)
    for type in ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD"):
        cases[f"{type} int32"] = Case(type, [whole, np.array([2, -4, 3], np.int32)], results=[Tensor(dtype="int32")])
    cases["POW"] = Case("POW", [positive, constant(np.float32(1.5))])
    cases["a number"] = Case("MUL", [(2, 3), constant(np.float32(0.75))])
    bools = np.array([[True, False], [False, True]])
    for type in ("LOGICAL_AND", "LOGICAL_OR"):
        cases[type] = Case(type, [bools, np.array([True, False])], results=[boolean])
    cases["LOGICAL_NOT"] = Case("LOGICAL_NOT", [bools], results=[boolean])
    cases["SELECT_V2"] = Case("SELECT_V2", [bools, (2, 2), (2,)])
    cases["SELECT"] = Case("SELECT", [bools, (2, 2), (2, 2)])
    cases["ADD_N"] = Case("ADD_N", [(2, 3)] * 3)
    cases["LEAKY_RELU"] = Case("LEAKY_RELU", [(3, 5)], "LeakyReluOptions", {"Alpha": 0.25})
    cases["GELU"] = Case("GELU", [(3, 5)], "GeluOptions", {"Approximate": False})
    cases["GELU tanh"] = Case("GELU", [(3, 5)], "GeluOptions", {"Approximate": True})
    cases["PRELU"] = Case("PRELU", [(2, 3, 4, 5), _grid(1, 1, 5)])
    cases["SOFTMAX"] = Case("SOFTMAX", [(3, 5)], "SoftmaxOptions", {"Beta": 0.5})
    int32 = tflite.TensorType.INT32
    cases["CAST"] = Case("CAST", [(3, 5)], "CastOptions", {"OutDataType": int32}, [Tensor(dtype="int32")])
    cases["CAST without options"] = Case("CAST", [(3, 5)], results=[Tensor(dtype="int32")])
    cases["CAST bool"] = Case(
        "CAST", [bools], "CastOptions", {"InDataType": tflite.TensorType.BOOL, "OutDataType": int32},
        [Tensor(dtype="int32")],
    )  # fmt: skip
    cases["half"] = Case("DEQUANTIZE", [constant(positive.astype(np.float16))])
    return cases


def _shapes() -> dict[str, Case]:
    whole = [Tensor(dtype="int32")]
    cases = {
        "RESHAPE": Case("RESHAPE", [(2, 3, 4), _ints(4, -1)]),
        "RESHAPE by option": Case("RESHAPE", [(2, 3, 4)], "ReshapeOptions", {"NewShape": [6, 4]}),
        "TRANSPOSE": Case("TRANSPOSE", [(2, 3, 4), _ints(2, 0, 1)]),
        "EXPAND_DIMS": Case("EXPAND_DIMS", [(2, 3), _one(-2)]),
        "SQUEEZE": Case("SQUEEZE", [(1, 3, 1, 2)]),
        "SQUEEZE one": Case("SQUEEZE", [(1, 3, 1, 2)], "SqueezeOptions", {"SqueezeDims": [-2]}),
        "CONCATENATION": Case("CONCATENATION", [(2, 3), (2, 1)], "ConcatenationOptions", {"Axis": -1}),
        "PACK": Case("PACK", [(2, 3), (2, 3)], "PackOptions", {"ValuesCount": 2, "Axis": 1}),
        "UNPACK": Case("UNPACK", [(2, 3)], "UnpackOptions", {"Num": 3, "Axis": 1}, [Tensor()] * 3),
        "TILE": Case("TILE", [(2, 3), _ints(2, 3)]),
        "BROADCAST_TO": Case("BROADCAST_TO", [(3, 1), _ints(2, 3, 4)]),
        "FILL": Case("FILL", [_ints(2, 3), np.array(1.5, np.float32)]),
        "SHAPE": Case("SHAPE", [(2, 3, 4)], "ShapeOptions", {"OutType": tflite.TensorType.INT32}, whole),
        "RANK": Case("RANK", [(2, 3, 4)], results=whole),
        "ZEROS_LIKE": Case("ZEROS_LIKE", [(2, 3)]),
        "DEPTH_TO_SPACE": Case("DEPTH_TO_SPACE", [(2, 3, 2, 12)], "DepthToSpaceOptions", {"BlockSize": 2}),
        "SPACE_TO_DEPTH": Case("SPACE_TO_DEPTH", [(2, 6, 4, 3)], "SpaceToDepthOptions", {"BlockSize": 2}),
        "SPACE_TO_BATCH_ND": Case("SPACE_TO_BATCH_ND", [(2, 5, 6, 3), _ints(2, 3), _ints([1, 0], [0, 0])]),
        "BATCH_TO_SPACE_ND": Case("BATCH_TO_SPACE_ND", [(12, 3, 2, 3), _ints(2, 3), _ints([1, 0], [0, 2])]),
        "SLICE": Case("SLICE", [(4, 5), _ints(1, 2), _ints(2, -1)]),
        "SPLIT": Case("SPLIT", [_one(1), (2, 6)], "SplitOptions", {"NumSplits": 3}, [Tensor()] * 3),
        "SPLIT_V": Case(
            "SPLIT_V", [(2, 6), _ints(1, -1, 2), _one(-1)], "SplitVOptions", {"NumSplits": 3}, [Tensor()] * 3
        ),
        "GATHER": Case("GATHER", [(4, 5), _ints(3, 0, 3)], "GatherOptions", {"Axis": 0}),
        "GATHER columns": Case("GATHER", [(4, 5), _ints([1, 4], [0, 0])], "GatherOptions", {"Axis": -1}),
        "EMBEDDING_LOOKUP": Case("EMBEDDING_LOOKUP", [np.array([2, 0], np.int32), _grid(4, 3)]),
        "PAD": Case("PAD", [(2, 3), _ints([1, 0], [2, 1])]),
        "PADV2": Case("PADV2", [(2, 3), _ints([1, 0], [2, 1]), constant(np.float32(-1.5))]),
        "MIRROR_PAD": Case("MIRROR_PAD", [(3, 4), _ints([2, 0], [3, 1])], "MirrorPadOptions", {"Mode": 0}),
        "MIRROR_PAD whole": Case("MIRROR_PAD", [(3, 4), _ints([3, 0], [2, 4])], "MirrorPadOptions", {"Mode": 1}),
        "REVERSE_V2": Case("REVERSE_V2", [(2, 3, 4), _ints(2)]),
    }
    index = {
        "slice": ((1, 0, -1), (4, 5, -4), (2, 1, -1), {}),
        "begin and end": ((1, 1, 1), (2, 2, 2), (1, 2, 1), {"BeginMask": 1, "EndMask": 6}),
        "shrink": ((-1, 1, 0), (0, 3, 1), (1, 1, 1), {"ShrinkAxisMask": 5}),
        "shrink and begin": ((2, 1, 0), (3, 3, 1), (1, 1, 1), {"ShrinkAxisMask": 1, "BeginMask": 1}),
        "new axis": ((0, 1, 0), (0, 3, 2), (1, 1, 1), {"NewAxisMask": 1}),
        "ellipsis": ((0, 0, 1), (0, 0, 3), (1, 1, 1), {"EllipsisMask": 2, "ShrinkAxisMask": 1}),
    }
    for name, (begin, end, strides, masks) in index.items():
        operands = [(4, 5, 6), _ints(*begin), _ints(*end), _ints(*strides)]
        cases[f"STRIDED_SLICE {name}"] = Case("STRIDED_SLICE", operands, "StridedSliceOptions", masks)
    for name, (start, limit, step) in {"tenths": (0, 0.3, 0.1), "back": (1, -1, -0.3), "many": (0, 50, 0.1)}.items():
        ends = [constant(np.float32(value)) for value in (start, limit, step)]
        cases[f"RANGE {name}"] = Case("RANGE", ends)
    cases["RANGE int32"] = Case("RANGE", [_one(9), _one(2), _one(-3)], results=whole)
    for size in ((7, 9), (3, 2), (1, 4)):
        for align, half in ((False, False), (True, False), (False, True)):
            values = {"AlignCorners": align, "HalfPixelCenters": half}
            for type, options in (
                ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
            ):
                name = f"{type} {size} {'align' * align}{'half' * half}"
                cases[name] = Case(type, [(2, 4, 5, 3), _ints(*size)], options, values)
    # positions that single precision rounds to the next pixel
    for old, new, align, half in ((62, 56, False, False), (64, 61, False, True), (64, 61, True, False)):
        cases[f"RESIZE_NEAREST_NEIGHBOR {old} to {new} {align}"] = Case(
            "RESIZE_NEAREST_NEIGHBOR",
            [(1, old, 1, 1), _ints(new, 1)],
            "ResizeNearestNeighborOptions",
            {"AlignCorners": align, "HalfPixelCenters": half},
        )
    return cases


def _sums() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for type in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        cases[type] = Case(type, [(2, 3, 4), _ints(0, -1)], "ReducerOptions", {"KeepDims": False})
        cases[f"{type} keep"] = Case(type, [(2, 3, 4), _ints(1)], "ReducerOptions", {"KeepDims": True})
    bools = np.array([[True, False], [True, True]])
    for type in ("REDUCE_ANY", "REDUCE_ALL"):
        cases[type] = Case(type, [bools, _ints(0)], "ReducerOptions", {}, [Tensor(dtype="bool")])
    ties = np.array([[1, 3, 3], [2, 0, 2]], np.float32)
    for type, options in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
        cases[type] = Case(
            type, [ties, _one(-1)], options, {"OutputType": tflite.TensorType.INT32}, [Tensor(dtype="int32")]
        )
    cases["TOPK_V2"] = Case("TOPK_V2", [ties, _one(2)], results=[Tensor(), Tensor(dtype="int32")])
    cases["CUMSUM"] = Case("CUMSUM", [(3, 4), _one(1)], "CumsumOptions", {"Exclusive": True, "Reverse": True})
    full = "FullyConnectedOptions"
    cases["FULLY_CONNECTED"] = Case("FULLY_CONNECTED", [(2, 3, 4), _grid(5, 4), _grid(5)], full)
    cases["FULLY_CONNECTED rows"] = Case("FULLY_CONNECTED", [(2, 3, 4), _grid(5, 12), None], full)
    cases["FULLY_CONNECTED axes"] = Case(
        "FULLY_CONNECTED", [(2, 3, 4), _grid(5, 4), _grid(5)], full, {"KeepNumDims": True, "FusedActivationFunction": 1}
    )
    cases["BATCH_MATMUL"] = Case("BATCH_MATMUL", [(2, 3, 4), (2, 5, 4)], "BatchMatMulOptions", {"AdjY": True})
    cases["BATCH_MATMUL x"] = Case("BATCH_MATMUL", [(2, 4, 3), (2, 4, 5)], "BatchMatMulOptions", {"AdjX": True})
    return cases


def _quantized() -> dict[str, Case]:
    int8 = np.arange(-12, 12, dtype=np.int8).reshape(2, 3, 4)
    one = {"scale": (0.125,), "zero_point": (3,)}
    several = {"scale": (0.5, 0.25, 2.0), "zero_point": (0, 0, 0), "axis": 1}
    halves = np.array([-2.5, -1.5, -0.5, -0.49999997, 0.49999997, 0.5, 1.5, 2.5, 100, -100], np.float32)
    rows = Tensor(
        (3, 4), data=np.arange(1, 5, dtype=np.float32), sparsity=((0, 1), (), (3, ([0, 2, 2, 4], [0, 3, 1, 2])))
    )
    blocks = Tensor(
        (4, 4), data=np.arange(1, 13, dtype=np.float32),
        sparsity=((0, 1, 2, 3), (0, 1), (2, ([0, 1, 3], [1, 0, 1]), 2, 2)),
    )  # fmt: skip
    cases: dict[str, Case] = {}
    rng = np.random.default_rng(SEED)

    def bytes_(*shape: int) -> Array:
        return rng.integers(-128, 128, shape).astype(np.int8)

    def bias(count: int) -> Tensor:
        return constant(rng.integers(-900, 900, count), "int32", scale=(0.001,), zero_point=(0,))

    for word in ("NONE", "RELU", "RELU6"):
        activation = {"FusedActivationFunction": getattr(tflite.ActivationFunctionType, word)}
        result = Tensor(dtype="int8", scale=(0.083,), zero_point=(-11,))
        for count in (1, 4):
            scales = tuple([0.0031, 0.0007, 0.0113, 0.0042][:count])
            own: dict[str, Any] = {"scale": scales, "zero_point": (0,) * count}
            image = Tensor((2, 7, 6, 3), "int8", scale=(0.047,), zero_point=(5,))
            options = {"StrideW": 2, "StrideH": 1, "Padding": SAME, **activation}
            cases[f"conv int8 {word} {count}"] = Case(
                "CONV_2D", [Input(image, bytes_(2, 7, 6, 3)), constant(bytes_(4, 3, 2, 3), **own), bias(4)],
                "Conv2DOptions", options, [result],
            )  # fmt: skip
            deep = Tensor((2, 7, 6, 2), "int8", scale=(0.047,), zero_point=(5,))
            cases[f"depthwise int8 {word} {count}"] = Case(
                "DEPTHWISE_CONV_2D",
                [Input(deep, bytes_(2, 7, 6, 2)), constant(bytes_(1, 3, 3, 4), axis=3, **own), bias(4)],
                "DepthwiseConv2DOptions", {**options, "StrideH": 2, "DepthMultiplier": 2}, [result],
            )  # fmt: skip
            matrix = Tensor((3, 9), "int8", scale=(0.047,), zero_point=(5,))
            cases[f"connected int8 {word} {count}"] = Case(
                "FULLY_CONNECTED", [Input(matrix, bytes_(3, 9)), constant(bytes_(4, 9), **own), bias(4)],
                "FullyConnectedOptions", activation, [result],
            )  # fmt: skip
    # enough elements that a second rounding would change some of them
    many = tuple(rng.uniform(1e-4, 0.02, 16).tolist())
    for type, options, form in (
        ("FULLY_CONNECTED", "FullyConnectedOptions", ()), ("CONV_2D", "Conv2DOptions", (1, 1)),
    ):  # fmt: skip
        tensor = Tensor((64, *form, 1), "int8", scale=(0.113,), zero_point=(-7,))
        cases[f"{type} int8 many"] = Case(
            type,
            [Input(tensor, bytes_(64, *form, 1)),
             constant(bytes_(16, *form, 1), scale=many, zero_point=(0,) * 16), bias(16)],
            options, {"StrideW": 1, "StrideH": 1} if form else {},
            [Tensor(dtype="int8", scale=(0.0217,), zero_point=(9,))],
        )  # fmt: skip
    for word in ("NONE", "RELU6"):
        left = Tensor((64, 1, 16), "int8", scale=(0.047,), zero_point=(5,))
        right = Tensor((8, 16), "int8", scale=(0.0213,), zero_point=(-100,))
        cases[f"ADD int8 {word}"] = Case(
            "ADD", [Input(left, bytes_(64, 1, 16)), Input(right, bytes_(8, 16))], "AddOptions",
            {"FusedActivationFunction": getattr(tflite.ActivationFunctionType, word)},
            [Tensor(dtype="int8", scale=(0.061,), zero_point=(-3,))],
        )  # fmt: skip
    same: dict[str, Any] = {"scale": (0.047,), "zero_point": (5,)}
    image = Tensor((2, 7, 6, 3), "int8", **same)
    pool = {"StrideW": 2, "StrideH": 2, "FilterWidth": 3, "FilterHeight": 3, "Padding": SAME}
    whole = Tensor(dtype="int8", **same)
    cases["MAX_POOL_2D int8"] = Case("MAX_POOL_2D", [Input(image, bytes_(2, 7, 6, 3))], "Pool2DOptions", pool, [whole])
    for name, padding in (("same", SAME), ("valid", VALID)):
        cases[f"AVERAGE_POOL_2D int8 {name}"] = Case(
            "AVERAGE_POOL_2D",
            [Input(image, bytes_(2, 7, 6, 3))],
            "Pool2DOptions",
            {**pool, "Padding": padding},
            [whole],
        )
    for type in ("PAD", "TRANSPOSE", "RESHAPE"):
        operand = {
            "PAD": _ints([0, 0], [1, 2], [0, 1], [0, 0]),
            "TRANSPOSE": _ints(0, 3, 1, 2),
            "RESHAPE": _ints(6, -1),
        }
        cases[f"{type} int8"] = Case(type, [Input(image, bytes_(2, 7, 6, 3)), operand[type]], results=[whole])
    return {
        **cases,
        "DENSIFY": Case("DENSIFY", [rows]),
        "DENSIFY blocks": Case("DENSIFY", [blocks]),
        "DEQUANTIZE": Case("DEQUANTIZE", [constant(int8, **one)]),
        "DEQUANTIZE channels": Case("DEQUANTIZE", [constant(int8, **several)]),
        "QUANTIZE": Case(
            "QUANTIZE", [halves], "QuantizeOptions", {}, [Tensor(dtype="int8", scale=(1.0,), zero_point=(3,))]
        ),
        "QUANTIZE uint8": Case(
            "QUANTIZE", [halves], "QuantizeOptions", {}, [Tensor(dtype="uint8", scale=(0.1,), zero_point=(128,))]
        ),
    }


def _bytes() -> dict[str, Case]:
    """Functions, products and means of 8-bit integers, signed and unsigned; slices by index rows; one-hot rows."""
    rng = np.random.default_rng(SEED + 2)
    cases: dict[str, Case] = {}
    for dtype, shift in (("int8", 0), ("uint8", 128)):
        info = np.iinfo(dtype)

        def one(shape: Sequence[int], scale: float, zero: int, dtype: str = dtype, shift: int = shift) -> Tensor:
            return Tensor(shape, dtype, scale=(scale,), zero_point=(zero + shift,))

        def drawn(*shape: int, dtype: str = dtype, info: Any = info) -> Array:
            return rng.integers(info.min, info.max + 1, shape).astype(dtype)

        every = Input(one((16, 16), 0.05, 3), np.arange(info.min, info.max + 1).astype(dtype).reshape(16, 16))
        functions = {
            "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "RELU": (0.07, -50), "RELU6": (0.03, -128),
            "RELU_N1_TO_1": (0.011, 4),
        }  # fmt: skip
        for type, (scale, zero) in functions.items():
            cases[f"{type} {dtype}"] = Case(type, [every], results=[one((), scale, zero)])
        for step in (0.004, 0.05, 0.12, 0.4):
            operand = Input(one((16, 16), step, 3), every.array)
            cases[f"HARD_SWISH {dtype} {step}"] = Case("HARD_SWISH", [operand], results=[one((), 0.6 * step, -100)])
        leaky = {"Alpha": 0.2}
        cases[f"LEAKY_RELU {dtype}"] = Case("LEAKY_RELU", [every], "LeakyReluOptions", leaky, [one((), 0.07, -3)])
        rows = Input(one((300, 10), 0.1, 5), drawn(300, 10))
        cases[f"SOFTMAX {dtype}"] = Case("SOFTMAX", [rows], "SoftmaxOptions", {"Beta": 1.0}, [one((), 1 / 256, -128)])
        for word in ("NONE", "RELU6"):
            pair = [Input(one((64, 1, 16), 0.047, 5), drawn(64, 1, 16)), Input(one((8, 16), 0.0213, -9), drawn(8, 16))]
            activation = {"FusedActivationFunction": getattr(tflite.ActivationFunctionType, word)}
            cases[f"MUL {dtype} {word}"] = Case("MUL", pair, "MulOptions", activation, [one((), 0.061, -3)])
        image = Input(one((4, 7, 6, 5), 0.047, 5), drawn(4, 7, 6, 5))
        for axes, keep in (((1, 2), True), ((3,), False)):
            for scale, zero in ((0.047, 5), (0.031, -3)):
                cases[f"MEAN {dtype} {axes} {scale}"] = Case(
                    "MEAN", [image, _ints(*axes)], "ReducerOptions", {"KeepDims": keep}, [one((), scale, zero)]
                )
        cases[f"GATHER_ND {dtype}"] = Case("GATHER_ND", [image, _ints([3, 0], [0, 6])], results=[one((), 0.047, 5)])
    # uint8 weights also have a zero point
    unsigned: dict[str, Any] = {"scale": (0.0213,), "zero_point": (117,)}
    own = {"scale": (0.047 * 0.0213,), "zero_point": (0,)}

    def small(*shape: int) -> Array:
        return rng.integers(0, 256, shape).astype(np.uint8)

    image, stride = Input(Tensor((8, 7, 6, 4), "uint8", scale=(0.047,), zero_point=(130,)), small(8, 7, 6, 4)), {
        "StrideW": 2, "StrideH": 1, "Padding": SAME,
    }  # fmt: skip
    whole = [Tensor(dtype="uint8", scale=(0.0931,), zero_point=(122,))]
    bias = constant(rng.integers(-2000, 2000, 8).astype(np.int32), **own)
    cases["CONV_2D uint8"] = Case(
        "CONV_2D", [image, constant(small(8, 3, 2, 4), **unsigned), bias], "Conv2DOptions", stride, whole
    )
    cases["DEPTHWISE_CONV_2D uint8"] = Case(
        "DEPTHWISE_CONV_2D", [image, constant(small(1, 3, 3, 8), **unsigned), bias], "DepthwiseConv2DOptions",
        {**stride, "StrideH": 2, "DepthMultiplier": 2}, whole,
    )  # fmt: skip
    rows = Input(Tensor((64, 9), "uint8", scale=(0.047,), zero_point=(130,)), small(64, 9))
    cases["FULLY_CONNECTED uint8"] = Case(
        "FULLY_CONNECTED", [rows, constant(small(8, 9), **unsigned), bias], "FullyConnectedOptions", {}, whole
    )
    cases["ADD uint8"] = Case(
        "ADD", [rows, Input(Tensor((9,), "uint8", **unsigned), small(9))], "AddOptions", {}, whole
    )
    same = [Tensor(dtype="uint8", scale=(0.047,), zero_point=(130,))]
    window = {**stride, "FilterWidth": 2, "FilterHeight": 3}
    cases["AVERAGE_POOL_2D uint8"] = Case("AVERAGE_POOL_2D", [image], "Pool2DOptions", window, same)
    indices = np.array([[0, 2], [3, -1], [5, 1]], np.int32)
    for axis in (-1, 0, 1):
        operands = [indices, _one(4), constant(np.float32(2.5)), constant(np.float32(-1))]
        cases[f"ONE_HOT {axis}"] = Case("ONE_HOT", operands, "OneHotOptions", {"Axis": axis})
    cases["GATHER_ND"] = Case("GATHER_ND", [(3, 4, 5), _ints([[0, 1], [2, 3]], [[1, 1], [0, 0]])])
    return cases


CASES: dict[str, Case] = {**_windows(), **_elementwise(), **_shapes(), **_sums(), **_quantized(), **_bytes()}
"""name → case"""
