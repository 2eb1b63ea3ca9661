"""Contestants that compute 1000 samples, one call each: values, and gradients of the parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import explorer as ex
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.bench import programs
from tests.bench.programs import Compute, Samples, dynet, evaluated, planned_anew


def of_numpy(given: Samples) -> dict[str, Compute]:
    """Return a loop, and the hand-written batch, which stacks the samples and unstacks the rows."""
    network = partial(programs.network, weights=given.weights, biases=given.biases, tanh=np.tanh)
    return {
        "NumPy loop": lambda: [network(x) for x in given.inputs],
        "NumPy hand-batched": lambda: list(network(np.stack(given.inputs))),
    }


def of_explorer(given: Samples) -> dict[str, Compute]:
    """Return the complete evaluation with a new and with a cached plan, for a bulk call and a loop of calls, and the
    prepared program of the loop alone."""
    weights = [ex.tensor(weight) for weight in given.weights]
    biases = [ex.tensor(bias) for bias in given.biases]

    @ex.function
    def network(x: ex.Expr) -> ex.Expr:
        result: ex.Expr = programs.network(x, weights, biases, ex.tanh)
        return result

    def bulk() -> list[Any]:
        result: list[Any] = ex.evaluate(ex.map(network, given.inputs))
        return result

    def record() -> list[ex.Expr]:
        return [network(ex.tensor(x)) for x in given.inputs]

    plan = ex.EvalPlan()
    for root in record():
        plan.register(root)
    program = Program(plan.prepare().planned)

    def execute() -> list[Any]:
        run_simple(program)
        return program.take()

    again = lambda: evaluated(record())  # noqa: E731
    return {
        "ex.map, planned": planned_anew(bulk),
        "ex.map, plan cached": bulk,
        "loop of calls, planned": planned_anew(again),
        "loop of calls, plan cached": again,
        "loop of calls, execution": execute,
    }


def of_jax(given: Samples) -> dict[str, Compute]:
    """Return jax.jit of jax.vmap with stacking and unstacking, already compiled."""
    import jax
    import jax.numpy as jnp

    weights, biases = [jnp.asarray(w) for w in given.weights], [jnp.asarray(b) for b in given.biases]
    batch = jax.jit(jax.vmap(lambda x: programs.network(x, weights, biases, jnp.tanh)))
    return {"jax.vmap": lambda: list(np.asarray(batch(np.stack(given.inputs))))}


class DynetNetwork:
    """The network in DyNet; parameters live as long as their collection."""

    def __init__(self, given: Samples) -> None:
        self.collection = dynet().ParameterCollection()
        self.weights = [self.collection.parameters_from_numpy(weight.T) for weight in given.weights]
        self.biases = [self.collection.parameters_from_numpy(bias) for bias in given.biases]

    def __call__(self, x: Any) -> Any:
        dy = dynet()
        y = dy.inputTensor(x)
        for weight, bias in zip(self.weights, self.biases, strict=True):
            y = dy.tanh(dy.affine_transform([bias, weight, y]))
        return y


def of_dynet(given: Samples) -> dict[str, Compute]:
    """Return one expression per sample, batched by DyNet."""
    dy = dynet()
    network = DynetNetwork(given)

    def run() -> list[Any]:
        dy.renew_cg()
        results = [network(x) for x in given.inputs]
        dy.forward(results)
        return [each.npvalue() for each in results]

    return {"DyNet autobatch": run}


def of_torch(given: Samples) -> dict[str, Compute]:
    """Return a loop in inference mode."""
    import torch

    weights, biases = [torch.from_numpy(w) for w in given.weights], [torch.from_numpy(b) for b in given.biases]

    def run() -> list[Any]:
        with torch.inference_mode():
            return [programs.network(torch.from_numpy(x), weights, biases, torch.tanh).numpy() for x in given.inputs]

    return {"torch loop": run}


# -- gradients of the shared parameters; the loss is half the sum of squares of all results -------------------------


def gradients_of_numpy(given: Samples) -> dict[str, Compute]:
    """Return the hand-written batch and its gradients."""

    def run() -> list[Any]:
        values = [np.stack(given.inputs)]
        for weight, bias in zip(given.weights, given.biases, strict=True):
            values.append(np.tanh(values[-1] @ weight + bias))
        weights: list[Any] = []
        biases: list[Any] = []
        upstream = values[-1]
        for weight, before, after in zip(given.weights[::-1], values[-2::-1], values[:0:-1], strict=True):
            upstream = upstream * (1 - after * after)
            weights = [before.T @ upstream, *weights]
            biases = [upstream.sum(axis=0), *biases]
            upstream = upstream @ weight.T
        return weights + biases

    return {"NumPy hand-batched": run}


def gradients_of_explorer(given: Samples) -> dict[str, Compute]:
    """Return ``ex.grad`` of a sum over a bulk call, and of a sum of calls."""
    weights = [ex.tensor(weight) for weight in given.weights]
    biases = [ex.tensor(bias) for bias in given.biases]

    @ex.function
    def loss(x: ex.Expr) -> ex.Expr:
        y = programs.network(x, weights, biases, ex.tanh)
        return (y * y).sum() * 0.5

    def run() -> list[Any]:
        total = ex.add_n(*[loss(ex.tensor(x)) for x in given.inputs])
        return evaluated(ex.grad(total, [*weights, *biases]))

    def bulk() -> list[Any]:
        total = ex.map(loss, given.inputs).stacked.sum()
        result: list[Any] = ex.evaluate(ex.grad(total, [*weights, *biases]))
        return result

    return {
        "ex.map, planned": planned_anew(bulk),
        "ex.map, plan cached": bulk,
        "loop of calls, planned": planned_anew(run),
        "loop of calls, plan cached": run,
    }


def gradients_of_jax(given: Samples) -> dict[str, Compute]:
    """Return jax.jit of jax.grad of jax.vmap, already compiled."""
    import jax
    import jax.numpy as jnp

    def loss(parameters: Any, xs: Any) -> Any:
        ys = jax.vmap(lambda x: programs.network(x, *parameters, jnp.tanh))(xs)
        return 0.5 * (ys * ys).sum()

    gradient = jax.jit(jax.grad(loss))
    parameters = [jnp.asarray(w) for w in given.weights], [jnp.asarray(b) for b in given.biases]

    def run() -> list[Any]:
        weights, biases = gradient(parameters, np.stack(given.inputs))
        return [np.asarray(each) for each in (*weights, *biases)]

    return {"jax.grad(vmap)": run}


def gradients_of_dynet(given: Samples) -> dict[str, Compute]:
    """Return the sum of one loss per sample, batched by DyNet, forward and backward."""
    dy = dynet()
    network = DynetNetwork(given)

    def run() -> list[Any]:
        dy.renew_cg()
        for each in (*network.weights, *network.biases):
            each.scale_gradient(0)
        total = dy.esum([dy.squared_norm(network(x)) for x in given.inputs]) * 0.5
        total.forward()
        total.backward()
        return [each.grad_as_array().T for each in (*network.weights, *network.biases)]

    return {"DyNet autobatch": run}


def gradients_of_torch(given: Samples) -> dict[str, Compute]:
    """Return a loop with one backward pass."""
    import torch

    weights = [torch.from_numpy(w).requires_grad_() for w in given.weights]
    biases = [torch.from_numpy(b).requires_grad_() for b in given.biases]

    def run() -> list[Any]:
        ys = [programs.network(torch.from_numpy(x), weights, biases, torch.tanh) for x in given.inputs]
        total = torch.stack([(y * y).sum() for y in ys]).sum() * 0.5
        return [each.numpy() for each in torch.autograd.grad(total, [*weights, *biases])]

    return {"torch loop": run}
