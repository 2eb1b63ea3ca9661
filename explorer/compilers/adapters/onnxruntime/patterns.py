"""Reasons why onnxruntime does not fuse, read from the graph by Explorer.

onnxruntime's log names few reasons. Each function here checks the requirements of one pattern, in the order in which
onnxruntime's sources check them, for every place where a user would expect the fusion. It yields the first requirement
that fails. The adapter leaves out the places that were fused after all, so a wrong reading cannot contradict the graph.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from explorer.compilers.adapters.onnxruntime.model_graph import INNER, Graph, Node

_WIDER = (1, 21)
"""first version of onnxruntime that reshapes operands for a Gemm, and that fuses ONNX's Gelu"""
_FLOATS = ("float32", "float16", "bfloat16")
_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
"""activations that a FusedConv computes"""
_OTHER_ACTIVATIONS = ("Elu", "Selu", "Celu", "PRelu", "HardSwish", "Mish", "Gelu", "Softplus", "Softsign", "Swish")
_NORMALIZED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""operators that take in a batch normalization"""
_INTEGER = (
    "Add", "ArgMax", "AveragePool", "Clip", "Concat", "Conv", "ConvTranspose", "Flatten", "Gather", "Gemm",
    "GlobalAveragePool", "LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "Relu", "Reshape", "Resize", "Sigmoid",
    "Slice", "Softmax", "Split", "Squeeze", "Transpose", "Unsqueeze", "Where",
)  # fmt: skip
"""operators that are replaced by versions for integers"""
_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
_BLOCKED = ("Conv", "FusedConv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "Add", "Sum", "Relu")
"""operators whose results may be stored in blocks of channels"""
_FIXED_ORDER = ("MatMul", "FusedMatMul", "Gemm", "Reshape", "Flatten", "Conv", "Attention", "LSTM", "GRU", "Einsum")
"""operators through which a transpose is not moved"""
_PATH = 6
"""maximum number of operations between the operand of a normalization and its square root that belong to the pattern"""


class Refusal(NamedTuple):
    """Requirement of a pattern that a place in the graph does not meet.

    ``subjects`` are values: an operation, its reader that would be fused with it, and other operations of the pattern.
    ``anchor`` is a node that the
    fusion would remove. ``reason`` is a template over ``facts``, or "" if Explorer finds no requirement that fails.
    """

    anchor: Node
    subjects: tuple[str, ...]
    reason: str
    facts: Mapping[str, Any]


def _several_readers(graph: Graph, name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the reason why a value must be computed on its own, if it has other readers."""
    if name in graph.outputs:
        return "`{value}` is a result of the program, so it must be computed.", {"value": name}
    count = len(graph.read_by(name))
    if count != 1:
        return "`{value}` has {count} readers, and is fused only if it has one.", {"value": name, "count": count}
    return None


def _size(shape: Sequence[int] | None) -> str:
    return "unknown" if shape is None else "×".join(map(str, shape)) or "scalar"


def _reader(graph: Graph, name: str, *types: str) -> Node | None:
    return next((node for node in graph.read_by(name) if node.type in types), None)


def _made_by(graph: Graph, name: str, *types: str) -> Node | None:
    """Return the node of one of these types that computes a value."""
    node = graph.producer.get(name)
    return node if node is not None and node.type in types else None


def _other(node: Node, name: str) -> str:
    """Return the other operand of a node with two operands."""
    return node.operand(1) if node.operand(0) == name else node.operand(0)


def product_and_bias(graph: Graph) -> Iterator[Refusal]:
    """MatMulAddFusion: a product and the addition of a bias become a Gemm."""
    for node in graph.nodes:
        add = _reader(graph, node.result, "Add") if node.type == "MatMul" else None
        if add is not None and len(add.inputs) == 2:
            reason, facts = _product_and_bias(graph, node, add)
            yield Refusal(node, (node.result, add.result), reason, facts)


def _product_and_bias(graph: Graph, node: Node, add: Node) -> tuple[str, dict[str, Any]]:
    product, left, right = node.result, node.operand(0), node.operand(1)
    if alone := _several_readers(graph, product):
        return alone
    if graph.dtype(left) not in _FLOATS:
        facts = {"dtype": graph.dtype(left) or "unknown"}
        return "The operands are {dtype}, and a Gemm computes float32, float16 or bfloat16.", facts
    a, b, c = graph.shape(left), graph.shape(right), graph.shape(_other(add, product))
    if b is None or len(b) != 2:
        return "The second operand is {shape}, and a Gemm multiplies by a matrix.", {"shape": _size(b)}
    if a is None:
        return "The shape of `{operand}` is not fixed, and a Gemm needs it as a matrix.", {"operand": left}
    if len(a) != 2:
        if graph.version < _WIDER:
            return "The first operand is {shape}, and this version makes a Gemm only of matrices.", {"shape": _size(a)}
        norm = _made_by(graph, left, "LayerNormalization")
        if norm is not None and sorted(each.type for each in graph.read_by(left)) == ["Add", *["MatMul"] * 3]:
            return "Three products read `{operand}`, which is left to AttentionFusion.", {"operand": left}
    accepted = [(b[1],), *([(1, b[1]), (a[0], 1), (a[0], b[1])] if len(a) == 2 else ())]
    if c not in accepted:
        facts = {"shape": _size(c), "bias": _size(accepted[0])}
        return "The addend has the shape {shape}, and the bias of this Gemm has the shape {bias}.", facts
    return "", {}


def sum_and_layer_norm(graph: Graph) -> Iterator[Refusal]:
    """SkipLayerNormFusion: a residual sum and a layer normalization become one operator."""
    for node in graph.nodes:
        add = _made_by(graph, node.operand(0), "Add") if node.type == "LayerNormalization" else None
        if add is not None:
            reason, facts = _sum_and_layer_norm(graph, add)
            yield Refusal(node, (add.result, node.result), reason, facts)


def _sum_and_layer_norm(graph: Graph, add: Node) -> tuple[str, dict[str, Any]]:
    if alone := _several_readers(graph, add.result):
        return alone
    if graph.dtype(add.result) not in _FLOATS:
        facts = {"dtype": graph.dtype(add.result) or "unknown"}
        return "The operands are {dtype}, and SkipLayerNormalization computes floats of at most 32 bits.", facts
    shapes = [graph.shape(name) for name in add.inputs]
    if any(shape is None or len(shape) != 3 for shape in shapes) or shapes[0] != shapes[1]:
        facts = {"first": _size(shapes[0]), "second": _size(shapes[1])}
        return "The addends are {first} and {second}, and must have three equal dimensions.", facts
    return "", {}


def layer_norm(graph: Graph) -> Iterator[Refusal]:
    """LayerNormFusion: the operations of a layer normalization become one operator."""
    for node in graph.nodes:
        centred = _made_by(graph, node.operand(0), "Sub") if node.type == "Div" else None
        if centred is None or _made_by(graph, centred.operand(1), "ReduceMean") is None:
            continue
        root = _made_by(graph, node.operand(1), "Sqrt", "Add")
        if root is None:
            continue
        subjects = (root.result, node.result, *_between(graph, centred.result, root), centred.result)
        if root.type == "Sqrt":
            reason, facts = _normalization(graph, node, root, centred.result, has_bias=True)
            yield Refusal(node, subjects, reason, facts)
        elif any(_made_by(graph, name, "Sqrt") for name in root.inputs):
            reason = "`{add}` adds the epsilon to the root, and the pattern adds it before the root."
            yield Refusal(node, subjects, reason, {"add": root.result})


def simplified_layer_norm(graph: Graph) -> Iterator[Refusal]:
    """SimplifiedLayerNormFusion: the operations of an RMS normalization become one operator."""
    for node in graph.nodes:
        root = _made_by(graph, node.operand(1), "Sqrt") if node.type == "Div" else None
        if root is not None and _made_by(graph, node.operand(0), "Sub") is None:
            mean = _made_by(graph, root.operand(0), "Add")
            if mean is not None and any(_made_by(graph, name, "ReduceMean") for name in mean.inputs):
                reason, facts = _normalization(graph, node, root, node.operand(0), has_bias=False)
                subjects = (root.result, node.result, *_between(graph, node.operand(0), root))
                yield Refusal(node, subjects, reason, facts)


def _between(graph: Graph, operand: str, root: Node) -> list[str]:
    """Return the values on the path from ``operand`` to a node that is computed from it, the last one first."""
    found: list[str] = []
    node: Node | None = root
    while node is not None and len(found) < _PATH:
        node = next((each for name in node.inputs if name != operand and (each := graph.producer.get(name))), None)
        found += [] if node is None else [node.result]
    return found


def _normalization(graph: Graph, div: Node, root: Node, operand: str, *, has_bias: bool) -> tuple[str, dict[str, Any]]:
    """Check the mean of the squares of ``operand`` below a square root, and the scale and bias after the division."""
    add = _made_by(graph, root.operand(0), "Add")
    if add is None:
        return "`{root}` reads no Add of an epsilon.", {"root": root.result}
    mean = next((each for name in add.inputs if (each := _made_by(graph, name, "ReduceMean"))), None)
    if mean is None:
        return "`{root}` is of no mean that a ReduceMean computes.", {"root": root.result}
    square = _made_by(graph, mean.operand(0), "Pow")
    if square is None:
        return "The square is computed by `{square}`, and the pattern contains Pow.", {"square": mean.operand(0)}
    if square.operand(0) != operand:
        return "The mean is of another value than the one that is divided.", {}
    for name in (root.result, add.result, mean.result, square.result, div.result):
        if alone := _several_readers(graph, name):
            return alone
    [scale] = graph.read_by(div.result)
    if scale.type != "Mul":
        return "`{reader}` follows, and the pattern contains a Mul by a scale.", {"reader": scale.result}
    factor = graph.shape(_other(scale, div.result))
    if factor is None or len(factor) != 1 or _other(scale, div.result) not in graph.weights:
        return "The scale is {shape}, and must be a constant with one dimension.", {"shape": _size(factor)}
    if has_bias and _reader(graph, scale.result, "Add") is None:
        return "No Add of a bias follows the scale.", {}
    return "", {}


def gelu(graph: Graph) -> Iterator[Refusal]:
    """GeluFusion: 0.5 · x · (1 + erf(x / √2)) becomes one operator."""
    for node in graph.nodes:
        scaled = _made_by(graph, node.operand(0), "Div", "Mul") if node.type == "Erf" else None
        if scaled is not None:
            reason, facts = _gelu(graph, node, scaled)
            subjects, after = [scaled.result, node.result], node
            for type_ in ("Add", "Mul", "Mul"):
                readers = [each for each in graph.read_by(after.result) if each.type == type_]
                if len(readers) != 1:
                    break
                [after] = readers
                subjects.append(after.result)
            yield Refusal(node, tuple(subjects), reason, facts)


def _gelu(graph: Graph, erf: Node, scaled: Node) -> tuple[str, dict[str, Any]]:
    numbers = [number for name in scaled.inputs if (number := graph.number(name)) is not None]
    expected = math.sqrt(2) if scaled.type == "Div" else 1 / math.sqrt(2)
    if not numbers or abs(numbers[-1] - expected) > 1e-3 * expected:
        facts = {"number": numbers[-1] if numbers else "a variable", "expected": round(expected, 4)}
        return "The operand of erf is scaled by {number}, and the pattern contains {expected}.", facts
    for name in (scaled.result, erf.result):
        if alone := _several_readers(graph, name):
            return alone
    [plus] = graph.read_by(erf.result)
    if plus.type != "Add" or graph.number(_other(plus, erf.result)) != 1:
        return "`{reader}` reads erf, and the pattern adds 1.", {"reader": plus.result}
    if alone := _several_readers(graph, plus.result):
        return alone
    if _reader(graph, plus.result, "Mul") is None:
        return "No Mul by x and 0.5 follows.", {}
    return "", {}


def bias_and_gelu(graph: Graph) -> Iterator[Refusal]:
    """BiasGeluFusion: the addition of a bias and a GELU become one operator."""
    for node in graph.nodes:
        before = graph.producer.get(node.operand(0)) if node.type in ("Gelu", "FastGelu") else None
        if before is not None:
            reason, facts = _bias_and_gelu(graph, node, before)
            yield Refusal(node, (before.result, node.result), reason, facts)


def _bias_and_gelu(graph: Graph, node: Node, before: Node) -> tuple[str, dict[str, Any]]:
    if before.type != "Add":
        gemm = _made_by(graph, before.operand(0), "Gemm") if before.type == "Reshape" else before
        if gemm is not None and gemm.type == "Gemm":
            facts = {"gemm": gemm.result, "gelu": node.result}
            return "`{gemm}` already adds the bias, so `{gelu}` reads no Add.", facts
        facts = {"gelu": node.result, "operand": before.result}
        return "`{gelu}` reads `{operand}`, and the pattern begins with an Add.", facts
    if node.domain in ("", "ai.onnx") and graph.version < _WIDER:
        return "`{gelu}` is ONNX's operator, and this version fuses only its own.", {"gelu": node.result}
    if alone := _several_readers(graph, before.result):
        return alone
    shapes = [graph.shape(name) for name in before.inputs]
    ranks = [len(shape) for shape in shapes if shape is not None]
    if 1 not in ranks:
        facts = {"first": _size(shapes[0]), "second": _size(shapes[1])}
        return "The addends are {first} and {second}, and a bias has one dimension.", facts
    if len({shape[-1] for shape in shapes if shape}) != 1:
        facts = {"first": _size(shapes[0]), "second": _size(shapes[1])}
        return "The addends are {first} and {second}, and their last lengths must be equal.", facts
    return "", {}


def batch_norm(graph: Graph) -> Iterator[Refusal]:
    """ConvBNFusion: a batch normalization is computed by the weights of the convolution before it."""
    for node in graph.nodes:
        before = graph.producer.get(node.operand(0)) if node.type == "BatchNormalization" else None
        if before is not None:
            reason, facts = _batch_norm(graph, node, before)
            yield Refusal(node, (before.result, node.result), reason, facts)


def _batch_norm(graph: Graph, node: Node, before: Node) -> tuple[str, dict[str, Any]]:
    if before.type not in _NORMALIZED:
        facts = {"operand": before.result}
        return (
            "It follows `{operand}`, and only weights of a Conv, ConvTranspose, Gemm or MatMul can include it.",
            facts,
        )
    if alone := _several_readers(graph, before.result):
        return alone
    variable = [name for name in (*before.inputs[1:], *node.inputs[1:]) if name and name not in graph.weights]
    if variable:
        return "`{weight}` is no constant, so no new weights can be computed.", {"weight": variable[0]}
    if len([name for name in node.outputs if name]) > 1:
        return "The normalization also returns statistics.", {}
    if node.result in graph.outputs:
        return "`{norm}` is a result of the program, whose name must stay.", {"norm": node.result}
    return "", {}


def convolution_and_activation(graph: Graph) -> Iterator[Refusal]:
    """ConvActivationFusion: a convolution and an activation become a FusedConv."""
    for node in graph.nodes:
        activation = (
            _reader(graph, node.result, *_ACTIVATIONS, *_OTHER_ACTIVATIONS) if node.operation == "Conv" else None
        )
        if activation is not None:
            reason, facts = _activation(graph, node, activation)
            yield Refusal(node, (node.result, activation.result), reason, facts)


def convolution_and_addend(graph: Graph) -> Iterator[Refusal]:
    """ConvAddActivationFusion: a convolution and an addend become a FusedConv."""
    yield from _addends(graph, is_blocked=False)


def blocked_convolution_and_addend(graph: Graph) -> Iterator[Refusal]:
    """NchwcTransformer: a convolution in a blocked memory format also computes an addend."""
    yield from _addends(graph, is_blocked=True)


def _addends(graph: Graph, *, is_blocked: bool) -> Iterator[Refusal]:
    for node in graph.nodes:
        add = _reader(graph, node.result, "Add") if node.operation == "Conv" else None
        if add is not None:
            reason, facts = _addend(graph, node, add, is_blocked=is_blocked)
            yield Refusal(add, (node.result, add.result), reason, facts)


def _activation(graph: Graph, conv: Node, activation: Node) -> tuple[str, dict[str, Any]]:
    if alone := _several_readers(graph, conv.result):
        return alone
    if activation.type not in _ACTIVATIONS:
        facts = {"activation": activation.result, "known": ", ".join(_ACTIVATIONS)}
        return "`{activation}` is none of the activations of a FusedConv: {known}.", facts
    variable = [name for name in activation.inputs[1:] if name and name not in graph.weights]
    if variable:
        return "The bound `{bound}` is no constant.", {"bound": variable[0]}
    if graph.dtype(conv.operand(0)) not in ("float32", ""):
        return "The operands are {dtype}, and a FusedConv computes float32.", {"dtype": graph.dtype(conv.operand(0))}
    return "", {}


def _addend(graph: Graph, conv: Node, add: Node, *, is_blocked: bool) -> tuple[str, dict[str, Any]]:
    if alone := _several_readers(graph, conv.result):
        return alone
    shape, other = graph.shape(conv.result), graph.shape(_other(add, conv.result))
    if shape is None or len(shape) != 4 or shape != other:
        facts = {"shape": _size(shape), "other": _size(other)}
        return "The addends are {shape} and {other}, and must have four equal dimensions.", facts
    if is_blocked:
        if _made_by(graph, _other(add, conv.result), *_BLOCKED) is None:
            facts = {"other": _other(add, conv.result)}
            return "`{other}` is not in the blocked memory format in which a convolution adds.", facts
    elif len([name for name in conv.inputs if name]) < 3:
        return "`{conv}` has no bias, which the operand of a FusedConv requires.", {"conv": conv.result}
    return "", {}


def quantized(graph: Graph) -> Iterator[Refusal]:
    """QDQSelectorActionTransformer: an operator between DequantizeLinear and QuantizeLinear computes integers."""
    for node in graph.nodes:
        if node.type in ("QuantizeLinear", "DequantizeLinear") or not node.results:
            continue
        own = [_made_by(graph, name, "DequantizeLinear") for name in node.inputs if name]
        read = [each for each in own if each is not None]
        if read:
            reason, facts = _quantized(graph, node)
            yield Refusal(node, (read[0].result, node.results[0]), reason, facts)


def _quantized(graph: Graph, node: Node) -> tuple[str, dict[str, Any]]:
    if node.type not in _INTEGER:
        return "`{node}` has no version for integers.", {"node": node.results[0]}
    floats = [
        name
        for name in node.inputs
        if name and graph.dtype(name) in (*_FLOATS, "") and not _made_by(graph, name, "DequantizeLinear")
    ]
    if floats:
        return "The operand `{operand}` comes from no DequantizeLinear.", {"operand": floats[0]}
    for name in node.results:
        if name in graph.outputs:
            return "`{value}` is a result of the program, and no QuantizeLinear follows.", {"value": name}
        others = [each for each in graph.read_by(name) if each.type != "QuantizeLinear"]
        if others and not (len(others) == 1 and others[0].type in ("Relu", "Clip")):
            return "`{reader}` reads the result, and the pattern contains QuantizeLinear.", {
                "reader": others[0].results[0]
            }
    return "", {}


def constants(graph: Graph) -> Iterator[Refusal]:
    """ConstantFolding: an operation on constants is computed once, before the run."""
    for node in graph.nodes:
        if not node.results or any(name and name not in graph.weights for name in node.inputs):
            continue
        if node.type == "DequantizeLinear":
            continue  # always kept for operators on integers
        facts: dict[str, Any] = {"node": node.results[0]}
        reason = ""
        if node.type in _RANDOM:
            reason = "`{node}` is random, and must be computed in each run."
        elif any(text.startswith(INNER) for text in node.attributes.values()):
            reason = "`{node}` contains inner graphs, which are not folded."
        elif any(name in graph.outputs for name in node.results):
            reason = "`{node}` is a result of the program."
        yield Refusal(node, (node.results[0],), reason, facts)


def transposes(graph: Graph) -> Iterator[Refusal]:
    """TransposeOptimizer: transposes are moved until they cancel each other."""
    for node in graph.nodes:
        if node.type != "Transpose":
            continue
        if node.result in graph.outputs:
            yield Refusal(node, (node.result,), "Its result is a result of the program, in this order of axes.", {})
            continue
        reader = _reader(graph, node.result, *_FIXED_ORDER)
        if reader is not None:
            facts = {"reader": reader.results[0]}
            reason = "`{reader}` computes along fixed axes, so a transpose cannot move through it."
            yield Refusal(node, (node.result, reader.results[0]), reason, facts)


def attention(graph: Graph) -> Iterator[Refusal]:
    """AttentionFusion: the operations of a self-attention become one operator."""
    for node in graph.nodes:
        mixed = _reader(graph, node.result, "MatMul") if node.type == "Softmax" else None
        if mixed is not None and mixed.operand(0) == node.result:
            reason, facts = _attention(graph, node, mixed)
            yield Refusal(node, (node.result, mixed.result), reason, facts)


def _attention(graph: Graph, softmax: Node, mixed: Node) -> tuple[str, dict[str, Any]]:
    """Check the path of the values up to the normalization, and the path of the scores."""
    name, path = mixed.operand(1), ("Transpose", "Reshape", "Add", "MatMul")
    for expected in path:
        node = graph.producer.get(name)
        gemm = _made_by(graph, node.operand(0), "Gemm") if node is not None and node.type == "Reshape" else node
        if expected == "Add" and gemm is not None and gemm.type == "Gemm":
            return "`{gemm}` computes the values, and the pattern contains MatMul and Add.", {"gemm": gemm.result}
        if node is None or node.type != expected:
            facts = {"found": name, "expected": expected, "path": ", ".join(path)}
            return "`{found}` is in the position of {expected}: the values must come from {path}.", facts
        name = next((each for each in node.inputs if each and each not in graph.weights), node.operand(0))
    norm = graph.producer.get(name)
    if norm is None or norm.type not in ("LayerNormalization", "SkipLayerNormalization"):
        return "The values are computed from `{found}`, and not from a LayerNormalization.", {"found": name}
    types = [each.type for each in graph.read_by(name)]
    products, sums = types.count("MatMul"), types.count("Add")
    if (products, sums) != (3, 1):
        counts: dict[str, Any] = {"norm": name, "products": products, "sums": sums}
        reason = (
            "`{norm}` is read by {products} MatMul and {sums} Add; the pattern needs 3 and 1, a norm after the sum."
        )
        return reason, counts
    if _made_by(graph, softmax.operand(0), "Add") is None:
        return "No Add of a mask precedes `{softmax}`.", {"softmax": softmax.result}
    return "", {}


class Pattern(NamedTuple):
    """Pattern of a transformer."""

    transformers: re.Pattern[str]
    """names of the transformers that fuse it; the last one that runs states the refusals"""
    rule: str
    """name of the rule in a transformer with several rules, else ``""``"""
    refusals: Callable[[Graph], Iterator[Refusal]]


PATTERNS = tuple(
    Pattern(re.compile(names), rule, refusals)
    for names, rule, refusals in (
        ("Level1_RuleBasedTransformer", "ConvBNFusion", batch_norm),
        ("ConstantFolding", "", constants),
        ("MatMulAddFusion", "", product_and_bias),
        ("TransposeOptimizer", "", transposes),
        ("QDQSelectorActionTransformer", "", quantized),
        ("GeluFusion(L[12])?", "", gelu),
        ("LayerNormFusion(L[12])?", "", layer_norm),
        ("SimplifiedLayerNormFusion", "", simplified_layer_norm),
        ("AttentionFusion", "", attention),
        ("BiasGeluFusion", "", bias_and_gelu),
        ("SkipLayerNormFusion", "", sum_and_layer_norm),
        ("ConvActivationFusion", "", convolution_and_activation),
        ("NchwcTransformer", "", blocked_convolution_and_addend),
        ("ConvAddActivationFusion", "", convolution_and_addend),
    )
)
"""patterns that users ask about most"""


def remains(refusal: Refusal, after: Graph) -> bool:
    """Return whether a graph after the pass still contains the anchor of a refusal."""
    node = after.producer.get(refusal.anchor.results[0])
    return node is not None and node.operation == refusal.anchor.operation
