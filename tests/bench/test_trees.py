"""200 random binary trees with 10 to 30 leaves, d = 128 and one composition: values, and gradients of its
parameters."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.bench.contest import compared, contest
from tests.bench.programs import Compute, Trees, dynet, evaluated, one_thread, planned_anew, trees

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

PACKAGES = ["numpy", "dyNET38", "torch"]


def of_explorer(given: Trees) -> dict[str, Compute]:
    """Return trees folded by level, and one call per composition, each with a new and with a cached plan."""
    left, right, bias = ex.tensor(given.left), ex.tensor(given.right), ex.tensor(given.bias)
    words = [ex.tensor(word) for word in given.words]
    table = ex.tensor(np.stack(given.words))

    @ex.function
    def word(number: ex.Expr) -> ex.Expr:
        return ex.embedding(table, number)

    @ex.function
    def compose(a: ex.Expr, b: ex.Expr) -> ex.Expr:
        return ex.tanh(a @ left + b @ right + bias)

    def fold() -> list[Any]:
        result: list[Any] = ex.evaluate(ex.fold_trees(compose, given.trees, word))
        return result

    def values() -> list[Any]:
        return evaluated(given.roots(words.__getitem__, compose))

    return {
        "ex.fold_trees, planned": planned_anew(fold),
        "ex.fold_trees, plan cached": fold,
        "calls, planned": planned_anew(values),
        "calls, plan cached": values,
    }


def of_numpy(given: Trees) -> dict[str, Compute]:
    """Return one composition after the other."""

    def compose(a: Any, b: Any) -> Any:
        return np.tanh(a @ given.left + b @ given.right + given.bias)

    return {"NumPy loop": lambda: given.roots(given.words.__getitem__, compose)}


class DynetComposition:
    """The composition in DyNet; parameters live as long as their collection."""

    def __init__(self, given: Trees) -> None:
        self.collection = dynet().ParameterCollection()
        arrays = (given.left.T, given.right.T, given.bias)
        self.parameters = [self.collection.parameters_from_numpy(array) for array in arrays]

    def __call__(self, a: Any, b: Any) -> Any:
        dy = dynet()
        left, right, bias = self.parameters
        return dy.tanh(dy.affine_transform([bias, left, a, right, b]))

    def roots(self, given: Trees) -> list[Any]:
        """Return the expressions of all roots; each word is one input."""
        dynet().renew_cg()
        inputs: dict[int, Any] = {}

        def word(number: int) -> Any:
            if number not in inputs:
                inputs[number] = dynet().inputTensor(given.words[number])
            return inputs[number]

        return given.roots(word, self)


def of_dynet(given: Trees) -> dict[str, Compute]:
    """Return one expression per composition, batched by DyNet."""
    composition = DynetComposition(given)

    def run() -> list[Any]:
        result = composition.roots(given)
        dynet().forward(result)
        return [each.npvalue() for each in result]

    return {"DyNet autobatch": run}


def of_torch(given: Trees) -> dict[str, Compute]:
    """Return one composition after the other, in inference mode."""
    import torch

    left, right, bias = (torch.from_numpy(array) for array in (given.left, given.right, given.bias))
    words = [torch.from_numpy(word) for word in given.words]

    def run() -> list[Any]:
        with torch.inference_mode():
            result = given.roots(words.__getitem__, lambda a, b: torch.tanh(a @ left + b @ right + bias))
            return [each.numpy() for each in result]

    return {"torch loop": run}


def test_values() -> None:
    """Target: ≤ 0.5 × DyNet, ≤ 0.35 × the loop."""
    given = trees()
    with one_thread():
        runs = of_explorer(given) | of_numpy(given) | of_dynet(given) | of_torch(given)
        expected = np.array(runs["NumPy loop"]())
        for name, run in runs.items():
            np.testing.assert_allclose(np.array(run()), expected, rtol=1e-4, atol=1e-5, err_msg=name)
        times = contest(runs, rounds=7, clock=process_time)
    print(compared("200 trees of 10 to 30 leaves, d = 128, 1 thread", times, PACKAGES, 4))
    assert times.keys() == runs.keys()


# -- gradients of left, right and bias; the loss is half the sum of squares of all roots ------------------------------


def gradients_of_explorer(given: Trees) -> dict[str, Compute]:
    """Return ``ex.grad`` of a sum over the roots, for trees folded by level, and for one call per composition."""
    left, right, bias = ex.tensor(given.left), ex.tensor(given.right), ex.tensor(given.bias)
    words = [ex.tensor(word) for word in given.words]
    table = ex.tensor(np.stack(given.words))

    @ex.function
    def word(number: ex.Expr) -> ex.Expr:
        return ex.embedding(table, number)

    @ex.function
    def compose(a: ex.Expr, b: ex.Expr) -> ex.Expr:
        return ex.tanh(a @ left + b @ right + bias)

    def run() -> list[Any]:
        roots = ex.stack(given.roots(words.__getitem__, compose))
        return evaluated(ex.grad((roots * roots).sum() * 0.5, [left, right, bias]))

    def fold() -> list[Any]:
        roots = ex.fold_trees(compose, given.trees, word).stacked
        result: list[Any] = ex.evaluate(ex.grad((roots * roots).sum() * 0.5, [left, right, bias]))
        return result

    return {
        "ex.fold_trees, planned": planned_anew(fold),
        "ex.fold_trees, plan cached": fold,
        "calls, planned": planned_anew(run),
        "calls, plan cached": run,
    }


def gradients_of_dynet(given: Trees) -> dict[str, Compute]:
    """Return the sum of one loss per tree, batched by DyNet, forward and backward."""
    dy = dynet()
    composition = DynetComposition(given)

    def run() -> list[Any]:
        for each in composition.parameters:
            each.scale_gradient(0)
        total = dy.esum([dy.squared_norm(root) for root in composition.roots(given)]) * 0.5
        total.forward()
        total.backward()
        return [each.grad_as_array().T for each in composition.parameters]

    return {"DyNet autobatch": run}


def gradients_of_torch(given: Trees) -> dict[str, Compute]:
    """Return one composition after the other with one backward pass."""
    import torch

    parameters = [torch.from_numpy(array).requires_grad_() for array in (given.left, given.right, given.bias)]
    left, right, bias = parameters
    words = [torch.from_numpy(word) for word in given.words]

    def run() -> list[Any]:
        roots = torch.stack(given.roots(words.__getitem__, lambda a, b: torch.tanh(a @ left + b @ right + bias)))
        return [each.numpy() for each in torch.autograd.grad((roots * roots).sum() * 0.5, parameters)]

    return {"torch loop": run}


def test_gradients() -> None:
    """Target: ≤ 0.6 × DyNet."""
    given = trees()
    with one_thread():
        runs = gradients_of_explorer(given) | gradients_of_dynet(given) | gradients_of_torch(given)
        expected = runs["torch loop"]()
        for name, run in runs.items():
            for result, wanted in zip(run(), expected, strict=True):
                np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-2, err_msg=name)
        times = contest(runs, rounds=4, clock=process_time)
    print(compared("gradients of the composition's parameters over 200 trees, 1 thread", times, PACKAGES, 4))
    assert times.keys() == runs.keys()
