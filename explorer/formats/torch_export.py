"""Torch modules and exported programs (``.pt2``), read through torch's own exporter, as ONNX operators.

torch writes its modules as ONNX and notes with each node the module and the line of ``forward`` that it comes from, so
the ONNX reader gives boxes and lines to a module and to every file of that exporter alike. The graph is asked for as it
was traced: constants are folded, but no operators are fused, which is the plan's to decide and to show. torch and
onnxscript are imported here alone, and only when something of torch's is opened.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from explorer.core.errors import ExplorerError, FileError, OperandError, UnknownNameError
from explorer.core.files.open_untrusted import content
from explorer.formats import torch_operators
from explorer.net.definition.definition import NetDefinition

INSTALL = 'pip install "explorer-graphs[torch]"'
_REASON = 300
"""characters of torch's reason that are shown"""
_REMARK = "exported by torch in evaluation mode"
_TRACED = "exported by torch in the mode in which it was traced"


def is_torch(what: object) -> bool:
    """Tell whether something is a torch module or exported program; torch is not imported for it."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    # Nobody can hold a program of a module that was never imported; () is no class at all for isinstance.
    program = getattr(sys.modules.get("torch.export"), "ExportedProgram", ())
    return isinstance(what, (torch.nn.Module, program)) and not isinstance(what, type)


def read(path: Path) -> NetDefinition:
    """Read an exported program, ``x.pt2``; raises FileError where torch is absent or refuses the file.

    torch reads it, which may unpickle parts of it: such a file must come from somebody who is trusted.
    """
    content(path, "correct the path of the .pt2 file")  # absent files and folders, before torch is imported
    try:
        torch = _torch()
    except OperandError as error:
        raise FileError(error.given, path=str(path), rule=error.rule, fix=error.fix) from None
    try:
        with _quiet():
            torch_operators.register()
            program = torch.export.load(path)
    except Exception as error:
        raise FileError(
            f"torch cannot read it: {_reason(error)}",
            path=str(path),
            rule="the file must be a program that torch.export.save of this or an earlier torch wrote",
            fix='torch.export.save(torch.export.export(module, args), "x.pt2")',
        ) from error
    try:
        # the lines are the file's: nothing is read because a file names it
        return _defined(_exported(torch, program, (), {}, None), path.stem, local=False, source=str(path))
    except OperandError as error:
        raise FileError(error.given, path=str(path), rule=error.rule, fix=error.fix) from error


def definition(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> NetDefinition:
    """Return the definition of a module, exported for example inputs, or of an exported program, which has its own."""
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        if example_inputs is not None or dynamic_shapes is not None:
            raise OperandError(
                "example inputs for an exported program",
                rule="an exported program must be opened by itself: it holds the types of its inputs",
                fix="ex.open(program)",
            )
        return _defined(_exported(torch, model, (), {}, None), "program", local=True)
    name = type(model).__name__
    arguments, keywords = _inputs(torch, model, example_inputs)
    _check_signature(model, arguments, keywords)
    dynamic_shapes = _every_input(model, arguments, keywords, dynamic_shapes)
    # Each part has a mode of its own: model.train() afterwards would also switch parts that were frozen on purpose.
    modes = [(part, part.training) for part in model.modules()]
    try:
        remark = _evaluated(model)
        program = _exported(torch, model, arguments, keywords, dynamic_shapes)
    finally:
        for part, mode in modes:
            part.training = mode
    return _defined(program, name, local=True, remark=remark)


def _every_input(model: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], dynamic_shapes: Any) -> Any:
    """Return dynamic shapes by name with None for each input that they leave out, as torch wants them."""
    bound = inspect.signature(model.forward).bind(*arguments, **keywords)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not isinstance(dynamic_shapes, Mapping) or any(
        bound.signature.parameters[name].kind in variable for name in bound.arguments
    ):
        return dynamic_shapes
    if unknown := [name for name in dynamic_shapes if name not in bound.arguments]:
        raise UnknownNameError(
            unknown[0],
            kind=f"input of {type(model).__name__}.forward in dynamic_shapes",
            known=bound.arguments,
            fix='dynamic_shapes={"x": {0: "batch"}}, by the names of forward',
        )
    return {name: dynamic_shapes.get(name) for name in bound.arguments}


def _evaluated(model: Any) -> str:
    """Put a module into evaluation mode, and return how it is exported: one of an exported program refuses a mode."""
    try:
        model.eval()
    except NotImplementedError:
        for part in model.modules():
            part.training = False
        return _TRACED
    return _REMARK


def _torch() -> Any:
    """Return the package torch, with its exporter ready."""
    for name in ("torch", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            raise OperandError(
                f"the package {name} cannot be imported: {_reason(error)}",
                rule="torch and onnxscript must be installed where something of torch's is opened",
                fix=INSTALL,
            ) from error
    torch = import_module("torch")
    import_module("torch.export")
    import_module("torch.onnx")
    return torch


def _inputs(torch: Any, model: Any, example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments and keywords of a call, arrays as tensors."""
    if example_inputs is None:
        raise OperandError(
            f"the torch module {type(model).__name__} without example inputs",
            rule="a module must be opened with one example of its inputs: torch traces a call",
            fix="ex.open(module, torch.randn(1, 3, 64, 64)), or a tuple of all arguments, or a dict by name",
        )
    keywords = dict(example_inputs) if isinstance(example_inputs, Mapping) else {}
    single = isinstance(example_inputs, (torch.Tensor, np.ndarray))
    arguments = (
        ()
        if keywords
        else (example_inputs,)
        if single
        else tuple(example_inputs)
        if isinstance(example_inputs, (tuple, list))
        else None
    )
    strange = example_inputs if arguments is None else next((key for key in keywords if not isinstance(key, str)), None)
    if arguments is None or strange is not None:
        raise OperandError(
            f"example inputs {shorten(repr(strange), 80)} of type {type(strange).__name__}",
            rule="example inputs must be a tensor or array, a tuple of the arguments, or a dict by name",
            fix="ex.open(module, (x, y))",
        )
    return tuple(_tensor(torch, value) for value in arguments), {k: _tensor(torch, v) for k, v in keywords.items()}


def _tensor(torch: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        try:
            return torch.from_numpy(np.ascontiguousarray(value))
        except TypeError as error:
            raise OperandError(
                f"an example input of dtype {value.dtype}",
                rule="an array must have a dtype that torch has",
                fix="array.astype(np.float32)",
            ) from error
    return value


def _check_signature(model: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    signature = inspect.signature(model.forward)
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise OperandError(
            f"example inputs for {type(model).__name__}.forward: {error}",
            rule=f"example inputs must be the arguments of forward{signature}",
            fix="ex.open(module, (x, y)) for two arguments, or a dict by name",
        ) from None


def _exported(torch: Any, model: Any, arguments: Any, keywords: Any, dynamic_shapes: Any) -> Any:
    """Return the ONNX model of a module or program, constants folded."""
    try:
        with _quiet():
            written = torch.onnx.export(
                model,
                arguments,
                None,
                kwargs=keywords,
                dynamo=True,
                optimize=False,
                verbose=False,
                dynamic_shapes=dynamic_shapes,
                custom_translation_table=torch_operators.translations(torch),
            )
            optimizer = import_module("onnxscript.optimizer")
            optimizer.fold_constants(written.model)
            optimizer.remove_unused_nodes(written.model)
            return written.model_proto
    except Exception as error:
        raise _refused(torch, model, arguments, keywords, error) from error


def _refused(torch: Any, model: Any, arguments: Any, keywords: Any, error: Exception) -> ExplorerError:
    """Return the error for a module that was not exported: the inputs do not fit, or torch's exporter refuses it."""
    name = type(model).__name__
    if isinstance(model, torch.nn.Module):
        try:
            with torch.no_grad(), _quiet():
                model(*arguments, **keywords)
        except Exception as own:
            return OperandError(
                f"{name} does not run on the example inputs: {_reason(own)}",
                rule="the module must run on its example inputs",
                fix="module(*example_inputs) shows where it fails; correct the inputs' shapes and dtypes",
            )
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    from explorer.formats.onnx.source_lines import innermost  # the onnx package is slow to import

    packed = _packed(torch, model)
    if packed is not None:
        return OperandError(
            f"{name} holds {type(packed).__name__} of {type(packed).__module__}: {_reason(cause)}",
            rule="a quantised module must be exportable, and those with packed weights are not",
            fix="quantise the module with prepare_pt2e and convert_pt2e of torchao.quantization.pt2e",
        )
    if type(cause).__name__ == "DispatchError":
        return OperandError(
            f"torch cannot export {name}: {_reason(cause)}",
            rule="torch's exporter must have an operator of ONNX for each function that a module calls",
            fix="compute it by other functions of torch, or write the module by pnnx.export(module, path, inputs) and "
            "open its x.pnnx.param",
        )
    place = innermost(str(error), local=True)
    line = "" if place is None or not place.text else f", at {place.where} line {place.line}: {place.text}"
    return OperandError(
        f"torch cannot export {name}: {_reason(cause)}{line}",
        rule="torch.onnx.export(module, args, dynamo=True) must be able to write it as ONNX",
        fix="torch.cond in place of an if on values; torch.export.draft_export(module, args) reports every such place",
    )


def _packed(torch: Any, model: Any) -> Any:
    """Return the first part of a module that holds packed weights of whole numbers; None without one."""
    if not isinstance(model, torch.nn.Module):
        return None
    return next((part for part in model.modules() if type(part).__module__.startswith("torch.ao.nn.quantized")), None)


def _reason(error: BaseException) -> str:
    """Return the first paragraph of a library's message, shortened."""
    text = str(error).strip().split("\n\n")[0]
    return shorten(f"{type(error).__name__}: {text}", _REASON, placeholder=" …")


def _defined(model: Any, name: str, *, local: bool, source: str = "", remark: str = _REMARK) -> NetDefinition:
    from dataclasses import replace

    from explorer.formats.onnx import reader  # the onnx package is slow to import
    from explorer.formats.onnx.operators import TABLE

    described = reader.definition(model, Path(f"{name}.onnx"), TABLE, remark, local=local)
    return replace(described, source=source)


@contextmanager
def _quiet() -> Iterator[None]:
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
