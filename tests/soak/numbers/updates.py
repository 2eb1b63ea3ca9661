"""Update rules of optimizers against the same rules in NumPy: new values are old values, views, and both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import explorer as ex
from explorer.layers import Parameter
from tests.soak.numbers.programs import TEMPLATES, Program

STEPS = 4
LINES = TEMPLATES["updates"]


@dataclass(frozen=True)
class Updates(Program):
    """Lines over a parameter v0, its gradient v1 and states v2, …; the roots are the new values of v0, v2, ….

    ``arrays`` contain the first values; v1 has a gradient for each step.
    """

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{index}" for index in range(len(self.arrays) - 2))

    def new(self, xp: Any, values: list[Any], length: Any) -> list[Any]:
        """Return the new parameter and states for the old ones."""
        scope: dict[str, Any] = {
            "xp": xp,
            "length": length,
            **{f"v{index}": value for index, value in enumerate(values)},
        }
        for index, line in enumerate(self.lines, len(values)):
            scope[f"v{index}"] = eval(line, scope)
        return [scope[f"v{root}"] for root in self.roots]

    def smaller(self) -> list[Program]:
        """Yield programs with one line less."""
        count = len(self.arrays)
        return [self._with(count + line, old) for line in range(len(self.lines)) for old in range(count)]

    def source(self) -> str:
        """Return the rule's record(), with v0 the parameter, v1 the gradient and v2, … the states."""
        lines = [f"v{index} = {line}" for index, line in enumerate(self.lines, len(self.arrays))]
        new = [f"v{root}" for root in self.roots]
        return "\n".join([*lines, f"return {new[0]}, {dict(zip(self.names, new[1:], strict=True))}"])


def make(chance: np.random.Generator) -> Updates:
    """Return a rule with one to three states."""
    shape = ((3, 3), (2, 2), (1, 1), (4, 4))[int(chance.integers(4))]
    states = int(chance.integers(1, 4))
    arrays = (chance.normal(size=shape), chance.normal(size=(STEPS, *shape)), *[np.zeros(shape)] * states)
    lines: list[str] = []
    for _ in range(int(chance.integers(0, 5))):
        a, b = (f"v{int(chance.integers(len(arrays) + len(lines)))}" for _ in range(2))
        lines.append(LINES[int(chance.integers(len(LINES)))].format(a=a, b=b, shape=shape))
    roots = tuple(int(root) for root in chance.integers(len(arrays) + len(lines), size=states + 1))
    return Updates(arrays, tuple(lines), roots)


def judge(case: Updates, **_: Any) -> tuple[str, tuple[str, ...]]:
    """Return where a parameter or state differs from NumPy's after a step, by `step` or inside a training step."""

    @dataclass(frozen=True)
    class Own(ex.train.UpdateRule):
        state: ClassVar = case.names

        def record(self, parameter: Any, gradient: Any, length: Any, state: Mapping[str, Any]) -> tuple[Any, Any]:
            new = case.new(ex, [parameter, gradient, *[state[name] for name in case.names]], length)
            return new[0], dict(zip(case.names, new[1:], strict=True))

    start, gradients = case.arrays[:2]
    held, optimizer = Parameter("p", ex.tensor(start)), ex.train.Optimizer(Own(), rate=0.1)
    optimizer.attach({"p": held})
    values = [start, None, *[np.zeros_like(start) for _ in case.names]]
    for step in range(STEPS):
        values[1] = gradients[step]
        optimizer.step({"p": gradients[step]})
        new = [np.array(value) for value in case.new(np, values, 0.1)]
        values = [new[0], None, *new[1:]]
        state = optimizer.state()
        found = _differing(f"step {step}", [held.array, *[state[f"p {name}"] for name in case.names]], new)
        if found:
            return found, ()
    return _training(case, Own()), ()


def _training(case: Updates, rule: Any) -> str:
    """Check the same in a module, whose step computes the gradient of Σ (x @ W)²."""
    size = case.arrays[0].shape[0]
    optimizer = ex.train.Optimizer(rule, rate=0.1, groups=[ex.train.ParameterGroup("*/bias", frozen=True)])
    loss = ex.train.MeanSquaredError(reduction="sum")
    module = ex.train.Module("m", loss=loss, optimizer=optimizer, dtype="float64")
    module.add_node(ex.train.Linear("a", size, size))
    module.attach(seed=1)
    held = module.parameters["a/weight"]
    values = [held.value.array.copy(), None, *[np.zeros((size, size)) for _ in case.names]]
    x = case.arrays[1][0] * 0.3
    for step in range(STEPS):
        values[1] = 2 * x.T @ (x @ values[0])
        module.train_on(x, np.zeros((size, size)))
        new = [np.array(value) for value in case.new(np, values, 0.1)]
        values = [new[0], None, *new[1:]]
        found = _differing(f"training, step {step}", [held.value.array], new[:1])
        if found or not np.isfinite(new[0]).all():
            return found
    return ""


def _differing(where: str, found: list[Any], right: list[Any]) -> str:
    for index, (value, wanted) in enumerate(zip(found, right, strict=True)):
        if not np.allclose(value, wanted, rtol=1e-9, atol=1e-12, equal_nan=True):
            name = "the parameter" if index == 0 else f"state {index - 1}"
            return f"{where}: {name} is {np.ravel(value)[:4]}, NumPy's {np.ravel(wanted)[:4]}"
    return ""
