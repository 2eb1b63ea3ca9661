"""Conversion of expressions, layers and functions of tensors to a model.

A function is recorded for the types of its inputs, and again with other lengths if some lengths are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.pytree import flatten
from explorer.core.types.tensor_type import TensorType
from explorer.formats.onnx.writing import expression_writer
from explorer.formats.onnx.writing.node_writer import Counterparts
from explorer.formats.onnx.writing.written_model import Model

_LENGTHS = 3, 5
"""values of the first unknown length in the two recordings; further unknown lengths get larger values"""


def model_of(name: str, what: Any, inputs: Mapping[str, Any] | None) -> tuple[Model, ModelProto]:
    """Return the model of expressions, or of a function recorded for ``inputs``."""
    if inputs is None:
        if callable(what) and not isinstance(what, Expr):
            raise OperandError(
                f"{what!r} without inputs",
                rule="a layer or a function must be given the shapes of its inputs",
                fix='ex.save(layer, "x.onnx", {"x": ("batch", 3)})',
            )
        outputs = _outputs(what)
        return expression_writer.model_of(name, expression_writer.parameters_of([*outputs.values()]), outputs)
    if not callable(what) or isinstance(what, Expr):
        raise OperandError(
            f"inputs= for a value of type {type(what).__name__}",
            rule="inputs must be given only for a layer or a function, because expressions already have inputs",
            fix='ex.save(expression, "x.onnx")',
        )
    names = list(dict.fromkeys(size for each in inputs.values() for size in _shape(each) if isinstance(size, str)))
    first, second = (
        _recorded(what, inputs, {each: length + 2 * index * length for index, each in enumerate(names)})
        for length in _LENGTHS
    )
    if not names:
        return expression_writer.model_of(name, *first)
    lengths = {_length_pair(index): each for index, each in enumerate(names)}
    counterparts = Counterparts(lengths)
    for expressions, others in zip(first, second, strict=True):
        counterparts.pair([*expressions.values()], [*others.values()])
    return expression_writer.model_of(name, *first, counterparts=counterparts)


def _length_pair(index: int) -> tuple[int, int]:
    return _LENGTHS[0] * (1 + 2 * index), _LENGTHS[1] * (1 + 2 * index)


def _shape(each: Any) -> tuple[int | str, ...]:
    shape = each.shape if isinstance(each, TensorType) else each
    if not isinstance(shape, tuple) or not all(
        (type(size) is int and size >= 0) or isinstance(size, str) for size in shape
    ):
        raise OperandError(
            f"an input {each!r}",
            rule="an input must be a type, or a shape of integers and names of unknown lengths",
            fix='{"x": ("batch", 3)}',
        )
    return shape


def _recorded(
    what: Callable[..., Any], inputs: Mapping[str, Any], lengths: Mapping[str, int]
) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Record a function with the given lengths; return its inputs and outputs."""
    operands = {}
    for name, each in inputs.items():
        shape = tuple([lengths[size] if isinstance(size, str) else size for size in _shape(each)])
        dtype = each.dtype if isinstance(each, TensorType) else np.dtype(np.float32)
        operands[name] = Parameter(TensorType(shape, dtype), name)()
    return operands, _outputs(what(*operands.values()))


def _outputs(what: Any) -> dict[str, Expr]:
    """Return expressions keyed by output name: the keys of a dict, otherwise "output" with a number."""
    if isinstance(what, dict) and all(isinstance(name, str) and isinstance(node, Expr) for name, node in what.items()):
        return dict(what)
    leaves, _ = flatten(what)
    invalid = next((leaf for leaf in leaves if not isinstance(leaf, Expr)), None)
    if invalid is not None or not leaves:
        raise OperandError(
            f"a value of type {type(what if invalid is None else invalid).__name__}",
            rule="only a net, expressions, or a layer or function that returns expressions can be saved",
            fix='ex.save(ex.tanh(x), "x.onnx")',
        )
    return {"output": leaves[0]} if len(leaves) == 1 else {f"output {n}": leaf for n, leaf in enumerate(leaves, 1)}
