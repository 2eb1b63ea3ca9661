"""Reader of a TensorFlow Lite flatbuffer with the package ``tflite``; damaged files are rejected.

A flatbuffer is read in place, so an offset may point anywhere, and two offsets may point to the same table. Therefore,
each list's length is compared with the file size before the list is read, and the total number of bytes read is
limited.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import ExplorerError, FileError
from explorer.core.files.kept_file import KeptFile
from explorer.core.memory_budget import AXES, budget
from explorer.formats.tflite import model_metadata
from explorer.formats.tflite.model_parts import (
    UNKNOWN_LENGTH,
    ByteRange,
    FileGraph,
    FileModel,
    FileOperator,
    FileTensor,
    Level,
    Quantization,
    Signature,
    Sparsity,
)
from explorer.formats.tflite.operator_options import Schema

_IDENTIFIER = b"TFL3"
_MIN_SIZE = 12
"""size in bytes of the shortest file: the model's offset, the identifier and an empty table"""
_MAX_READS = 4
"""maximum number of bytes read, as a multiple of the file size; above 1 since offsets may share a table or string"""
_MAX_VALUES = 64
"""maximum number of scales and zero points of a tensor that are stored as values"""
_MAX_METADATA = 1 << 20
"""maximum number of bytes of a metadata entry that are read"""
_MAX_TEXT = 256
"""maximum number of bytes of a metadata entry that is shown as text"""
_RULE = "a TensorFlow Lite file must be one flatbuffer with a complete model of schema version 3"
_FIX = "compare the size with the original's, and copy or download the file again, or convert the model again"


class Message:
    """Flatbuffer of an open file. ``model`` returns its contents."""

    def __init__(self, file: KeptFile, schema: Schema) -> None:
        """Read the file's bytes; raise FileError if they are not a model or exceed the memory budget."""
        self._file, self._schema, self._path = file, schema, str(file.path)
        if file.size > budget.file_size:
            raise FileError(
                f"the file has {file.size:,} bytes",
                path=self._path,
                rule=f"a file that is read completely must have at most {budget.file_size:,} bytes (budget.file_size)",
                fix=f"ex.budget.file_size = {file.size}",
            )
        self._bytes = file.part(0, file.size)
        self._data = self._bytes.data
        begin = bytes(self._data[:_MIN_SIZE])
        if len(begin) < _MIN_SIZE or begin[4:8] != _IDENTIFIER:
            raise FileError(
                f"the file is not a TensorFlow Lite model: {file.size:,} bytes that begin with {begin!r}",
                path=self._path,
                rule=f"{_RULE}, with {_IDENTIFIER.decode()} in its bytes 4 to 8",
                fix=_FIX,
            )
        self._left = _MAX_READS * file.size

    def model(self) -> FileModel:
        """Return the contents of the file without its weights; raise FileError if the file is damaged."""
        try:
            return self._model()
        except ExplorerError:
            raise
        # The package raises these errors if an offset is outside the file, or does not point to a number or table.
        except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
            self._fail(f"it is cut off or damaged ({type(error).__name__})")

    def _model(self) -> FileModel:
        root = self._schema.package.Model.GetRootAs(self._data, 0)
        buffers = self._tables(root.BuffersLength(), root.Buffers, "buffers")
        self._buffers = [self._buffer(buffer) for buffer in buffers]
        self._codes = [
            (self._schema.operator_type(code, self._text), code.Version())
            for code in self._tables(root.OperatorCodesLength(), root.OperatorCodes, "operator codes")
        ]
        graphs = tuple([self._graph(graph) for graph in self._tables(root.SubgraphsLength(), root.Subgraphs, "graphs")])
        if not graphs:
            self._fail("it has no graph")
        signatures = self._tables(root.SignatureDefsLength(), root.SignatureDefs, "signatures")
        return FileModel(
            root.Version(),
            self._text(root.Description()),
            graphs,
            tuple([self._signature(signature, graphs) for signature in signatures]),
            tuple(self._metadata(self._tables(root.MetadataLength(), root.Metadata, "metadata"))),
        )

    def _metadata(self, entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
        """Yield the (name, value) pairs of the file's metadata: short strings, or the numbers of bytes."""
        for entry in entries:
            name, number = self._text(entry.Name()), entry.Buffer()
            data = self._buffers[number] if 0 <= number < len(self._buffers) else None
            raw = b"" if data is None else bytes(self._file.part(data.first, min(data.size, _MAX_METADATA)))
            if name == model_metadata.NAME and raw:
                yield from model_metadata.pairs(raw)
                continue
            text = raw.rstrip(b"\0").decode("utf-8", "replace")
            is_text = len(raw) <= _MAX_TEXT and text.isprintable() and "\ufffd" not in text
            yield name, text if is_text else f"{0 if data is None else data.size:,} bytes"

    def _graph(self, graph: Any) -> FileGraph:
        tensors = tuple(
            [self._tensor(tensor) for tensor in self._tables(graph.TensorsLength(), graph.Tensors, "tensors")]
        )
        count = len(tensors)
        operators = [
            self._operator(operator, count)
            for operator in self._tables(graph.OperatorsLength(), graph.Operators, "operators")
        ]
        return FileGraph(
            self._text(graph.Name()),
            tensors,
            self._numbers(graph.InputsAsNumpy(), count, "an input of a graph"),
            self._numbers(graph.OutputsAsNumpy(), count, "an output of a graph"),
            tuple(operators),
        )

    def _operator(self, operator: Any, count: int) -> FileOperator:
        index = operator.OpcodeIndex()
        if not 0 <= index < len(self._codes):
            self._fail(f"an operator has the code {index} of {len(self._codes)}")
        inputs = self._numbers(operator.InputsAsNumpy(), count, "an operand", optional=True)
        outputs = self._numbers(operator.OutputsAsNumpy(), count, "a result", optional=True)
        options, graphs = self._schema.options(operator, self._list, self._text)
        type, version = self._codes[index]
        return FileOperator(type, inputs, outputs, options, graphs, version)

    def _tensor(self, tensor: Any) -> FileTensor:
        name, dtype = self._text(tensor.Name()), self._schema.dtype(tensor.Type())
        number = tensor.Buffer()
        if not 0 <= number < len(self._buffers):
            self._fail(f"tensor {name!r} has the buffer {number} of {len(self._buffers)}")
        data = self._buffers[number]
        shape = self._list(tensor.ShapeAsNumpy())
        if data is None:
            # ShapeSignature marks unknown lengths. Shape may contain the lengths of a single call instead.
            signature_shape = self._list(tensor.ShapeSignatureAsNumpy())
            shape = signature_shape or shape
        if len(shape) > AXES or any(length < UNKNOWN_LENGTH for length in shape):
            self._fail(f"tensor {name!r} has the shape {shape[:AXES]}")
        # An empty shape means a scalar if the file declares the rank, and an unknown shape otherwise.
        known = bool(shape) or data is not None or tensor.HasRank()
        return FileTensor(
            name,
            shape if known else None,
            dtype,
            data,
            self._quantization(tensor.Quantization(), name),
            tensor.IsVariable(),
            self._sparsity(tensor.Sparsity()),
        )

    def _quantization(self, quantization: Any, name: str) -> Quantization | None:
        if quantization is None:
            return None
        scale, zero = self._array(quantization.ScaleAsNumpy()), self._array(quantization.ZeroPointAsNumpy())
        if not scale.size:
            return None
        if zero.size not in (0, scale.size):
            self._fail(f"tensor {name!r} has {scale.size} scales and {zero.size} zero points")
        few = scale.size <= _MAX_VALUES
        return Quantization(
            self._byte_range(scale),
            self._byte_range(zero),
            quantization.QuantizedDimension(),
            scale.size,
            tuple(scale.tolist()) if few else (),
            (tuple(zero.tolist()) if zero.size else (0,) * scale.size) if few else (),
        )

    def _sparsity(self, sparsity: Any) -> Sparsity | None:
        if sparsity is None:
            return None
        levels = self._tables(sparsity.DimMetadataLength(), sparsity.DimMetadata, "levels")
        return Sparsity(
            self._list(sparsity.TraversalOrderAsNumpy()),
            self._list(sparsity.BlockMapAsNumpy()),
            tuple([self._level(level) for level in levels]),
        )

    def _level(self, level: Any) -> Level:
        """Return a level of a sparse tensor; the file stores its indices with 8, 16 or 32 bits."""
        if level.Format() == self._schema.package.DimensionType.DENSE:
            return Level(level.DenseSize())
        lists = []
        for number, table in (
            (level.ArraySegmentsType(), level.ArraySegments()),
            (level.ArrayIndicesType(), level.ArrayIndices()),
        ):
            indices = self._schema.index_vector(number)
            if table is None or indices is None:
                self._fail("a sparse level has no indices")
            indices.Init(table.Bytes, table.Pos)
            lists.append(self._array(indices.ValuesAsNumpy()).astype(np.int64))
        return Level(0, *lists)

    def _buffer(self, buffer: Any) -> ByteRange | None:
        """Return the byte range of a buffer, inside or after the flatbuffer; return None if the buffer is empty."""
        if buffer.Offset() > 1:
            part = ByteRange(buffer.Offset(), buffer.Size())
            if part.first + part.size > self._file.size:
                self._fail(
                    f"a buffer has {part.size:,} bytes from {part.first:,}, but the file has {self._file.size:,}"
                )
            return part if part.size else None
        data = buffer.DataAsNumpy()
        return self._byte_range(data) if isinstance(data, np.ndarray) and data.size else None

    def _byte_range(self, part: NDArray[Any]) -> ByteRange:
        """Return the byte range of ``part``, a view of the file's bytes."""
        if not part.size:
            return ByteRange(0, 0)
        # the package returns views without offsets, so addresses are compared
        return ByteRange(part.ctypes.data - self._bytes.ctypes.data, part.nbytes)

    def _signature(self, signature: Any, graphs: Sequence[FileGraph]) -> Signature:
        key, number = self._text(signature.SignatureKey()), signature.SubgraphIndex()
        if not 0 <= number < len(graphs):
            self._fail(f"the signature {key!r} has the graph {number} of {len(graphs)}")
        ends = []
        for count, entries in (
            (signature.InputsLength(), signature.Inputs),
            (signature.OutputsLength(), signature.Outputs),
        ):
            tensors = self._tables(count, entries, "names of a signature")
            ends.append({self._text(entry.Name()): entry.TensorIndex() for entry in tensors})
        return Signature(key, number, *ends)

    def _tables(self, count: int, table: Callable[[int], Any], what: str) -> list[Any]:
        """Return ``count`` tables of a list, after comparing the list's length with the file size."""
        self._claim(4 * count, what)
        return [table(index) for index in range(count)]

    def _numbers(self, array: Any, count: int, what: str, optional: bool = False) -> tuple[int, ...]:
        """Return the tensor indices in ``array``; raise FileError if there is no tensor with such an index."""
        indices = self._list(array)
        minimum = -1 if optional else 0
        invalid = next((index for index in indices if not minimum <= index < count), None)
        if invalid is not None:
            self._fail(f"{what} is tensor {invalid} of {count}")
        return indices

    def _list(self, array: Any) -> tuple[Any, ...]:
        return tuple(self._array(array).tolist())

    def _array(self, array: Any) -> NDArray[Any]:
        """Return the elements of a list of numbers; it is empty for 0, the package's value for a missing list."""
        if not isinstance(array, np.ndarray):
            return np.empty(0, np.int32)
        self._claim(array.nbytes, "numbers")
        return array

    def _text(self, text: bytes | None) -> str:
        if not text:
            return ""
        self._claim(len(text), "strings")
        return text.decode("utf-8", "backslashreplace")

    def _claim(self, size: int, what: str) -> None:
        self._left -= size
        if size > self._file.size or self._left < 0:
            self._fail(f"it declares more {what} than fit in its {self._file.size:,} bytes")

    def _fail(self, problem: str) -> NoReturn:
        raise FileError(problem, path=self._path, rule=_RULE, fix=_FIX) from None
