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
    "exact": "the result has the same bits as in the program as written",
    "rounding": "the last digits may differ from the program as written, usually by about 1e-16 of the result (1e-7 in "
    "float32), and by more only if the program as written overflows or loses digits",
    "reordering": "terms may be added in another order than in the program as written, so the last digits may differ: "
    "for n terms, by at most about n · 2e-16 (n · 1e-7 in float32) of the sum of their absolute values",
    "reassociating": "other operations or another order may overflow, underflow or cancel where the program as written "
    "does not",
}
"""class → its effect on numbers, as shown in panels and in the catalogue of reasons"""
