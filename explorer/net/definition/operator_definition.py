"""Parts of a definition: operators, references to weights, and declared types of blobs.

File readers create them, edits copy them, and the builder reads them. They are immutable and contain no expressions, so
a definition can be compared, written and changed without being built.
"""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import ExplorerError, FileError, OperandError
from explorer.core.ir.source_location import SourceLocation
from explorer.core.types.custom_dtypes import is_text
from explorer.record import OperatorType

Plain: TypeAlias = "bool | int | float | complex | str | tuple[Plain, ...] | None"
Dimension: TypeAlias = int | str | None
"""length of a dimension, name of an unknown length, or None for an unknown length without a name"""
Weights: TypeAlias = Mapping[str, NDArray[Any]]
"""mapping of keys to arrays, such as a dict, or the mapping of a file, which reads an array at each access"""


CONTAINERS = ("sequence", "optional", "optional sequence")
"""kinds of values that contain tensors: a list of tensors, a tensor that may be absent, and a list that may be
absent"""
_DTYPE = re.compile(r"[<>=|]?[A-Za-z]{1,16}[0-9]{0,3}", re.ASCII)
"""pattern of dtype names; NumPy parses other strings as descriptions of records, of any length"""


class FileWeights(Mapping[str, NDArray[Any]]):
    """Mapping of the weights in a file, which reads a weight at each access."""

    @abstractmethod
    def verify(self, key: str) -> None:
        """Raise FileError if a weight cannot be read, without creating an array."""


@dataclass(frozen=True, slots=True)
class WeightReference:
    """Reference to an operator's weight: its key in the definition's weights, shape, and dtype name as stored.

    The dtype is NumPy's name, or "bfloat16" or "complex32", which NumPy lacks; bfloat16 is returned as float32.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str


CAPTURED = "captured "
"""prefix of the parameter names, "captured 0", …, of operands that only an operator's inner graphs read"""


@dataclass(frozen=True, slots=True)
class OperatorDefinition:
    """One operator: its type, blobs in order, plain arguments and weights, and its location in the file.

    ``input_names`` maps names of the operator's parameters to the blobs passed for them, if the file has them.
    ``boxes`` are the boxes around the operator, outermost first, if the file specifies them separately from the name.
    ``doc`` is the author's description. ``line`` is the line number, counted from 1; it is the index of the node in a
    binary file, and 0 without a file. ``text`` is the text of the line. Comparisons ignore ``line`` and ``text``.
    """

    type: str
    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    arguments: Mapping[str, Plain] = field(default_factory=dict)
    input_names: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, WeightReference] = field(default_factory=dict)
    line: int = field(default=0, compare=False)
    text: str = field(default="", compare=False, repr=False)
    boxes: tuple[str, ...] | None = None
    doc: str = ""
    file: str = field(default="", compare=False, repr=False)
    """the cell or script that wrote the operator, if it is not the net's source"""
    code: SourceLocation | None = field(default=None, compare=False, repr=False)
    """the line of the program from which the file was exported, if the file declares it"""
    bodies: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """definitions of the inner graphs of a loop or branch by name; the inputs of each are first its parameters, then
    the blobs of the enclosing net that it reads, with the same names"""
    documentation: OperatorType | None = field(default=None, compare=False, repr=False)
    """domain, version and documentation of the type; None if the format has none"""
    implied: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """arguments that the file omits, and that the reader adds because its version of the type has another default"""
    metadata: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """(name, value) pairs that the file states about the operator, its outputs and its weights"""

    @property
    def quoted_label(self) -> str:
        """Name and line of the operator for error messages: ``'conv1' (line 3)``."""
        return f"{self.name!r} (line {self.line})" if self.line else repr(self.name)


@dataclass(frozen=True, slots=True)
class BlobType:
    """Type of a blob as declared in a file: shape (None if not declared) and dtype name.

    For the type of a container's tensors, ``container`` is one of CONTAINERS; otherwise, it is "". ``keys`` are the
    keys of a dictionary that the array represents.
    """

    shape: tuple[Dimension, ...] | None = None
    dtype: str | None = None
    container: str = ""
    keys: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlobDefinition:
    """One version of a blob: its declared type, its producer (None: an input) and its readers.

    ``name`` is unique: the blob's name, or ``x@0``, ``x@1``, … if a program writes the blob ``x`` more than once.
    """

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str | None
    producer: str | None
    consumers: tuple[str, ...]
    blob: str
    """the name used in the program's text"""
    version: int = 0
    """number of earlier writes to the blob"""
    container: str = ""
    """one of CONTAINERS if it contains tensors of this type, else an empty string"""
    keys: tuple[str | int, ...] = ()
    """the keys of a dictionary whose values the elements represent"""

    @property
    def declared_type(self) -> BlobType:
        """The type declared in the file."""
        return BlobType(self.shape, self.dtype, self.container, self.keys)

    @property
    def is_sequence(self) -> bool:
        """Whether the value of the blob is a tuple of tensors."""
        return self.container.endswith("sequence")

    @property
    def is_optional(self) -> bool:
        """Whether the value of the blob may be absent."""
        return self.container.startswith("optional")

    @property
    def params(self) -> dict[str, str]:
        """Names of unknown lengths in the form of PNNX: ``{"__shape__0": "batch"}``."""
        lengths = enumerate(self.shape or ())
        return {f"__shape__{axis}": length for axis, length in lengths if isinstance(length, str)}


NARROW = frozenset((
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    "int4", "uint4", "int2", "uint2",
))  # fmt: skip
"""names of the dtypes with at most 8 bits that NumPy lacks"""


STRING = "string"
"""dtype name of strings of any length in files"""
_STRINGS = re.compile("text([1-9][0-9]{0,7})")


def matches_dtype(dtype: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    """Return whether ``dtype`` is the declared dtype, ignoring the length of strings."""
    return dtype == declared or (is_text(dtype) and is_text(declared))


@functools.lru_cache
def memory_dtype(name: str) -> np.dtype[Any]:
    """Return the in-memory dtype for a dtype name in a file: float32 for bfloat16, and complex64 for complex32.

    Narrower dtypes (float8_e4m3fn, int4) are from ml_dtypes and use one byte per element. ``text8`` is a string of up
    to 8 characters, and ``string`` is NumPy's dtype without a length. Raise TypeError for other names.
    """
    if name == STRING:
        return np.dtype(np.str_)
    if strings := _STRINGS.fullmatch(name):
        return np.dtype((np.str_, int(strings[1])))
    if name in NARROW:
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return narrow
    if not _DTYPE.fullmatch(name):
        raise TypeError(f"{name[:40]!r} is not a numeric dtype")
    dtype: np.dtype[Any] = np.dtype({"bfloat16": "float32", "complex32": "complex64"}.get(name, name))
    if dtype.kind not in "biufc" or dtype.name not in (name, "float32", "complex64"):
        raise TypeError(f"{name!r} is not a numeric dtype")
    return dtype


def stored_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype with which NumPy files store a dtype name; dtypes that NumPy lacks are stored as bytes."""
    return np.dtype(np.uint8) if name in NARROW else memory_dtype(name)


def graph_error(
    source: str, operator: OperatorDefinition | None, problem: str, *, rule: str, fix: str
) -> ExplorerError:
    """Return an error about a graph: a FileError with the operator's line for a file, else an OperandError."""
    if source:
        return FileError(problem, path=source, line=(operator and operator.line) or None, rule=rule, fix=fix)
    return OperandError(problem, rule=rule, fix=fix)
