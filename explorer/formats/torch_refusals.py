"""Why torch did not export a module: its inputs, an unknown type, a branch on values, a missing operator."""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib import import_module
from textwrap import shorten
from typing import Any

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, class_text

ORIGINAL = "open the module that the TorchScript module was made from: ex.open(module, example_inputs)"
_REASON = 300
"""characters of torch's reason that are shown"""


def refusal(torch: Any, model: Any, arguments: Any, keywords: Any, error: Exception) -> ExplorerError:
    """Return the error for a module that was not exported: the inputs do not fit, or torch's exporter refuses it."""
    name = name_of(model)
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    is_module = isinstance(model, torch.nn.Module)
    result = result_of(torch, model, arguments, keywords) if is_module else None
    from explorer.formats.onnx.source_lines import innermost  # the onnx package is slow to import

    refused, place = f"torch cannot export {name}: {reason_of(cause)}", innermost(str(error), local=True)
    if place is not None and place.text:
        refused += f", at {place.where} line {place.line}: {place.text}"
    parts = [*model.modules()] if is_module else []
    packed = next((part for part in parts if type(part).__module__.startswith("torch.ao.nn.quantized")), None)
    if packed is not None:
        return OperandError(
            f"{name} holds {type(packed).__name__} of {type(packed).__module__}: {reason_of(cause)}",
            rule="a quantised module must be exportable, and those with packed weights are not",
            fix="quantise the module with prepare_pt2e and convert_pt2e of torchao.quantization.pt2e",
        )
    if type(cause).__name__ == "DispatchError":
        return OperandError(
            refused,
            rule="torch's exporter must have an operator of ONNX for each function that a module calls",
            fix="compute it by other functions of torch, or write the module by pnnx.export(module, path, inputs) and "
            "open its x.pnnx.param",
        )
    if any(is_torchscript(torch, part) for part in parts):
        return OperandError(refused, rule="a module with parts of TorchScript must be exportable", fix=ORIGINAL)
    if any("batch_sizes" in frame.f_locals for frame, _ in traceback.walk_tb(cause.__traceback__)):
        return OperandError(
            refused,
            rule="a recurrent layer must be exported for padded sequences: the lengths of packed ones are values",
            fix="the layer called with the padded batch, without pack_padded_sequence, and its results masked",
        )
    if "DataDependent" in type(cause).__name__:
        return OperandError(
            refused,
            rule="a module must be exportable for all values of its inputs",
            fix="torch.cond in place of an if on values, torch.where in place of a choice by element; "
            "torch.export.draft_export(module, args) reports every such line",
        )
    numbers = (torch.Tensor, int, float, complex, str, type(None))
    for what, values, kinds in (
        ("an example input", (arguments, keywords), numbers),
        ("a result of forward", result, (torch.Tensor, np.ndarray, type(None))),
    ):
        strange = next((leaf for leaf in _leaves(values, object) if not isinstance(leaf, kinds)), None)
        if strange is not None:
            own_name = type(strange).__name__
            return OperandError(
                f"{what} of {name} is {class_text(strange)}",
                rule=f"{what} must be a tensor{' or a number' * (kinds is numbers)}, or a tuple, list or dict of them",
                fix=f"torch.export.register_dataclass({own_name})"
                if is_dataclass(strange)
                else f"a module around this one, whose forward takes and returns tensors, and none of type {own_name}",
            )
    return OperandError(
        refused,
        rule="torch.onnx.export(module, args, dynamo=True) must be able to write it as ONNX",
        fix="torch.export.draft_export(module, args) reports what is in the way",
    )


def result_of(torch: Any, model: Any, arguments: Any, keywords: Any) -> Any:
    """Return what a module gives for the example inputs; raises OperandError where it fails."""
    try:
        with torch.no_grad(), quiet():
            return model(*arguments, **keywords)
    except Exception as error:
        devices = {str(x.device) for x in _leaves((arguments, keywords), torch.Tensor)} | devices_of(model)
        raise OperandError(
            f"{name_of(model)} does not run on the example inputs: {reason_of(error)}",
            rule="the module must run on its example inputs",
            fix=f"module.to(device) and x.to(device): they are on {' and '.join(sorted(devices))}"
            if len(devices) > 1
            else "module(*example_inputs) shows where it fails; correct the inputs' shapes and dtypes",
        ) from error


def name_of(model: Any) -> str:
    """Return the name of a module's class, before TorchScript."""
    return str(getattr(model, "original_name", type(model).__name__))


def _leaves(values: Any, kind: Any) -> list[Any]:
    """Return what a structure of tuples, lists and dicts holds, if it is of a type."""
    return [leaf for leaf in pytree().tree_leaves(values) if isinstance(leaf, kind)]


def reason_of(error: BaseException) -> str:
    """Return the first paragraph of a library's message, shortened; TorchScript has the reason on the last line."""
    text = str(error).strip()
    text = text.split("\n")[-1] if "TorchScript interpreter" in text else text.split("\n\n")[0]
    return shorten(f"{type(error).__name__}: {text}", _REASON, placeholder=" …")


def is_torchscript(torch: Any, model: Any) -> bool:
    """Tell whether a module is one of TorchScript."""
    return isinstance(model, torch.jit.ScriptModule)


def devices_of(model: Any) -> set[str]:
    """Return the devices that hold a module's weights."""
    return {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}


def pytree() -> Any:
    """Return torch's functions of tuples, lists and dicts in one another."""
    return import_module("torch.utils._pytree")


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the messages of torch's exporter to its own developers: deprecations, packages that it looked for."""
    # What the program itself had disabled comes back, not the default.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
