"""Schema of TensorFlow Lite from the package ``tflite``: names of operator types, dtypes and options.

In the package, each operator type has a class whose methods without arguments return the options. The options become
operator arguments with the schema's names, such as ``stride_w``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import printable
from explorer.formats.common.unsupported_formats import TFLITE
from explorer.net.definition.definition import Plain

_PACKAGE = "tflite"
_ENUMERATIONS = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "mode": "MirrorPadMode",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "kernel_type": "LSTMKernelType",
    "combiner": "CombinerType",
    "reduce_function": "ReduceWindowFunction",
    "comparison_direction": "StablehloComparisonDirection",
    "compare_type": "StablehloComparisonType",
}
"""name of the enumeration of each option with an enumerated value"""
_DTYPES = frozenset(("in_data_type", "out_data_type", "output_type", "out_type", "idx_out_type"))
"""options whose values are dtypes"""
_GRAPH = re.compile("(?:(.+)_)?subgraph(?:_index)?")
"""pattern of the options that contain the index of an inner graph: ``then_subgraph_index``, and ``subgraph`` of CALL"""
_BUILTIN_CODE = 10
"""offset of the newer of the two code fields in an operator code's table"""
_NO_OPTIONS = ("Init", "GetRootAs")
"""prefixes of methods that are not options"""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

Decode = Callable[[bytes | None], str]
Lists = Callable[[Any], tuple[Any, ...]]


def snake_case(name: str) -> str:
    """Convert a name in the package to the schema's name, such as ``StrideW`` to ``stride_w``."""
    return _CAMEL.sub("_", name).lower()


class Schema:
    """The package ``tflite`` and the names in its enumerations."""

    def __init__(self, path: Path) -> None:
        """Import the package; if it is not installed, raise FileError for the file ``path``."""
        if find_spec(_PACKAGE) is None:
            raise FileError(
                f"a TensorFlow Lite file, but the package {_PACKAGE} is not installed",
                path=printable(path),
                rule=f"{_PACKAGE} must be installed to open TensorFlow Lite files",
                fix=f'pip install "explorer-graphs[tflite]", or convert the file: {TFLITE.fix_for(path)}',
            )
        self.package: Any = import_module(_PACKAGE)
        self._types = _names(self.package.BuiltinOperator)
        self._tensor_types = _names(self.package.TensorType)
        self._index_vectors = _names(self.package.SparseIndexVector)
        self._options = _names(self.package.BuiltinOptions), _names(self.package.BuiltinOptions2)
        self._enumerations = {option: _names(getattr(self.package, name)) for option, name in _ENUMERATIONS.items()}
        self._readers: dict[str, Mapping[str, tuple[str, bool]]] = {}
        """for each class name, a dict from each option to its method and whether the option is a list"""

    def operator_type(self, code: Any, text: Decode) -> str:
        """Return the operator type of ``code``; for a custom operator, CUSTOM followed by its name."""
        # A file may set either field, but the package reads the newer field only for codes from 127.
        offset = code._tab.Offset(_BUILTIN_CODE)
        newer = (
            code._tab.Get(import_module("flatbuffers.number_types").Int32Flags, code._tab.Pos + offset) if offset else 0
        )
        number = max(newer, code.DeprecatedBuiltinCode())
        name = self._types.get(number, f"operator {number}")
        return f"{name} {text(code.CustomCode())}" if name == "CUSTOM" else name

    def dtype(self, number: int) -> str:
        """Return the name of the dtype with the number ``number``."""
        return self._tensor_types.get(number, f"type {number}").lower()

    def index_vector(self, number: int) -> Any:
        """Return an empty table for the indices of a sparse level, or None if the type ``number`` is unknown."""
        name = self._index_vectors.get(number, "NONE")
        return None if name == "NONE" else getattr(self.package, name)()

    def options(self, operator: Any, numbers: Lists, text: Decode) -> tuple[dict[str, Plain], dict[str, int]]:
        """Return the options of ``operator`` by name, and the indices of its inner graphs by name."""
        values: dict[str, Plain] = {}
        graphs: dict[str, int] = {}
        for names, number, table in (
            (self._options[0], operator.BuiltinOptionsType(), operator.BuiltinOptions()),
            (self._options[1], operator.BuiltinOptions2Type(), operator.BuiltinOptions2()),
        ):
            name = names.get(number, "NONE")
            if table is None or name == "NONE":
                continue
            options = getattr(self.package, name)()
            options.Init(table.Bytes, table.Pos)
            for option, (method, is_list) in self._reader(name).items():
                value = getattr(options, method)()
                if is_list:
                    values[option] = numbers(value)
                elif isinstance(value, int) and (graph := _GRAPH.fullmatch(option)):
                    graphs[graph[1] or "body"] = value
                elif (plain := self._plain(option, value, text)) is not None:
                    values[option] = plain
        custom = operator.CustomOptionsLength()
        if custom:
            values["custom_options"] = f"{custom:,} bytes"
        return values, graphs

    def _plain(self, option: str, value: Any, text: Decode) -> Plain:
        if isinstance(value, bytes):
            return text(value)
        if isinstance(value, int) and option in self._enumerations:
            return self._enumerations[option].get(value, f"{option} {value}")
        if isinstance(value, int) and option in _DTYPES:
            return self.dtype(value)
        return value if isinstance(value, (bool, int, float)) else None

    def _reader(self, name: str) -> Mapping[str, tuple[str, bool]]:
        """Return, for each option in the class ``name``, its method and whether it is a list."""
        if name not in self._readers:
            methods = {
                method: [*inspect.signature(function).parameters]
                for method, function in vars(getattr(self.package, name)).items()
                if inspect.isfunction(function) and not method.startswith(_NO_OPTIONS)
            }
            lists = {method.removesuffix("AsNumpy") for method in methods if method.endswith("AsNumpy")}
            reader = {snake_case(method): (f"{method}AsNumpy", True) for method in lists}
            suffixes = ("AsNumpy", "Length", "IsNone")
            for method, parameters in methods.items():
                derived = any(method.removesuffix(suffix) in methods for suffix in suffixes if method.endswith(suffix))
                if parameters == ["self"] and not derived and method not in lists:
                    reader[snake_case(method)] = method, False
            self._readers[name] = reader
        return self._readers[name]


def _names(enumeration: Any) -> dict[int, str]:
    """Return the names of an enumeration, keyed by value."""
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}
