"""Attribute errors: hints for names known from torch and Keras, and errors for fixed settings."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any, NoReturn

from explorer.core.errors import StateError

MODULE: Mapping[str, str] = {
    **dict.fromkeys(("to", "cuda", "cpu"), "use module.to_device('cuda')"),
    "eval": "module.predict(x) computes outputs without dropout, and normalizes with stored statistics",
    "train": "module.fit(loader) runs all steps, and module.train_on(x, label) one step",
    "evaluate": "module.loss(module.predict(x), label) is the loss of a batch",
    "zero_grad": "each module.backward(label) replaces the gradients",
    "state_dict": "module.save(path) writes all state; module.parameters contains the weights by name",
    "load_state_dict": "module.restore(path); module.parameters[name].assign(array) sets one weight",
    "compile": 'loss and optimizer are arguments of the constructor: ex.train.Module("m", loss=…, optimizer=…)',
    "summary": "print(module), or module.explore(x, label)",
    "named_parameters": "module.parameters contains them by name",
    "add": "module.add_node(layer)",
    "requires_grad_": 'ex.train.ParameterGroup("layer", frozen=True) among the optimizer\'s groups',
}
"""attribute that a module does not have → what to use instead"""

RATES = ("lr", "learning_rate")
"""names that other libraries use for an optimizer's rate"""
OPTIMIZER: Mapping[str, str] = {
    "zero_grad": "each module.backward(label) replaces the gradients",
    "param_groups": 'groups=[ex.train.ParameterGroup("layer", rate=0.001)] in its constructor',
    **dict.fromkeys(RATES, "optimizer.rate"),
    "state_dict": "module.save(path) writes it with the weights; optimizer.state() returns its arrays",
    "load_state_dict": "module.restore(path), or optimizer.load_state(arrays, iteration)",
}
"""attribute that an optimizer does not have → what to use instead"""


def hint(name: str, instead: Mapping[str, str]) -> str:
    """Return the advice in ``instead`` for a name, as the end of an error message; "" if there is none."""
    return f": {instead[name]}" if name in instead else ""


def refuse_setting(owner: Any, name: str, value: Any, rule: str, fix: str) -> NoReturn:
    """Raise StateError because a setting was changed after steps were planned with it."""
    raise StateError(f"{name} of {owner!r} set to {reprlib.repr(value)}", rule=rule, fix=fix)
