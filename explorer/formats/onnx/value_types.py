"""Types that a file notes of its values."""

from __future__ import annotations

from dataclasses import replace

from onnx import TypeProto

from explorer.formats.onnx.stored_tensors import dtype_name, is_supported
from explorer.net.definition.definition import BlobType, Dimension


def _unpacked(value_type: TypeProto) -> tuple[str, TypeProto]:
    """Return the container of a type, and the type of what it holds: a sequence, an optional, or one of the other."""
    words = []
    if value_type.HasField("optional_type"):
        words.append("optional")
        value_type = value_type.optional_type.elem_type
    if value_type.HasField("sequence_type"):
        words.append("sequence")
        value_type = value_type.sequence_type.elem_type
    return " ".join(words), value_type


def unreadable_kind(value_type: TypeProto) -> str:
    """Return the kind of a value that no operator is able to read: a map, a sequence of sequences; "" for others."""
    container, held = _unpacked(value_type)
    container_type = held.WhichOneof("value") or ""
    if container_type not in ("tensor_type", ""):
        return (
            f"{container} of a {container_type.removesuffix('_type')}"
            if container
            else str(container_type).removesuffix("_type")
        )
    code = held.tensor_type.elem_type
    return f"tensor of {name}" if code and not is_supported(name := dtype_name(code)) else ""


def dictionary_type(value_type: TypeProto, keys: tuple[str | int, ...]) -> BlobType | None:
    """Return the type of the array that stands for a map: an element for each key. None for another type than a map."""
    held = value_type.map_type.value_type.tensor_type
    name = dtype_name(held.elem_type)
    if not value_type.HasField("map_type") or not is_supported(name):
        return None
    return BlobType((len(keys),), name, keys=keys)


def blob_type(value_type: TypeProto) -> BlobType | None:
    """Return the shape and dtype that a file notes of a tensor, or of the tensors in a container; None for others."""
    container, held = _unpacked(value_type)
    if not held.HasField("tensor_type"):
        return None
    tensor_type = held.tensor_type
    name = dtype_name(tensor_type.elem_type)
    dtype = name if is_supported(name) else None
    if not tensor_type.HasField("shape"):
        return BlobType(None, dtype, container)
    shape: list[Dimension] = []
    for dimension in tensor_type.shape.dim:
        # some exporters write −1 for an unknown length
        if dimension.HasField("dim_value") and dimension.dim_value >= 0:
            shape.append(dimension.dim_value)
        else:
            # "?" is how exporters write that there is no name: two of them are two lengths
            shape.append(dimension.dim_param if any(map(str.isalnum, dimension.dim_param)) else None)
    return BlobType(tuple(shape), dtype, container)


def unnamed(type_: BlobType) -> BlobType:
    """Return the type of a value of an inner graph, whose names of lengths are not those of the graph around it."""
    if type_.shape is None:
        return type_
    return replace(type_, shape=tuple([length if isinstance(length, int) else None for length in type_.shape]))
