"""Programs of exponentials and logarithms, and their first and second gradients, against mpmath.

The reference computes the program as written, with enough digits to avoid overflow and cancellation, and derivatives by
central differences, so it is independent of the rules of plans and gradients. Forms with a name in the literature must
be accurate for all numbers; for others the plan must not be worse than the bare plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import explorer as ex
from tests.soak.numbers.lanes import Array, limits
from tests.soak.numbers.programs import OPTIONAL, TEMPLATES, Program
from tests.support.exact import exact

KNOWN = TEMPLATES["known logs"]
"""forms with a known stable formula"""
OTHERS = TEMPLATES["other logs"]
SCALES = (1.0, 1.0, 30.0, 100.0, 800.0, 1e4)


@dataclass(frozen=True)
class Logs(Program):
    """Lines over v0, v1 and probabilities v2; the loss is the sum of the last line, differentiated by v0."""

    order: int = 0
    known: bool = False

    def values(self, xp: Any, first: Any) -> ex.Expr:
        """Return the last line's value for a given v0."""
        scope: dict[str, Any] = {
            "xp": xp,
            "v0": first,
            "v1": xp.tensor(self.arrays[1]),
            "v2": xp.tensor(self.arrays[2]),
        }
        for index, line in enumerate(self.lines, 3):
            scope[f"v{index}"] = eval(line, scope)
        value: ex.Expr = scope[f"v{self.roots[0]}"]
        return value

    def smaller(self) -> list[Program]:
        """Yield programs with one line less; the three arrays stay."""
        count = len(self.arrays)
        return [self._with(count + line, old) for line in range(len(self.lines)) for old in range(count + line)]

    def source(self) -> str:
        """Return the script, with the gradient's order."""
        gradient = "\n".join([f"v = xp.sum(v{self.roots[0]})", *["v = xp.sum(xp.grad(v, v0) * v1)"] * self.order])
        return f"{super().source()}\n# gradients along v1, order {self.order}, known: {self.known}\n{gradient}"


def make(chance: np.random.Generator) -> Logs:
    """Return a known form or a random composition."""
    dtype = ("float64", "float32")[int(chance.integers(2))]
    scale = SCALES[int(chance.integers(len(SCALES)))]
    x = chance.normal(size=3) * scale
    x[chance.random(3) < 0.15] = 0.0
    if chance.random() < 0.3:
        x = x + chance.choice([scale, -scale])
    shares = chance.dirichlet(np.ones(3)) if chance.random() < 0.5 else np.eye(3)[int(chance.integers(3))]
    arrays = tuple(array.astype(dtype) for array in (x, chance.normal(size=3), shares))
    known = bool(chance.random() < 0.5)
    order = int(chance.choice([0, 1, 2], p=[0.4, 0.35, 0.25]))
    lines: list[str] = []
    if known:
        lines = [KNOWN[int(chance.integers(len(KNOWN)))].format(a="v0", b="v1", t="v2", s="v1")]
    else:
        for index in range(int(chance.integers(1, 6))):
            a = f"v{2 + index}" if index else "v0"
            b = ("v0", "v1", a)[int(chance.integers(3))]
            lines.append(OTHERS[int(chance.integers(len(OTHERS)))].format(a=a, b=b))
            if "xp.sum(" in lines[-1] or "xp.mean(" in lines[-1]:
                lines[-1] += " * v1"
    return Logs(arrays, tuple(lines), (2 + len(lines),), order=order, known=known)


def judge(case: Logs) -> tuple[str, tuple[str, ...]]:
    """Return the fault of the value, or of the gradient of some order along v1."""
    x = ex.tensor(case.arrays[0])
    value = case.values(ex, x)
    for _ in range(case.order):
        value = ex.grad(value.sum(), x)
        if _ + 1 < case.order:
            value = value * ex.tensor(case.arrays[1])
    plan = ex.EvalPlan(record="off")
    handle = plan.register(value)
    plan.eval()
    found = np.asarray(handle.data())
    applied = tuple(dict.fromkeys([each.info.name for each in plan.planned.graph.decisions if each.applied]))
    try:
        right, rough = _right(case, 0.0), _right(case, float(limits(found.dtype).eps))
    except (ArithmeticError, ValueError, TypeError):  # a pole, where no value is right
        return "", applied
    top = float(limits(found.dtype).max)
    eps, size = float(limits(found.dtype).eps), max(1.0, float(np.max(np.abs(case.arrays[0]))))
    room = 64 * eps * (np.abs(right) + np.nanmax(np.abs(right), initial=1.0)) + 64 * np.abs(rough - right)
    if case.order:
        room = room + 64 * eps * size * np.nanmax(np.abs(right), initial=1.0)
    near = np.abs(found - right) <= room
    if not case.known:
        without = np.asarray(ex.evaluate(value, without=OPTIONAL))
        with np.errstate(all="ignore"):
            error = np.abs(without - right)
        near |= ~np.isfinite(without) | (np.abs(found - right) <= 4 * error + room)
        near |= found == without
    wrong = ~near & np.isfinite(right) & np.isfinite(rough) & (np.abs(right) < top)
    if not wrong.any():
        return "", applied
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    numbers = [np.atleast_1d(each)[at] for each in (found, right)]
    kind = "known form" if case.known else f"other form, bare {np.atleast_1d(without)[at]!r}"
    return f"order {case.order}, {kind}: at {list(at)} {numbers[0]!r}, exact {numbers[1]!r}: {case.lines}", applied


def _right(case: Logs, off: float) -> Array:
    """Return the exact value or gradient, at the given numbers or with a relative perturbation."""
    x = case.arrays[0].astype(np.float64)
    digits = 120 + (2 if case.order else 1) * int(np.max(np.abs(x)) / 2) + 40 * case.order
    with mpmath.mp.workdps(digits):
        base = [mpmath.mpf(float(number)) * (1 + off) for number in x]
        if not case.order:
            return _floats(_exactly(case, [base], digits)[0])
        step = mpmath.mpf(10) ** -30
        along = [mpmath.mpf(float(number)) for number in case.arrays[1]]
        moved = []
        for index in range(3):
            for sign in (1, -1):
                point = [number + sign * step * (place == index) for place, number in enumerate(base)]
                if case.order == 1:
                    moved.append(point)
                else:
                    moved += [[n + turn * step * a for n, a in zip(point, along, strict=True)] for turn in (1, -1)]
        sums = [sum(np.ravel(value), mpmath.mpf(0)) for value in _exactly(case, moved, digits)]
        if case.order == 1:
            return _floats([(sums[2 * i] - sums[2 * i + 1]) / (2 * step) for i in range(3)])
        parts = [sums[4 * i : 4 * i + 4] for i in range(3)]
        return _floats([(a - b - c + d) / (4 * step**2) for a, b, c, d in parts])


def _exactly(case: Logs, points: list[list[Any]], digits: int) -> list[Any]:
    """Return the values at several points, which need more digits than floats have."""
    results = []
    recorded = ex.tensor(case.arrays[0])
    value = case.values(ex, recorded)
    for point in points:
        (result,) = exact([value], digits, {recorded.uid: np.array(point, object)})
        results.append(result)
    return results


def _floats(values: Any) -> Array:
    return np.asarray(
        np.frompyfunc(lambda x: float(x) if isinstance(x, mpmath.mpf) else np.nan, 1, 1)(np.asarray(values, object)),
        np.float64,
    )
