"""The simplifying rules, most specific first; importing this package creates the chain.

Each module contains the rules of one theme. The first rule that applies to a node ends the chain, so the order decides
if several could.
"""

# The order of the imports is the order of the chain:
# - stable forms of several operations first, because a simpler rule would replace log(exp(…)) inside one,
# - structure of zeros and one-hots, and inverses, before identities, which match only one operation,
# - declared properties after rules for specific operations, whose reasons are more precise.
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
    operations_under_policies,
    known_conditions,
    sum_of_parts,
)

__all__ = [
    "batch_sums",
    "declared_properties",
    "device_copies",
    "identities",
    "inverse_pairs",
    "known_conditions",
    "norm_before_product",
    "operations_under_policies",
    "scale_into_weights",
    "slice_of_concat",
    "stability",
    "strength_reduction",
    "sum_of_parts",
    "symbolic_constants",
]
