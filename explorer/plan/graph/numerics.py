"""The numerical contract: four classes of changes to floating-point numbers, and two levels that permit classes.

Every rule and pass declares a class, and a plan has a level. The default level permits no rewrite of the last class,
which a compiler enables with ``-ffast-math``.

The classes, from the strictest to the weakest:

- ``exact``: the result has the same bits, including the signs of zeros, NaN and infinities.
- ``rounding``: the same terms are combined in the same order. The error is a few units in the last place of the result,
  or the error that results if operands differ in their last place. A zero may have the other sign. No value overflows,
  underflows or cancels unless it did so before. Most of these rules are more accurate than the program as written.
- ``reordering``: terms are added in another order if the program specifies none. This concerns reductions, products,
  the accumulation of gradients, and the sum over a batch. The error is at most n · eps · Σ|terms|.
- ``reassociating``: all other changes, such as computing (x @ W) · s as x @ (W · s). The result may overflow, underflow
  or cancel although the program as written does not.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Numerics: TypeAlias = Literal["exact", "rounding", "reordering", "reassociating"]
"""class of the changes that a rewrite makes to numbers"""
CLASSES: tuple[Numerics, ...] = get_args(Numerics)
Level: TypeAlias = Literal["safe", "fast"]
"""classes of changes that a plan permits: "safe" permits all classes except reassociating, "fast" permits all"""
LEVELS: tuple[Level, ...] = get_args(Level)

EFFECTS: dict[str, str] = {
    "exact": "the same bits",
    "rounding": "the last digits may differ",
    "reordering": "terms may be added in another order, so the last digits may differ",
    "reassociating": "the order of operations changes, which may cause overflow, underflow or cancellation",
}
"""class → its effect on numbers, as shown in panels and in the catalogue of reasons"""
