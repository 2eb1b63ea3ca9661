"""Random update rules against NumPy: parameters, state and results after steps that overwrite old values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import TensorType
from explorer.plan.options import Options
from explorer.run.execution.executors import EXECUTORS
from explorer.train.compiled import Compiled, parameter

RULES = int(os.environ.get("EXPLORER_SOAK_UPDATES", "20000"))
Recorder: TypeAlias = Callable[..., list[Any]]
SEEDS = [range(300), pytest.param(range(300, RULES), marks=pytest.mark.soak)]


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records one call node when its arguments are expressions."""
    recorded = ex.function(function)
    return lambda *values: (recorded if isinstance(values[0], ex.Expr) else function)(*values)


def chosen(x: Any) -> Any:
    """Return x or its negative with a conditional that passes its operand through."""
    if isinstance(x, ex.Expr):
        return ex.cond(x.sum() > 0, lambda x: x, lambda x: -x, x)
    return x if x.sum() > 0 else -x


def scanned(x: Any) -> Any:
    """Return the rows before each row with a loop that passes its operand through."""
    if isinstance(x, ex.Expr):
        return ex.scan(lambda last, row: (row, last), x[0], x)[1]
    return np.concatenate([x[:1], x[:-1]])


def mapped(x: Any) -> Any:
    """Return the rows of x doubled."""
    return ex.map(lambda row: row + row, x) if isinstance(x, ex.Expr) else x + x


# All of them give integers for integers in any order, so every bit must equal NumPy's.
ELEMENTWISE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: y - x - x,
    lambda x, y: np.maximum(x, y),
    lambda x, y: np.where(x > y, x, y),
)
ONE: tuple[Callable[[Any], Any], ...] = (
    lambda x: x,
    lambda x: x * 1,
    lambda x: x + 0,
    lambda x: -x,
    lambda x: np.negative(-x),
    lambda x: x.T,
    lambda x: x.T.T,
    lambda x: x[::-1],
    lambda x: x[::-1][::-1],
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: np.expand_dims(x, 0)[0],
    lambda x: np.flip(x),
    lambda x: np.roll(x, 1, 0),
    lambda x: x[np.arange(x.shape[0]) - 1],
    lambda x: np.broadcast_to(x[-1:], x.shape),
    lambda x: np.concatenate([x[:1], x[1:]]),
    lambda x: np.absolute(x),
    lambda x: x - x.max(),
    lambda x: x * 0 + x.sum(axis=0),
    lambda x: np.eye(x.shape[0])[::-1].astype(x.dtype) @ x,
    traced(lambda x: x),
    traced(lambda x: x.T),
    traced(lambda x: x - x[::-1]),
    chosen,
    scanned,
    mapped,
)
TWO: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x - y.T,
    lambda x, y: x[::-1] + y,
    lambda x, y: np.stack([x, y])[1],
    lambda x, y: np.stack([x, y]).sum(axis=0),
    traced(lambda x, y: y),
    traced(lambda x, y: x.T + y),
)


class Program(NamedTuple):
    """Instructions over registers; the first registers are a gradient and the old values."""

    instructions: list[tuple[Callable[..., Any], tuple[int, ...]]]
    """names in ``ONE`` and ``TWO``, with the registers of their operands"""
    outputs: list[int]
    """registers of the new values, followed by those of requested results"""

    def run(self, gradient: Any, old: Sequence[Any]) -> list[Any]:
        """Return the values of the outputs."""
        registers = [gradient, *old]
        for function, operands in self.instructions:
            registers.append(function(*[registers[operand] for operand in operands]))
        return [registers[output] for output in self.outputs]


def program(random: Random, values: int, results: int) -> Program:
    """Return a random program of a gradient and the given number of old values."""
    instructions: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
    for count in range(1 + values, 1 + values + random.randint(0, 3 + 3 * values)):
        functions, operands = random.choice([(ELEMENTWISE, 2), (ONE, 1), (TWO, 2)])
        instructions.append((random.choice(functions), tuple(random.choices(range(count), k=operands))))
    count = 1 + values + len(instructions)
    # Most operands are recent values, the others any values, including old ones.
    outputs = [
        random.randrange(max(0, count - 2 * values) if random.random() < 0.6 else 0, count)
        for _ in range(values + results)
    ]
    return Program(instructions, outputs)


def bits(array: Any) -> tuple[Any, ...]:
    """Return the shape, dtype and bits of an integer array; the signs of zeros are not compared here."""
    return array.shape, array.dtype, (np.asarray(array) + array.dtype.type(0)).tobytes()


def all_equal(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return [*map(bits, given)] == [*map(bits, wanted)]


@pytest.mark.spec("U-7", headline=True)
@pytest.mark.parametrize("seeds", SEEDS)
def test_new_values_equal_numpys_for_any_reuse_of_memory(seeds: range) -> None:
    """Overwrite an old value only after all its readers; any update rule gives NumPy's values bit for bit.

    New values, and results that are asked for, are any expressions of parameters in memory: the parameters themselves,
    their views, permutations and sums, what functions, branches and loops hand on.
    """
    for seed in seeds:
        random, numbers = Random(seed), np.random.default_rng(seed)
        size, dtype = random.choice((1, 2, 3, 40)), random.choice(("int64", "float64"))
        cells, kept = random.randint(1, 5), random.randint(0, 3)
        executor = EXECUTORS[random.choice(("simple", "dag", "async"))]
        closed = ex.passes.Inline(limit=0) if random.random() < 0.3 else None
        type_ = TensorType((size, size), np.dtype(dtype))
        old, gradient = [parameter(type_, f"p{number}") for number in range(cells)], parameter(type_, "gradient")
        rule = program(random, cells, kept)
        outputs = rule.run(gradient, old)
        memory = {node: numbers.integers(-3, 4, type_.shape).astype(dtype) for node in old}
        updates = {old[number]: outputs[number] for number in random.sample(range(cells), cells)}
        options = Options(inline=closed, lanes=executor.lanes)
        compiled = Compiled(outputs[cells:], [gradient], memory, executor, options, updates)
        values = [array.copy() for array in memory.values()]
        results: list[Any] = []
        wanted: list[Any] = []
        for step in range(3):
            slope = numbers.integers(-3, 4, type_.shape).astype(dtype)
            outcome = rule.run(slope, values)
            results += compiled(slope)[:kept]
            wanted += outcome[cells:]
            assert all_equal([*memory.values()], values), f"seed {seed}, step {step}: changed before the update"
            compiled.update()
            values = [np.array(value) for value in outcome[:cells]]
            assert all_equal([*memory.values()], values), f"seed {seed}, step {step}: new values"
            assert all_equal(results, wanted), f"seed {seed}, step {step}: results"


class Weighted(ex.train.Loss):
    """Sum of outputs multiplied by labels, whose gradients are integers for integers."""

    reduction = "sum"

    def record(self, output: ex.Expr, label: ex.Expr) -> ex.Expr:
        return (output * label).sum()


@dataclass(frozen=True)
class Recorded(ex.train.UpdateRule):
    """Rule that is a function of the gradient, the parameter and three states."""

    state: ClassVar = ("one", "two", "three")
    recorder: ClassVar[Recorder]

    def record(self, parameter: Any, gradient: Any, length: Any, state: Any) -> tuple[Any, dict[str, Any]]:
        new, *states = self.recorder(gradient * length, parameter, *[state[name] for name in self.state])
        return new, dict(zip(self.state, states, strict=True))


def check_training(record: Recorder, seed: int, workers: ex.Workers | None = None) -> None:
    """Check four steps of a module whose rule records ``record``, with ``train_on`` or its three parts.

    With ``workers``, each step is computed there.
    """
    random, numbers = Random(seed), np.random.default_rng(seed)
    rule, size = Recorded(), random.choice((1, 2, 3))
    optimizer = ex.train.Optimizer(rule, rate=1.0)
    module = ex.train.Module("m", loss=Weighted(), optimizer=optimizer, dtype="float64")
    module.add_node(ex.train.Linear("a", size, size))
    module.attach(seed=1)
    Recorded.recorder = staticmethod(record)
    values: dict[str, list[Any]] = {}
    for name, held in module.parameters.items():
        held.assign(numbers.integers(-3, 4, held.array.shape).astype(float))
        values[name] = [held.array.copy(), *[np.zeros(held.array.shape)] * 3]
    if workers is not None:
        ex.parallelize(module, workers, shards=2)
    for step in range(4):
        x, label = numbers.integers(-2, 3, (2, 4, size)).astype(float)
        if workers is not None or random.random() < 0.5:
            module.train_on(x, label)
        else:
            module.forward(x)
            module.backward(label)
            module.step()
        for name, slope in {"a/weight": x.T @ label, "a/bias": label.sum(0)}.items():
            values[name] = record(slope, *values[name])
            held = [module.parameters[name].array, *[optimizer.state()[f"{name} {entry}"] for entry in rule.state]]
            assert all_equal(held, values[name]), f"seed {seed}, step {step}: {name}"


@pytest.mark.spec("U-7", "T-3")
@pytest.mark.parametrize("seeds", SEEDS)
def test_modules_train_with_any_rule_as_numpy_does(seeds: range) -> None:
    """``train_on``, and ``forward``, ``backward`` and ``step``, equal the rule run on arrays."""
    for seed in seeds[::7]:
        rule = program(Random(seed), 4, 0)
        check_training(lambda slope, *old, rule=rule: rule.run(slope, old), seed)


@pytest.mark.xdist_group("dask")
@pytest.mark.filterwarnings("ignore::explorer.core.tracing.random_draws.RandomTraced")  # Dask's threads draw, too
def test_modules_train_on_workers_with_any_rule_as_numpy_does() -> None:
    """Include an update that reads a worker's value, and a branch that a worker executes."""
    with ex.Workers(2, processes=False) as workers:
        for seed in (13, 24, 31):
            rule = program(Random(seed), 4, 0)
            check_training(lambda slope, *old, rule=rule: rule.run(slope, old), seed, workers)


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(lambda g, p, a, b, c: (p - b, g, a, b), id="gradient before last"),
        pytest.param(lambda g, p, a, b, c: (p - g, p, a, b), id="last three values"),
        pytest.param(lambda g, p, a, b, c: (a, p - g, c, b), id="swaps"),
        pytest.param(lambda g, p, a, b, c: (b, p, a, c + g), id="rotation"),
        pytest.param(lambda g, p, a, b, c: (p - g, p * 1, -(0 - p), p.T.T), id="identities"),
        pytest.param(lambda g, p, a, b, c: (p - g, p[::-1], p.reshape(-1).reshape(p.shape), a.T), id="views"),
        pytest.param(lambda g, p, a, b, c: (p - g, g, g, a), id="one value of two states"),
        pytest.param(lambda g, p, a, b, c: (p - g, a + g, a + g, a), id="one sum of two states"),
        pytest.param(lambda g, p, a, b, c: (a - g, a - g, p, p), id="parameter and state alike"),
    ],
)
def test_rules_that_pass_old_values_on(record: Recorder) -> None:
    """Test histories, swaps and views of old values, and one new value shared by several states."""
    for seed in range(4):
        check_training(lambda *values: [*record(*values)], seed)


def test_results_do_not_change_when_the_next_run_overwrites_buffers() -> None:
    """Predictions and net results do not share memory with an input, a view of it, or a view of another output."""
    x = np.arange(9.0).reshape(3, 3)
    net = ex.Net("views")
    net.input("x", x.shape, "float64")
    net.Add(["x", "x"], "twice")
    for name, source in (("t", "twice"), ("xt", "x")):
        net.Transpose(source, name, axes=[1, 0])
    for name in ("x", "twice", "t", "xt"):
        net.output(name)
    module = ex.train.Module("m", loss=Weighted(), optimizer=ex.train.SGD(0.1), dtype="float64")
    module.add_node(lambda x: x)
    module.attach()
    first = [*net.run(x).values(), module.predict(x)]
    for number in range(4):
        net.run(x + number)
        module.predict(x + number)
    assert all_equal(first, [x, x + x, (x + x).T, x.T, x])
    assert not any(result.flags.writeable for result in first)
