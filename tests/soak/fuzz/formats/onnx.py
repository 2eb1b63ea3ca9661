"""ONNX: changed message fields, external data files, and damaged bytes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from onnx import ModelProto, StringStringEntryProto, TensorProto, defs

from tests.soak.fuzz.formats.corpus import LARGEST, MANY, hostile, small_models
from tests.soak.fuzz.formats.probe import probe_model as probe
from tests.soak.fuzz.values import damaged_bytes, integer, number, text

__all__ = ["MAIN", "mutate", "probe", "seeds"]

MAIN, BESIDE, PIPE = "model.onnx", "weights.bin", "pipe"
_Files = Mapping[str, bytes | None]
_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def seeds() -> dict[str, _Files]:
    """Return the assets, hostile files, and the models of ONNX's own test suite, which cover each operator."""
    from onnx.backend.test.case.node import collect_testcases

    results: dict[str, _Files] = {
        path.name: {MAIN: path.read_bytes()} for path in [*small_models(".onnx"), *hostile(".onnx")]
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # creating the cases raises NumPy warnings
        suite = collect_testcases()
    for case in suite:
        data = case.model.SerializeToString() if case.model is not None else b""
        if 0 < len(data) < LARGEST // 4:
            results[MANY + case.name] = {MAIN: data}
    return results


@cache
def _types() -> list[str]:
    return sorted({schema.name for schema in defs.get_all_schemas()})


def mutate(files: _Files, chance: random.Random) -> _Files:
    held = dict(files)
    data = held[MAIN] or b""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        model.Clear()
    if chance.random() < 0.1 or not model.ByteSize():
        held[MAIN] = damaged_bytes(data, chance)
        return held
    if chance.random() < 0.08:
        _move_outside(model, held, chance)
    elif chance.random() < 0.1:
        _constant(model, chance)
    else:
        _change(model, chance)
    held[MAIN] = model.SerializeToString()
    return held


def _messages(message: Any) -> Iterator[Any]:
    """Return the message and all nested messages."""
    waiting = [message]
    while waiting:
        result = waiting.pop()
        yield result
        for field, value in result.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _change(model: ModelProto, chance: random.Random) -> None:
    """Change one field of one message to a value of its type."""
    messages = list(_messages(model))
    kinds = sorted({message.DESCRIPTOR.name for message in messages})
    kind = chance.choice(kinds)  # few messages have a rare type, but they fail as easily
    same = [message for message in messages if message.DESCRIPTOR.name == kind]
    message = chance.choice(same)
    present = [field for field, _ in message.ListFields()]
    field = chance.choice(present if present and chance.random() < 0.7 else list(message.DESCRIPTOR.fields))
    name = field.name
    if chance.random() < 0.1:
        message.ClearField(name)
    elif isinstance(getattr(message, name), (int, float, str, bytes)):
        setattr(message, name, _scalar(field, model, chance))
    elif hasattr(getattr(message, name), "append") or hasattr(getattr(message, name), "add"):
        _change_list(getattr(message, name), field, model, chance)
    else:
        donors = [other for other in messages if other.DESCRIPTOR.name == field.message_type.name]
        copied = type(getattr(message, name))()
        if donors:
            copied.ParseFromString(chance.choice(donors).SerializeToString())
        getattr(message, name).CopyFrom(copied)


def _change_list(values: Any, field: Any, model: ModelProto, chance: random.Random) -> None:
    is_message = field.type == FieldDescriptor.TYPE_MESSAGE
    held = [value.SerializeToString() if is_message else value for value in values]
    at = chance.randrange(len(held)) if held else 0
    match chance.randrange(6):
        case 0 if held:
            del held[at]
        case 1 if held:
            held.insert(chance.randrange(len(held) + 1), held[at])
        case 2 if held:
            other = chance.randrange(len(held))
            held[at], held[other] = held[other], held[at]
        case 3 if not is_message and len(held) < 100:
            held += [_scalar(field, model, chance) for _ in range(chance.choice((1, 3, 70)))]
        case _:
            results = [
                message.SerializeToString()
                for message in (_messages(model) if is_message else ())
                if message.DESCRIPTOR.name == field.message_type.name and message.ByteSize() < LARGEST
            ]
            piece = (chance.choice(results) if results else b"") if is_message else _scalar(field, model, chance)
            held[at : at + 1] = [piece]
    del values[:]
    if is_message:
        for data in held:
            values.add().ParseFromString(data)
    else:
        values.extend(_utf8(value) if field.type == FieldDescriptor.TYPE_STRING else value for value in held)


def _scalar(field: Any, model: ModelProto, chance: random.Random) -> Any:
    """Return a value for a scalar field."""
    if field.name == "op_type":
        return chance.choice(_types()) if chance.random() < 0.9 else _utf8(text(chance))
    if field.type == FieldDescriptor.TYPE_STRING:
        known = [*(name for node in model.graph.node for name in (*node.input, *node.output, node.op_type)), "ai.onnx"]
        return _utf8(text(chance, known))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.choice((b"", _utf8(text(chance)).encode(), chance.randbytes(chance.choice((1, 4, 8, 64)))))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chance.choice([value.number for value in field.enum_type.values])
    if field.cpp_type in _RANGES:
        least, most = _RANGES[field.cpp_type]
        value = chance.randint(0, 24) if field.name in ("data_type", "elem_type", "type", "version") else None
        return min(max(integer(chance) if value is None or chance.random() < 0.3 else value, least), most)
    if field.cpp_type in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return float(min(max(number(chance), -(10**38)), 10**38))
    return chance.random() < 0.5


def _utf8(value: str | bytes) -> str:
    """Return a value for a string or bytes field, which need not be valid UTF-8 in a damaged file."""
    data = value if isinstance(value, bytes) else value.encode("utf-8", "replace")
    return data.decode("utf-8", "replace")


def _move_outside(model: ModelProto, files: dict[str, bytes | None], chance: random.Random) -> None:
    """Move a tensor's data to an external file, or only claim so."""
    tensors = [message for message in _messages(model) if isinstance(message, TensorProto)]
    if not tensors:
        return
    tensor = chance.choice(tensors)
    data = tensor.raw_data or bytes(64)
    files[BESIDE] = data if chance.random() < 0.8 else data[: len(data) // 2]
    where = chance.choice(
        (BESIDE, BESIDE, BESIDE, PIPE, "absent", "", ".", "../weights.bin", "/dev/zero", "\x00", "a" * 5000)
    )
    if where == PIPE:
        files[PIPE] = None
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    entries = {"location": where, "offset": "0", "length": str(len(data))}
    for key in ("offset", "length"):
        match chance.randrange(4):
            case 0:
                del entries[key]
            case 1:
                entries[key] = str(integer(chance)) if chance.random() < 0.8 else _utf8(text(chance))
            case _:
                pass
    for key, value in entries.items():
        tensor.external_data.append(StringStringEntryProto(key=key, value=value))


def _constant(model: ModelProto, chance: random.Random) -> None:
    """Replace an operand with a constant of hostile numbers, because many operators read shapes and sizes from
    constants."""
    read = sorted({name for node in model.graph.node for name in node.input if name and isinstance(name, str)})
    if not read:
        return
    name = chance.choice(read)
    for values in (model.graph.input, model.graph.initializer):
        kept = [value.SerializeToString() for value in values if value.name != name]
        del values[:]
        for data in kept:
            values.add().ParseFromString(data)
    tensor = model.graph.initializer.add(name=name)
    count = chance.choice((0, 1, 1, 2, 3, 4, 8))
    if chance.random() < 0.7:
        tensor.data_type = TensorProto.INT64
        tensor.int64_data.extend(min(max(integer(chance), -(2**63)), 2**63 - 1) for _ in range(count))
    else:
        tensor.data_type = TensorProto.FLOAT
        tensor.float_data.extend(float(min(max(number(chance), -(10**38)), 10**38)) for _ in range(count))
    if count != 1 or chance.random() < 0.5:
        tensor.dims.append(count)
