"""Torch modules and exported programs (``.pt2``), read through torch's own exporter, as ONNX operators.

torch writes its modules as ONNX and notes with each node the module and the line of ``forward`` that it comes from, so
the ONNX reader gives boxes and lines to a module and to every file of that exporter alike. The graph is asked for as it
was traced: constants are folded, but no operators are fused, which is the plan's to decide and to show. torch and
onnxscript are imported here alone, and only when something of torch's is opened.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any, NoReturn

import numpy as np

from explorer.core.errors import FileError, OperandError, StateError, UnknownNameError
from explorer.core.files.kept_file import KeptFile
from explorer.core.files.open_untrusted import content
from explorer.formats import torch_operators
from explorer.formats.torch_refusals import (
    ORIGINAL,
    devices_of,
    is_torchscript,
    name_of,
    pytree,
    quiet,
    reason_of,
    refusal,
    result_of,
)
from explorer.net.definition.definition import NetDefinition

INSTALL = 'pip install "explorer-graphs[torch]"'
_REMARK = "exported by torch in evaluation mode"
_TRACED = "exported by torch in the mode in which it was traced"


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
        with quiet():
            torch_operators.register()
            program = torch.export.load(path)
    except Exception as error:
        raise FileError(
            f"torch cannot read it: {reason_of(error)}",
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
    name = name_of(model)
    arguments, keywords = _inputs(torch, model, example_inputs)
    bound = _bound(torch, model, arguments, keywords)
    dynamic_shapes = _every_input(name, bound, dynamic_shapes)
    # Each part has a mode of its own: model.train() afterwards would also switch parts that were frozen on purpose.
    modes = [(part, part.training) for part in model.modules() if hasattr(part, "training")]  # frozen ones have none
    try:
        remark = _evaluated(model)
        if is_torchscript(torch, model):
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
                f"the package {name} cannot be imported: {reason_of(error)}",
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
    meta = devices_of(model) == {"meta"}
    converted: tuple[tuple[Any, ...], dict[str, Any]] = pytree().tree_map(
        lambda value: _tensor(torch, value, meta), (arguments, keywords)
    )
    return converted


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
    if is_torchscript(torch, model):
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
            f"example inputs for {name_of(model)}.forward: {error}",
            rule=f"example inputs must be the arguments of forward{signature}",
            fix="ex.open(module, (x, y)) for two arguments, or a dict by name",
        ) from None
    if is_torchscript(torch, model):
        bound.apply_defaults()
    return bound


def _without_torchscript(torch: Any, model: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the module that torch's converter makes of a TorchScript one; raises OperandError where it fails.

    The converter is a prototype, and TorchScript retires: its module is kept where it computes what the given one does.
    """
    wanted = result_of(torch, model, deepcopy(arguments), {})
    try:
        with torch.no_grad(), quiet():
            converter = import_module("torch._export.converter").TS2EPConverter
            converted = converter(model, deepcopy(arguments)).convert().module()
            torch.testing.assert_close(converted(*deepcopy(arguments)), wanted, equal_nan=True)
    except Exception as error:
        raise OperandError(
            f"torch cannot convert the TorchScript module {name_of(model)}: {reason_of(error)}",
            rule="torch's TS2EPConverter must convert a TorchScript module into a program with its results",
            fix=ORIGINAL,
        ) from error
    return converted


def _exported(
    torch: Any, model: Any, arguments: Any, keywords: Any, dynamic_shapes: Any
) -> tuple[Any, dict[bytes, Any]]:
    """Return the ONNX model of a module or program, constants folded, and its weights without values by their marks."""
    from explorer.formats.onnx.large_elements import Elements  # the onnx package is slow to import

    try:
        with quiet():
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
            absent = _absent(written.model.graph.initializers)  # constants are folded by their values
            optimizer = import_module("onnxscript.optimizer")
            optimizer.fold_constants(written.model)
            optimizer.remove_unused_nodes(written.model)
            model_proto = written.model_proto
    except Exception as error:
        raise refusal(torch, model, arguments, keywords, error) from error
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
            absent.append(value.const_value)
            value.const_value = None
            del initializers[name]
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


def _defined(
    model: Any, elements: Any, name: str, *, local: bool, source: str = "", remark: str = _REMARK
) -> NetDefinition:
    from explorer.formats.onnx import reader  # the onnx package is slow to import
    from explorer.formats.onnx.operators import TABLE

    described = reader.definition(model, Path(f"{name}.onnx"), TABLE, remark, elements=elements, local=local)
    return replace(described, source=source)
