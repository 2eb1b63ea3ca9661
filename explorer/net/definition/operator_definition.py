"""Parts of a definition: operators, references to weights, notes about blobs.

Readers of files make them, edits copy them, the builder reads them. All are frozen and hold no expression, so that a
definition can be compared, written and changed without being built.
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
from explorer.core.ir.source_location import Place
from explorer.core.types.custom_dtypes import is_text

Plain: TypeAlias = "bool | int | float | complex | str | tuple[Plain, ...] | None"
Dimension: TypeAlias = int | str | None
"""a length, the name of an unknown length, or None for an unknown one without a name"""
Weights: TypeAlias = Mapping[str, NDArray[Any]]
"""arrays by key; a file's mapping reads an array when it is asked for, a plain dict serves as well"""


CONTAINERS = ("sequence", "optional", "optional sequence")
"""values that hold tensors: a list of them, a value that may be absent, and both"""
_DTYPE = re.compile(r"[<>=|]?[A-Za-z]{1,16}[0-9]{0,3}", re.ASCII)
"""pattern of the names of dtypes; NumPy reads other texts as descriptions of records, of any length"""


class FileWeights(Mapping[str, NDArray[Any]]):
    """The weights of a file by key; a look-up reads one, :meth:`verify` tells whether it could."""

    @abstractmethod
    def verify(self, key: str) -> None:
        """Raise FileError where a weight cannot be read; no array is made."""


@dataclass(frozen=True, slots=True)
class WeightReference:
    """Reference to an operator's weight: its key in the definition's weights, shape, and dtype name as stored.

    The dtype is NumPy's name, or "bfloat16" or "complex32", which NumPy lacks; bfloat16 is handed out as float32.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class OperatorDefinition:
    """One operator: its type, blobs in order, plain arguments and weights, and where its file says so.

    ``input_names`` maps names of the operator's parameters to the blobs that were passed for them, where a file tells.
    ``boxes`` are the boxes around it, outermost first, where the file tells them otherwise than by the name: none for a
    name that was made up. ``doc`` is what its author says of it. ``line`` counts from 1, in a binary file it is the
    node's number, 0 where there is no file; ``text`` is that line. Both are left out of comparisons.
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
    """the cell or script that wrote the operator, where that is not the net's source"""
    code: Place | None = field(default=None, compare=False, repr=False)
    """the line of the program that the file was exported from, where the file notes it"""
    bodies: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """definitions of the inner graphs of control flow by their names; their inputs are parameters, and then captured
    blobs of the net around them, under the names that they have there"""

    @property
    def place(self) -> str:
        """Its name and line, as errors say them: ``'conv1' (line 3)``."""
        return f"{self.name!r} (line {self.line})" if self.line else repr(self.name)


@dataclass(frozen=True, slots=True)
class BlobType:
    """Type of a blob as a file notes it: shape (None where the file notes none) and the name of the dtype.

    ``container`` is one of CONTAINERS where it is the type of the tensors in one, else "". ``keys`` name the elements
    of an array that stands for a dictionary.
    """

    shape: tuple[Dimension, ...] | None = None
    dtype: str | None = None
    container: str = ""
    keys: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlobDefinition:
    """One version of a blob: what its file says of its type, its producer (None: an input) and who reads it.

    ``name`` is its own: that of the blob, or ``x@0``, ``x@1``, … where a program writes the blob ``x`` more than once.
    """

    name: str
    shape: tuple[Dimension, ...] | None
    dtype: str | None
    producer: str | None
    consumers: tuple[str, ...]
    blob: str
    """the name that the program's text uses"""
    version: int = 0
    """number of earlier writes to the blob"""
    container: str = ""
    """one of CONTAINERS where it holds tensors of this type, else nothing"""
    keys: tuple[str | int, ...] = ()
    """the keys of a dictionary, for whose values the elements stand"""

    @property
    def noted(self) -> BlobType:
        """Type that the file notes."""
        return BlobType(self.shape, self.dtype, self.container, self.keys)

    @property
    def is_sequence(self) -> bool:
        """Whether its value is a tuple of tensors."""
        return self.container.endswith("sequence")

    @property
    def is_optional(self) -> bool:
        """Whether its value may be absent."""
        return self.container.startswith("optional")

    @property
    def params(self) -> dict[str, str]:
        """The names of unknown lengths as PNNX keeps them with an operand: ``{"__shape__0": "batch"}``."""
        lengths = enumerate(self.shape or ())
        return {f"__shape__{axis}": length for axis, length in lengths if isinstance(length, str)}


NARROW = frozenset((
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
    "int4", "uint4", "int2", "uint2",
))  # fmt: skip
"""names of the dtypes of 8 bits or fewer that NumPy lacks"""


STRING = "string"
"""name of the dtype of texts of any length, which files note"""
_TEXTS = re.compile("text([1-9][0-9]{0,7})")


def is_noted(dtype: np.dtype[Any], noted: np.dtype[Any]) -> bool:
    """Whether elements are of the dtype that a file notes; texts may have any length."""
    return dtype == noted or (is_text(dtype) and is_text(noted))


@functools.lru_cache
def memory_dtype(name: str) -> np.dtype[Any]:
    """The dtype in memory of one that a file names: bfloat16 is widened to float32, complex32 to complex64.

    Narrower dtypes (float8_e4m3fn, int4) are those of the package ml_dtypes, an element a byte. Texts are ``text8``, of
    up to 8 characters each, or ``string``, of any length: NumPy's dtype without one. Raises TypeError for other names.
    """
    if name == STRING:
        return np.dtype(np.str_)
    if texts := _TEXTS.fullmatch(name):
        return np.dtype((np.str_, int(texts[1])))
    if name in NARROW:
        import ml_dtypes

        narrow: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return narrow
    if not _DTYPE.fullmatch(name):
        raise TypeError(f"{name[:40]!r} is no dtype of numbers")
    dtype: np.dtype[Any] = np.dtype({"bfloat16": "float32", "complex32": "complex64"}.get(name, name))
    if dtype.kind not in "biufc" or dtype.name not in (name, "float32", "complex64"):
        raise TypeError(f"{name!r} is no dtype of numbers")
    return dtype


def stored_dtype(name: str) -> np.dtype[Any]:
    """The dtype in files of NumPy of one that a file names: bytes for elements that NumPy lacks."""
    return np.dtype(np.uint8) if name in NARROW else memory_dtype(name)


def graph_error(
    source: str, operator: OperatorDefinition | None, problem: str, *, rule: str, fix: str
) -> ExplorerError:
    """An error about a graph: a FileError with the operator's line where it came from a file, else an OperandError."""
    if source:
        return FileError(problem, path=source, line=(operator and operator.line) or None, rule=rule, fix=fix)
    return OperandError(problem, rule=rule, fix=fix)
