"""The simplifying rules, most specific first; importing this package creates the chain.

Each module contains the rules of one theme. The first rule that applies to a node ends the chain, so the order decides
if several could.
"""

# The order of the imports is the order of the chain:
# - stable forms of several operations first: log(exp(…)) inside of one would be taken by a simpler rule,
# - structure of zeros and one-hots, and inverses, before identities, which look at one operation alone,
# - declared properties after rules that know an operation by name, and can say more about it.
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
