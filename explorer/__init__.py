"""Explorer: see what a tensor program is, what a planner does to it, and why, step by step, in Jupyter."""

import explorer.core.interrupts as _interrupts  # noqa: F401  # an interrupt may come while the others are imported

# isort: split
import difflib
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer import layers
from explorer import ops as _ops  # noqa: F401  # enters every operation into the registry
from explorer.core import registry as _registry
from explorer.core.errors import (
    BudgetError,
    DeclarationError,
    ExplorerError,
    FileError,
    OperandError,
    ReaderError,
    RunError,
    StateError,
    UnknownNameError,
)
from explorer.core.ir.examples import Example, integers, real
from explorer.core.ir.expr import Expr
from explorer.core.ir.hooks import hooks as _hooks
from explorer.core.ir.kernel_registry import kernel, kernels
from explorer.core.ir.operation import Operation
from explorer.core.ir.operation_checks import OperationRedefined
from explorer.core.ir.policy_operations import Adjustable, policies
from explorer.core.ir.recording_context import scope
from explorer.core.ir.tensor import Tensor, tensor
from explorer.core.memory_budget import budget
from explorer.core.policy import Minor, Policy, PolicyClass
from explorer.core.progress import Cancelled, Progress, progress
from explorer.core.progress import delayed as _delayed
from explorer.core.progress import set_default_display as _set_default_display
from explorer.core.registry import operation
from explorer.core.registry_base import Registry
from explorer.core.tracing.decorator import Function, function
from explorer.core.types.block import Block
from explorer.core.types.custom_dtypes import ElementType
from explorer.core.types.device import Device, cpu, device
from explorer.core.types.tensor_type import TensorType
from explorer.data.constructors import BiasVector, Matrix, Scalar, ThreeDArray, TrivialTensor, Vector, ZeroTensor
from explorer.data.copyto import copyto
from explorer.data.csv_table import load_csv
from explorer.data.dynamic_data import make_dynamic, try_cast
from explorer.data.equality import same
from explorer.data.image import load_image
from explorer.data.rank_categories import category, is_matrix, is_scalar, is_three_d_array, is_vector
from explorer.data.scalable_tensor import ScalableTensor
from explorer.data.user_data import Data
from explorer.grad import grad
from explorer.ops.accumulation_dtype import AccumulationPolicy, PAccumulateByProduct, PAccumulateBySum, PAccumulateIn
from explorer.ops.base import Elementwise
from explorer.ops.nn.conv import ConvolutionPolicy
from explorer.plan import Again, Applied, Declined, Pass, Reason, Rule, default_passes, passes, reason
from explorer.record import Recording
from explorer.run import EvalPlan, Handle, default_plan, eval_register, evaluate
from explorer.run.calibrate import calibrate
from explorer.run.execution.executors import Executor, executors, register_executor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from explorer import testing, train
    from explorer.api import register_heat
    from explorer.core.progress import ProgressCallback
    from explorer.course import exercise
    from explorer.formats.open_save import save
    from explorer.formats.registry import file_operator, layer_types, register_format
    from explorer.net import Blob, ModelHelper, Net, TypeMeta, Workspace
    from explorer.net.blob_operator import blob_operator
    from explorer.net.databases import DBReader
    from explorer.net.operators.caffe2 import net_operator
    from explorer.run.workers.workers import Workers
    from explorer.testing.laws import check
    from explorer.train.parallel import parallelize
    from explorer.view.export.outputs import outputs

__version__ = "0.1.0"


def explore(what: Any, *more: Any, **options: Any) -> Any:
    """A widget to step through: of expressions or containers of them, of a plan, a net, or a recording.

    ``options`` are ``theme``, ``position`` (the step shown first), ``height`` (in pixels), ``selected``,
    ``open_boxes`` or ``depth`` (down to which boxes are open), ``direction`` (where values flow, "down" or "right") and
    ``layout``; for expressions also ``run``, ``record`` and ``plan`` (options of `EvalPlan`).
    Raises UnknownNameError for another option.

    >>> view = ex.explore(ex.tanh(ex.tensor([1.0])), theme="dark", position=0)
    >>> [stage.name for stage in view.recording.stages][:3]
    ['recorded', 'simplify', 'dedup']
    """
    from explorer import api  # Jupyter's widgets are slow to import, and only views need them

    return api.explore([what, *more] if more else what, **options)


def _check_view(**options: Any) -> None:
    from explorer import api

    api.check_options(options)


def _note_declaration(declared: type[Any]) -> None:
    ipython = sys.modules.get("IPython")
    if ipython is not None and ipython.get_ipython() is not None:  # a script's import would wait for the laws
        from explorer.testing.laws.declarations import note_declaration

        note_declaration(declared)


def _notebook_bar() -> "AbstractContextManager[ProgressCallback] | None":
    """In a notebook, a bar for work that takes longer than a second; elsewhere none."""
    ipython = sys.modules.get("IPython")
    if ipython is None or threading.current_thread() is not threading.main_thread():
        return None
    if getattr(ipython.get_ipython(), "kernel", None) is None:
        return None

    def make() -> "AbstractContextManager[ProgressCallback]":
        from explorer import api

        return api.bar()

    return _delayed(make)


def open(path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None) -> "Net":
    """The net in a model's file, chosen by its ending: ``x.pnnx.param``, ``x.onnx``, ``x.json``, or one of your own.

    ``weights`` names the file of the weights where it lies elsewhere. Weights are read when they are needed. Raises
    FileError that names file, line, rule and fix.

    >>> net = ex.Net("positive")
    >>> net.output(net.Relu(net.input("x", (2,)), "y"))
    >>> net.save("positive.json")
    >>> ex.open("positive.json").run(np.array([-1, 2], dtype="float32"))
    array([0., 2.], dtype=float32)
    """
    from explorer.formats import open as open_file

    return open_file(path, weights=weights)


def _later(module: str, name: str) -> Any:
    """A function of a module that is imported when the function is called."""
    return lambda *arguments, **named: getattr(import_module(module), name)(*arguments, **named)


_hooks.open, _hooks.save = open, _later("explorer.formats", "save")
_hooks.save_training = _later("explorer.formats.checkpoint", "save")
_hooks.restore_training = _later("explorer.formats.checkpoint", "restore")
_hooks.read_arrays = _later("explorer.formats.common.npz", "read_database")
_hooks.evaluate, _hooks.register, _hooks.explore = evaluate, eval_register, explore
_hooks.check_view, _hooks.explain = _check_view, _later("explorer.api", "explain")
_hooks.why, _hooks.to_graphviz = _later("explorer.api", "why_pair_of"), _later("explorer.api", "to_graphviz")
_hooks.note_declaration = _note_declaration
_hooks.compare = _later("explorer.api", "compare")
_hooks.lanes_picture = lambda lanes, micros: import_module("explorer.view.export.lanes_picture").lanes_picture(
    lanes, micros
)
_set_default_display(_notebook_bar)


_LATER = {
    "Blob": "explorer.net",
    "DBReader": "explorer.net.databases",
    "ModelHelper": "explorer.net",
    "Net": "explorer.net",
    "TypeMeta": "explorer.net",
    "Workspace": "explorer.net",
    "blob_operator": "explorer.net.blob_operator",
    "check": "explorer.testing.laws",
    "exercise": "explorer.course",
    "file_operator": "explorer.formats.registry",
    "layer_types": "explorer.formats.registry",
    "net_operator": "explorer.net.operators.caffe2",
    "outputs": "explorer.view.export.outputs",
    "register_format": "explorer.formats.registry",
    "parallelize": "explorer.train.parallel",
    "pattern": "explorer.plan.rewrite.pattern",
    "register_heat": "explorer.api",
    "save": "explorer.formats.open_save",
    "testing": "explorer.testing",
    "train": "explorer.train",
    "Workers": "explorer.run.workers.workers",
}
"""Names that few programs need, and their modules, imported when they are asked for."""


def __getattr__(name: str) -> Any:
    """The recording function of an operation: ``ex.exp``, ``ex.softmax``, and those that users declare."""
    if name in _LATER:
        module = import_module(_LATER[name])
        return module if _LATER[name] == f"explorer.{name}" else getattr(module, name)
    if name in _registry.functions:
        return _registry.functions[name]
    hint = "" if name.startswith("_") else _renamed(name) or _foreign(name) or _near(name)
    raise AttributeError(f"module 'explorer' has no attribute {name!r}" + (f"; {hint}" if hint else ""), name=name)


_RENAMED = {"Link": "Rule"}
"""Old public names, and today's."""


def _renamed(name: str) -> str:
    return f"it is called explorer.{_RENAMED[name]} now" if name in _RENAMED else ""


def _foreign(name: str) -> str:
    from explorer.names import told  # only an unknown name asks for it

    return told(name)


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, __dir__(), n=5)
    return f"near names: {', '.join(near)}" if near else ""


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *_registry.functions, "__version__"})


__all__ = [
    "AccumulationPolicy",
    "Adjustable",
    "Again",
    "Applied",
    "BiasVector",
    "Blob",
    "Block",
    "BudgetError",
    "Cancelled",
    "ConvolutionPolicy",
    "DBReader",
    "Data",
    "DeclarationError",
    "Declined",
    "Device",
    "ElementType",
    "Elementwise",
    "EvalPlan",
    "Example",
    "Executor",
    "ExplorerError",
    "Expr",
    "FileError",
    "Function",
    "Handle",
    "Matrix",
    "Minor",
    "ModelHelper",
    "Net",
    "OperandError",
    "Operation",
    "OperationRedefined",
    "PAccumulateByProduct",
    "PAccumulateBySum",
    "PAccumulateIn",
    "Pass",
    "Policy",
    "PolicyClass",
    "Progress",
    "ReaderError",
    "Reason",
    "Recording",
    "Registry",
    "Rule",
    "RunError",
    "ScalableTensor",
    "Scalar",
    "StateError",
    "Tensor",
    "TensorType",
    "ThreeDArray",
    "TrivialTensor",
    "TypeMeta",
    "UnknownNameError",
    "Vector",
    "Workers",
    "Workspace",
    "ZeroTensor",
    "blob_operator",
    "budget",
    "calibrate",
    "category",
    "check",
    "copyto",
    "cpu",
    "default_passes",
    "default_plan",
    "device",
    "eval_register",
    "evaluate",
    "executors",
    "exercise",
    "explore",
    "file_operator",
    "function",
    "grad",
    "integers",
    "is_matrix",
    "is_scalar",
    "is_three_d_array",
    "is_vector",
    "kernel",
    "kernels",
    "layer_types",
    "layers",
    "load_csv",
    "load_image",
    "make_dynamic",
    "net_operator",
    "open",
    "operation",
    "outputs",
    "parallelize",
    "passes",
    "pattern",
    "policies",
    "progress",
    "real",
    "reason",
    "register_executor",
    "register_format",
    "register_heat",
    "same",
    "save",
    "scope",
    "tensor",
    "testing",
    "train",
    "try_cast",
]
