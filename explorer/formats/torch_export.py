"""Reader of torch modules and exported programs (``.pt2``), which torch's exporter converts to ONNX operators.

The exporter records each node's submodule and line of ``forward``. The ONNX reader makes boxes and source lines from
these records, as for any ONNX file that the exporter wrote. Constants are folded, but operators are not fused, because
fusion is a visible decision of the plan. torch and onnxscript are imported only when a torch model is opened.
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
from explorer.formats.torch_errors import (
    ORIGINAL,
    devices_of,
    export_error,
    is_torchscript,
    name_of,
    pytree,
    quiet,
    reason_of,
    result_of,
)
from explorer.net.definition.definition import NetDefinition

INSTALL = 'pip install "explorer-graphs[torch]"'
_REMARK = "exported by torch in evaluation mode"
_TRACED = "exported by torch in the mode in which it was traced"


def read(path: Path) -> NetDefinition:
    """Read an exported program, ``x.pt2``, and return its definition.

    Raise FileError if torch is not installed or cannot read the file. torch may unpickle parts of the file, so the file
    must come from a trusted source.
    """
    content(path, "correct the path of the .pt2 file")  # raises FileError for a missing file without importing torch
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
        # local=False: source files that a model file names are not read
        return _defined(*_exported(torch, program, (), {}, None), path.stem, local=False, source=str(path))
    except OperandError as error:
        raise FileError(error.given, path=str(path), rule=error.rule, fix=error.fix) from error


def definition(model: Any, example_inputs: Any, dynamic_shapes: Any = None) -> NetDefinition:
    """Return the definition of a torch module or an exported program.

    A module is exported for ``example_inputs``. An exported program must be opened without them.
    """
    torch = _torch()
    if not isinstance(model, torch.nn.Module):
        if example_inputs is not None or dynamic_shapes is not None:
            raise OperandError(
                "example inputs for an exported program",
                rule="an exported program must be opened without example inputs: it contains the types of its inputs",
                fix="ex.open(program)",
            )
        return _defined(*_exported(torch, model, (), {}, None), "program", local=True)
    name = name_of(model)
    arguments, keywords = _inputs(torch, model, example_inputs)
    bound = _bound(torch, model, arguments, keywords)
    dynamic_shapes = _shapes_of_all_inputs(name, bound, dynamic_shapes)
    # The mode of each submodule is restored separately, since model.train() would also change submodules that were in
    # evaluation mode. Frozen ScriptModules have no mode.
    modes = [(part, part.training) for part in model.modules() if hasattr(part, "training")]
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


def _shapes_of_all_inputs(name: str, bound: inspect.BoundArguments, dynamic_shapes: Any) -> Any:
    """Return ``dynamic_shapes`` by argument name, with None for each argument that it omits, as torch requires."""
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
            fix='dynamic_shapes={"x": {0: "batch"}} with the argument names of forward',
        )
    return {argument: dynamic_shapes.get(argument) for argument in bound.arguments}


def _evaluated(model: Any) -> str:
    """Switch ``model`` to evaluation mode and return a remark about this mode for the net's description."""
    try:
        model.eval()
    except NotImplementedError:
        for part in model.modules():
            part.training = False
        return _TRACED
    return _REMARK


def _torch() -> Any:
    for name in ("torch", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            raise OperandError(
                f"the package {name} cannot be imported: {reason_of(error)}",
                rule="torch and onnxscript must be installed to open torch models",
                fix=INSTALL,
            ) from error
    torch = import_module("torch")
    import_module("torch.export")
    import_module("torch.onnx")
    return torch


def _inputs(torch: Any, model: Any, example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a call of ``model``, with arrays converted to tensors."""
    if example_inputs is None:
        raise OperandError(
            f"the torch module {type(model).__name__} without example inputs",
            rule="a module must be opened with example inputs, because torch traces a call",
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
    invalid = example_inputs if arguments is None else next((key for key in keywords if not isinstance(key, str)), None)
    if arguments is None or invalid is not None:
        raise OperandError(
            f"example inputs {shorten(repr(invalid), 80)} of type {type(invalid).__name__}",
            rule="example inputs must be a tensor or array, a tuple of the arguments, or a dict by name",
            fix="ex.open(module, (x, y))",
        )
    meta = devices_of(model) == {"meta"}
    converted: tuple[tuple[Any, ...], dict[str, Any]] = pytree().tree_map(
        lambda value: _tensor(torch, value, meta), (arguments, keywords)
    )
    return converted


def _tensor(torch: Any, value: Any, meta: bool) -> Any:
    """Convert an array to a tensor, on the meta device if ``meta`` is True, and a NumPy scalar to a Python number."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        try:
            value = torch.from_numpy(np.ascontiguousarray(value))
        except TypeError as error:
            raise OperandError(
                f"an example input of dtype {value.dtype}",
                rule="torch must support the dtype of an array",
                fix="array.astype(np.float32)",
            ) from error
    return value.to("meta") if meta and isinstance(value, torch.Tensor) else value


def _bound(torch: Any, model: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> inspect.BoundArguments:
    """Return the arguments of ``forward`` by name; raise OperandError if they do not match its signature."""
    if is_torchscript(torch, model):
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        signature = inspect.Signature(
            [
                inspect.Parameter(each.name, kind, default=each.default_value if each.has_default_value() else empty)
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
    """Convert a TorchScript module with torch's converter; raise OperandError if the conversion fails.

    The converter is a prototype, so its module is accepted only if its results equal the original module's.
    """
    expected = result_of(torch, model, deepcopy(arguments), {})
    try:
        with torch.no_grad(), quiet():
            converter = import_module("torch._export.converter").TS2EPConverter
            converted = converter(model, deepcopy(arguments)).convert().module()
            torch.testing.assert_close(converted(*deepcopy(arguments)), expected, equal_nan=True)
    except Exception as error:
        raise OperandError(
            f"torch cannot convert the TorchScript module {name_of(model)}: {reason_of(error)}",
            rule="torch's TS2EPConverter must convert a TorchScript module to a program with the same results",
            fix=ORIGINAL,
        ) from error
    return converted


def _exported(
    torch: Any, model: Any, arguments: Any, keywords: Any, dynamic_shapes: Any
) -> tuple[Any, dict[bytes, Any]]:
    """Export a module or program to ONNX and fold its constants; return (model, placeholders).

    Weights on the meta device have no values. For each of them, the model contains a unique placeholder, which
    ``placeholders`` maps to a stand-in for the values.
    """
    from explorer.formats.onnx.large_elements import Elements  # imported here since onnx is slow to import

    try:
        with quiet():
            exported = torch.onnx.export(
                model,
                # torch treats a final dict as keywords, so one is always appended, in case forward's last argument is a
                # dict
                (*arguments, keywords),
                None,
                dynamo=True,
                optimize=False,
                verbose=False,
                dynamic_shapes=dynamic_shapes,
                custom_translation_table=torch_operators.translations(torch),
            )
            absent = _remove_absent(exported.model.graph.initializers)  # constants without values cannot be folded
            optimizer = import_module("onnxscript.optimizer")
            optimizer.fold_constants(exported.model)
            optimizer.remove_unused_nodes(exported.model)
            model_proto = exported.model_proto
    except Exception as error:
        raise export_error(torch, model, arguments, keywords, error) from error
    placeholders = {}
    for index, tensor in enumerate(absent):
        placeholder = b"without values: %d" % index
        placeholders[placeholder] = Elements(_MetaDevice(tensor.name), 0, tensor.nbytes)
        model_proto.graph.initializer.add(
            name=tensor.name, dims=tensor.shape, data_type=tensor.dtype, raw_data=placeholder
        )
    return model_proto, placeholders


def _remove_absent(initializers: dict[str, Any]) -> list[Any]:
    """Remove and return the weights without values: tensors on the meta device, and fake tensors."""
    absent = []
    for name, value in [*initializers.items()]:
        raw = getattr(value.const_value, "raw", None)
        if getattr(raw, "is_meta", False) or type(raw).__name__ == "FakeTensor":
            absent.append(value.const_value)
            value.const_value = None
            del initializers[name]
    return absent


class _MetaDevice(KeptFile):
    """Stand-in for the file of a weight without values. Every access raises StateError."""

    def __init__(self, weight: str) -> None:
        self._weight = weight

    def part(self, first: int, size: int) -> NoReturn:
        raise StateError(
            f"weight {self._weight!r} without values: its module was opened on the meta device",
            rule="a net must be opened with the values of its weights before it is run or saved",
            fix="module.to_empty(device='cpu'), module.load_state_dict(…), then ex.open(module, example_inputs)",
        )

    def check(self, first: int = 0, size: int = 0) -> NoReturn:
        self.part(first, size)

    def __reduce__(self) -> tuple[Any, ...]:
        return _MetaDevice, (self._weight,)


def _defined(
    model: Any, elements: Any, name: str, *, local: bool, source: str = "", remark: str = _REMARK
) -> NetDefinition:
    from explorer.formats.onnx import reader  # imported here since onnx is slow to import
    from explorer.formats.onnx.operators import TABLE

    net_definition = reader.definition(model, Path(f"{name}.onnx"), TABLE, remark, elements=elements, local=local)
    return replace(net_definition, source=source)
