"""Torch modules: errors of opening them, with a stand-in for torch, which the tests do not install.

``tests/bench/test_torch_models.py`` tests the modules' values and source lines with torch itself.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.formats import torch_operators

DIGITS = Path(__file__).parents[2] / "assets" / "digits.onnx"


class Stand:
    """A module of the stand-in: two arguments, in training mode."""

    def __init__(self) -> None:
        self.training, self.modes = True, list[bool]()

    def modules(self) -> list[Stand]:
        """Return the module itself."""
        return [self]

    def parameters(self) -> tuple[Any, ...]:
        """Return no parameters."""
        return ()

    buffers = parameters

    def eval(self) -> None:
        """Leave training mode."""
        self.training = False

    def forward(self, x: Any, y: Any = None) -> Any:
        """Raise an error for odd shapes."""
        if x.shape[0] % 2:
            raise RuntimeError("an odd number of rows")
        return x

    __call__ = forward


def leaves(values: Any) -> list[Any]:
    """Return the leaves of tuples and dicts."""
    if isinstance(values, dict):
        values = tuple(values.values())
    return [leaf for value in values for leaf in leaves(value)] if isinstance(values, tuple) else [values]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return a stand-in for torch whose exporter rejects every module."""
    stand: Any = ModuleType("torch")
    for name in ("torch", "torch.export", "torch.onnx", "onnxscript", "torch.utils._pytree"):
        monkeypatch.setitem(__import__("sys").modules, name, stand)
    stand.tree_leaves = leaves
    stand.tree_map = lambda convert, given: (
        tuple(map(convert, given[0])),
        {name: convert(each) for name, each in given[1].items()},
    )
    stand.jit = SimpleNamespace(ScriptModule=str)

    def export(model: Stand, *arguments: Any, **options: Any) -> None:
        model.modes.append(model.training)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.getLogger("torch.onnx").error("noise")
        raise ValueError('no such operator\n\n  File "/me/net.py", line 7, in forward\n    return x.odd()')

    stand.nn = SimpleNamespace(Module=Stand)
    stand.Tensor, stand.ExportedProgram, stand.from_numpy = np.ndarray, int, lambda array: array
    stand.no_grad = pytest.MonkeyPatch.context
    stand.onnx = SimpleNamespace(export=export)
    monkeypatch.setattr(torch_operators, "translations", lambda torch: {})
    module: ModuleType = stand
    return module


x = np.ones((2, 3), np.float32)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("more", [(), (x,)])
def test_the_error_of_exploring_a_module_states_how_to_open_it(more: tuple[Any, ...]) -> None:
    with pytest.raises(ex.OperandError, match=r"(?s)explore of a Stand.*ex\.explore\(ex\.open\(module, example_inputs"):
        ex.explore(Stand(), *more)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, "the torch module Stand without example inputs"),
        (3, "example inputs 3 of type int"),
        ({1: x}, "example inputs 1 of type int"),
        ((), r"Stand.forward: missing a required argument: 'x'"),
        ((x, x, x), r"Stand.forward: too many positional arguments"),
        ({"x": x, "z": x}, r"Stand.forward: got an unexpected keyword argument 'z'"),
        (np.ones((3, 1), np.float32), "Stand does not run on the example inputs: RuntimeError: an odd number of rows"),
        (x, r"torch cannot export Stand: ValueError: no such operator, at net.py line 7: return x.odd\(\)"),
    ],
)
def test_errors_of_an_export_contain_the_reason(
    torch: ModuleType, inputs: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong inputs are distinguished from a module that torch rejects; the module's mode is restored."""
    module = Stand()
    with pytest.raises(ex.OperandError, match=message) as raised:
        ex.open(module, inputs)
    assert raised.value.rule
    assert raised.value.fix
    assert module.training
    assert not any(module.modes)
    assert caplog.records == []
    assert logging.root.manager.disable == logging.NOTSET


class Traced(Stand):
    """The module of an exported program, which keeps the mode in which it was traced."""

    def eval(self) -> None:
        """Raise an error for another mode, as torch does."""
        raise NotImplementedError("Calling train() or eval() is not supported for exported models.")


def test_a_module_of_an_exported_program_is_exported_in_its_mode(torch: ModuleType) -> None:
    """Changing the mode fails, which is no error, and the flag is restored."""
    module = Traced()
    with pytest.raises(ex.OperandError, match="no such operator"):
        ex.open(module, x)
    assert module.training
    assert not any(module.modes)


def test_the_error_of_a_function_without_an_operator_contains_an_alternative(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change of a branch helps, so the fix is to use pnnx or other functions."""

    def export(*arguments: Any, **options: Any) -> None:
        error = type("DispatchError", (Exception,), {})
        raise ValueError("conversion failed") from error("No ONNX function found for aten.erfinv")

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(ex.OperandError, match=r"(?s)aten\.erfinv.*pnnx\.export\(module, path, inputs\)"):
        ex.open(Stand(), x)


def test_packed_weights_are_reported(torch: ModuleType) -> None:
    """The error of a module with packed integer weights contains torch's alternative for export."""
    packed = type("Linear", (Stand,), {"__module__": "torch.ao.nn.quantized.dynamic.modules.linear"})
    with pytest.raises(
        ex.OperandError, match=r"(?s)Linear of torch.ao.nn.quantized.dynamic.*torchao.quantization.pt2e"
    ):
        ex.open(packed(), x)


def test_without_torch_the_error_contains_the_pip_command(tmp_path: Path) -> None:
    """An exported program needs torch."""
    path = tmp_path / "x.pt2"
    path.write_bytes(b"PK")
    with pytest.raises(ex.FileError, match=r"(?s)torch cannot be imported.*pip install \"explorer-graphs\[torch\]\""):
        ex.open(path)
    with pytest.raises(ex.FileError):
        ex.open(tmp_path / "absent.pt2")


def test_without_onnxscript_the_error_contains_the_pip_command(
    torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module needs onnxscript in addition to torch."""
    monkeypatch.delitem(__import__("sys").modules, "onnxscript")
    with pytest.raises(ex.OperandError, match=r"(?s)onnxscript cannot be imported.*pip install"):
        ex.open(Stand(), x)


@pytest.mark.parametrize(
    ("inputs", "given"),
    [
        ((x, {"k": x}), ((x, {"k": x}), {})),
        (({"k": x},), (({"k": x},), {})),
        ({"y": x, "x": {"k": x}}, ((), {"y": x, "x": {"k": x}})),
        (x, ((x,), {})),
    ],
)
def test_the_last_argument_of_an_export_is_the_dict_of_keywords(torch: Any, inputs: Any, given: Any) -> None:
    """torch treats a trailing dict of arguments as keywords, which would be another program."""
    asked = []

    def export(model: Stand, arguments: Any, *options: Any, **more: Any) -> None:
        asked.append((arguments, more.get("kwargs")))
        raise ValueError("no")

    torch.onnx.export = export
    with pytest.raises(ex.OperandError):
        ex.open(Stand(), inputs)
    ((arguments, keywords),) = asked
    np.testing.assert_equal(arguments, (*given[0], given[1]))
    assert keywords is None


@dataclass
class Pair:
    """A type that torch cannot flatten."""

    x: Any


def packed() -> None:
    """Fail like a recurrent layer with a packed sequence."""
    batch_sizes = ()
    raise TypeError(f"zeros(): {batch_sizes}")


def on_values() -> None:
    """Fail like torch at an ``if`` on values."""
    raise type("GuardOnDataDependentSymNode", (Exception,), {})("Eq(u0, 1)")


@pytest.mark.parametrize(
    ("inputs", "result", "fail", "message"),
    [
        ((x, Pair(x)), x, None, r"(?s)input of Own is a Pair.*tensor or a number.*register_dataclass\(Pair\)"),
        ((x, {1, 2}), x, None, "(?s)input of Own is a set.*wrap this module in one"),
        ((x,), (x, Pair(x)), None, r"(?s)result of forward of Own is a Pair.*register_dataclass\(Pair\)"),
        ((x,), {"n": 3}, None, "(?s)result of forward of Own is an int.*must be a tensor, or.*instead of int"),
        ((x,), x, None, r"(?s)ValueError: no\n.*draft_export\(module, args\) reports"),
        ((x,), x, on_values, r"(?s)Eq\(u0, 1\).*for all values.*torch\.cond instead of an if on values"),
        ((x,), x, packed, "(?s)zeros.*padded sequences.*without pack_padded_sequence"),
    ],
)
def test_the_error_of_a_failed_export_contains_a_fix_for_its_cause(
    torch: Any, inputs: Any, result: Any, fail: Any, message: str
) -> None:
    """torch.cond is suggested only for an if on values."""

    def export(*arguments: Any, **options: Any) -> None:
        if fail is not None:
            fail()
        raise ValueError("no")

    torch.onnx.export = export
    own = type("Own", (Stand,), {"__call__": lambda self, *arguments: result})
    with pytest.raises(ex.OperandError, match=message) as raised:
        ex.open(own(), inputs)
    assert ("torch.cond" in raised.value.fix) == (fail is on_values)


def test_arguments_of_another_source_raise_an_error(torch: ModuleType) -> None:
    """A file accepts no example inputs, a module no weights file, and an exported program neither."""
    with pytest.raises(ex.OperandError, match="example_inputs= for"):
        ex.open(DIGITS, x)
    with pytest.raises(ex.OperandError, match="dynamic_shapes= for"):
        ex.open(DIGITS, dynamic_shapes={"x": {0: "n"}})
    with pytest.raises(
        ex.OperandError, match=r"(?s)example_inputs= for a function\n.*whose forward calls the function"
    ):
        ex.open(lambda x: x, x)
    with pytest.raises(ex.OperandError, match="weights= for a torch module"):
        ex.open(Stand(), x, weights="w.safetensors")
    with pytest.raises(ex.OperandError, match="example inputs for an exported program"):
        ex.open(3, x)


def test_dynamic_shapes_name_inputs_of_forward_and_may_omit_some(torch: Any) -> None:
    """torch needs an entry for every input, so omitted ones become None; an unknown name raises an error."""
    asked = []

    def export(model: Stand, *arguments: Any, **options: Any) -> None:
        asked.append(options["dynamic_shapes"])
        raise ValueError("no")

    torch.export = torch.onnx.export = export
    with pytest.raises(ex.OperandError):
        ex.open(Stand(), (x, x), dynamic_shapes={"y": {0: "n"}})
    assert asked == [{"x": None, "y": {0: "n"}}]
    with pytest.raises(ex.UnknownNameError, match=r"unknown input of Stand.forward in dynamic_shapes 'z'"):
        ex.open(Stand(), (x, x), dynamic_shapes={"z": {0: "n"}})


def test_a_class_instead_of_a_module_raises_an_error(torch: ModuleType) -> None:
    for arguments in ((), (x,)):
        with pytest.raises(ex.OperandError, match=r"ex.open\(Stand\(…\), example_inputs\)"):
            ex.open(Stand, *arguments)


def test_a_dict_of_weights_raises_an_error_with_a_short_repr() -> None:
    with pytest.raises(ex.FileError) as caught:
        ex.open({f"weight{number}": np.zeros(9) for number in range(99)})
    assert len(str(caught.value)) < 400
