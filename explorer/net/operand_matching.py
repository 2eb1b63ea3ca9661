"""Matching of the operands of two nets that are files of one model, such as float32 and int8.

Names of operands decide, also through the quantization and the casts that a file of another precision contains
(:class:`Operands`). Operands whose names differ are matched by the graph: operators of the same type that read matched
operands, where one of them may have taken over the operators after it (a Relu after a convolution).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from explorer.core.types.tensor_type import Array
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.quantized_operands import Quantization, quantizations

_SUFFIXES = ("_QuantizeLinear_Input", "_DequantizeLinear_Output", "_quantized")
"""what onnxruntime's quantizer appends to the name of an operand"""
_QUANTIZE, _DEQUANTIZE = ("QuantizeLinear", "QUANTIZE"), ("DequantizeLinear", "DEQUANTIZE")
CASTS = ("Cast", "CAST")
_FUSED = 8
"""maximum number of operators that an operator of another file may have taken over"""
CONVERSIONS = frozenset({*_QUANTIZE, *_DEQUANTIZE, *CASTS, "DynamicQuantizeLinear"})
"""operator types that change the precision of an operand"""
_DIGITS = re.compile(r"\d+")
_INTEGER = re.compile(r"(?:com\.microsoft\.)?(?:QLinear|Q(?=Gemm$))")
"""prefix of an ONNX operator type that computes integers"""


class Operands:
    """Operands of a net by the operand that they stand for.

    The result of a quantization or cast of v stands for v, so does the result of a dequantization, and a name with a
    suffix of onnxruntime's quantizer (``_SUFFIXES``) stands for the name without it.
    """

    def __init__(self, definition: NetDefinition) -> None:
        self.definition = definition.ssa
        self.operators = definition.ssa.topological_order
        self.order = [blob for operator in self.operators for blob in operator.outputs]
        self._producers = {blob: operator for operator in self.operators for blob in operator.outputs}

    def root(self, name: str) -> str:
        """Return the operand that an operand is a quantized or cast form of; the operand itself if there is none."""
        while (step := self._conversion(name)) is not None:
            name = step.inputs[0]
        return name

    def conversions(self, name: str) -> list[OperatorDefinition]:
        """Return the operators that compute an operand from its root, in the order in which they run."""
        chain: list[OperatorDefinition] = []
        while (step := self._conversion(name)) is not None:
            chain.append(step)
            name = step.inputs[0]
        return chain[::-1]

    def _conversion(self, name: str) -> OperatorDefinition | None:
        """Return the operator that quantizes, dequantizes or casts an operand; None if nothing does."""
        producer = self._producers.get(name)
        if producer is None or not producer.inputs or producer.type not in CONVERSIONS - {"DynamicQuantizeLinear"}:
            return None
        # The operand may be a sum of integer products, which has no constant scale.
        is_known = producer.type not in _DEQUANTIZE or self._is_quantized(producer.inputs[0])
        return producer if is_known else None

    def _is_quantized(self, name: str) -> bool:
        producer = self._producers.get(name)
        return name in self.quantizations or (producer is not None and producer.type in _QUANTIZE)

    @cached_property
    def quantizations(self) -> Mapping[str, Quantization]:
        """Scales and zero points of integer operands by name."""
        return quantizations(self.definition)

    def real(self, name: str, value: Array) -> Array:
        """Return an operand's value, or the real numbers that it represents if it is quantized."""
        known = self.quantizations.get(name) if value.dtype.kind in "iu" else None
        return value if known is None else known.real(value)

    def reads_integers(self, name: str) -> bool:
        """Return whether the operator that computes an operand reads quantized operands as integers."""
        operator = self.operator(name)
        return operator.type not in CONVERSIONS and any(map(self._is_quantized, operator.inputs))

    def is_intermediate(self, name: str) -> bool:
        """Return whether an operand is quantized and only dequantized again, so that the result is compared instead."""
        types = self._types_of_readers.get(name, ())
        return self._is_quantized(name) and bool(types) and all(type in _DEQUANTIZE for type in types)

    @cached_property
    def _types_of_readers(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for operator in self.operators:
            for name in operator.inputs:
                found.setdefault(name, []).append(operator.type)
        for name in self.definition.outputs:
            found.setdefault(name, []).append("")
        return found

    def operator(self, name: str) -> OperatorDefinition:
        """Return the operator that computes an operand, before its quantization or casts."""
        return self._producers.get(self.root(name)) or self._producers[name]

    def names(self, name: str) -> list[str]:
        """Return the names that an operand may have in another file of the model; its own name is first."""
        root = self.root(name)
        return [*dict.fromkeys([name, root, _without_suffix(name), _without_suffix(root)])]

    @cached_property
    def converters(self) -> frozenset[str]:
        """Names of the operators that quantize, dequantize or cast an operand of the net."""
        return frozenset([each.name for blob in self.order if (each := self._conversion(blob)) is not None])

    @cached_property
    def readers(self) -> Mapping[str, list[tuple[OperatorDefinition, int]]]:
        """Each root → the operators that read it or a form of it, with the positions of this operand."""
        found: dict[str, list[tuple[OperatorDefinition, int]]] = {}
        for operator in self.operators:
            if operator.name not in self.converters:
                for index, name in enumerate(operator.inputs):
                    found.setdefault(self.root(name), []).append((operator, index))
        return found

    def converted_from(self, operator: OperatorDefinition) -> tuple[str, ...]:
        """Return the names of the operators whose results an operator reads after their quantization or cast."""
        roots = [root for name in operator.inputs if (root := self.root(name)) != name]
        return tuple([self._producers[root].name for root in dict.fromkeys(roots) if root in self._producers])

    @cached_property
    def outputs(self) -> frozenset[str]:
        """Roots of the net's outputs."""
        return frozenset([self.root(name) for name in self.definition.outputs])

    def uses(self, root: str) -> tuple[list[tuple[str, int]], bool]:
        """Return the types of the operators that read a root, with positions, and whether it is an output."""
        readers = [(real_type(operator.type), index) for operator, index in self.readers.get(root, ())]
        return sorted(readers), root in self.outputs


def real_type(type: str) -> str:
    """Return the type of an operator in a file without quantization: Conv for QLinearConv."""
    return _INTEGER.sub("", type)


def precision(operands: Operands) -> str:
    """Return the narrowest dtype in which a net stores weights, floating inputs and quantized operands."""
    definition = operands.definition
    found = {
        definition.blobs[name].dtype or known.zero_point.dtype.name for name, known in operands.quantizations.items()
    }
    found |= {dtype for name in definition.inputs if "float" in (dtype := definition.blobs[name].dtype or "")}
    for operator in operands.operators:
        stores_integers = operator.type in _DEQUANTIZE or real_type(operator.type) != operator.type
        for weight in operator.weights.values():
            if "float" in weight.dtype or (stores_integers and "int" in weight.dtype):
                found.add(weight.dtype)
    return min(found, key=lambda dtype: (bits(dtype), dtype), default="float32")


def bits(dtype: str) -> int:
    """Return the number of bits of a number of a dtype."""
    return int(_DIGITS.findall(dtype)[0])


def _without_suffix(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


def matched(operands: Operands, known: Container[str]) -> dict[str, str]:
    """Map operands, in topological order, to the names in ``known`` that they stand for."""
    found = {}
    for blob in operands.order:
        name = next((name for name in operands.names(blob) if name in known), None)
        if name is not None and not operands.is_intermediate(blob):
            found[blob] = name
    return found


class ReferenceValues(NamedTuple):
    """Values of a reference."""

    name: str
    values: Mapping[str, Array]
    """keyed by names of operands, as the net's file or the reference's has them"""
    origins: Mapping[str, str] = {}
    """key → name of the operand in the reference, where it is another"""
    converted: Collection[str] = ()
    """keys of values that the reference has quantized or cast"""
    operands: Operands | None = None
    """operands of the reference, if it is a net"""


def in_terms_of(definition: NetDefinition, other: NetDefinition, values: Mapping[str, Array]) -> ReferenceValues:
    """Return the values of a net ``other`` by names of operands that those of ``definition`` may stand for."""
    ours, theirs = Operands(definition), Operands(other)
    known = {name for blob in ours.order for name in ours.names(blob)}
    # Of several forms of an operand, the last is what the next operators read.
    last = {name: blob for blob, name in matched(theirs, known).items() if blob in values}
    forms = {
        root: blob
        for blob in theirs.order
        if blob in values and ((root := theirs.root(blob)) == blob or values[blob].dtype.kind in "fc")
    }
    by_name = {
        ours.root(blob): theirs.root(last.get(name, name)) for blob, name in matched(ours, {*values, *last}).items()
    }
    for own, root in [*by_name.items()]:
        # An integer operator may also compute the Relu after it, and keep the name of its own result.
        if own in ours.quantizations:
            end = _taken_over(theirs, root, ours.uses(own)) or root
            if end != root and end in forms:
                by_name[own], last[own] = end, forms[end]
        elif root in theirs.quantizations and root in forms:
            end = _taken_over(ours, own, theirs.uses(root)) or own
            if end not in by_name:
                by_name[end], last[end] = by_name.pop(own), forms[root]
                last.pop(own, None)
    pairs = _pairs(ours, theirs, by_name)
    # Exporters name outputs differently, but keep their order.
    for own, name in zip(ours.definition.outputs, theirs.definition.outputs, strict=False):
        pairs.setdefault(ours.root(own), theirs.root(name))
    for own, root in pairs.items():
        if own not in by_name and root in forms:
            last.setdefault(own, forms[root])
    origins = {name: blob for name, blob in last.items() if blob != name}
    known_values = {**values, **{name: values[blob] for name, blob in origins.items()}}
    converted = {name for name in known_values if theirs.conversions(origins.get(name, name))}
    return ReferenceValues(other.name, known_values, origins, converted, theirs)


def _pairs(ours: Operands, theirs: Operands, by_name: Mapping[str, str]) -> dict[str, str]:
    """Return each of our roots → the root in the other net, by name or else by the graph."""
    pairs = {**dict(zip(ours.definition.inputs, theirs.definition.inputs, strict=False)), **by_name}
    taken = {*pairs.values()}
    for operator in ours.operators:
        new = [blob for blob in operator.outputs if blob not in pairs]
        if operator.name in ours.converters or len(new) < len(operator.outputs):
            continue
        reads = {index: pairs[root] for index, name in enumerate(operator.inputs) if (root := ours.root(name)) in pairs}
        other = _same(theirs, operator, reads) if reads else None
        for own, found in zip(operator.outputs, other.outputs if other else (), strict=False):
            partner = _taken_over(theirs, found, ours.uses(own))
            if partner is not None and partner not in taken:
                pairs[own] = partner
                taken.add(partner)
    return pairs


def _same(theirs: Operands, operator: OperatorDefinition, reads: Mapping[int, str]) -> OperatorDefinition | None:
    """Return the only operator of the same type that reads these roots at these positions."""
    (index, root), *rest = reads.items()
    found = [
        other
        for other, position in theirs.readers.get(root, ())
        if position == index
        and real_type(other.type) == real_type(operator.type)
        and all(at < len(other.inputs) and theirs.root(other.inputs[at]) == name for at, name in rest)
    ]
    return found[0] if len(found) == 1 else None


def _taken_over(theirs: Operands, root: str, uses: object) -> str | None:
    """Return the operand with these uses: a result, or the result of the operators after it, which have one reader."""
    for _ in range(_FUSED):
        if theirs.uses(root) == uses:
            return root
        readers = {operator.name: operator for operator, _ in theirs.readers.get(root, ())}
        operator = next(iter(readers.values()), None)
        if len(readers) != 1 or operator is None or len(operator.outputs) != 1 or root in theirs.outputs:
            return None
        root = operator.outputs[0]
    return None


def origins_of(theirs: Operands, compared: Iterable[str]) -> dict[str, tuple[OperatorDefinition, ...]]:
    """Return each compared operand → the operators that compute it from other compared operands, in order.

    An operator whose own result is not compared belongs to the first operand that needs it.
    """
    roots = {theirs.root(name) for name in compared}
    left: dict[str, list[OperatorDefinition]] = {}
    found: dict[str, tuple[OperatorDefinition, ...]] = {}
    for operator in theirs.operators:
        if operator.name in theirs.converters or operator.type in CONVERSIONS:
            continue
        groups = [left.pop(root) for name in operator.inputs if (root := theirs.root(name)) in left]
        group = groups[0] if groups else []  # extended, not copied, since it may have thousands of operators
        for other in groups[1:]:
            group += other
        group.append(operator)
        ends = [blob for blob in operator.outputs if blob in roots]
        if ends:
            found.update(dict.fromkeys(ends, tuple(group)))
        elif operator.outputs:
            left[operator.outputs[0]] = group
    return found
