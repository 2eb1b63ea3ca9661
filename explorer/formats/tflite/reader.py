"""Conversion of the contents of a TensorFlow Lite file to a definition. Constants become weights.

No weights are read, except short lists of integers on which shapes depend. The scale and zero point of a quantised
tensor become arguments of the operators that read or write the tensor, such as ``filter.scale``. Unknown operators are
kept, so that the whole graph can be shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from explorer.core.errors import FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.memory_budget import budget
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.tensor_type import is_addressable
from explorer.formats.common.declared_weights import KeyedWeights
from explorer.formats.common.stored_dtypes import decode, stored_bytes
from explorer.formats.common.unique_names import UniqueNames
from explorer.formats.tflite.model_parts import (
    UNKNOWN_LENGTH,
    ByteRange,
    FileGraph,
    FileModel,
    FileOperator,
    FileTensor,
    Signature,
    Sparsity,
)
from explorer.formats.tflite.operators import TABLE
from explorer.formats.tflite.type_documentation import documented_type
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, Plain, WeightReference
from explorer.net.definition.operator_definition import STRING, memory_dtype

CONSTANT = "CONSTANT"
"""type of an operator that the reader adds; it returns a constant that is an output of the graph"""
_MAX_INTEGERS = 64
"""maximum number of elements of an integer constant that becomes an argument"""
_LISTED = 8
"""maximum number of listed signatures or graphs"""
_MAX_LINE = 400
"""maximum number of characters of an operator's line in errors"""


def definition(model: FileModel, file: KeptFile, signature: str | None = None) -> NetDefinition:
    """Convert a model's first graph, or the graph of a signature, to a definition.

    Raise FileError if a graph or tensor is invalid, or no signature has the key.
    """
    if signature is None:
        return _Reader(model, file).read(0)
    for known in model.signatures:
        if known.key == signature:
            return _Reader(model, file, known).read(known.graph)
    keys = [repr(known.key) for known in model.signatures[:_LISTED]] + ["…"] * (len(model.signatures) > _LISTED)
    raise FileError(
        f"no signature {signature!r}",
        path=str(file.path),
        rule=f"the signature must be one of the file's: {', '.join(keys)}" if keys else "the file has no signatures",
        fix=f"signature={keys[0]}" if keys else "omit signature=",
    )


class _Reader:
    """Reader of the graphs of one file."""

    def __init__(self, model: FileModel, file: KeptFile, chosen: Signature | None = None) -> None:
        self.model, self.file = model, file
        self.chosen = chosen
        """the signature of the outermost graph, if it was given"""
        self.open: list[int] = []
        """indices of the graphs that are currently being read, outermost first"""
        self.seen: set[int] = set()
        self.operators = 0
        """number of operators of inner graphs read so far; a graph counts once for each operator that calls it"""

    def read(self, number: int) -> NetDefinition:
        """Return the definition of the graph with index ``number``."""
        if number in self.open or not 0 <= number < len(self.model.graphs):
            raise FileError(
                f"graph {number} calls itself" if number in self.open else f"an operator calls graph {number}",
                path=str(self.file.path),
                rule=f"an inner graph must be one of the file's {len(self.model.graphs)} graphs, without recursion",
                fix="convert the model again",
            )
        self.open.append(number)
        self.seen.add(number)
        graph = self.model.graphs[number]
        if len(self.open) > 1:
            self._claim(len(graph.operators))
        with one_deeper(f"graph {number}"):
            result = _GraphReader(self, graph, self._signature(number)).read(self._name(number))
        self.open.pop()
        return result

    def metadata(self) -> list[tuple[str, str]]:
        """Return what the file states about itself: versions, metadata, signatures, and graphs that are not shown."""
        pairs = [("schema version", str(self.model.version)), *self.model.metadata]
        for signature in self.model.signatures:
            tensors = self.model.graphs[signature.graph].tensors
            sides = [
                ", ".join([f"{name} = {tensors[index].name}" for name, index in ends.items() if index < len(tensors)])
                for ends in (signature.inputs, signature.outputs)
            ]
            where = f", graph {signature.graph}" if signature.graph else ""
            pairs.append(
                (f"signature {signature.key}{where}", f"{sides[0] or 'no inputs'} → {sides[1] or 'no outputs'}")
            )
        rest = [str(number) for number in range(len(self.model.graphs)) if number not in self.seen]
        if rest:
            pairs.append(("graphs that are not shown", f"{', '.join(rest[:_LISTED])}{', …' * (len(rest) > _LISTED)}"))
        return pairs

    def _name(self, number: int) -> str:
        if self.chosen is not None and len(self.open) == 1:
            return f"{self.file.path.stem} {self.chosen.key}"
        own = self.model.graphs[number].name
        return own or f"graph {number}" if number else self.file.path.stem

    def _signature(self, number: int) -> Signature | None:
        """Return the signature of the graph with index ``number``, which names the graph's inputs and outputs.

        Return None if the graph has no signature, or several.
        """
        if self.chosen is not None and len(self.open) == 1:
            return self.chosen
        signatures = [signature for signature in self.model.signatures if signature.graph == number]
        return signatures[0] if len(signatures) == 1 else None

    def _claim(self, operators: int) -> None:
        self.operators += operators + 1
        if self.operators > budget.operators:
            raise FileError(
                f"inner graphs with at least {self.operators:,} operators",
                path=str(self.file.path),
                rule=f"inner graphs must have at most {budget.operators:,} operators in total, counted for each call: "
                "budget.operators",
                fix=f"ex.budget.operators = {self.operators}",
            )


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Inputs of an operator by name: arguments, names of computed tensors, and weights."""

    arguments: dict[str, Plain]
    passed: dict[str, str] = field(default_factory=dict)
    weights: dict[str, WeightReference] = field(default_factory=dict)


class _GraphReader:
    def __init__(self, reader: _Reader, graph: FileGraph, signature: Signature | None) -> None:
        self.reader, self.graph, self.file = reader, graph, reader.file
        self.names = tensor_names(graph, signature)
        produced = {index for operator in graph.operators for index in operator.outputs}
        self.computed = produced | {*graph.inputs}
        self.weights: dict[str, StoredTensor] = {}
        self.operator_names = OperatorNames()

    def read(self, name: str) -> NetDefinition:
        """Return the definition of the graph; its name is ``name``."""
        operators = [self._operator(number, operator) for number, operator in enumerate(self.graph.operators, 1)]
        # outputs of a net must be computed by operators
        constants = [index for index in dict.fromkeys(self.graph.outputs) if self._is_constant(index)]
        operators += [self._constant(index) for index in constants]
        is_outermost = len(self.reader.open) == 1
        return NetDefinition.of(
            name,
            operators,
            [self.names[index] for index in self.graph.inputs],
            [self.names[index] for index in self.graph.outputs],
            {self.names[index]: self._type(self.graph.tensors[index]) for index in sorted(self.computed) if index >= 0},
            source=str(self.file.path),
            weights=StoredWeights(self.file, self.weights),
            dialect="tflite",
            doc=self.reader.model.description if is_outermost else "",
            metadata=self.reader.metadata() if is_outermost else (),
            signature=self.reader.chosen.key if is_outermost and self.reader.chosen else "",
        )

    def _operator(self, number: int, operator: FileOperator) -> OperatorDefinition:
        names = TABLE.input_names(operator.type, len(operator.inputs))
        signature = TABLE.signature(operator.type)
        known = frozenset[str]() if signature is None else signature.known_names
        given = _Inputs(dict(operator.options))
        for formal, index in zip(names, operator.inputs, strict=True):
            if index < 0:
                continue
            tensor = self.graph.tensors[index]
            self._enter_quantization(formal, index, given)
            if index in self.computed:
                given.passed[formal] = self.names[index]
            else:
                self._enter(formal, tensor, index, formal in known, given)
        outputs = tuple([self.names.get(index, "") for index in operator.outputs])
        for position, index in enumerate(operator.outputs):
            formal = "output" if len(operator.outputs) == 1 else f"outputs.{position}"
            if index < 0:
                continue
            self._enter_quantization(formal, index, given)
            # The interpreter casts to the result's dtype, and ignores the options, which may be missing.
            if operator.type == "CAST" or f"{formal}.zero_point" in {**given.arguments, **given.weights}:
                given.arguments[f"{formal}.dtype"] = self.graph.tensors[index].dtype
        name, boxes = self.operator_names.name(operator.type, next(filter(None, outputs), ""), number)
        shown = f"{', '.join(outputs)} = {operator.type}({', '.join([self.names.get(i, '') for i in operator.inputs])})"
        return OperatorDefinition(
            operator.type,
            name,
            tuple(given.passed.values()),
            # An omitted result gets a name.
            tuple([output or f"{name}:{position}" for position, output in enumerate(outputs)]),
            given.arguments,
            given.passed,
            given.weights,
            boxes=boxes,
            line=number,
            text=shown if len(shown) <= _MAX_LINE else shown[:_MAX_LINE] + "…",
            documentation=documented_type(operator.type, operator.version),
            bodies={body: self.reader.read(graph) for body, graph in operator.graphs.items() if graph >= 0},
        )

    def _enter(self, formal: str, tensor: FileTensor, index: int, is_known: bool, given: _Inputs) -> None:
        """Add a constant operand: as an argument if shapes depend on it, else as a weight."""
        if tensor.is_variable:
            given.arguments[formal] = f"a variable of {tensor.dtype} {tensor.shape}"
        elif not self._is_constant(index):
            given.passed[formal] = self.names[index]  # not computed by any operator, so the definition rejects it
        elif not is_supported(tensor.dtype):
            given.arguments[formal] = f"a tensor of {tensor.dtype} {tensor.shape}, which explorer does not support"
        else:
            constant = stored(tensor, self.names[index], self.file)
            plain = self._plain(constant, is_known)
            if plain is not None:
                given.arguments[formal] = plain
            else:
                given.weights[formal] = self._weight(constant)

    def _plain(self, constant: StoredTensor, is_known: bool) -> Plain:
        """Return the value of a short list of known integers, or of a float or boolean scalar; else None."""
        size = math.prod(constant.shape)
        if constant.sparsity is not None:
            return None
        is_short = is_known and constant.dtype in ("int32", "int64") and size <= _MAX_INTEGERS
        if is_short or (constant.dtype in ("float32", "bool") and constant.shape == ()):
            return _tuples(constant.array(self.file).tolist())
        return None

    def _enter_quantization(self, formal: str, index: int, given: _Inputs) -> None:
        """Add the scale and zero point of a quantised tensor to ``given``."""
        tensor = self.graph.tensors[index]
        quantization = tensor.quantization
        if quantization is None or "int" not in tensor.dtype:
            return
        few = len(quantization.scales)
        if few:
            single = few == 1
            given.arguments[f"{formal}.scale"] = quantization.scales[0] if single else quantization.scales
            given.arguments[f"{formal}.zero_point"] = (
                quantization.zero_points[0] if single else quantization.zero_points
            )
        else:
            count = (quantization.count,)
            name = self.names[index]
            given.weights[f"{formal}.scale"] = self._weight(
                StoredTensor(f"{name}.scale", count, "float32", quantization.scale)
            )
            if quantization.zero_point.size:
                given.weights[f"{formal}.zero_point"] = self._weight(
                    StoredTensor(f"{name}.zero_point", count, "int64", quantization.zero_point)
                )
            else:
                given.arguments[f"{formal}.zero_point"] = 0
        if quantization.count > 1:
            given.arguments[f"{formal}.quantized_dimension"] = quantization.axis

    def _weight(self, constant: StoredTensor) -> WeightReference:
        self.weights[constant.name] = constant
        return constant.reference

    def _constant(self, index: int) -> OperatorDefinition:
        given = _Inputs({})
        self._enter("value", self.graph.tensors[index], index, False, given)
        name, _ = self.operator_names.name(CONSTANT, "", len(self.graph.operators) + 1)
        return OperatorDefinition(
            CONSTANT, name, (), (self.names[index],), given.arguments, {}, given.weights, boxes=()
        )

    def _is_constant(self, index: int) -> bool:
        """Return whether a tensor is a constant of the file. A constant without elements has no bytes."""
        tensor = self.graph.tensors[index]
        is_empty = tensor.shape is not None and 0 in tensor.shape
        return index not in self.computed and not tensor.is_variable and (tensor.data is not None or is_empty)

    def _type(self, tensor: FileTensor) -> BlobType:
        dtype = tensor.dtype if is_supported(tensor.dtype) or tensor.dtype == STRING else None
        if tensor.shape is None:
            return BlobType(None, dtype)
        return BlobType(tuple([None if length == UNKNOWN_LENGTH else length for length in tensor.shape]), dtype)


def _tuples(value: Plain | list[Plain]) -> Plain:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


_SUPPORTED = frozenset((
    "float32", "float64", "float16", "bfloat16", "int4", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "complex64", "complex128",
))  # fmt: skip


def is_supported(dtype: str) -> bool:
    """Return whether explorer's arrays support the dtype."""
    return dtype in _SUPPORTED


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Constant of a file: its name, shape and dtype, and the byte range of its elements.

    For a sparse constant, only the nonzero elements are stored, and ``sparsity`` contains their positions.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: ByteRange
    sparsity: Sparsity | None = None

    @property
    def reference(self) -> WeightReference:
        """The reference to this constant in a definition."""
        return WeightReference(self.name, self.shape, self.dtype)

    def array(self, file: KeptFile) -> NDArray[Any]:
        """Return the elements as a read-only array; raise FileError if the file has changed since it was opened."""
        raw = file.part(self.data.first, self.data.size)
        array = decode(raw, self.dtype)
        if self.sparsity is not None:
            array = self.sparsity.dense(array, self.shape)
        # if elements are narrower than a byte, the last byte may contain padding
        array = array.reshape(-1)[: math.prod(self.shape)].reshape(self.shape)
        array.setflags(write=False)
        return array


class StoredWeights(KeyedWeights[StoredTensor]):
    """Constants of a file by key. Every look-up reads a new, read-only array."""

    def __init__(self, file: KeptFile, tensors: Mapping[str, StoredTensor]) -> None:
        super().__init__(tensors)
        self._file = file

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self._entry(key).array(self._file)

    def verify(self, key: str) -> None:
        """Raise FileError if the file has changed since it was opened; the format has no checksums."""
        self._entry(key)
        self._file.check()


def stored(tensor: FileTensor, name: str, file: KeptFile) -> StoredTensor:
    """Return the constant ``tensor``, named ``name``; raise FileError if its size in bytes does not match its shape."""
    shape, data = tensor.shape or (), tensor.data or ByteRange(0, 0)
    if any(length < 0 for length in shape) or not is_addressable(shape, memory_dtype(tensor.dtype)):
        raise FileError(
            f"tensor {name!r} has shape {shape}",
            path=str(file.path),
            rule="the lengths of a constant must not be negative, and it must have at most 2⁶³ − 1 bytes",
            fix="convert the model again",
        )
    size = stored_bytes(tensor.dtype, math.prod(shape))
    if tensor.sparsity is not None and data.size % stored_bytes(tensor.dtype, 1) == 0:
        return StoredTensor(name, shape, tensor.dtype, data, tensor.sparsity)
    if size != data.size:
        raise FileError(
            f"tensor {name!r} has {data.size} bytes, but {shape} of {tensor.dtype} needs {size}",
            path=str(file.path),
            rule="a constant must contain as many elements as its shape requires",
            fix="convert the model again",
        )
    return StoredTensor(name, shape, tensor.dtype, data)


def tensor_names(graph: FileGraph, signature: Signature | None) -> dict[int, str]:
    """Return unique names by tensor index; inputs and outputs have the names in the signature."""
    names: dict[int, str] = {}
    taken: set[str] = set()
    sides = () if signature is None else (signature.outputs, signature.inputs)
    ends = {index: name for side in sides for name, index in side.items()}
    file_names = {tensor.name for tensor in graph.tensors}
    for index in {*graph.inputs, *graph.outputs}:
        name = ends.get(index)
        if name and name not in taken and name not in file_names - {graph.tensors[index].name}:
            names[index] = name
            taken.add(name)
    for index, tensor in enumerate(graph.tensors):
        if index not in names:
            name = tensor.name if tensor.name and tensor.name not in taken else f"{tensor.name or 'tensor'}:{index}"
            while name in taken:
                name += "'"
            names[index] = name
            taken.add(name)
    return names


class OperatorNames:
    """Generator of unique operator names and of the boxes around each operator."""

    def __init__(self) -> None:
        self._names = UniqueNames()

    def name(self, type: str, result: str, number: int) -> tuple[str, tuple[str, ...] | None]:
        """Return the name of an operator and its boxes, which are the parts of ``result`` before its last slash."""
        name = self._names.take(result.partition(";")[0] or f"{type}_{number}")
        *boxes, _ = name.split("/")
        return name, tuple([box for box in boxes if box])
