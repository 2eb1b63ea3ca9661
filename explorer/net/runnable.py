"""Nets that run: on arrays, as a plan, measured, or watched value by value.

Plans and programs are kept per input types, so that repeated runs cost only their kernels.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from explorer.core.argument_checks import check_name
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.policy_operations import in_force
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor, stored_tensor
from explorer.core.memory_budget import claim_memory
from explorer.core.progress import long_running
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import TensorType
from explorer.net.buildable import BuildableNet, keep
from explorer.net.building.builder import Build
from explorer.net.building.containers import key_of, leaves, named_leaves
from explorer.net.building.example_shapes import whole_shapes
from explorer.net.building.inputs import as_value, is_symbolic, named_inputs
from explorer.net.building.interface import interface
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.shape_notes import check_inputs
from explorer.net.operand_values import OperandValues, Take
from explorer.net.operators.table import OperatorTable
from explorer.net.profile import Profile, profile
from explorer.net.run_log import run_log
from explorer.plan.passes import ShapeValues
from explorer.plan.pipeline import Step
from explorer.plan.planner import Options, Plan, plan
from explorer.plan.rewrite.rule import Rule
from explorer.record.fork_locks import renew_in_children
from explorer.record.gc_pause import gc_paused
from explorer.run.evalplan import EvalPlan
from explorer.run.execution.copying_program import CopyingProgram
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.program import Program
from explorer.run.runtime.marshalling import on_host


@functools.lru_cache
def _options(lanes: int) -> Options:
    """Return the options of a net's plan; hashed once, not in each run."""
    return Options(lanes=lanes, inference=True)


class RunnableNet(BuildableNet):
    """Buildable net with its plans and programs."""

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._plans: dict[Any, Plan] = {}
        self._programs: dict[Any, tuple[Program, Build]] = {}
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Leave programs behind in a forked process: a thread of its parent may have been running one."""
        self._programs = {}
        self._lock = threading.Lock()

    @long_running
    def run(self, *inputs: Any, executor: str = "simple", **named: Any) -> Any:
        """Return the outputs for arrays given in order or by name (keywords, or one dict): a single one, or a dict.

        An output that the file lists twice is returned twice: as ``y`` and ``y_2``.
        A list of samples is stacked to one array. Where a file's input is a map, a dict of its keys is given. Number,
        names, shapes and dtypes are checked before anything is computed. The plan is kept for the next run.
        ``executor`` is that of a plan; an input of this name must be given in order, or in a dict. With the logger
        "explorer.net" at level DEBUG each operator is logged as it runs.
        """
        check_name(executor, "executor", EXECUTORS)
        results = self._results(self._arrays(inputs, named), self._device_of(inputs, named), executor, on_host)
        return next(iter(results.values())) if len(results) == 1 else results

    @long_running
    def run_on_device(self, inputs: Mapping[str, Any], executor: str = "simple") -> dict[str, Any]:
        """Return the outputs by name, for inputs as of ``run``; those on other devices than cpu stay there, as tensors.

        >>> net = ex.Net("positive")
        >>> net.input("x", (2,))
        'x'
        >>> net.output(net.Relu("x", "y"))
        >>> net.run_on_device({"x": [1.0, -1.0]})
        {'y': array([1., 0.], dtype=float32)}
        """
        check_name(executor, "executor", EXECUTORS)
        return self._results(self._arrays((), inputs), self._device_of((), inputs), executor, _left_on_device)

    def _results(
        self, arrays: dict[str, Any], device: Device, executor: str, returned: Callable[[Expr, Any], Any]
    ) -> dict[str, Any]:
        """Run on arrays; return the outputs by name, each as ``returned`` makes it of its expression and value."""
        # A program has one table of values and one arena, so that a net runs for one thread at a time.
        with self._lock:
            program, build = self._program(arrays, device, _options(EXECUTORS[executor].lanes))
            program.bind(build.bound(arrays))
            log = run_log(program, self._builder)
            program.wait_for_devices(log is not None)
            EXECUTORS[executor].run(program, log)
            values = [returned(root, value) for root, value in zip(build.roots, program.take(), strict=True)]
        return build.results(values)

    @long_running
    def profile(self, *inputs: Any, runs: int = 5, executor: str = "simple", **named: Any) -> Profile:
        """Return the times of the operators in some warm runs, with arithmetic and bytes; ``print`` shows two tables.

        Inputs and executor are those of ``run``.
        """
        if type(runs) is not int or runs < 1:
            raise OperandError(f"runs={runs!r}", rule="runs must be a whole number of 1 or more", fix="runs=5")
        self.run(*inputs, executor=executor, **named)
        arrays, device = self._arrays(inputs, named), self._device_of(inputs, named)
        with self._lock:
            program, build = self._program(arrays, device, _options(EXECUTORS[executor].lanes))
            timings = []
            program.wait_for_devices(True)
            # Not the first run, which `run` above has made: it computes constants, and allocates memory.
            for _ in range(runs):
                program.bind(build.bound(arrays))
                timings.append(EXECUTORS[executor].run(program, None))
                program.forget()
        return profile(program, self._builder, timings)

    def _arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raises OperandError for a wrong number or name.

        Shapes and dtypes are checked where a build is made for them, so that a run that has one does not pay for it.
        """
        self.init()
        values = named_inputs(self.definition, inputs, named)
        return {name: as_value(self.definition.input(name), value) for name, value in values.items()}

    def _checked_arrays(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of all inputs by name; raises OperandError for a wrong number, name, shape or dtype."""
        arrays = self._arrays(inputs, named)
        types = [(name, TensorType(array.shape, array.dtype)) for name, array in named_leaves(arrays)]
        check_inputs(self.definition, types)
        return arrays

    def _device_of(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Device:
        """Return the device that the net was moved to, else the one of inputs that are tensors there."""
        if self._device is not None:
            return self._device
        values = [*inputs, *named.values()]
        values += [value for each in inputs if isinstance(each, Mapping) for value in each.values()]
        return self._device_for([value for value in values if isinstance(value, Tensor) and value.device is not cpu])

    def _watch_operands(self, arrays: Mapping[str, Any], names: Iterable[str], take: Take, executor: str) -> None:
        """Run on arrays; hand the values of operands on while they are in memory."""
        check_name(executor, "executor", EXECUTORS)
        with self._lock:
            self._refresh()
            build = self._built_for(arrays, self.device)
            self._grant(build)
            # A program that has run has computed its constants, and let go of most.
            program = Program(self._plan(build, _options(EXECUTORS[executor].lanes)))
            program.bind(build.bound(arrays))
            EXECUTORS[executor].run(program, OperandValues(program, build, names, take))

    def _program(self, arrays: Mapping[str, Any], device: Device, options: Options) -> tuple[Program, Build]:
        self._refresh()
        # Whatever a plan depends on besides the net itself, whose changes empty the table.
        key: Any = (
            key_of(arrays.values(), lambda array: (array.shape, array.dtype)),
            device,
            options,
            tuple(Rule.rules),
            in_force(),
        )
        if key in self._programs:
            return self._programs[key]
        build = self._built_for(arrays, device)
        if build.values_first:
            # Only the values tell which build it is, so that they are asked for in every run.
            key = build, options, tuple(Rule.rules)
            if key in self._programs:
                return self._programs[key]
        self._grant(build)
        keep(self._programs, key, (CopyingProgram(self._plan(build, options)), build))
        return self._programs[key]

    def _built_for(self, arrays: Mapping[str, Any], device: Device) -> Build:
        """The expressions for arrays, which are the values of parameters on a device."""
        parameters = {name: self._parameters_for(name, value, device) for name, value in arrays.items()}
        return self._build(parameters, dict(zip(leaves(parameters.values()), leaves(arrays.values()), strict=True)))

    def _grant(self, build: Build) -> None:
        """Allow the outputs to be computed; one that is the same everywhere counts in full: who gets it reads it."""
        size = sum([node.type.nbytes for node in build.roots])
        claim_memory(f"net {self.name!r}, whose outputs are {', '.join(map(repr, self.definition.outputs[:8]))},", size)

    def _plan(self, build: Build, options: Options) -> Plan:
        """The one plan of a build's outputs: of what runs, and of what is shown."""
        outputs = build.roots
        options = replace(options, passes=_passes(build, options.passes))
        key = tuple([node.uid for node in outputs]), options, tuple(Rule.rules)
        if key not in self._plans:
            with gc_paused():
                keep(self._plans, key, plan(outputs, options))
        return self._plans[key]

    def _forget(self) -> None:
        super()._forget()
        self._plans.clear()
        self._programs.clear()

    @long_running
    def plan(self, *inputs: Any, **options: Any) -> EvalPlan:
        """Return a prepared plan of all outputs, the one that ``run`` uses; ``options`` are those of EvalPlan.

        ``inputs`` are those of ``build``, in order. Arrays become the values of parameters at each ``plan.eval()``.
        """
        values = named_inputs(self.definition, inputs, {}) if inputs else whole_shapes(self.definition)
        arrays, nodes = dict[str, Any](), dict[str, Any]()
        for name, value in values.items():
            blob = self.definition.input(name)
            if is_symbolic(blob, value):
                nodes[name] = self._expression(name, value, self.device)
            else:
                arrays[name] = as_value(blob, value)
                nodes[name] = self._parameters_for(name, arrays[name], self.device)
        bound = dict(zip(leaves([nodes[name] for name in arrays]), leaves(arrays.values()), strict=True))
        build = self._build(nodes, bound)
        if arrays:
            self._grant(build)
        plan = EvalPlan(**{"title": self.name, "inference": True, **options})
        for node in build.roots:
            plan.register(node)
        plan.prepare(self._plan(build, plan.options), interface(build))
        plan.bind(bound)
        return plan


def _left_on_device(root: Expr, value: Any) -> Any:
    """Return a result: an array of cpu, or a tensor of the array of another device."""
    device = root.type.device
    if device is cpu or isinstance(value, tuple):
        return value
    return stored_tensor(Storage(value, device, shared="a result of a net uses it"), root.tensor_type, "")


def _passes(build: Build, passes: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the passes of a plan of a build; the first one tells of values that were computed for it."""
    return (ShapeValues(build.values_first), *passes) if build.values_first else passes
