"""Inputs of a net, given in order or by name, as arrays of the file's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.types.tensor_type import Array
from explorer.net.definition.definition import BlobDefinition, NetDefinition
from explorer.net.definition.shape_notes import noted_dtype, shape_text


def named_inputs(definition: NetDefinition, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all inputs by name, in the net's order; one dict among ``inputs`` gives them by name.

    Raises OperandError if one is missing, given twice, or too many; UnknownNameError for an unknown name.
    """
    if len(inputs) == 1 and isinstance(inputs[0], Mapping):
        named, inputs = {**inputs[0], **named}, ()
    names = definition.inputs
    expected = ", ".join(f"{name!r} {shape_text(definition.input(name).shape)}" for name in names) or "none"
    for name in named:
        if name not in names:
            raise UnknownNameError(str(name), kind=f"input of net {definition.name!r}", known=names)
    by_name = dict(zip(names, inputs, strict=False))
    twice = [name for name in by_name if name in named]
    missing = [name for name in names if name not in by_name and name not in named]
    if len(inputs) > len(names) or twice or missing:
        given = f"{len(inputs) + len(named)} inputs for net {definition.name!r}"
        what = f"; {twice[0]!r} is given twice" if twice else f"; {missing[0]!r} is missing" if missing else ""
        raise OperandError(
            given + what, rule=f"the inputs must be {expected}", fix="pass each once, in this order or by name"
        )
    return {name: by_name[name] if name in by_name else named[name] for name in names}


def is_shape(value: Any) -> bool:
    """Whether a value is a shape: a tuple of lengths."""
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)


def as_array(blob: BlobDefinition, value: Any) -> Array:
    """Return a read-only view of an input's array; numbers and lists get the file's dtype."""
    dtype = noted_dtype(blob)
    try:
        # An array keeps its dtype, so that a wrong one is refused and not converted silently; a list has none.
        array = np.asarray(value) if hasattr(value, "__array__") else np.asarray(value, dtype)
    except (TypeError, ValueError) as error:
        raise OperandError(
            f"input {blob.name!r} is no rectangular array of numbers: {error}",
            rule=f"the array must be as the file says, {dtype or 'numbers'} {shape_text(blob.shape)}",
        ) from None
    # a tensor of bfloat16 is held as float32
    if blob.dtype == array.dtype.name == "bfloat16":
        array = array.astype(np.float32)
    view = array.view()
    view.flags.writeable = False
    return view
