"""Examples of every registered operation, as pytest parameters; newly registered operations are included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import explorer.formats.onnx.operators  # formats, nets and training register operations
import explorer.formats.pnnx.operators  # as above
import explorer.formats.tflite.operators  # as above
import explorer.train  # as above
from explorer.core import registry
from explorer.core.ir.expr import Operation
from explorer.testing.laws.cases import Case, cases_of

FAMILIES = "explorer."
EXERCISES = {"explorer.course.chapters.notebook_15_own", "explorer.course.chapters.notebook_18_passes"}
"""modules that register operations and passes, as user code would"""


def operations() -> list[type[Operation]]:
    """Return the package's own operations by name, without those that tests register."""
    explorer.formats.onnx.operators.TABLE.types()  # imports the operators of all domains
    result = registry.operations
    modules = {name: result[name].__module__ for name in sorted(result)}
    return [result[name] for name, module in modules.items() if module.startswith(FAMILIES) and module not in EXERCISES]


def every_case() -> list[Case]:
    return [case for operation_class in operations() if operation_class.examples for case in cases_of(operation_class)]


def parameters(cases: Iterable[Case]) -> list[Any]:
    """Return the pytest parameters of all examples, with IDs of the operation's name and the example's number."""
    counts: dict[str, int] = {}
    results = []
    for case in cases:
        number = counts[case.operation.name] = counts.get(case.operation.name, -1) + 1
        results.append(pytest.param(case, id=f"{case.operation.name}-{number}"))
    return results
