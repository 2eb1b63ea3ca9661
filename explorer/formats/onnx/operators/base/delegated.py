"""Rare operators, delegated to the onnx package's reference evaluator.

A delegated operator has no gradient and no batching rule, and is not fused. The standard's type inference determines
the types of its results. If a shape depends on values, the operator runs while the net is built.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, defs, helper, numpy_helper
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError, infer_node_outputs

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import item
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.tensor_type import AnyType, Array, TensorType, TupleType
from explorer.formats.onnx.operators.base.operator_inputs import dtype_of_code
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.definition.definition import Plain
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, is_known, required, value_of

TYPES = (
    "BitCast", "Compress", "CumProd", "DFT", "Det", "ImageDecoder", "MaxUnpool",
    "MelWeightMatrix", "NonZero", "RegexFullMatch", "ReverseSequence", "STFT",
    "StringConcat", "StringNormalizer", "StringSplit", "TensorScatter",
)  # fmt: skip
"""delegated operator types"""


class Types(tuple[TensorType, ...]):
    """Types of results, wrapped so that ``OperatorContext.ask`` can return them as a value."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self))


class Delegated(Operation):
    """Operation computed by the onnx package's reference evaluator."""

    kind: str
    """operator type in the file"""
    arguments: tuple[tuple[str, Plain], ...]
    """(name, value) pairs of the file's attributes"""
    is_given: tuple[bool, ...]
    """whether each input of the operator type is present; an omitted input has no operand"""
    results: tuple[TensorType, ...]
    """types of the outputs, inferred by the standard's rules"""
    takes_tuples = True
    nondifferentiable = "the reference evaluator of the onnx package computes values but no gradients"
    refuses_gradient = True
    unbatchable = "the reference evaluator of the onnx package has no batching rules"

    def infer(self, *types: AnyType) -> AnyType:
        """Return the inferred types."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)

    def kernel(self, out: Any, *operands: Array) -> Any:
        """Run the evaluator; raise OperandError if a result's type differs from the inferred type."""
        arrays = self.run(operands, len(self.results))
        arrays = tuple([_widened(array, expected) for array, expected in zip(arrays, self.results, strict=True)])
        for array, expected in zip(arrays, self.results, strict=True):
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                raise OperandError(
                    f"{self.kind} returned {array.dtype}{array.shape}, but {expected} was inferred",
                    rule="a delegated operator must return the types that the standard infers",
                )
        return arrays[0] if len(arrays) == 1 else arrays

    def run(self, operands: Sequence[Array], outputs: int) -> tuple[Array, ...]:
        """Return the values of the first ``outputs`` outputs."""
        named = dict(zip(filter(None, self.input_names), operands, strict=True))
        with warnings.catch_warnings():
            # The evaluator triggers NumPy warnings for numbers that NumPy functions handle silently.
            warnings.simplefilter("ignore")
            values = _evaluator(self.node(outputs).SerializeToString()).run(None, named)
        arrays = [np.asarray(value) for value in values]
        return tuple([array.astype(np.str_) if array.dtype == object else array for array in arrays])

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return one operation per element read or written, because the evaluator's cost is unknown."""
        return sum(part.size for part in (*self.results, *types))

    @property
    def label(self) -> str:
        """The operator type without its domain, marked as delegated."""
        return f"{self.kind.rpartition('.')[2]} (delegated)"

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs of the operator type; "" for an omitted input."""
        return tuple(f"x{index}" if given else "" for index, given in enumerate(self.is_given))

    def node(self, outputs: int) -> NodeProto:
        """Return the operator as an ONNX node with ``outputs`` outputs."""
        domain, _, name = self.kind.rpartition(".")
        arguments: dict[str, Any] = dict(self.arguments)
        results = [f"y{index}" for index in range(outputs)]
        return helper.make_node(name, list(self.input_names), results, domain=domain, **arguments)


def _widened(array: Array, expected: TensorType) -> Array:
    """Widen an array of strings to the string length of ``expected``; return any other array unchanged."""
    fits = is_text(array.dtype) and is_text(expected.dtype) and array.dtype.itemsize <= expected.dtype.itemsize
    return array.astype(expected.dtype) if fits else array


@lru_cache(maxsize=64)
def _evaluator(serialized: bytes) -> Any:
    from onnx.reference import ReferenceEvaluator  # slow to import, because it imports every operator

    node = NodeProto.FromString(serialized)
    graph = helper.make_graph(
        [node],
        "delegated",
        [helper.make_value_info(name, TypeProto()) for name in node.input if name],
        [helper.make_value_info(name, TypeProto()) for name in node.output],
    )
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=_opset_imports()))


_OPSETS = {"": defs.onnx_opset_version()}
"""opset that the evaluator uses for each domain"""


def _opset_imports() -> list[Any]:
    return [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]


@operator(*TYPES)
def delegated(op: OperatorContext) -> Any:
    """Record an operator that the onnx package's reference evaluator computes."""
    domain, _, name = op.definition.type.rpartition(".")
    schema = defs.get_schema(name, _OPSETS[domain], domain)
    names = [formal.name for formal in schema.inputs]
    while names and not is_given(op, names[-1]):
        names.pop()
    values = [required(op, name) if is_given(op, name) else None for name in names]
    written = {name: _attribute(op, form) for name, form in schema.attributes.items() if op.has(name)}
    # An empty list has no element type, and means the same as an omitted attribute.
    attributes = tuple((name, value) for name, value in written.items() if value != ())
    untyped = Delegated(op.definition.type, attributes, tuple(value is not None for value in values), ())
    given = [value for value in values if value is not None]
    results = _inferred(op, untyped, schema, given)
    node = Delegated(untyped.kind, attributes, untyped.is_given, results)(*given)
    return node if len(results) == 1 else tuple(item(index)(node) for index in range(len(results)))


def _attribute(op: OperatorContext, form: defs.OpSchema.Attribute) -> Plain:
    """Return an attribute's value; raise OperandError unless it has the type that the standard declares."""
    kinds = defs.OpSchema.AttrType
    value = op.argument(form.name)
    items = value if isinstance(value, tuple) else (value,)
    number, real = (int,), (int, float)
    wanted: dict[Any, tuple[tuple[type[Any], ...], str]] = {
        kinds.INT: (number, "an integer"), kinds.INTS: (number, "a list of integers"),
        kinds.FLOAT: (real, "a number"), kinds.FLOATS: (real, "a list of numbers"),
        kinds.STRING: ((str,), "a string"), kinds.STRINGS: ((str,), "a list of strings"),
    }  # fmt: skip
    types, description = wanted.get(form.type, ((), "omitted, because tensors as attributes are not supported"))
    several = form.type in (kinds.INTS, kinds.FLOATS, kinds.STRINGS)
    fits = all(isinstance(item, types) and not isinstance(item, bool) for item in items)
    if not fits or isinstance(value, tuple) is not several:
        raise OperandError(
            f"{form.name}={value!r:.80}", rule=f"{op.definition.type}: {form.name} must be {description}"
        )
    plain: Plain = value
    return plain


def _inferred(
    op: OperatorContext, operation: Delegated, schema: defs.OpSchema, values: list[Expr]
) -> tuple[TensorType, ...]:
    """Infer the result types, running the operator if a length depends on values, which must then be known."""
    outputs = len(op.definition.outputs)
    node = operation.node(outputs)
    named = dict(zip(filter(None, operation.input_names), values, strict=True))
    types = {
        name: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in named.items()
    }
    data: dict[str, TensorProto] = {
        name: numpy_helper.from_array(np.asarray(value_of(value), order="C"), name)
        for name, value in named.items()
        if is_known(value)
    }
    try:
        inferred = infer_node_outputs(schema, node, types, data, opset_imports=_opset_imports())
    except (InferenceError, ValidationError, ValueError, TypeError, RuntimeError) as error:
        raise _mismatch(operation, error) from error
    results = [_tensor_type(operation, inferred.get(name), schema) for name in node.output]
    if None not in results:
        return tuple(result for result in results if result is not None)

    def types_of(arrays: Sequence[Array]) -> Types:
        try:
            values = operation.run(arrays, outputs)
        except Exception as error:  # the operator's evaluator may raise anything
            raise _mismatch(operation, error) from error
        return Types([TensorType(value.shape, value.dtype) for value in values])

    if all(map(is_known, values)):
        return types_of([value_of(value) for value in values])
    return cast("Types", op.ask("the result", values, types_of, operations=1))


def _mismatch(operation: Delegated, error: Exception) -> OperandError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return OperandError(
        f"{operation.kind}: {lines[-1][:200]}",
        rule=f"{operation.kind}: operands and attributes must fit the standard's rules",
    )


def _tensor_type(operation: Delegated, inferred: TypeProto | None, schema: defs.OpSchema) -> TensorType | None:
    """Return an inferred type; None if one of its lengths, or the length of its longest string, is unknown."""
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return None
    lengths = [part.dim_value if part.HasField("dim_value") else -1 for part in inferred.tensor_type.shape.dim]
    if min(lengths, default=0) < 0:
        return None
    if inferred.tensor_type.elem_type == TensorProto.STRING:
        longest = _longest_string(operation, schema)
        return TensorType(tuple(lengths), np.dtype((np.str_, longest))) if longest else None
    dtype = dtype_of_code(inferred.tensor_type.elem_type, "the data type of a result", narrow=True)
    return TensorType(tuple(lengths), dtype)


def _longest_string(operation: Delegated, schema: defs.OpSchema) -> int:
    """Return the length of the longest string among the attributes; 0 if strings are computed."""
    if not operation.kind.startswith("ai.onnx.ml."):
        return 0
    defaults = {name: form.default_value.s.decode() for name, form in schema.attributes.items()}
    strings = [string for _, value in operation.arguments if isinstance(value, tuple) for string in value]
    strings.append({**defaults, **dict(operation.arguments)}.get("default_string", ""))
    return max([len(string) for string in strings if isinstance(string, str)], default=0)
