"""Types that a file notes of its values."""

from __future__ import annotations

from onnx import TypeProto

from explorer.formats.onnx.stored_tensors import dtype_name, is_supported
from explorer.net.definition.definition import BlobType, Dimension

SEQUENCE_READERS = frozenset((
    "ConcatFromSequence", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceErase", "SequenceInsert",
    "SequenceLength",
))  # fmt: skip
"""operator types that read sequences or optionals, where other operators made them"""


def unreadable_kind(value_type: TypeProto) -> str:
    """Return the kind of a value that no operator is able to read: a sequence, a tensor of texts; "" for others."""
    kind = value_type.WhichOneof("value") or ""
    if kind != "tensor_type":
        return str(kind).removesuffix("_type")
    code = value_type.tensor_type.elem_type
    return f"tensor of {name}" if code and not is_supported(name := dtype_name(code)) else ""


def blob_type(tensor_type: TypeProto.Tensor) -> BlobType:
    """Return the shape and dtype that a file notes of a tensor."""
    name = dtype_name(tensor_type.elem_type)
    dtype = name if is_supported(name) else None
    if not tensor_type.HasField("shape"):
        return BlobType(None, dtype)
    shape: list[Dimension] = []
    for dimension in tensor_type.shape.dim:
        # some exporters write −1 for an unknown length
        if dimension.HasField("dim_value") and dimension.dim_value >= 0:
            shape.append(dimension.dim_value)
        else:
            # "?" is how exporters write that there is no name: two of them are two lengths
            shape.append(dimension.dim_param if any(map(str.isalnum, dimension.dim_param)) else None)
    return BlobType(tuple(shape), dtype)
