"""Errors for modules that torch cannot export: wrong inputs, unknown types, branches on values, missing operators."""

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

ORIGINAL = "open the module from which the TorchScript module was created: ex.open(module, example_inputs)"
_REASON = 300
"""maximum number of characters of torch's reason in an error"""


def export_error(torch: Any, model: Any, arguments: Any, keywords: Any, error: Exception) -> ExplorerError:
    """Convert ``error``, which torch's exporter raised for ``model``, to an explorer error that states a fix."""
    name = name_of(model)
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    is_module = isinstance(model, torch.nn.Module)
    result = result_of(torch, model, arguments, keywords) if is_module else None
    from explorer.formats.onnx.source_lines import innermost  # imported here because the onnx package is slow to import

    given, place = f"torch cannot export {name}: {reason_of(cause)}", innermost(str(error), local=True)
    if place is not None and place.text:
        given += f", at {place.where} line {place.line}: {place.text}"
    parts = [*model.modules()] if is_module else []
    packed = next((part for part in parts if type(part).__module__.startswith("torch.ao.nn.quantized")), None)
    if packed is not None:
        return OperandError(
            f"{name} contains {type(packed).__name__} of {type(packed).__module__}: {reason_of(cause)}",
            rule="a quantised module must not have packed weights, which torch cannot export",
            fix="quantise the module with prepare_pt2e and convert_pt2e of torchao.quantization.pt2e",
        )
    if type(cause).__name__ == "DispatchError":
        return OperandError(
            given,
            rule="torch's exporter must support each function that a module calls",
            fix="compute it with other torch functions, or export the module with "
            "pnnx.export(module, path, inputs) and open x.pnnx.param",
        )
    if any(is_torchscript(torch, part) for part in parts):
        return OperandError(given, rule="a module with TorchScript submodules must be exportable", fix=ORIGINAL)
    if any("batch_sizes" in frame.f_locals for frame, _ in traceback.walk_tb(cause.__traceback__)):
        return OperandError(
            given,
            rule="a recurrent layer must be exported for padded sequences, since the lengths of packed ones are values",
            fix="call the layer with the padded batch, without pack_padded_sequence, and mask its results",
        )
    if "DataDependent" in type(cause).__name__:
        return OperandError(
            given,
            rule="a module must be exportable for all values of its inputs",
            fix="use torch.cond instead of an if on values, and torch.where to select elements; "
            "torch.export.draft_export(module, args) reports every such line",
        )
    scalars = (torch.Tensor, int, float, complex, str, type(None))
    for label, values, types in (
        ("an example input", (arguments, keywords), scalars),
        ("a result of forward", result, (torch.Tensor, np.ndarray, type(None))),
    ):
        invalid = next((leaf for leaf in _leaves(values, object) if not isinstance(leaf, types)), None)
        if invalid is not None:
            type_name = type(invalid).__name__
            return OperandError(
                f"{label} of {name} is {class_text(invalid)}",
                rule=f"{label} must be a tensor{' or a number' * (types is scalars)}, or a tuple, list or dict of them",
                fix=f"torch.export.register_dataclass({type_name})"
                if is_dataclass(invalid)
                else f"wrap this module in one whose forward accepts and returns tensors instead of {type_name}",
            )
    return OperandError(
        given,
        rule="torch.onnx.export(module, args, dynamo=True) must be able to export the module",
        fix="torch.export.draft_export(module, args) reports the obstacles",
    )


def result_of(torch: Any, model: Any, arguments: Any, keywords: Any) -> Any:
    """Return the result of ``model`` for the example inputs; raise OperandError if the call fails."""
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
    """Return the class name of ``model``; for a TorchScript module, the name of the original class."""
    return str(getattr(model, "original_name", type(model).__name__))


def _leaves(values: Any, kind: Any) -> list[Any]:
    return [leaf for leaf in pytree().tree_leaves(values) if isinstance(leaf, kind)]


def reason_of(error: BaseException) -> str:
    """Return the first paragraph of a library's error, shortened; for TorchScript, the last line."""
    text = str(error).strip()
    text = text.split("\n")[-1] if "TorchScript interpreter" in text else text.split("\n\n")[0]
    return shorten(f"{type(error).__name__}: {text}", _REASON, placeholder=" …")


def is_torchscript(torch: Any, model: Any) -> bool:
    """Return whether ``model`` is a TorchScript module."""
    return isinstance(model, torch.jit.ScriptModule)


def devices_of(model: Any) -> set[str]:
    """Return the names of the devices on which a module's weights are stored."""
    return {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}


def pytree() -> Any:
    """Import torch's functions for nested tuples, lists and dicts."""
    return import_module("torch.utils._pytree")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings and logs of torch's exporter, such as deprecations and missing optional packages."""
    # The caller's logging level is restored afterwards, rather than the default level.
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
