"""Operators that are rare: the onnx package's reference evaluator computes them, and the graph says so.

Such an operator has no gradient and no batch, and takes no part in fusion: it is a kernel by itself. Its types are
those that the standard infers; where a shape depends on values, the operator runs while the net is built.
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
from explorer.formats.onnx.operators.base.operator_inputs import dtype_by
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.definition.definition import Plain
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, is_known, required, value_of

TYPES = (
    "BitCast", "Compress", "CumProd", "DFT", "Det", "ImageDecoder", "MaxUnpool",
    "MelWeightMatrix", "NonZero", "RegexFullMatch", "ReverseSequence", "STFT",
    "StringConcat", "StringNormalizer", "StringSplit", "TensorScatter",
)  # fmt: skip
"""operator types that are delegated"""


class Types(tuple[TensorType, ...]):
    """Types of results, as an answer of values."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self))


class Delegated(Operation):
    """An operator that the onnx package's reference evaluator computes."""

    kind: str
    """operator type in the file"""
    arguments: tuple[tuple[str, Plain], ...]
    """attributes by name, as the file has them"""
    is_given: tuple[bool, ...]
    """whether each input of the type is given; one that is left out has no operand"""
    results: tuple[TensorType, ...]
    """types of the outputs, inferred by the standard's rules"""
    takes_tuples = True
    nondifferentiable = "the reference evaluator of the onnx package computes values, and no gradients"
    refuses_gradient = True
    unbatchable = "the reference evaluator of the onnx package has no batching rules"

    def infer(self, *types: AnyType) -> AnyType:
        """Return the inferred types."""
        return self.results[0] if len(self.results) == 1 else TupleType(self.results)

    def kernel(self, out: Any, *operands: Array) -> Any:
        """Run the evaluator; raises OperandError if a result has another type than inferred."""
        arrays = self.run(operands, len(self.results))
        arrays = tuple([_widened(array, expected) for array, expected in zip(arrays, self.results, strict=True)])
        for array, expected in zip(arrays, self.results, strict=True):
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                raise OperandError(
                    f"{self.kind} gave {array.dtype}{array.shape} where {expected} was inferred",
                    rule="a delegated operator must give the types that the standard infers",
                )
        return arrays[0] if len(arrays) == 1 else arrays

    def run(self, operands: Sequence[Array], outputs: int) -> tuple[Array, ...]:
        """Return the values of the first outputs."""
        named = dict(zip(filter(None, self.input_names), operands, strict=True))
        with warnings.catch_warnings():
            # The evaluator provokes NumPy's warnings for numbers that NumPy's own functions pass silently.
            warnings.simplefilter("ignore")
            values = _evaluator(self.node(outputs).SerializeToString()).run(None, named)
        arrays = [np.asarray(value) for value in values]
        return tuple([array.astype(np.str_) if array.dtype == object else array for array in arrays])

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return an operation for each element read and written: the evaluator's own work is not known."""
        return sum(part.size for part in (*self.results, *types))

    @property
    def label(self) -> str:
        """The operator type without its domain, marked as delegated."""
        return f"{self.kind.rpartition('.')[2]} (delegated)"

    @property
    def input_names(self) -> tuple[str, ...]:
        """A name for each input of the type, "" for one that is left out."""
        return tuple(f"x{place}" if there else "" for place, there in enumerate(self.is_given))

    def node(self, outputs: int) -> NodeProto:
        """Return the operator as a node of the standard, with so many outputs."""
        domain, _, name = self.kind.rpartition(".")
        arguments: dict[str, Any] = dict(self.arguments)
        results = [f"y{place}" for place in range(outputs)]
        return helper.make_node(name, list(self.input_names), results, domain=domain, **arguments)


def _widened(array: Array, expected: TensorType) -> Array:
    """Return texts in the dtype of the longest that the operator can give; other arrays as they are."""
    fits = is_text(array.dtype) and is_text(expected.dtype) and array.dtype.itemsize <= expected.dtype.itemsize
    return array.astype(expected.dtype) if fits else array


@lru_cache(maxsize=64)
def _evaluator(serialized: bytes) -> Any:
    """Return the evaluator of a model of one node."""
    from onnx.reference import ReferenceEvaluator  # it imports every operator's evaluation, which takes its time

    node = NodeProto.FromString(serialized)
    graph = helper.make_graph(
        [node],
        "delegated",
        [helper.make_value_info(name, TypeProto()) for name in node.input if name],
        [helper.make_value_info(name, TypeProto()) for name in node.output],
    )
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=_opset_imports()))


_OPSETS = {"": defs.onnx_opset_version()}
"""the opset of each domain that the evaluator is asked in"""


def _opset_imports() -> list[Any]:
    return [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]


@operator(*TYPES)
def delegated(op: OperatorContext) -> Any:
    """An operator that the onnx package's reference evaluator computes."""
    domain, _, name = op.definition.type.rpartition(".")
    schema = defs.get_schema(name, _OPSETS[domain], domain)
    names = [formal.name for formal in schema.inputs]
    while names and not is_given(op, names[-1]):
        names.pop()
    values = [required(op, name) if is_given(op, name) else None for name in names]
    written = {name: _attribute(op, form) for name, form in schema.attributes.items() if op.has(name)}
    # An empty list says nothing, and has no type by itself.
    attributes = tuple((name, value) for name, value in written.items() if value != ())
    unfinished = Delegated(op.definition.type, attributes, tuple(value is not None for value in values), ())
    present = [value for value in values if value is not None]
    results = _inferred(op, unfinished, schema, present)
    node = Delegated(unfinished.kind, attributes, unfinished.is_given, results)(*present)
    return node if len(results) == 1 else tuple(item(place)(node) for place in range(len(results)))


def _attribute(op: OperatorContext, form: defs.OpSchema.Attribute) -> Plain:
    """Return an attribute; raises OperandError for one of another kind than the standard has."""
    kinds = defs.OpSchema.AttrType
    value = op.argument(form.name)
    items = value if isinstance(value, tuple) else (value,)
    number, real = (int,), (int, float)
    wanted: dict[Any, tuple[tuple[type[Any], ...], str]] = {
        kinds.INT: (number, "an integer"), kinds.INTS: (number, "a list of integers"),
        kinds.FLOAT: (real, "a number"), kinds.FLOATS: (real, "a list of numbers"),
        kinds.STRING: ((str,), "a text"), kinds.STRINGS: ((str,), "a list of texts"),
    }  # fmt: skip
    types, words = wanted.get(form.type, ((), "left out: the onnx package takes a tensor there, which is not read"))
    several = form.type in (kinds.INTS, kinds.FLOATS, kinds.STRINGS)
    fits = all(isinstance(item, types) and not isinstance(item, bool) for item in items)
    if not fits or isinstance(value, tuple) is not several:
        raise OperandError(f"{form.name}={value!r:.80}", rule=f"{op.definition.type}: {form.name} must be {words}")
    plain: Plain = value
    return plain


def _inferred(
    op: OperatorContext, operation: Delegated, schema: defs.OpSchema, values: list[Expr]
) -> tuple[TensorType, ...]:
    """Return the result types that the standard infers; where some length depends on values, the operator runs first.

    Raises UnknownShapeError where these are not known.
    """
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
        raise _misfit(operation, error) from error
    results = [_tensor_type(operation, inferred.get(name), schema) for name in node.output]
    if None not in results:
        return tuple(result for result in results if result is not None)

    def types_of(arrays: Sequence[Array]) -> Types:
        try:
            values = operation.run(arrays, outputs)
        except Exception as error:  # whatever the evaluator of that operator raises
            raise _misfit(operation, error) from error
        return Types([TensorType(value.shape, value.dtype) for value in values])

    if all(map(is_known, values)):
        return types_of([value_of(value) for value in values])
    return cast("Types", op.ask("the result", values, types_of, operations=1))


def _misfit(operation: Delegated, error: Exception) -> OperandError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return OperandError(
        f"{operation.kind}: {lines[-1][:200]}",
        rule=f"{operation.kind}: operands and attributes must fit the standard's rules",
    )


def _tensor_type(operation: Delegated, inferred: TypeProto | None, schema: defs.OpSchema) -> TensorType | None:
    """Return an inferred type; None if a length of it is not known, or that of its longest text."""
    if inferred is None or not inferred.tensor_type.HasField("shape"):
        return None
    lengths = [part.dim_value if part.HasField("dim_value") else -1 for part in inferred.tensor_type.shape.dim]
    if min(lengths, default=0) < 0:
        return None
    if inferred.tensor_type.elem_type == TensorProto.STRING:
        longest = _longest_text(operation, schema)
        return TensorType(tuple(lengths), np.dtype((np.str_, longest))) if longest else None
    dtype = dtype_by(inferred.tensor_type.elem_type, "the data type of a result", narrow=True)
    return TensorType(tuple(lengths), dtype)


def _longest_text(operation: Delegated, schema: defs.OpSchema) -> int:
    """Return how long a text can be that is chosen among the attributes, in characters; 0 for computed ones."""
    if not operation.kind.startswith("ai.onnx.ml."):
        return 0
    defaults = {name: form.default_value.s.decode() for name, form in schema.attributes.items()}
    texts = [text for _, value in operation.arguments if isinstance(value, tuple) for text in value]
    texts.append({**defaults, **dict(operation.arguments)}.get("default_string", ""))
    return max([len(text) for text in texts if isinstance(text, str)], default=0)
