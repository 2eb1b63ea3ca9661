"""The simplifying rules, most specific first; importing this package creates the chain.

Each module contains the rules for one subject. Rules are tried until one applies to a node, so their order matters if
several rules could apply.
"""

# The order of the imports is the order of the chain:
# - Stable forms of several operations come first, because a simpler rule would replace a log(exp(…)) that is a part of
#   such a form.
# - Rules for zeros and one-hot vectors, and for inverses, come before identities, which match only one operation.
# - Rules for declared properties come after rules for specific operations, whose reasons are more precise.
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
