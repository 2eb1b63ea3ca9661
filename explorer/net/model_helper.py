"""Model helpers, which pair a net with the net that initializes its parameters (Caffe2: ModelHelper).

There are two nets because parameters are initialized once, but used in every training step. The first net writes blobs
of a workspace, which the other net reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from explorer.core.errors import OperandError
from explorer.net.net import Net
from explorer.record.reasons import counted_text


class ModelHelper:
    """Net and its parameters: ``net`` is the model, and ``param_init_net`` initializes the parameters once.

    The user adds forward operators and updates to ``net``. Updates read the gradients in ``params_to_grad``.

    >>> model = ex.ModelHelper("line")
    >>> x = model.net.input("x", (None, 2))
    >>> w = model.create_param("w", (1, 2), "XavierFill", seed=1)
    >>> y = model.net.FC([x, w], "y")
    >>> loss = model.net.AveragedLoss(y, "loss")
    >>> model.add_gradient_operators(["loss"])["w"], model.params_to_grad
    ('w_grad', {'w': 'w_grad'})
    """

    def __init__(self, name: str) -> None:
        self.net = Net(name)
        self.param_init_net = Net(f"{name}_init")
        self.params: list[str] = []
        """names of the parameters, in the order of their creation"""
        self.params_to_grad: dict[str, str] = {}
        """parameter → blob with its gradient; empty until gradients are added"""

    def create_param(self, name: str, shape: Sequence[int], fill: str = "XavierFill", **arguments: Any) -> str:
        """Add a parameter: a blob that an operator of type ``fill`` in ``param_init_net`` fills, and ``net`` reads."""
        if name in self.params:
            raise OperandError(
                f"a second parameter {name!r}",
                rule="each parameter must have a unique name",
                fix="share it: pass the name that create_param returned",
            )
        self.param_init_net.add(fill, (), name, shape=tuple(shape), **arguments)
        self.param_init_net.output(name)
        self.net.input(name, tuple(shape))
        self.params.append(name)
        return name

    def add_gradient_operators(self, outputs: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
        """Append operators to ``net`` that compute gradients of ``outputs``; return a dict from blobs to their
        gradients.

        ``params_to_grad`` then contains the gradients of the parameters.
        """
        gradients = self.net.add_gradient_operators(outputs)
        self.params_to_grad = {name: gradients[name] for name in self.params if name in gradients}
        return gradients

    def __repr__(self) -> str:
        return f"<model helper {self.net.name!r}: {counted_text(len(self.params), 'parameter')}>"
