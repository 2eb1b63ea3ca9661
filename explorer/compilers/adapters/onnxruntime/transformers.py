"""Sentences about onnxruntime's graph transformers, for the stages that they form."""

from __future__ import annotations

import re

from explorer.record.rows import Decides

_MERGING = ("CommonSubexpressionElimination", "ConstantSharing")
_KERNELS = re.compile(r".*Fus(ion|e).*|QDQSelectorActionTransformer|Level\d_RuleBasedTransformer")

_PURPOSES = {
    "Level1_RuleBasedTransformer": "Rules for single nodes: removes operations without effect, and includes batch "
    "normalizations, products and sums in the weights of convolutions.",
    "AttentionFusion": "Replaces the operations of a self-attention by one operator.",
    "BiasGeluFusion": "Replaces the addition of a bias and a GELU by BiasGelu.",
    "BiasSoftmaxFusion": "Replaces an addition and a softmax by BiasSoftmax.",
    "CastFloat16Transformer": "Adds casts to float32 around operators that have no kernel for float16.",
    "CommonSubexpressionElimination": "Computes equal values once.",
    "ConstantFolding": "Computes operations on constants once, before the run.",
    "ConstantSharing": "Stores equal constants once.",
    "ConvActivationFusion": "Replaces a convolution and an activation by FusedConv.",
    "ConvAddActivationFusion": "Replaces a convolution, a sum and an activation by FusedConv.",
    "DoubleQDQPairsRemover": "Removes a second pair of QuantizeLinear and DequantizeLinear.",
    "EmbedLayerNormFusion": "Replaces embeddings, their sum and a layer normalization by one operator.",
    "EnsureUniqueDQForNodeUnit": "Copies each DequantizeLinear that has several readers, one for each reader.",
    "FastGeluFusion": "Replaces the operations of a tanh GELU by FastGelu.",
    "FuseFp16InitializerToFp32NodeTransformer": "Stores weights as float32 that were cast in each run.",
    "GatherToSliceFusion": "Replaces a Gather of a range by a Slice.",
    "GatherSliceToSplitFusion": "Replaces several Gather or Slice of one value by a Split.",
    "GemmActivationFusion": "Replaces a Gemm and an activation by FusedGemm.",
    "GeluFusionL1": "Replaces 0.5 · x · (1 + erf(x / √2)) by Gelu.",
    "GeluFusionL2": "Replaces 0.5 · x · (1 + erf(x / √2)) by Gelu.",
    "LayerNormFusionL1": "Replaces the operations of a layer normalization by LayerNormalization.",
    "LayerNormFusionL2": "Replaces the operations of a layer normalization by LayerNormalization.",
    "MatMulActivationFusion": "Replaces a product and an activation by one operator.",
    "MatMulAddFusion": "Replaces a product and the addition of a bias by Gemm.",
    "MatMulScaleFusion": "Computes a scale of operands or results in FusedMatMul.",
    "MatmulTransposeFusion": "Reads a transposed operand in FusedMatMul, without the Transpose.",
    "NchwcTransformer": "Stores images in blocks of channels, which convolutions of the CPU read faster.",
    "NhwcTransformer": "Stores the channels of images last, which quantized convolutions read faster.",
    "QDQSelectorActionTransformer": "Replaces operators between DequantizeLinear and QuantizeLinear by operators for "
    "integers.",
    "QDQFinalCleanupTransformer": "Removes pairs of QuantizeLinear and DequantizeLinear that are left.",
    "QuickGeluFusion": "Replaces x · sigmoid(α · x) by QuickGelu.",
    "RemoveDuplicateCastTransformer": "Removes casts without effect.",
    "ReshapeFusion": "Removes reshapes that follow each other, and makes computed shapes constant.",
    "SimplifiedLayerNormFusion": "Replaces the operations of an RMS normalization by one operator.",
    "SkipLayerNormFusion": "Replaces a residual sum and a layer normalization by SkipLayerNormalization.",
    "TransposeOptimizer": "Moves transposes through other operations until they cancel each other.",
}


def purpose(name: str, runs: int) -> str:
    """Return the sentence about a transformer, and how often it ran."""
    text = _PURPOSES.get(name.removesuffix("_CPUExecutionProvider"), f"onnxruntime's graph transformer {name}.")
    return f"{text} It ran {runs} times." if runs > 1 else text


def decides(name: str) -> Decides:
    """Return what the decisions of a transformer determine."""
    if name in _MERGING:
        return "merging"
    return "kernels" if _KERNELS.fullmatch(name) else ""
