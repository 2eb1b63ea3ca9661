"""Parts of a TensorFlow Lite file, as plain values: what the flatbuffer states, without its weights.

``message`` makes them, and checks that every place lies in the file; the reader makes a definition of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from explorer.formats.tflite.sparsity import Sparsity
from explorer.net.definition.definition import Plain

UNKNOWN_LENGTH = -1
"""a length that the file leaves open"""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of the file: ``size`` of them from ``first``."""

    first: int
    size: int


@dataclass(frozen=True, slots=True)
class Quantization:
    """The map from stored whole numbers to real ones, ``scale · (q − zero_point)``, for each channel of an axis.

    ``scale`` and ``zero_point`` are the places of float32 and int64 numbers in the file, and their values where there
    are few.
    """

    scale: Place
    zero_point: Place
    axis: int
    count: int
    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of a graph: its types, and the place of its elements if it is a constant.

    ``shape`` has ``UNKNOWN_LENGTH`` for each length that is open; None if the number of axes is open, too.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    data: Place | None
    quantization: Quantization | None
    is_variable: bool
    sparsity: Sparsity | None


@dataclass(frozen=True, slots=True)
class FileOperator:
    """An operator: its type, its tensors by their numbers (−1 for one that is left out), and its options."""

    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Plain]
    graphs: Mapping[str, int] = field(default_factory=dict)
    """numbers of the inner graphs by their names: those of branches and bodies"""


@dataclass(frozen=True, slots=True)
class FileGraph:
    """A graph of the file."""

    name: str
    tensors: tuple[FileTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FileOperator, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """A function that the file offers: its key, its graph's number, and tensors by the names that callers use."""

    key: str
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FileModel:
    """Everything that a file states: the first graph is the net, others are bodies or other signatures' graphs."""

    version: int
    description: str
    graphs: tuple[FileGraph, ...]
    signatures: tuple[Signature, ...]
