"""NumPy's functions that record, each with the operation that computes the same, and those that do not, with reasons.

Names alone decide nothing: an operation may have a name of NumPy's and compute something else. A ufunc records the
operation that declares this very ufunc as its own; any other function records what the table here says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

REDUCTIONS: Mapping[str, str] = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
"""ufunc → the operation that its ``reduce`` records"""

UFUNCS: Mapping[str, str] = {
    "degrees": "rad2deg",
    "divmod": "divmod",
    "matmul": "matmul",
    "radians": "deg2rad",
    "rint": "round_half_even",
}
"""ufunc → the operation, where its name is another one, or where its kernel is more than the ufunc"""


class Recorded(NamedTuple):
    """The function that records a function of NumPy's, and how its arguments are handed on."""

    name: str
    renamed: Mapping[str, str] = {}
    """NumPy's name of an argument → the recording function's"""
    free: frozenset[str] = frozenset()
    """arguments whose value makes no difference to the result"""
    arrays: bool = False
    """Python's numbers are arrays to NumPy here, not weak: an int is an int64"""


_FIRST = dict.fromkeys(("a", "array", "arr", "m", "A"), "x")


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
    "einsum": _recorded("einsum", "optimize"),
    "sort": _recorded("sort", "kind", "stable"),
    "std": _recorded("std", correction="ddof"),
    "var": _recorded("var", correction="ddof"),
    "where": Recorded("where", {"x": "a", "y": "b"}),
}
"""function → what records it"""

_BY_VALUE = "the shape of its result depends on values, which are not known when an expression is written"
_IN_PLACE = "it writes into an array, and an expression never changes"

REFUSED: Mapping[str, str] = {
    "resize": "np.resize repeats or drops elements, while ex.resize interpolates images: write np.tile and np.reshape, "
    "or ex.resize for images",
    "real": "np.real takes the real part of complex numbers, while ex.real describes operands of an example",
    **dict.fromkeys(("argwhere", "compress", "extract", "flatnonzero", "nonzero", "trim_zeros", "unique"), _BY_VALUE),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d", "bincount", "histogram"), _BY_VALUE),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), _BY_VALUE),
    **dict.fromkeys(("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"), _IN_PLACE),
}
"""function → why it is not recorded, where there is more to say than that no operation has its name"""

DESCRIBED = frozenset(("can_cast", "iscomplexobj", "isrealobj", "ndim", "result_type", "shape", "size"))
"""functions that read shape and dtype only: their result is there at once"""


def _known(names: Any) -> dict[Callable[..., Any], str]:
    return {getattr(np, name): name for name in names if hasattr(np, name)}  # older releases lack some


NAMES: Mapping[Callable[..., Any], str] = _known((*FUNCTIONS, *REFUSED, *DESCRIBED))
"""NumPy's function itself → its name in the tables: np.linalg and others have functions of the same names"""
