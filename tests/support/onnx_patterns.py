"""Small models in which a pattern of onnxruntime fails one requirement, and the same models without this failure."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from explorer.compilers.adapters.onnxruntime.model_graph import inferred


def model(nodes: list[Any], inputs: dict[str, tuple[int, ...]], outputs: list[str], **weights: Any) -> ModelProto:
    """Return a model of float32 inputs; weights are tuples (a shape of ones), numbers, or lists of integers."""
    f = TensorProto.FLOAT
    tensors = []
    for name, value in weights.items():
        array = np.ones(value, np.float32) if isinstance(value, tuple) else np.asarray(value)
        dtype = (
            np.int64 if isinstance(value, list) else np.float32 if isinstance(value, (tuple, float)) else array.dtype
        )
        tensors.append(numpy_helper.from_array(array.astype(dtype), name))
    ends = [helper.make_tensor_value_info(name, f, shape) for name, shape in inputs.items()]
    results = [helper.make_tensor_value_info(name, f, None) for name in outputs]
    proto = helper.make_graph([helper.make_node(*node) for node in nodes], "g", ends, results, tensors)
    return inferred(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))


IMAGE = {"x": (1, 3, 8, 8)}
CASES: dict[str, tuple[ModelProto, str, str]] = {
    "a product with two readers": (
        model([("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "b"], ["y"]), ("Tanh", ["p"], ["z"])],
              {"x": (2, 4)}, ["y", "z"], w=(4, 4), b=(4,)),
        "MatMulAddFusion", "p has 2 readers",
    ),
    "a product with an addend of its shape": (
        model([("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "x"], ["y"])], {"x": (1, 2, 4)}, ["y"], w=(4, 4)),
        "MatMulAddFusion", "The addend has the shape 1×2×4, and the bias of this Gemm has the shape 4",
    ),
    "a batched product": (
        model([("MatMul", ["x", "v"], ["p"]), ("Add", ["p", "b"], ["y"])],
              {"x": (2, 4, 4), "v": (2, 4, 4)}, ["y"], b=(4,)),
        "MatMulAddFusion", "The second operand is 2×4×4, and a Gemm multiplies by a matrix",
    ),
    "a sum that is returned": (
        model([("Add", ["x", "r"], ["s"]), ("LayerNormalization", ["s", "g"], ["y"])],
              {"x": (1, 2, 4), "r": (1, 2, 4)}, ["y", "s"], g=(4,)),
        "SkipLayerNormFusion", "s is a result of the program",
    ),
    "a sum of two dimensions": (
        model([("Add", ["x", "r"], ["s"]), ("LayerNormalization", ["s", "g"], ["y"])],
              {"x": (2, 4), "r": (2, 4)}, ["y"], g=(4,)),
        "SkipLayerNormFusion", "The addends are 2×4 and 2×4, and must have three equal dimensions",
    ),
    "an RMS norm with a product": (
        model([("Mul", ["x", "x"], ["q"]), ("ReduceMean", ["q"], ["m"]), ("Add", ["m", "e"], ["a"]),
               ("Sqrt", ["a"], ["r"]), ("Div", ["x", "r"], ["d"]), ("Mul", ["d", "g"], ["y"])],
              {"x": (2, 4)}, ["y"], e=1e-5, g=(4,)),
        "SimplifiedLayerNormFusion", "The square is computed by q, and the pattern contains Pow",
    ),
    "a layer norm without a bias": (
        model([("ReduceMean", ["x"], ["m"]), ("Sub", ["x", "m"], ["c"]), ("Pow", ["c", "t"], ["q"]),
               ("ReduceMean", ["q"], ["v"]), ("Add", ["v", "e"], ["a"]), ("Sqrt", ["a"], ["r"]),
               ("Div", ["c", "r"], ["d"]), ("Mul", ["d", "g"], ["y"])],
              {"x": (2, 4)}, ["y"], t=2.0, e=1e-5, g=(4,)),
        "LayerNormFusion(L[12])?", "No Add of a bias follows the scale",
    ),
    "a layer norm with the epsilon after the root": (
        model([("ReduceMean", ["x"], ["m"]), ("Sub", ["x", "m"], ["c"]), ("Pow", ["c", "t"], ["q"]),
               ("ReduceMean", ["q"], ["v"]), ("Sqrt", ["v"], ["r"]), ("Add", ["r", "e"], ["a"]),
               ("Div", ["c", "a"], ["y"])], {"x": (2, 4)}, ["y"], t=2.0, e=1e-5),
        "LayerNormFusion(L[12])?", "a adds the epsilon to the root, and the pattern adds it before the root",
    ),
    "a layer norm without a scale": (
        model([("ReduceMean", ["x"], ["m"]), ("Sub", ["x", "m"], ["c"]), ("Pow", ["c", "t"], ["q"]),
               ("ReduceMean", ["q"], ["v"]), ("Add", ["v", "e"], ["a"]), ("Sqrt", ["a"], ["r"]),
               ("Div", ["c", "r"], ["y"])], {"x": (2, 4)}, ["y"], t=2.0, e=1e-5),
        "LayerNormFusion(L[12])?", "y is a result of the program",
    ),
    "erf of another scale": (
        model([("Div", ["x", "s"], ["d"]), ("Erf", ["d"], ["y"])], {"x": (2, 4)}, ["y"], s=2.0),
        "GeluFusion(L[12])?", "The operand of erf is scaled by 2.0, and the pattern contains 1.4142",
    ),
    "a bias that is in a Gemm": (
        model([("Gemm", ["x", "w", "b"], ["p"]), ("Gelu", ["p"], ["y"])], {"x": (2, 4)}, ["y"], w=(4, 4), b=(4,)),
        "BiasGeluFusion", "p already adds the bias, so y reads no Add",
    ),
    "a bias of two dimensions": (
        model([("Add", ["x", "b"], ["s"]), ("Gelu", ["s"], ["y"])], {"x": (2, 4)}, ["y"], b=(2, 4)),
        "BiasGeluFusion", "The addends are 2×4 and 2×4, and a bias has one dimension",
    ),
    "a normalization after an activation": (
        model([("Relu", ["x"], ["r"]), ("BatchNormalization", ["r", "g", "b", "m", "v"], ["y"])],
              IMAGE, ["y"], g=(3,), b=(3,), m=(3,), v=(3,)),
        "ConvBNFusion", "It follows r, and only weights of a Conv",
    ),
    "a normalization of a convolution with two readers": (
        model([("Conv", ["x", "w"], ["c"]), ("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"]),
               ("Relu", ["c"], ["z"])], IMAGE, ["y", "z"], w=(3, 3, 1, 1), g=(3,), b=(3,), m=(3,), v=(3,)),
        "ConvBNFusion", "c has 2 readers",
    ),
    "an activation that a FusedConv lacks": (
        model([("Conv", ["x", "w"], ["c"]), ("HardSwish", ["c"], ["y"])], IMAGE, ["y"], w=(3, 3, 1, 1)),
        "ConvActivationFusion", "y is none of the activations of a FusedConv",
    ),
    "an addend of another shape": (
        model([("Conv", ["x", "w", "b"], ["c"]), ("Add", ["c", "a"], ["y"])],
              {**IMAGE, "a": (3, 1, 1)}, ["y"], w=(3, 3, 1, 1), b=(3,)),
        "ConvAddActivationFusion", "The addends are 1×3×8×8 and 3×1×1",
    ),
    "a convolution without a bias": (
        model([("Conv", ["x", "w"], ["c"]), ("Add", ["c", "x"], ["y"])], IMAGE, ["y"], w=(3, 3, 1, 1)),
        "ConvAddActivationFusion", "c has no bias",
    ),
    "an addend that is not blocked": (
        model([("Conv", ["x", "w"], ["c"]), ("Add", ["c", "x"], ["y"])], IMAGE, ["y"], w=(3, 3, 1, 1)),
        "NchwcTransformer", "x is not in the blocked memory format",
    ),
    "a result that is not quantised": (
        model([("QuantizeLinear", ["x", "s"], ["q"]), ("DequantizeLinear", ["q", "s"], ["d"]), ("Relu", ["d"], ["r"]),
               ("Exp", ["r"], ["y"])], {"x": (2, 4)}, ["y"], s=0.5),
        "QDQSelectorActionTransformer", "y reads the result, and the pattern contains QuantizeLinear",
    ),
    "an operator without a version for integers": (
        model([("QuantizeLinear", ["x", "s"], ["q"]), ("DequantizeLinear", ["q", "s"], ["d"]), ("Erf", ["d"], ["y"])],
              {"x": (2, 4)}, ["y"], s=0.5),
        "QDQSelectorActionTransformer", "y has no version for integers",
    ),
    "a random constant": (
        model([("RandomNormalLike", ["w"], ["r"]), ("Add", ["x", "r"], ["y"])], {"x": (2, 4)}, ["y"], w=(2, 4)),
        "ConstantFolding", "r is random, and must be computed in each run",
    ),
    "a transposed operand of a product": (
        model([("Transpose", ["x"], ["t"]), ("MatMul", ["t", "w"], ["y"])], {"x": (4, 2)}, ["y"], w=(4, 4)),
        "TransposeOptimizer", "y computes along fixed axes",
    ),
    "values without a bias": (
        model([("Softmax", ["x"], ["p"]), ("MatMul", ["v", "w"], ["l"]), ("Reshape", ["l", "k"], ["r"]),
               ("Transpose", ["r"], ["t"]), ("MatMul", ["p", "t"], ["y"])],
              {"x": (4, 4), "v": (4, 4)}, ["y"], w=(4, 4), k=[4, 4]),
        "AttentionFusion", "l is in the position of Add: the values must come from Transpose, Reshape, Add, MatMul",
    ),
}  # fmt: skip
"""name → a model, the rule that declines, and the beginning of its reason"""

BIASED: dict[str, Any] = {"w": (4, 4), "b": (4,)}
REPAIRED: dict[str, tuple[ModelProto, str]] = {
    "a product with two readers": (
        model([("MatMul", ["x", "w"], ["p"]), ("Add", ["p", "b"], ["y"])], {"x": (2, 4)}, ["y"], **BIASED), "Gemm",
    ),
    "a sum that is returned": (
        model([("Add", ["x", "r"], ["s"]), ("LayerNormalization", ["s", "g"], ["y"])],
              {"x": (1, 2, 4), "r": (1, 2, 4)}, ["y"], g=(4,)), "SkipLayerNormalization",
    ),
    "an RMS norm with a product": (
        model([("Pow", ["x", "t"], ["q"]), ("ReduceMean", ["q", "l"], ["m"]), ("Add", ["m", "e"], ["a"]),
               ("Sqrt", ["a"], ["r"]), ("Div", ["x", "r"], ["d"]), ("Mul", ["d", "g"], ["y"])],
              {"x": (2, 4)}, ["y"], t=2.0, l=[-1], e=1e-5, g=(4,)), "SimplifiedLayerNormalization",
    ),
    "a layer norm without a bias": (
        model([("ReduceMean", ["x", "l"], ["m"]), ("Sub", ["x", "m"], ["c"]), ("Pow", ["c", "t"], ["q"]),
               ("ReduceMean", ["q", "l"], ["v"]), ("Add", ["v", "e"], ["a"]), ("Sqrt", ["a"], ["r"]),
               ("Div", ["c", "r"], ["d"]), ("Mul", ["d", "g"], ["h"]), ("Add", ["h", "b"], ["y"])],
              {"x": (2, 4)}, ["y"], t=2.0, l=[-1], e=1e-5, g=(4,), b=(4,)), "LayerNormalization",
    ),
    "erf of another scale": (
        model([("Div", ["x", "s"], ["d"]), ("Erf", ["d"], ["f"]), ("Add", ["f", "o"], ["a"]),
               ("Mul", ["x", "a"], ["p"]), ("Mul", ["p", "h"], ["y"])], {"x": (2, 4)}, ["y"], s=2**0.5, o=1.0, h=0.5),
        "Gelu",
    ),
    "a bias of two dimensions": (
        model([("Add", ["x", "b"], ["s"]), ("Gelu", ["s"], ["y"])], {"x": (2, 4)}, ["y"], b=(4,)), "BiasGelu",
    ),
    "an activation that a FusedConv lacks": (
        model([("Conv", ["x", "w"], ["c"]), ("Relu", ["c"], ["y"])], IMAGE, ["y"], w=(3, 3, 1, 1)), "FusedConv",
    ),
    "a result that is not quantised": (
        model([("QuantizeLinear", ["x", "s", "z"], ["q"]), ("DequantizeLinear", ["q", "s", "z"], ["d"]),
               ("Sigmoid", ["d"], ["r"]), ("QuantizeLinear", ["r", "s", "z"], ["p"]),
               ("DequantizeLinear", ["p", "s", "z"], ["y"])], {"x": (2, 4)}, ["y"], s=0.5, z=np.uint8(0)),
        "QLinearSigmoid",
    ),
}  # fmt: skip
"""name → the model without the failure, and the operator that onnxruntime makes of it"""
