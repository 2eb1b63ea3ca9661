"""``ex.check``, which checks laws of user-defined and built-in classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core import registry
from explorer.core.argument_checks import named
from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.recording_context import scope
from explorer.core.ir.tensor import tensor
from explorer.core.tracing.decorator import function
from explorer.core.types.tensor_type import Array, TensorType
from explorer.gradients import grad
from explorer.layers import Layer
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.mapping.map import map as map_over
from explorer.plan.graph.pass_base import Pass
from explorer.plan.rewrite.rule import Rule
from explorer.testing.laws.cases import cases_of
from explorer.testing.laws.characteristics import CHARACTERISTICS
from explorer.testing.laws.law import Law, LawError, agree, number
from explorer.testing.laws.method_laws import METHOD_LAWS, STEP, undeclared, values_of
from explorer.testing.laws.report import LawReport, LawResult
from explorer.testing.laws.rule_laws import pass_results, rule_results

LAWS: tuple[Law, ...] = (*METHOD_LAWS, *CHARACTERISTICS)
"""laws of operations, in the order of a report"""
_QUICK = (METHOD_LAWS[0], *CHARACTERISTICS, *[law for law in METHOD_LAWS[1:] if law.name != "gradient of the gradient"])
"""laws for a quick check, starting with the cheapest"""


@named
def check(what: Any, *programs: Expr, inputs: Mapping[str, Any] | None = None) -> LawReport:
    """Check explorer's laws for a user-defined or built-in operation, rewrite rule, pass or layer.

    An operation (its class, or its recording function, such as ``ex.tanh``) is computed on its ``examples``. Its
    gradient must equal central differences in float64, declared properties (``is_even``, ``monotone``, ``range`` …)
    must hold, batched operands must give the same result as a loop, and the result must have the declared type.

    A rule must not change the values of ``programs`` in which it should match, by default generated from its root
    operations. A pass is checked in the same way, together with the passes that it requires. For a layer, gradients of
    inputs and parameters must equal differences. ``inputs`` maps ports to types or values, in case shapes cannot be
    inferred.

    Returns a report with one line per law. The report is true if all laws hold; otherwise ``report.assert_ok()`` raises
    an error. Random operands have a fixed seed. Raises OperandError for other objects, and if no valid operands are
    found.

    >>> class Cubed(ex.Elementwise):
    ...     "x³."
    ...     examples = (ex.Example(ex.real(2, 3)),)
    ...     def kernel(self, out, x):
    ...         return np.power(x, 3, out=out)
    ...     def gradient(self, upstream, result, x):
    ...         return (upstream * 3 * x,)
    >>> ex.check(Cubed)
    Cubed: 6 of 7 laws hold
      result type = declared type ✓ 1 value
      out is written whole ✓ 6 values
      operands are left alone ✓ 6 values
      gradient ✗ at x = -0.9669: declared -2.901, by differences 2.805
      gradient of the gradient ✓ 1 value
      batched = loop ✓ 18 values
      elementwise ✓ 5 values
    """
    if isinstance(what, type) and issubclass(what, Layer):
        what = _default_layer(what)
    rule = what() if isinstance(what, type) and issubclass(what, Rule) else what
    if isinstance(rule, Rule):
        return LawReport(rule.name, rule_results(rule, programs))
    planning_pass = what() if isinstance(what, type) and issubclass(what, Pass) else what
    if isinstance(planning_pass, Pass):
        return LawReport(type(planning_pass).__name__, pass_results(planning_pass, programs))
    if programs:
        raise OperandError(
            f"a check of {what!r:.80} with {len(programs)} programs",
            rule="programs must be passed only for a rewrite rule or a pass, which should change them",
            fix="ex.check(operation), ex.check(layer, inputs={…})",
        )
    if isinstance(what, Layer):
        return LawReport(f"{type(what).__name__} {what.name!r}", layer_results(what, inputs))
    operation = _operation(what)
    name = operation.__name__ if isinstance(operation, type) else type(operation).__name__
    return LawReport(name, operation_results(operation))


def _operation(what: Any) -> Operation | type[Operation]:
    """Return the operation or operation class for a class, an instance or a recording function."""
    if isinstance(what, type) and issubclass(what, Operation):
        return what
    if isinstance(what, Operation):
        return what if what.attribute_names else type(what)
    name = getattr(what, "__name__", "")
    if callable(what) and registry.functions.get(name) is what and name in registry.operations:
        return registry.operations[name]
    raise OperandError(
        f"a check of {what!r:.80}",
        rule="the argument must be an operation, a rewrite rule, a pass or a layer, as a class or an instance",
        fix='ex.check(MyOperation), ex.check(ex.tanh), ex.check(ex.operation("full")), ex.check(MyRule, y)',
    )


def _default_layer(layer_class: type[Layer]) -> Layer:
    try:
        return layer_class("checked")
    except Exception as error:
        raise OperandError(
            f"a check of the layer class {layer_class.__name__}, which cannot be built without arguments: {error}",
            rule="a layer class with required arguments must be checked on an instance",
            fix=f'ex.check({layer_class.__name__}("checked", …))',
        ) from error


def operation_results(
    operation: Operation | type[Operation], laws: tuple[Law, ...] = LAWS, deadline: float | None = None
) -> tuple[LawResult, ...]:
    """Return the results of laws on an operation's cases; laws are not started after ``deadline`` (perf_counter)."""
    operation_class = operation if isinstance(operation, type) else type(operation)
    cases = cases_of(operation)
    results = []
    for law in laws:
        if _is_late(deadline):
            break
        try:
            compared = [law.check(case) for case in cases if law.applies(case) and not _is_late(deadline)]
        except LawError as error:
            results.append(LawResult(law.name, False, str(error)))
        except Exception as error:  # user-defined methods may raise any exception
            results.append(LawResult(law.name, False, f"{type(error).__name__}: {error}"))
        else:
            if compared:
                results.append(LawResult(law.name, True, f"{sum(compared)} value{'s' * (sum(compared) != 1)}"))
            elif law.name in undeclared(operation_class):
                results.append(LawResult(law.name, None, f"not declared: {undeclared(operation_class)[law.name]}"))
    return tuple(results)


def quick_results(declared: type[Operation] | type[Rule], seconds: float) -> tuple[LawResult, ...]:
    """Return the results of those laws of an operation or rule that can be checked in about ``seconds`` seconds."""
    start = time.perf_counter()
    if issubclass(declared, Rule):
        # the deadline limits only the generation of programs, but planning and computing them takes time, too
        return rule_results(declared(), deadline=start + seconds / 3)
    return operation_results(declared, _QUICK, start + seconds)


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() > deadline


_ELEMENTS = 8
"""maximum number of elements per input or parameter whose gradient is compared with differences"""
_BATCH_SIZE = 3


@dataclass(frozen=True, slots=True)
class _Subject:
    """Layer with float64 arrays for its inputs, keyed by port, and its parameters, keyed by path."""

    layer: Layer
    inputs: Mapping[str, Array]
    parameters: Mapping[str, Array]

    def outputs(self, inputs: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, Expr]:
        """Record the layer's outputs by port for arrays or expressions."""
        values, held = (
            {name: value if isinstance(value, Expr) else tensor(value, name=name) for name, value in each.items()}
            for each in (inputs, parameters)
        )
        with scope(self.layer.name, "layer", type(self.layer).__name__, self.layer):
            return self.layer.call(values, held)


def layer_results(layer: Layer, inputs: Mapping[str, Any] | None = None) -> tuple[LawResult, ...]:
    """Return the results of a layer's laws; ``inputs`` maps ports to types or values.

    Inputs without values, and parameters that are not initialized, are random. Raises OperandError if the layer accepts
    none of the tried inputs.
    """
    subject = _subject(layer, inputs)
    laws: list[tuple[str, Callable[[_Subject], int], str]] = [("gradient", _gradients, "values")]
    if subject.inputs:
        laws.append(("batched = loop", _batched, "values"))
    results = []
    for law, check, unit in laws:
        try:
            compared = check(subject)
            results.append(
                LawResult(law, True if compared else None, f"{compared} {unit}" if compared else _NO_GRADIENT)
            )
        except LawError as error:
            results.append(LawResult(law, False, str(error)))
        except Exception as error:  # user-defined layers may raise any exception
            results.append(LawResult(law, False, f"{type(error).__name__}: {error}"))
    return tuple(results)


_NO_GRADIENT = "no floating input or parameter has a gradient"


def _subject(layer: Layer, inputs: Mapping[str, Any] | None) -> _Subject:
    random = np.random.default_rng(0)
    sources = dict(zip(layer.paths(), layer.sources(), strict=True))
    parameters = {
        path: np.asarray(source.parameter.array, np.float64)
        if source.parameter is not None
        else _drawn(random, source.shape)
        for path, source in sources.items()
    }
    selected: dict[str, Any] = {**layer.types, **(inputs or {})}
    missing = [port for port in layer.inputs if port not in selected]
    shapes = list(dict.fromkeys([shape for array in parameters.values() for shape in _fitting(array.shape)]))
    for shape in [*shapes, (2, 3), (3, 3), (4,), (1, 2, 5, 5), (2, 3, 4)] if missing else [()]:
        types = {port: selected.get(port, TensorType(shape, np.float64)) for port in layer.inputs}
        arrays = {port: _array(random, value) for port, value in types.items()}
        subject = _Subject(layer, arrays, parameters)
        try:
            subject.outputs(arrays, parameters)
        except ExplorerError:
            if not missing:
                raise
            continue
        return subject
    ports = ", ".join([f'"{port}": ex.TensorType((2, 3), "float32")' for port in missing])
    raise OperandError(
        f"a check of {layer!r}, for whose input {', '.join(missing)} no accepted shape was found",
        rule="every input must have a type or a value",
        fix=f"ex.check(layer, inputs={{{ports}}})",
    )


def _fitting(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return input shapes, for rows and images, that a layer with a parameter of this shape may accept."""
    rows = [(2, size) for size in shape[:1] + shape[-1:]]
    return [*rows, *[(2, size, 5, 5) for size in shape[1:2]]]


def _array(random: np.random.Generator, value: Any) -> Array:
    if not isinstance(value, TensorType):
        array = np.asarray(value.array if hasattr(value, "array") else value)
        return array.astype(np.float64) if array.dtype.kind == "f" else array
    if value.dtype.kind == "f":
        return _drawn(random, value.shape)
    return np.zeros(value.shape, value.dtype)


def _drawn(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(random.uniform(-1, 1, shape))


def _gradients(subject: _Subject) -> int:
    """Check the gradient of a weighted sum of the outputs for some elements of each floating input and parameter."""
    operands = {**subject.inputs, **{f"parameter {path}".strip(): each for path, each in subject.parameters.items()}}
    ports = tuple(subject.inputs)

    def total(arrays: Mapping[str, Any]) -> tuple[Expr, dict[str, Expr]]:
        nodes: dict[str, Expr] = {name: tensor(array, name=name) for name, array in arrays.items()}
        values = list(nodes.values())
        outputs = subject.outputs(
            dict(zip(ports, values, strict=False)), dict(zip(subject.parameters, values[len(ports) :], strict=True))
        )
        random = np.random.default_rng(1)
        terms = [
            (output * tensor(random.uniform(0.5, 1.5, output.shape))).sum()
            for output in outputs.values()
            if output.dtype == np.float64
        ]
        if not terms:
            raise LawError(
                "no output is float64 for float64 inputs and parameters, so there is nothing to differentiate"
            )
        return add_n(*terms) if len(terms) > 1 else terms[0], nodes

    names = [name for name, array in operands.items() if array.dtype.kind == "f" and array.size]
    loss, nodes = total(operands)
    declared: Any = values_of(grad(loss, [nodes[name] for name in names])) if names else []
    value, compared = abs(float(values_of(loss))), 0
    for name, gradient in zip(names, declared, strict=True):
        array = operands[name]
        selected = np.random.default_rng(2).permutation(array.size)[:_ELEMENTS]
        for flat in np.sort(selected):
            index = tuple(int(element_text) for element_text in np.unravel_index(flat, array.shape))
            losses = []
            for sign in (-1, 1):
                shifted = array.copy()
                shifted[index] += sign * STEP
                losses.append(float(values_of(total({**operands, name: shifted})[0])))
            element_text = f"{name}{list(index) if index else ''} = {number(array[index])}"
            compared += agree(
                gradient[index],
                (losses[1] - losses[0]) / (2 * STEP),
                names=("declared", "by differences"),
                at=element_text,
                rtol=1e-6,
                atol=1e-7 * max(1.0, value),
            )
    return compared


def _batched(subject: _Subject) -> int:
    """Check that the layer mapped over stacked inputs gives the same result as a loop over them."""
    random = np.random.default_rng(3)
    members = [
        {port: random.permutation(array.ravel()).reshape(array.shape) for port, array in subject.inputs.items()}
        for _ in range(_BATCH_SIZE)
    ]
    parameters = {path: tensor(array, name=path or "value") for path, array in subject.parameters.items()}
    ports = tuple(subject.inputs)

    @function
    def forward(*values: Expr) -> tuple[Expr, ...]:
        return tuple(subject.outputs(dict(zip(ports, values, strict=True)), parameters).values())

    stacked = [np.stack([member[port] for member in members]) for port in ports]
    batched = values_of(map_over(forward, *stacked))
    loop = [values_of(tuple(subject.outputs(member, parameters).values())) for member in members]
    compared = 0
    for output, port in enumerate(subject.layer.outputs):
        for position, member in enumerate(loop):
            compared += agree(
                batched[output][position],
                member[output],
                names=("batched", "in a loop"),
                at=f"{port} of member {position}",
                rtol=1e-10,
                atol=1e-11,
            )
    return compared
