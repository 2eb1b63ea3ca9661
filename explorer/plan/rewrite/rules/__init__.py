"""The simplifying rules, most specific first: importing this package makes the chain."""

# The order of the imports is the order of the chain.
# isort: off
from explorer.plan.rewrite.rules import (
    stability,
    symbolic_constants,
    inverse_pairs,
    batch_sums,
    identities,
    slice_of_concat,
    declared_properties,
    strength_reduction,
    scale_into_weights,
    norm_before_product,
    device_copies,
    cancel_powers,
    operations_under_policies,
)

__all__ = [
    "batch_sums",
    "cancel_powers",
    "declared_properties",
    "device_copies",
    "identities",
    "inverse_pairs",
    "norm_before_product",
    "operations_under_policies",
    "scale_into_weights",
    "slice_of_concat",
    "stability",
    "strength_reduction",
    "symbolic_constants",
]
