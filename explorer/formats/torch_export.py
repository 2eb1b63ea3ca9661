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
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import is_dataclass, replace
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

import numpy as np

from explorer.core.errors import ExplorerError, FileError, OperandError, StateError, UnknownNameError, class_text
from explorer.core.files.kept_file import KeptFile
from explorer.core.files.open_untrusted import content
from explorer.formats import torch_operators
from explorer.net.definition.definition import NetDefinition

_ORIGINAL = "open the module that the TorchScript module was made from: ex.open(module, example_inputs)"
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
        return _defined(*_exported(torch, program, (), {}, None), path.stem, local=False, source=str(path))
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
        return _defined(*_exported(torch, model, (), {}, None), "program", local=True)
    name = _name(model)
    arguments, keywords = _inputs(torch, model, example_inputs)
    bound = _bound(torch, model, arguments, keywords)
    dynamic_shapes = _every_input(name, bound, dynamic_shapes)
    # Each part has a mode of its own: model.train() afterwards would also switch parts that were frozen on purpose.
    modes = [(part, part.training) for part in model.modules() if hasattr(part, "training")]  # frozen ones have none
    try:
        remark = _evaluated(model)
        if _is_torchscript(torch, model):
            if isinstance(dynamic_shapes, Mapping):
                dynamic_shapes = tuple(dynamic_shapes.values())
            arguments, keywords = bound.args, {}
            model = _without_torchscript(torch, model, arguments)
        program = _exported(torch, model, arguments, keywords, dynamic_shapes)
    finally:
        for part, mode in modes:
            part.training = mode
    return _defined(*program, name, local=True, remark=remark)


def _every_input(name: str, bound: inspect.BoundArguments, dynamic_shapes: Any) -> Any:
    """Return dynamic shapes by name with None for each input that they leave out, as torch wants them."""
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not isinstance(dynamic_shapes, Mapping) or any(
        bound.signature.parameters[argument].kind in variable for argument in bound.arguments
    ):
        return dynamic_shapes
    if unknown := [argument for argument in dynamic_shapes if argument not in bound.arguments]:
        raise UnknownNameError(
            unknown[0],
            kind=f"input of {name}.forward in dynamic_shapes",
            known=bound.arguments,
            fix='dynamic_shapes={"x": {0: "batch"}}, by the names of forward',
        )
    return {argument: dynamic_shapes.get(argument) for argument in bound.arguments}


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
    meta = _devices(model) == {"meta"}
    converted: tuple[tuple[Any, ...], dict[str, Any]] = _pytree().tree_map(
        lambda value: _tensor(torch, value, meta), (arguments, keywords)
    )
    return converted


def _pytree() -> Any:
    return import_module("torch.utils._pytree")


def _devices(model: Any) -> set[str]:
    """Return the devices that hold a module's weights."""
    return {str(tensor.device) for tensor in (*model.parameters(), *model.buffers())}


def _tensor(torch: Any, value: Any, meta: bool) -> Any:
    """Return an array as a tensor and a scalar of NumPy as a number, on the meta device where the module is there."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except TypeError as error:
            raise OperandError(
                f"an example input of dtype {value.dtype}",
                rule="an array must have a dtype that torch has",
                fix="array.astype(np.float32)",
            ) from error
    return value.to("meta") if meta and isinstance(value, torch.Tensor) else value


def _bound(torch: Any, model: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> inspect.BoundArguments:
    """Return the arguments of ``forward`` by name; raises OperandError where they do not fit its signature."""
    if _is_torchscript(torch, model):
        either, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        signature = inspect.Signature(
            [
                inspect.Parameter(each.name, either, default=each.default_value if each.has_default_value() else empty)
                for each in model.forward.schema.arguments[1:]
            ]
        )
    else:
        signature = inspect.signature(model.forward)
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise OperandError(
            f"example inputs for {_name(model)}.forward: {error}",
            rule=f"example inputs must be the arguments of forward{signature}",
            fix="ex.open(module, (x, y)) for two arguments, or a dict by name",
        ) from None
    if _is_torchscript(torch, model):
        bound.apply_defaults()
    return bound


def _is_torchscript(torch: Any, model: Any) -> bool:
    return isinstance(model, torch.jit.ScriptModule)


def _without_torchscript(torch: Any, model: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the module that torch's converter makes of a TorchScript one; raises OperandError where it fails.

    The converter is a prototype, and TorchScript retires: its module is kept where it computes what the given one does.
    """
    wanted = _result(torch, model, deepcopy(arguments), {})
    try:
        with torch.no_grad(), _quiet():
            converter = import_module("torch._export.converter").TS2EPConverter
            converted = converter(model, deepcopy(arguments)).convert().module()
            torch.testing.assert_close(converted(*deepcopy(arguments)), wanted, equal_nan=True)
    except Exception as error:
        raise OperandError(
            f"torch cannot convert the TorchScript module {_name(model)}: {_reason(error)}",
            rule="torch's TS2EPConverter must convert a TorchScript module into a program with its results",
            fix=_ORIGINAL,
        ) from error
    return converted


def _exported(
    torch: Any, model: Any, arguments: Any, keywords: Any, dynamic_shapes: Any
) -> tuple[Any, dict[bytes, Any]]:
    """Return the ONNX model of a module or program, constants folded, and its weights without values by their marks."""
    from explorer.formats.onnx.large_elements import Elements  # the onnx package is slow to import

    try:
        with _quiet():
            written = torch.onnx.export(
                model,
                # torch takes a dict at the end of the arguments for keywords: this one, and no argument of forward
                (*arguments, keywords),
                None,
                dynamo=True,
                optimize=False,
                verbose=False,
                dynamic_shapes=dynamic_shapes,
                custom_translation_table=torch_operators.translations(torch),
            )
            optimizer = import_module("onnxscript.optimizer")
            optimizer.fold_constants(written.model)
            optimizer.remove_unused_nodes(written.model)
            absent = _absent(written.model.graph.initializers)
            model_proto = written.model_proto
    except Exception as error:
        raise _refused(torch, model, arguments, keywords, error) from error
    marks = {}
    for number, tensor in enumerate(absent):
        mark = b"without values: %d" % number
        marks[mark] = Elements(_MetaDevice(tensor.name), 0, tensor.nbytes)
        model_proto.graph.initializer.add(name=tensor.name, dims=tensor.shape, data_type=tensor.dtype, raw_data=mark)
    return model_proto, marks


def _absent(initializers: dict[str, Any]) -> list[Any]:
    """Take the weights without values out of a model: those on the meta device, and fake tensors."""
    absent = []
    for name, value in [*initializers.items()]:
        raw = getattr(value.const_value, "raw", None)
        if getattr(raw, "is_meta", False) or type(raw).__name__ == "FakeTensor":
            absent.append(initializers.pop(name).const_value)
    return absent


class _MetaDevice(KeptFile):
    """The file that a weight without values would be read from."""

    def __init__(self, weight: str) -> None:
        self._weight = weight

    def part(self, first: int, size: int) -> NoReturn:
        """Raise StateError."""
        raise StateError(
            f"weight {self._weight!r} without values: its module was opened on the meta device",
            rule="a net must be opened with the values of its weights before it is run or saved",
            fix="module.to_empty(device='cpu'), module.load_state_dict(…), then ex.open(module, example_inputs)",
        )

    def check(self, first: int = 0, size: int = 0) -> NoReturn:
        """Raise StateError."""
        self.part(first, size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _MetaDevice, (self._weight,)


def _refused(torch: Any, model: Any, arguments: Any, keywords: Any, error: Exception) -> ExplorerError:
    """Return the error for a module that was not exported: the inputs do not fit, or torch's exporter refuses it."""
    name = _name(model)
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    is_module = isinstance(model, torch.nn.Module)
    result = _result(torch, model, arguments, keywords) if is_module else None
    from explorer.formats.onnx.source_lines import innermost  # the onnx package is slow to import

    refused, place = f"torch cannot export {name}: {_reason(cause)}", innermost(str(error), local=True)
    if place is not None and place.text:
        refused += f", at {place.where} line {place.line}: {place.text}"
    parts = [*model.modules()] if is_module else []
    packed = next((part for part in parts if type(part).__module__.startswith("torch.ao.nn.quantized")), None)
    if packed is not None:
        return OperandError(
            f"{name} holds {type(packed).__name__} of {type(packed).__module__}: {_reason(cause)}",
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
    if any(_is_torchscript(torch, part) for part in parts):
        return OperandError(refused, rule="a module with parts of TorchScript must be exportable", fix=_ORIGINAL)
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


def _result(torch: Any, model: Any, arguments: Any, keywords: Any) -> Any:
    """Return what a module gives for the example inputs; raises OperandError where it fails."""
    try:
        with torch.no_grad(), _quiet():
            return model(*arguments, **keywords)
    except Exception as error:
        devices = {str(x.device) for x in _leaves((arguments, keywords), torch.Tensor)} | _devices(model)
        raise OperandError(
            f"{_name(model)} does not run on the example inputs: {_reason(error)}",
            rule="the module must run on its example inputs",
            fix=f"module.to(device) and x.to(device): they are on {' and '.join(sorted(devices))}"
            if len(devices) > 1
            else "module(*example_inputs) shows where it fails; correct the inputs' shapes and dtypes",
        ) from error


def _name(model: Any) -> str:
    """Return the name of a module's class, before TorchScript."""
    return str(getattr(model, "original_name", type(model).__name__))


def _leaves(values: Any, kind: Any) -> list[Any]:
    """Return what a structure of tuples, lists and dicts holds, if it is of a type."""
    return [leaf for leaf in _pytree().tree_leaves(values) if isinstance(leaf, kind)]


def _reason(error: BaseException) -> str:
    """Return the first paragraph of a library's message, shortened; TorchScript has the reason on the last line."""
    text = str(error).strip()
    text = text.split("\n")[-1] if "TorchScript interpreter" in text else text.split("\n\n")[0]
    return shorten(f"{type(error).__name__}: {text}", _REASON, placeholder=" …")


def _defined(
    model: Any, elements: Any, name: str, *, local: bool, source: str = "", remark: str = _REMARK
) -> NetDefinition:
    from explorer.formats.onnx import reader  # the onnx package is slow to import
    from explorer.formats.onnx.operators import TABLE

    described = reader.definition(model, Path(f"{name}.onnx"), TABLE, remark, elements=elements, local=local)
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
