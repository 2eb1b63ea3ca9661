"""Versions, dtypes and devices of the namespace, and the functions of the standard that are absent."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types.device import Device, cpu

VERSIONS = ("2022.12", "2023.12", "2024.12")
"""versions of the standard whose functions have the same meaning here"""

_BY_VALUE = "the shape of the result depends on values, which are not known when an expression is written"

ABSENT: Mapping[str, str] = dict.fromkeys(
    ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"), _BY_VALUE
)
"""function of the standard's main namespace that is absent → reason"""

_DTYPES = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


def array_namespace(api_version: str | None = None) -> Any:
    """Return the namespace; raise OperandError for another version of the standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise OperandError(
            f"api_version={api_version!r}",
            rule=f"the version must be one of {', '.join(VERSIONS)}",
            fix="x.__array_namespace__()",
        )
    return import_module("explorer.array_api")


class NamespaceInfo:
    """Capabilities, dtypes and devices of the namespace, as the standard defines them."""

    def capabilities(self) -> dict[str, Any]:
        """Return that indexing with booleans and shapes that depend on values are not supported."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the processor."""
        return cpu

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of Python numbers and of indices."""
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(
        self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Return the dtypes by name: all, or those of a kind, such as "real floating", or of several kinds."""
        wanted = tuple(_DTYPES) if kind is None else (kind,) if isinstance(kind, str) else kind
        kinds = [part for each in wanted for part in _KINDS.get(each, (each,))]
        unknown = [part for part in kinds if part not in _DTYPES]
        if unknown:
            raise OperandError(
                f"kind={unknown[0]!r}", rule=f"a kind is one of {', '.join([*_DTYPES, *_KINDS])}", fix='kind="numeric"'
            )
        return {name: np.dtype(name) for part in kinds for name in _DTYPES[part]}

    def devices(self) -> list[Device]:
        """Return the devices that need no further package."""
        return [cpu]


def __array_namespace_info__() -> NamespaceInfo:  # noqa: N807  # the standard's name
    """Return the capabilities, dtypes and devices of the namespace."""
    return NamespaceInfo()
