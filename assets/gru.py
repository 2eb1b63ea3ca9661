"""Write gru.npz: PyTorch's results and gradients for sequences through gated recurrent units.

``after`` is ``torch.nn.GRU``. ``before``, which torch lacks, is written with basic operations. ``through`` keeps
gradients through time, and ``within`` detaches the state after each step. Weights are stored as (in, out). Explorer's
update gate weights the candidate, whereas torch's z weights the old state, so the signs of its weights are inverted.
``gradients`` contains the gradients of x, h and the parameters, in storage order. Requires PyTorch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

IN, OUT, BATCH, LENGTHS = 3, 4, 2, (1, 2, 7)
GATES = ("reset", "update", "candidate")
"""torch's order of gates"""


def parameters(biases: bool) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    found = {}
    for gate in GATES:
        for side, features in (("input", IN), ("state", OUT)):
            for kind, shape in (("weight", (features, OUT)), ("bias", (OUT,))):
                array = torch.randn(shape, generator=generator, dtype=torch.float64) * 0.7
                if kind == "weight" or biases:
                    found[f"{gate}_{side}/{kind}"] = array.requires_grad_()
    return found


def torch_step(weights_and_biases: dict[str, torch.Tensor]) -> Any:
    """Return a step of torch's cell with the parameters of explorer."""

    def joined(side: str, kind: str) -> torch.Tensor:
        parts = [weights_and_biases[f"{gate}_{side}/{kind}"] * (-1 if gate == "update" else 1) for gate in GATES]
        return torch.cat(parts, dim=-1)

    def step(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        weights = [joined("input", "weight").T, joined("state", "weight").T]
        return torch.gru_cell(x, h, *weights, joined("input", "bias"), joined("state", "bias"))

    return step


def torch_layer(weights_and_biases: dict[str, torch.Tensor], x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Return the outputs of ``torch.nn.GRU``, differentiable with respect to explorer's parameters."""
    layer = torch.nn.GRU(IN, OUT, dtype=torch.float64)
    given = {}
    for side, name in (("input", "ih"), ("state", "hh")):
        for kind in ("weight", "bias"):
            parts = [weights_and_biases[f"{gate}_{side}/{kind}"] * (-1 if gate == "update" else 1) for gate in GATES]
            joined = torch.cat(parts, dim=-1)
            given[f"{kind}_{name}_l0"] = joined.T if kind == "weight" else joined
    outputs, _ = torch.func.functional_call(layer, given, (x, h[None]))
    return outputs


def before_step(weights_and_biases: dict[str, torch.Tensor]) -> Any:
    """Return a step of the original unit without biases, with the reset gate before the product with the state."""

    def step(x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        def gate(name: str, state: torch.Tensor) -> torch.Tensor:
            return x @ weights_and_biases[f"{name}_input/weight"] + state @ weights_and_biases[f"{name}_state/weight"]

        update, reset = torch.sigmoid(gate("update", h)), torch.sigmoid(gate("reset", h))
        candidate = torch.tanh(gate("candidate", reset * h))
        return update * candidate + (1 - update) * h

    return step


def looped(step: Any, x: torch.Tensor, h: torch.Tensor, through: bool) -> torch.Tensor:
    outputs = []
    for each in x:
        h = step(each, h)
        outputs.append(h)
        h = h if through else h.detach()
    return torch.stack(outputs)


def main() -> None:
    found: dict[str, Any] = {}
    for reset in ("after", "before"):
        for mode in ("through", "within"):
            for length in LENGTHS:
                weights_and_biases = parameters(biases=reset == "after")
                generator = torch.Generator().manual_seed(length)
                x, seed = [torch.randn(length, BATCH, n, generator=generator, dtype=torch.float64) for n in (IN, OUT)]
                h = torch.randn(BATCH, OUT, generator=generator, dtype=torch.float64).requires_grad_()
                x.requires_grad_()
                if reset == "after" and mode == "through":
                    outputs = torch_layer(weights_and_biases, x, h)
                else:
                    step = torch_step(weights_and_biases) if reset == "after" else before_step(weights_and_biases)
                    outputs = looped(step, x, h, mode == "through")
                leaves = {"x": x, "h": h, **weights_and_biases}
                gradients = torch.autograd.grad(outputs, list(leaves.values()), seed)
                case = f"{reset}/{mode}/{length}"
                found[f"{case}/output"], found[f"{case}/seed"] = outputs.detach().numpy(), seed.numpy()
                found[f"{case}/gradients"] = np.concatenate([gradient.numpy().ravel() for gradient in gradients])
                for name, leaf in leaves.items():
                    found[f"{case}/{name}" if name in ("x", "h") else name] = leaf.detach().numpy()
    np.savez_compressed(Path(__file__).with_suffix(".npz"), **found)


if __name__ == "__main__":
    main()
