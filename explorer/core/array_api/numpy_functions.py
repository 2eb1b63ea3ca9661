"""Tables of NumPy functions that can be recorded, and of unsupported ones with reasons.

Equal names are not sufficient, because an operation may share its name with a NumPy function that computes something
else. A ufunc is recorded as the operation whose ``ufunc`` attribute is this ufunc; all other functions are listed in
these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from explorer.core.array_api.numpy_compositions import COMPOSED, HINTS

REDUCTIONS: Mapping[str, str] = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
"""ufunc → name of the operation that its ``reduce`` records"""

UFUNCS: Mapping[str, str] = {
    "degrees": "rad2deg",
    "divmod": "divmod",
    "matmul": "matmul",
    "radians": "deg2rad",
    "rint": "round_half_even",
}
"""ufunc → operation name, if the names differ or the operation's kernel does more than the ufunc"""


class Recorded(NamedTuple):
    """Recording function for a NumPy function, and the conversion of its arguments."""

    name: str
    renamed: Mapping[str, str] = {}
    """NumPy's argument name → argument name of the recording function"""
    free: frozenset[str] = frozenset()
    """arguments that do not affect the result and are dropped"""
    arrays: bool = False
    """whether Python numbers are first converted to arrays, as in NumPy, so that an int becomes int64 and not a weak
    scalar"""
    function: Callable[..., Any] | None = None
    """custom recording function; None for the registered function called ``name``"""


_FIRST = dict.fromkeys(("a", "array", "arr", "m", "A", "x"), "x")


def _recorded(name: str, *free: str, **renamed: str) -> Recorded:
    return Recorded(name, {**_FIRST, **renamed}, frozenset(free))


FUNCTIONS: Mapping[str, Recorded] = {
    **{
        name: _recorded(name)
        for name in (
            *("all", "any", "argmax", "argmin", "broadcast_to", "cumsum", "expand_dims", "flip", "max", "mean", "min"),
            *("moveaxis", "pad", "prod", "repeat", "reshape", "roll", "squeeze", "sum", "take", "take_along_axis"),
            *("tile", "transpose", "tril", "triu"),
        )
    },
    **{name: Recorded(name, arrays=True) for name in ("concatenate", "dot", "stack", "tensordot")},
    "amax": _recorded("max"),
    "amin": _recorded("min"),
    "argsort": _recorded("argsort", "kind", "stable"),
    "clip": _recorded("clip", a_min="low", a_max="high", min="low", max="high"),
    **{name: Recorded(name, arrays=True, function=function) for name, function in COMPOSED.items()},
    "einsum": Recorded("einsum", free=frozenset(["optimize"]), function=COMPOSED["einsum"]),
    "copy": Recorded("copy", free=frozenset(["order", "subok"]), function=COMPOSED["copy"]),
    "meshgrid": Recorded("meshgrid", free=frozenset(["copy"]), function=COMPOSED["meshgrid"]),
    "sort": _recorded("sort", "kind", "stable"),
    "std": _recorded("std", correction="ddof"),
    "var": _recorded("var", correction="ddof"),
    "where": Recorded("where", {"x": "a", "y": "b"}),
}
"""NumPy function → the function that records it"""

_BY_VALUE = "the shape of its result depends on values, which are not known when an expression is written"
_IN_PLACE = "it writes into an array, and an expression never changes"

REFUSED: Mapping[str, str] = {
    "resize": "np.resize repeats or drops elements, while ex.resize interpolates images: write np.tile and np.reshape, "
    "or ex.resize for images",
    "save": "np.save writes values, while ex.save writes a model's file: write np.save(path, ex.evaluate(x)), or "
    "ex.save(x, path)",
    **dict.fromkeys(("argwhere", "compress", "extract", "flatnonzero", "nonzero", "trim_zeros", "unique"), _BY_VALUE),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d", "bincount", "histogram"), _BY_VALUE),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _BY_VALUE),
    **dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), _IN_PLACE),
}
"""NumPy function → why it cannot be recorded, unless explorer merely lacks an operation"""

DESCRIBED = frozenset(
    ("can_cast", "iscomplexobj", "isrealobj", "ndim", "ones_like", "result_type", "shape", "size", "zeros_like")
)
"""functions that read an operand's shape and dtype, but not its value"""


def _names_by_function(names: Any) -> dict[Callable[..., Any], str]:
    names_of = {}
    for name in names:
        module, _, attribute = name.rpartition(".")
        function = getattr(np.linalg if module else np, attribute, None)  # older releases lack some of them
        if function is not None:
            names_of[function] = name
    return names_of


NAMES: Mapping[Callable[..., Any], str] = _names_by_function((*HINTS, *FUNCTIONS, *REFUSED, *DESCRIBED))
"""NumPy function → name in the tables; keyed by function, because np.linalg and np share some names"""
