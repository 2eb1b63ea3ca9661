"""Classical machine learning (domain ai.onnx.ml): features, linear models, trees, support vectors, and strings."""

from explorer.formats.onnx.operators.machine_learning import (
    features,
    linear_models,
    lookup,
    ngrams,
    support_vectors,
    tokens,
    tree_ensembles,
)

__all__ = ["features", "linear_models", "lookup", "ngrams", "support_vectors", "tokens", "tree_ensembles"]
