"""Suggestions for attributes that other libraries' arrays and tensors have, but expressions lack.

Users of NumPy and torch first try the names that they know. An AttributeError that names the counterpart saves them a
search, without doubling the interface with aliases.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from explorer.core.registry import functions

_MIN_SIMILARITY = 0.75
"""minimum similarity between an unknown name and a suggested name"""

_EVALUATE = "an expression has no value yet: ex.evaluate(x)"
_FROM_VALUE = "it is not recorded; evaluate first: ex.evaluate(x).{name}(…)"
_GRADIENT = "gradients are expressions themselves: ex.grad(loss, [w])"
_RESHAPE = "use x.reshape(shape)"
_IMMUTABLE = "an expression never changes: bind the name to a new one"

_HINTS = {
    **dict.fromkeys(("numpy", "cpu", "detach", "data", "value", "eval"), _EVALUATE),
    **dict.fromkeys(("item", "tolist", "tobytes", "nonzero"), _FROM_VALUE),
    **dict.fromkeys(("cumprod", "round"), _FROM_VALUE),
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_", "zero_grad"), _GRADIENT),
    **dict.fromkeys(("view", "resize"), _RESHAPE),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_", "copy_", "fill_", "zero_", "fill"), _IMMUTABLE),
    "ravel": "use x.flatten()",
    "unsqueeze": "use ex.expand_dims(x, axis)",
    "permute": "use x.transpose(axes)",
    "t": "use x.T",
    "dim": "use x.ndim",
    "numel": "use x.size",
    "nelement": "use x.size",
    "itemsize": "use x.dtype.itemsize",
    "nbytes": "use x.tensor_type.nbytes",
    "copy": "an expression never changes, so x itself serves as its copy",
    "clone": "an expression never changes, so x itself serves as its copy",
    "dot": "use x @ y",
    "mm": "use x @ y",
    "bmm": "use x @ y",
    "expand": "use ex.broadcast_to(x, shape)",
    "clamp": "use x.clip(low, high)",
    "abs": "use abs(x)",
    "to": "use x.astype(dtype), or x.to_device(device)",
    "float": "use x.astype(np.float32)",
    "double": "use x.astype(np.float64)",
    "int": "use x.astype(np.int32)",
    "long": "use x.astype(np.int64)",
    "bool": "use x.astype(bool)",
    "swapaxes": "use x.transpose(axes)",
    "gather": "use ex.take_along_axis(x, indices, axis)",
    "index_select": "use ex.take(x, indices, axis)",
    "masked_fill": "use ex.where(mask, value, x)",
    "norm": "use ex.vector_norm(x)",
}
"""attribute → suggestion, in which ``{name}`` is replaced by the attribute"""


def hint(name: str, known: Iterable[str] = ()) -> str:
    """Return a suggestion for an unknown attribute of an expression, or "" if there is none.

    Misspelt names are compared with the ``known`` attributes and with operations.
    """
    # Python, NumPy and notebooks probe for such names, so a suggestion would be misleading.
    if name.startswith("_"):
        return ""
    if name in _HINTS:
        return _HINTS[name].format(name=name)
    if name in functions:
        return f"use ex.{name}(x)"
    attributes = {*known}
    matches = get_close_matches(name, sorted({*attributes, *functions}), n=3, cutoff=_MIN_SIMILARITY)
    names = ", ".join([f"x.{match}" if match in attributes else f"ex.{match}(x)" for match in matches])
    return f"near names: {names}" if matches else ""
