"""Operators on blobs of any type, which run separately, between the planned parts of a net.

For example, such operators load, store or read records, so they need files or values other than tensors. A workspace
runs them at their positions in the net, and plans the operators between two of them together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from explorer.core.argument_checks import named
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.registry import Registry
from explorer.net.blob import Blob
from explorer.net.definition.definition import OperatorDefinition
from explorer.net.operators.caffe2 import TABLE

_Value = TypeVar("_Value")
_Run = TypeVar("_Run", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class BlobOperator:
    """Running operator with access to its input and output blobs by position."""

    definition: OperatorDefinition
    inputs: tuple[Blob, ...]
    outputs: tuple[Blob, ...]

    def input(self, position: int, kind: type[_Value]) -> _Value:
        """Return an input as an instance of ``kind``; if ``kind`` is Tensor, an array is converted.

        Raise OperandError for a value of another class.
        """
        blob = self._at(self.inputs, position, "inputs")
        # Blobs contain arrays instead of tensors, so a tensor is created on request.
        if issubclass(kind, Tensor) and isinstance(blob.value(), np.ndarray):
            return cast("_Value", tensor(blob.value(), name=blob.name))
        return blob.get(kind)

    def output(self, position: int, kind: type[_Value]) -> _Value:
        """Return an output's value, to be modified in place; any other value is first replaced with ``kind()``."""
        return self._at(self.outputs, position, "outputs").get_mutable(kind)

    def set_output(self, position: int, value: Any) -> None:
        """Set an output; a tensor is stored as its array, and a number as an array."""
        if isinstance(value, Tensor):
            value = value.array
        elif isinstance(value, (bool, int, float, complex, np.generic)):
            value = np.asarray(value)
        self._at(self.outputs, position, "outputs").reset(value)

    def _at(self, blobs: tuple[Blob, ...], position: int, role: str) -> Blob:
        if not 0 <= position < len(blobs):
            raise OperandError(
                f"index {position} of {len(blobs)} {role}: {', '.join([blob.name for blob in blobs]) or 'none'}",
                rule=f"{self.definition.type} must have at least {position + 1} {role}",
                fix=f"give it {position + 1}",
            )
        return blobs[position]


BLOB_OPERATORS: Registry[str, Callable[..., None]] = Registry("operator type on blobs")
"""operator type → function that runs it, called with a BlobOperator and the arguments as keywords"""


@named
def blob_operator(*types: str, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> Callable[[_Run], _Run]:
    """Return a decorator that declares ``function(op, *, arguments)`` as an operator type on blobs of any class.

    The function reads ``op.input(0, kind)``, and calls ``op.set_output(0, value)`` or modifies ``op.output(0, kind)``.
    Its keyword-only parameters are the operator's arguments. ``inputs`` and ``outputs`` are the allowed numbers of
    blobs; by default, any number of inputs and at least one output. Nets with such operators run only in a workspace.

    >>> @ex.blob_operator("CountWords", inputs=(1,), outputs=(1,))
    ... def count_words(op, *, least: int = 1):
    ...     "Number of words in a string with at least ``least`` letters."
    ...     op.set_output(0, sum(len(word) >= least for word in op.input(0, str).split()))
    >>> workspace = ex.Workspace()
    >>> workspace.feed_blob("text", "one engine, not two")
    >>> workspace.run_operator_once("CountWords", "text", "count", least=4)
    >>> workspace.fetch_blob("count")
    array(1)
    """

    def decorate(function: _Run) -> _Run:
        for name in types or (function.__name__,):
            options = {"inputs": inputs, "outputs": outputs, "in_place": _EACH, "planned": False}
            # Nets are written and checked against the main table, so the type is added there too, marked as unplanned.
            TABLE.declare(name, gradient="none", **options)(_declared(name, function))
            BLOB_OPERATORS[name] = function
        return function

    return decorate


_EACH = tuple((position, position) for position in range(8))
"""an operator may modify a blob in place"""


def _declared(type: str, function: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that provides the schema of an operator type and raises an error if it is called."""

    def build(*blobs: Expr, **arguments: Any) -> Any:
        raise OperandError(
            f"{type} among planned operations",
            rule=f"{type} must be run in a workspace, because it works on files, or on blobs that are not tensors",
            fix="ex.Workspace().run_net_once(net)",
        )

    signature = inspect.signature(function, eval_str=True)
    blobs = inspect.Parameter("blobs", inspect.Parameter.VAR_POSITIONAL, annotation=Expr)
    written = [parameter for parameter in signature.parameters.values() if parameter.kind is parameter.KEYWORD_ONLY]
    # used by help and completion; typeshed does not declare it for functions
    build.__signature__ = inspect.Signature([blobs, *written], return_annotation=tuple[Expr, ...])  # type: ignore[attr-defined]
    build.__annotations__ = {
        "blobs": Expr,
        **{parameter.name: parameter.annotation for parameter in written},
        "return": tuple[Expr, ...],
    }
    build.__doc__, build.__module__, build.__qualname__ = function.__doc__, function.__module__, function.__qualname__
    return build
