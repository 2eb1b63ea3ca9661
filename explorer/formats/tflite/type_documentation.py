"""Documentation of TensorFlow Lite's operator types: the docstrings of their builders, and pages of the standard."""

from __future__ import annotations

from functools import lru_cache

from explorer.formats.common.type_documentation import docstring_texts
from explorer.formats.tflite.operators.table import TABLE
from explorer.record import OperatorType

_PAGE = "https://www.tensorflow.org/mlir/tfl_ops#tfl{name}_tfl{words}op"
"""page that lists all types, with a heading for each: ``tfl.conv_2d (TFL::Conv2DOp)``"""


def documented_type(type: str, version: int) -> OperatorType:
    """Return the documentation of a type in the version that a file declares; operators of a type share it."""
    return _documented(type, version, TABLE.version)


@lru_cache(maxsize=1024)
def _documented(type: str, version: int, registrations: int) -> OperatorType:
    url = ""
    if type in TABLE and TABLE.is_own(type):
        url = _PAGE.format(name=type.lower(), words=type.lower().replace("_", ""))
    text, description = docstring_texts(TABLE, type)
    return OperatorType(type, f"TensorFlow Lite, version {version}", text, url, description=description)
