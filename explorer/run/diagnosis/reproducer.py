"""Reproducers: notebook cells that reproduce a decision on as small a part of the graph as possible.

Parts of the graph around the decision's nodes are tried, smallest first: the generated source is run, and its plan is
searched for the decision. Rules therefore need not report the facts on which they depend, and every cell works.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import OperandError, StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Body, Call, Item, Parameter
from explorer.core.ir.policy_operations import Adjusted
from explorer.core.ir.tensor import Tensor
from explorer.core.policy import Policy
from explorer.core.registry import functions
from explorer.core.types.custom_dtypes import element_of
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType
from explorer.plan.options import PASSES, Options
from explorer.plan.pipeline import pass_names, pass_of
from explorer.plan.planner import Plan
from explorer.record import Decision, Recording
from explorer.run.recording.recorder import expressions

_DISTANCES = (0, 1, 2, 4, 8)
"""distances from the nodes of the decision, upwards and downwards, that are tried before the whole graph"""


class _Part(NamedTuple):
    """Part of the recorded graph: its operations, the values that replace everything below them, and its roots."""

    inside: frozenset[int]
    cut: frozenset[int]
    roots: tuple[Expr, ...]


def reproducer(planned: Plan, recording: Recording, decision: Decision) -> str:
    """Return Python source that records a small graph, plans it, asserts the decision, and shows the plan.

    The source needs only ``explorer as ex`` and ``numpy as np``. Raises StateError if even the whole graph, recorded
    again, does not lead to the decision.
    """
    if all(decision is not candidate for candidate in recording.decisions):
        raise OperandError(
            f"a reproducer of {decision!r:.80}",
            rule="the decision must belong to this plan's recording",
            fix="plan.reproducer(plan.recording.decisions[0])",
        )
    if decision.code == "differentiated":
        for source in _rewritten(planned, decision):
            if _shows(source, decision):
                return f"{source}{_assertion(decision)}"
    source_error: OperandError | None = None
    # A decision about a value and its gradient needs two functions, which only differentiation records.
    writers = (_written, _differentiated) if decision.code != "augmented" else (_differentiated,)
    for part, write in itertools.product(_parts(planned, recording, decision), writers):
        if write is _differentiated and _call(planned, part) is None:
            continue
        try:
            source = write(planned, part)
        except OperandError as error:
            source_error = error
            continue
        if _shows(source, decision):
            return f"{source}{_assertion(decision)}"
    raise StateError(
        f"no part of the graph shows {decision.rule} [{decision.code}] again",
        rule="the decision must depend only on the graph and the options, not on other plans or on values",
        fix="plan.recording contains the whole graph; share it with view.save('plan.explorer.json')",
    ) from source_error


def _parts(planned: Plan, recording: Recording, decision: Decision) -> Iterator[_Part]:
    """Yield parts of the recorded graph around a decision's nodes, from the smallest to the whole graph."""
    all_nodes, graph = expressions(planned), planned.graph
    mentioned_nodes = [*decision.subjects, *decision.produced, *_facts(decision)]
    provenance = recording.provenance
    cores = [
        {all_nodes[node].uid for node in provenance.recorded(nodes)} for nodes in (decision.subjects, mentioned_nodes)
    ]
    readers: dict[int, list[Expr]] = {}
    for node in graph.recorded:
        for operand in dict.fromkeys(node.operands):
            readers.setdefault(operand.uid, []).append(node)
    by_uid = {node.uid: node for node in graph.recorded}
    items = {uid: [node for node in nodes if isinstance(node.operation, Item)] for uid, nodes in readers.items()}
    parts: dict[frozenset[int], _Part] = {}
    for core, levels_above, levels_below in itertools.product(cores, _DISTANCES[:3], _DISTANCES):
        uids = set(core)
        for _ in range(levels_above):
            uids |= {reader.uid for uid in uids for reader in readers.get(uid, ())}
        for _ in range(levels_below):
            uids |= {operand.uid for uid in uids for operand in by_uid[uid].operands}
        part = _closed(planned, uids, by_uid, items)
        # Parts with the same nodes are tried only once, because each attempt runs a plan.
        parts[part.inside] = part
    yield from sorted(parts.values(), key=lambda part: len(part.inside))
    yield _closed(planned, set(by_uid), by_uid, items)


def _closed(planned: Plan, requested: set[int], by_uid: Mapping[int, Expr], items: Mapping[int, list[Expr]]) -> _Part:
    """Return the part with the ``requested`` nodes, and with operands that random arrays cannot replace."""
    uids: set[int] = set()
    pending = [by_uid[uid] for uid in requested]
    while pending:
        node = pending.pop()
        if node.uid in uids:
            continue
        uids.add(node.uid)
        if isinstance(node.type, TupleType):
            pending.extend(items.get(node.uid, ()))
        pending.extend(operand for operand in node.operands if not operand.operands or not is_drawable(operand.type))
    operand_uids = {operand.uid for uid in uids for operand in by_uid[uid].operands}
    requested_roots = {root.uid for root in planned.graph.recorded_roots}
    roots = [
        by_uid[uid]
        for uid in sorted(uids)
        if (uid not in operand_uids or uid in requested_roots) and _can_be_requested(by_uid[uid])
    ]
    return _Part(frozenset(uids), frozenset(operand_uids - uids), tuple(roots))


def _can_be_requested(node: Expr) -> bool:
    return not isinstance(node.type, TupleType)


def _facts(decision: Decision) -> list[int]:
    """Return the nodes among the facts of a decision."""
    nodes: list[int] = []
    pending: list[Any] = list(decision.facts.values())
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            nodes.append(value["node"])
        elif isinstance(value, (list, tuple)):
            pending.extend(value)
    return nodes


def _written(planned: Plan, part: _Part) -> str:
    """Return the source that records a part and plans it; raise OperandError if a value has no source."""
    graph = planned.graph
    nodes = [node for node in graph.recorded if node.uid in part.inside or node.uid in part.cut]
    # In order of recording, because decisions about equal nodes depend on this order.
    nodes.sort(key=lambda node: node.uid)
    from_parameters: set[int] = set()
    for node in graph.recorded:
        if isinstance(node.operation, Parameter) or any(operand.uid in from_parameters for operand in node.operands):
            from_parameters.add(node.uid)
    source, arguments = Source(nodes, part.cut, from_parameters), plan_arguments(planned.options)
    roots = ", ".join([source.names[root.uid] for root in part.roots])
    return _cell(source, [f"plan = ex.EvalPlan({arguments})", f"for root in [{roots}]:"])


def _call(planned: Plan, part: _Part) -> Expr | None:
    """Return the first call of a function in a part of the graph."""
    part_nodes = (node for node in planned.graph.recorded if node.uid in part.inside)
    return next((node for node in part_nodes if isinstance(node.operation, Call) and node.operation.inlinable), None)


def _differentiated(planned: Plan, part: _Part) -> str:
    """Return the source of the first call in a part and of its gradient; only together they record both functions."""
    call = _call(planned, part)
    assert call is not None
    operands = list({operand.uid: operand for operand in call.operands}.values())
    source = Source([*operands, call], {operand.uid for operand in operands})
    differentiated = [source.names[operand.uid] for operand in operands if operand.dtype.kind == "f"]
    result = source.names[call.uid]
    is_tuple = isinstance(call.type, TupleType)
    return _cell(
        source,
        [
            f"outputs = [*{result}]" if is_tuple else f"outputs = [{result}]",
            "loss = ex.add_n(*[output.sum() for output in outputs])",
            f"plan = ex.EvalPlan({plan_arguments(planned.options)})",
            f"for root in [*outputs, *ex.grad(loss, [{', '.join(differentiated)}])]:",
        ],
    )


def _rewritten(planned: Plan, decision: Decision) -> Iterator[str]:
    """Yield candidate sources for a value whose gradient was recorded in stable form; each computes more operands."""
    forward = {expressions(planned)[node].scope.payload for node in decision.subjects}  # type: ignore[union-attr]
    for value in [node for node in planned.graph.recorded if node.uid in forward]:
        included = {value.uid: value}
        for _ in range(_DISTANCES[-1]):
            included |= {operand.uid: operand for node in [*included.values()] for operand in node.operands}
            computed = [node for node in included.values() if node.operands]
            cut = {
                operand.uid: operand
                for node in computed
                for operand in node.operands
                if operand.uid not in included or not operand.operands
            }
            cut |= {node.uid: node for node in included.values() if not node.operands}
            borders = {uid: node for uid, node in included.items() if any(o.uid not in included for o in node.operands)}
            nodes = sorted({**included, **cut}.values(), key=lambda node: node.uid)
            source = Source(nodes, {*cut, *borders})
            differentiated = [
                source.names[node.uid] for node in nodes if node.uid in {*cut, *borders} and node.dtype.kind == "f"
            ]
            lines = [
                f"plan = ex.EvalPlan({plan_arguments(planned.options)})",
                f"for root in ex.grad({source.names[value.uid]}.sum(), [{', '.join(differentiated)}]):",
            ]
            if differentiated and value.uid not in borders:
                yield _cell(source, lines)


def _cell(source: Source, last: list[str]) -> str:
    lines = ["import numpy as np", "", "import explorer as ex", ""]
    if source.functions:
        lines += ["", *source.functions, ""]
    if any("random." in line for line in source.lines):
        lines.append("random = np.random.default_rng(0)")
    return "\n".join([*lines, *source.lines, *last, "    plan.register(root)", "plan.prepare()", ""])


def _shows(source: str, decision: Decision) -> bool:
    names: dict[str, Any] = {}
    # Names from a program or file occur only as identifiers or quoted strings.
    exec(compile(source, "<reproducer>", "exec"), names)
    recording: Recording = names["plan"].recording
    return (decision.rule, decision.code) in [(candidate.rule, candidate.code) for candidate in recording.decisions]


def _assertion(decision: Decision) -> str:
    return (
        "taken = [(decision.rule, decision.code) for decision in plan.recording.decisions]\n"
        f"assert ({decision.rule!r}, {decision.code!r}) in taken, taken\n"
        "plan.explore()\n"
    )


_CELL_NAMES = ("decision", "loss", "output", "outputs", "root", "taken")
_RESERVED = frozenset({"ex", "np", "plan", "random", *_CELL_NAMES, *keyword.kwlist, *keyword.softkwlist})


class Source:
    """Source lines that record nodes; a node has a name once its line is written."""

    def __init__(self, nodes: Sequence[Expr], cut: Collection[int], parameters: Collection[int] = ()) -> None:
        """Write ``nodes`` in topological order; those in ``cut`` become leaves, those in ``parameters`` parameters."""
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self._bodies: dict[int, str] = {}
        self._name_of_label: dict[str, str] = {}
        """label of a function → name of the first function that has this label"""
        self._used: set[str] = set(_RESERVED)
        self._stored: dict[int, str] = {}
        """storage → name of the tensor that uses it"""
        for body in _bodies(node for node in nodes if node.uid not in cut):
            self._function(body)
        for node in nodes:
            self.names[node.uid] = name = self._name(node.label)
            self.lines.append(f"{name} = {self._leaf(node, parameters) if node.uid in cut else self._value(node)}")

    def _name(self, label: str) -> str:
        """Return a unique name: the label of the leaf or operation if it is an identifier, else v1, v2, …."""
        identifier = re.sub(r"[^A-Za-z0-9_]", "_", label).strip("_")
        base = identifier if re.match("[A-Za-z]", identifier) and len(identifier) <= 24 else "v"
        base += "_" * hasattr(builtins, base)  # the cell must not shadow Python's own sum and max
        suffix = 1
        name = base if base != "v" else "v1"
        while name in self._used:
            suffix += 1
            name = f"{base}{suffix}"
        self._used.add(name)
        return name

    def _leaf(self, node: Expr, parameters: Collection[int]) -> str:
        type_ = node.tensor_type
        if node.uid in parameters:
            return f'ex.operation("parameter")(kind={written(type_)}, title={node.label!r})()'
        return _array(type_, node.label)

    def _value(self, node: Expr) -> str:
        operation = node.operation
        if isinstance(node, Tensor):
            owner = self._stored.setdefault(id(node.storage), self.names[node.uid])
            return owner if owner != self.names[node.uid] else _array(node.tensor_type, node.name)
        operands = [self.names[operand.uid] for operand in node.operands]
        if isinstance(operation, Adjusted):
            policies = ", ".join(map(written, operation.policies))
            return f"{_called(operation.operation)}({', '.join(operands)}, policies=[{policies}])"
        if isinstance(operation, Item):
            value = node.operands[0].operation
            if isinstance(value, Call) and value.inlinable:  # returns a tuple
                return f"{operands[0]}[{operation.index}]"
        elif isinstance(operation, Call):
            name = self._bodies[id(operation.body)]
            if operation.inlinable:
                return f"{name}({', '.join(operands)})"
            types = ", ".join([written(node.type) for node in (*operation.body.parameters, *operation.body.captured)])
            attributes = [f"{n}={written(v)}" for n, v in operation.attributes.items() if n != "body"]
            arguments = ", ".join([f"body={name}.body_for({types})", *attributes])
            return f'ex.operation("{operation.name}")({arguments})({", ".join(operands)})'
        return f"{_called(operation)}({', '.join(operands)})"

    def _function(self, body: Body) -> None:
        """Write a body as a Python function; captured values become operands."""
        name = self._bodies[id(body)] = self._name(body.name)
        # A function has its own names and lines, and must not shadow names of the enclosing functions.
        outer_names, lines = (self.names, self._used), self.lines
        self.names, self._used, self.lines = {}, {*self._used}, []
        inputs = (*body.parameters, *body.captured)
        for node in inputs:
            self.names[node.uid] = self._name(node.label)
        arguments = ", ".join([self.names[node.uid] for node in inputs])
        for node in body.nodes:
            if node.uid not in self.names:
                self.names[node.uid] = self._name(node.label)
                self.lines.append(f"{self.names[node.uid]} = {self._value(node)}")
        results = ", ".join([self.names[node.uid] for node in body.outputs])
        body_lines = [*self.lines, f"return {results}"]
        (self.names, self._used), self.lines = outer_names, lines
        # Captures are found by name, so a function is traced again if a variable of the cell has a name that it reads,
        # even as an attribute (``ex.add``).
        self._used.update(re.findall(r"\w+", " ".join(body_lines)))
        first = self._name_of_label.setdefault(body.name, name)
        self.functions += [
            *[""] * bool(self.functions),
            "@ex.function",
            f"def {name}({arguments}):",
            *[f"    {line}" for line in body_lines],
            "",
            *["", f"{name}.name = {first!r}"] * (first != name),  # another body has the same label
        ]


def _bodies(nodes: Iterable[Expr]) -> list[Body]:
    """Return the bodies that nodes call, inner bodies first."""
    bodies: dict[int, Body] = {}
    pending = [node.operation.body for node in nodes if isinstance(node.operation, Call)]
    while pending:
        body = pending.pop()
        bodies.pop(id(body), None)
        bodies[id(body)] = body  # moved to the end: all of its callers come before it
        pending.extend([node.operation.body for node in body.nodes if isinstance(node.operation, Call)])
    return list(reversed(bodies.values()))


def _called(operation: Operation) -> str:
    """Return the source of the callable that records an operation."""
    name = operation.name
    if not operation.attribute_names and functions.get(name) is operation:
        return f"ex.{name}"
    attributes = [f"{name}={written(value)}" for name, value in operation.attributes.items()]
    return f'ex.operation("{name}")({", ".join(attributes)})'


def _array(type_: TensorType, name: str) -> str:
    """Return source code that draws a tensor of this type from the seeded ``random``."""
    if not type_.plain:
        raise OperandError(
            f"a tensor of {type_}",
            rule="a leaf must have a NumPy dtype and be on cpu",
            fix="convert it first: x.to_device(ex.cpu)",
        )
    shape = written(type_.shape)
    expression = {
        "b": f"random.integers(0, 2, {shape}).astype(bool)",
        "c": f"random.normal(size={shape}).astype({type_.dtype.name!r})",
        "f": f"random.normal(size={shape}).astype({type_.dtype.name!r})",
    }.get(type_.dtype.kind, f"random.integers(0, 2, {shape}).astype({type_.dtype.name!r})")
    return f"ex.tensor({expression}, name={name!r})"


def written(value: Any) -> str:
    """Return the source of an attribute or option; raise OperandError if it has none, like a function."""
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    # Before Python's floats: np.float64 is a subclass of float and would lose its dtype.
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({written(value.item())})"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({written(value.real)}, {written(value.imag)})"
    if isinstance(value, np.dtype) and element_of(value) is None:
        return f'np.dtype("{value.name}")'
    if isinstance(value, (tuple, list)):
        items = ", ".join(map(written, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, TensorType):
        device = "" if value.device is cpu else f", {written(value.device)}"
        return f"ex.TensorType({written(value.shape)}, {written(value.dtype)}{device})"
    if isinstance(value, Device):
        return "ex.cpu" if value is cpu else f"ex.device({value.name!r})"
    if isinstance(value, Operation):
        return _called(value)
    if isinstance(value, Policy) and value.minor.major is not None:
        major = value.minor.major
        return f"{_imported(major)}.{value.minor.name}({written(value.value)})"
    cls = type(value)
    if is_dataclass(cls):
        return f"{_imported(cls)}({options(value)})"
    raise _without_source(value)


def _imported(cls: type) -> str:
    """Return the name of an explorer class; raise OperandError for other classes, which the source cannot import."""
    if not cls.__module__.startswith("explorer."):
        raise _without_source(cls)
    return f"ex.{cls.__module__.removeprefix('explorer.')}.{cls.__qualname__}"


def _without_source(value: Any) -> OperandError:
    return OperandError(
        f"{value!r} as source",
        rule="attributes must be numbers, strings, types, or tuples of them",
        fix="select the function by a number or a name instead of passing it as an attribute",
    )


def options(value: Any) -> str:
    """Return the fields of a dataclass that differ from their defaults, as keyword arguments."""
    return ", ".join(
        [f"{f.name}={written(getattr(value, f.name))}" for f in fields(value) if getattr(value, f.name) != _default(f)]
    )


_SHARED = {"lanes": "lanes", "heuristic": "order", "cost_model": "cost_model"}
"""name of a pass field that is also a plan option → name of the option"""


def plan_arguments(options: Options) -> str:
    """Return the plan options that differ from their defaults, as keyword arguments of ``ex.EvalPlan``."""
    names = pass_names(options.passes)
    without = tuple([name for name in PASSES if name not in names])
    start = Options(without)
    arguments: dict[str, Any] = {"without": without} if without else {}
    default_passes: list[Any] = [pass_of(step) for step in start.passes]
    passes: list[Any] = [pass_of(step) for step in options.passes]
    if [*map(type, default_passes)] == [*map(type, passes)]:
        for default, planning_pass in zip(default_passes, passes, strict=True):
            if planning_pass == default:
                continue
            defaults = {f.name: getattr(default, f.name) for f in fields(planning_pass)}
            shared = {name: value for name, value in defaults.items() if name in _SHARED}
            arguments |= {
                _SHARED[name]: getattr(planning_pass, name)
                for name in shared
                if getattr(planning_pass, name) != shared[name]
            }
            if (remaining := replace(planning_pass, **shared)) != default:
                arguments[planning_pass.name] = remaining
    else:
        arguments = {"passes": options.passes}
    if options.numerics != "safe":
        arguments["numerics"] = options.numerics
    if options.inference:
        arguments["inference"] = True
    return ", ".join([f"{name}={written(value)}" for name, value in arguments.items()])


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def is_drawable(type_: AnyType) -> bool:
    """Return whether a random array can replace a value of this type."""
    return not isinstance(type_, TupleType) and type_.plain
