"""First and second gradients of random programs against torch, in float64; at kinks, torch's are the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import explorer as ex
from tests.soak.numbers.lanes import Array, limits
from tests.soak.numbers.programs import OPTIONAL, TEMPLATES, Maker, Program

LINES = (*[f"xp.{name}({{a}})" for name in TEMPLATES["differentiable"]], *TEMPLATES["differentiable lines"])
IMAGES = TEMPLATES["differentiable images"]


class _Torch:
    """Torch functions with Explorer's names and arguments."""

    arctan, arctan2, concatenate = torch.atan, torch.atan2, torch.cat
    log_sigmoid, attention = functional.logsigmoid, functional.scaled_dot_product_attention
    max, min = torch.amax, torch.amin
    sigmoid, tanh, relu, softmax, log_softmax = torch.sigmoid, torch.tanh, torch.relu, torch.softmax, torch.log_softmax

    def __getattr__(self, name: str) -> Any:
        return getattr(functional, name, None) or getattr(torch, name)

    @staticmethod
    def cbrt(x: Any) -> Any:
        return torch.sign(x) * torch.abs(x) ** (1 / 3)

    @staticmethod
    def var(x: Any, axis: int) -> Any:
        return torch.var(x, axis, unbiased=False)

    @staticmethod
    def std(x: Any, axis: int) -> Any:
        return torch.sqrt(torch.var(x, axis, unbiased=False))

    @staticmethod
    def layer_norm(x: Any) -> Any:
        return functional.layer_norm(x, x.shape[-1:])

    @staticmethod
    def transpose(x: Any) -> Any:
        return x.permute(*range(x.ndim - 1, -1, -1))

    @staticmethod
    def take(x: Any, at: Any) -> Any:
        return x.reshape(-1)[at]

    @staticmethod
    def flip(x: Any, axis: int) -> Any:
        return torch.flip(x, [axis])

    @staticmethod
    def sort(x: Any, axis: int) -> Any:
        return torch.sort(x, axis).values

    @staticmethod
    def vector_norm(x: Any, axis: int) -> Any:
        return torch.linalg.vector_norm(x, dim=axis)

    @staticmethod
    def conv2d(x: Any, filters: Any, stride: int = 1, padding: int = 0) -> Any:
        return functional.conv2d(x, filters, stride=stride, padding=padding)

    @staticmethod
    def pad(x: Any, width: int) -> Any:
        return functional.pad(x, (width,) * 2 * x.ndim)


class _Explorer:
    """Explorer functions with the argument order of the program's lines."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(ex, name)
        if name == "conv2d":
            return lambda x, f, strides=1, padding=0: function(x, f, strides=strides, padding=padding)
        return (lambda x, axis: function(x, axis=axis)) if name == "vector_norm" else function


XP = _Explorer()


@dataclass(frozen=True)
class Gradients(Program):
    """Program whose weighted, summed last line is the loss; its gradients are computed for every array."""

    order: int = 1

    def last(self, xp: Any, values: list[Any]) -> Any:
        """Return the last line's value for the given arrays."""
        scope: dict[str, Any] = {"xp": xp, "np": np, **{f"v{index}": value for index, value in enumerate(values)}}
        for index, line in enumerate(self.lines, len(values)):
            scope[f"v{index}"] = eval(line, scope)
        return scope[f"v{self.roots[0]}"]

    def smaller(self) -> list[Program]:
        """Yield programs with one line less or with simpler numbers."""
        count = len(self.arrays)
        lines = [
            self._with(count + line, old) for line in range(len(self.lines) - 1, -1, -1) for old in range(count + line)
        ]
        return [program for program in [*lines, *super().smaller()] if len(program.arrays) == count]

    def source(self) -> str:
        """Return the script, with the gradients that differ."""
        return f"{super().source()}\n# the gradient of order {self.order} of (v{self.roots[0]} * weights(…)).sum()"


def weights(shape: Any, turn: int = 0) -> Array:
    """Return distinct weights for the elements in a loss."""
    return np.asarray(np.cos(np.arange(np.prod(shape, dtype=int)) * 1.7 + turn) + 0.3).reshape(shape)


def make(chance: np.random.Generator) -> Gradients:
    """Return a program whose lines are differentiable; a third of them are at zeros, ties and equal numbers."""
    kinds = ("normal",) if chance.random() < 0.65 else ("whole", "equal", "normal")
    maker = Maker(chance, "float64" if chance.random() < 0.7 else "float32", kinds)
    maker.arrays = [np.clip(array.astype(np.float64), -3, 3).astype(array.dtype) for array in maker.arrays]
    images = chance.random() < 0.2
    maker.constants("i f" if images else "w r")
    maker.arrays = [np.clip(np.nan_to_num(array), -3, 3) for array in maker.arrays]
    maker.values["xp"] = XP
    for _ in range(30):
        if len(maker.lines) >= int(chance.integers(1, 6)):
            break
        if images:
            if maker.add(maker.pick(IMAGES)):
                maker.fixed["i"] = f"v{len(maker.arrays) + len(maker.lines) - 1}"
        else:
            maker.add(maker.pick(LINES))
    while not maker.lines:
        maker.add("{a} * {a}")
    root = len(maker.arrays) + len(maker.lines) - 1
    return Gradients(tuple(maker.arrays), tuple(maker.lines), (root,), order=int(chance.integers(1, 3)))


def judge(case: Gradients) -> tuple[str, tuple[str, ...]]:
    """Return where a gradient differs from torch's by more than rounding and four times the bare plan's error."""
    inputs = [ex.tensor(array) for array in case.arrays]
    try:
        gradients = _recorded(case, inputs)
    except ex.OperandError as error:
        return (str(error).partition("\n")[0], ()) if "second" in str(error) else ("", ())
    plan = ex.EvalPlan(record="off")
    handles = [plan.register(gradient) for gradient in gradients]
    plan.eval()
    applied = tuple(dict.fromkeys([each.info.name for each in plan.planned.graph.decisions if each.applied]))
    right = _by_torch(case, 0.0)
    if right is None:
        return "", applied
    near = [_by_torch(case, off) for off in (3e-13, -7e-13, 4e-7 if case.arrays[0].dtype == np.float32 else 0.0)]
    for index, handle in enumerate(handles):
        found, wanted = np.asarray(handle.data()), right[index]
        if found.shape != wanted.shape:
            return f"order {case.order}: v{index}: {found.shape} for {wanted.shape}", applied
        size = max(1.0, float(np.max(np.abs(np.nan_to_num(wanted, posinf=0, neginf=0)), initial=0)))
        room = 4096 * float(limits(found.dtype).eps) * size
        for other in near:
            if other is not None:
                room = room + 100 * np.nan_to_num(np.abs(other[index] - wanted), nan=np.inf)
        wrong = np.isfinite(wanted) & ~(np.abs(found - wanted) <= room)
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
            numbers = [np.atleast_1d(each)[at] for each in (found, wanted)]
            without = np.atleast_1d(np.asarray(ex.evaluate(gradients[index], without=OPTIONAL)))[at]
            if abs(numbers[0] - numbers[1]) <= 4 * abs(without - numbers[1]) and found.dtype == np.float32:
                continue
            at_v = f"order {case.order}: v{index}{list(at)}"
            return f"{at_v} {numbers[0]!r}, torch {numbers[1]!r}, bare {without!r}: {case.lines}", applied
    return "", applied


def _recorded(case: Gradients, inputs: list[ex.Expr]) -> list[ex.Expr]:
    value = case.last(XP, inputs)
    loss = (value * ex.tensor(weights(value.shape).astype(value.dtype))).sum()
    gradients = ex.grad(loss, inputs)
    if case.order == 2:
        terms = [(g * ex.tensor(weights(g.shape, n + 1).astype(g.dtype))).sum() for n, g in enumerate(gradients)]
        gradients = ex.grad(sum(terms[1:], terms[0]), inputs)
    return [*gradients]


def _by_torch(case: Gradients, off: float) -> list[Array] | None:
    """Return torch's gradients at numbers with a relative perturbation, or None if torch has none."""
    inputs = [
        torch.tensor(
            array.astype(np.float64) * (1 + off * np.cos(np.arange(array.size)).reshape(array.shape)),
            requires_grad=True,
        )
        for array in case.arrays
    ]
    try:
        value = case.last(_Torch(), inputs)
        if not torch.isfinite(value).all():  # NaN cannot be compared
            return None
        loss = (value * torch.tensor(weights(value.shape))).sum()
        gradients = torch.autograd.grad(loss, inputs, create_graph=True, materialize_grads=True)
        if case.order == 2:
            total = sum((g * torch.tensor(weights(g.shape, n + 1))).sum() for n, g in enumerate(gradients))
            if not total.requires_grad:
                return [np.zeros(x.shape) for x in inputs]
            gradients = torch.autograd.grad(total, inputs, materialize_grads=True)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return None
    return [g.detach().numpy(force=True) for g in gradients]
