"""Explorer: see what a tensor program is, what a planner does to it, and why, step by step, in Jupyter.

Start here
----------

>>> import numpy as np, explorer as ex
>>> x, W = ex.tensor(np.ones((2, 3))), ex.tensor(np.full((3, 2), 0.5))
>>> y = np.tanh(x @ W) + 2 * (x @ W)  # recorded, not computed
>>> ex.evaluate(y).round(2).tolist()  # planned, run: a NumPy array
[[3.91, 3.91], [3.91, 3.91]]
>>> view = ex.explore(y)  # as the last line of a cell: each step, and why

Where to go next
----------------

a model's file       ex.open("model.onnx").explore(), or PNNX's .pnnx.param; ex.save writes one
a plan of your own   plan = ex.EvalPlan(); plan.register(y); plan.explain(); plan.explore(): help(ex.EvalPlan)
gradients            ex.grad(loss, [W]); many calls of one function: @ex.function
operations           help(ex.ops) lists all; ex.tanh is ex.ops.tanh, and so is np.tanh of a recorded value
layers, training     help(ex.layers), help(ex.train), ex.Net for nets by name
extensions           ex.Operation, ex.Rule, ex.Pass, ex.Policy; ex.check tries the laws on yours
exercises            ex.exercise("09.1"): tasks of the notebooks, which check the answer

dir(ex) lists every name; a star import brings the functions below alone.
"""

import explorer.core.interrupts as _interrupts  # noqa: F401  # an interrupt may come while the others are imported

# isort: split
import os
import sys
import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from explorer import layers as layers
from explorer import ops as ops  # enters every operation into the registry
from explorer.core import registry as _registry
from explorer.core.argument_checks import named as _named
from explorer.core.errors import BudgetError as BudgetError
from explorer.core.errors import DeclarationError as DeclarationError
from explorer.core.errors import ExplorerError as ExplorerError
from explorer.core.errors import FileError as FileError
from explorer.core.errors import OperandError as OperandError
from explorer.core.errors import ReaderError as ReaderError
from explorer.core.errors import RunError as RunError
from explorer.core.errors import StateError as StateError
from explorer.core.errors import UnknownNameError as UnknownNameError
from explorer.core.ir.expr import Expr as Expr
from explorer.core.ir.expr import Operation as Operation
from explorer.core.ir.expr import OperationRedefined as OperationRedefined
from explorer.core.ir.expr import kernel as kernel
from explorer.core.ir.expr import kernels as kernels
from explorer.core.ir.expr import number_from as _number_from
from explorer.core.ir.expr import operation as operation
from explorer.core.ir.hooks import ComparedPlans as ComparedPlans
from explorer.core.ir.hooks import View as View
from explorer.core.ir.hooks import hooks as _hooks
from explorer.core.ir.operation_examples import Example as Example
from explorer.core.ir.operation_examples import integers as integers
from explorer.core.ir.operation_examples import real as real
from explorer.core.ir.policy_operations import Adjustable as Adjustable
from explorer.core.ir.policy_operations import policies as policies
from explorer.core.ir.recording_context import scope as scope
from explorer.core.ir.tensor import Tensor as Tensor
from explorer.core.ir.tensor import tensor as tensor
from explorer.core.memory_budget import budget as budget
from explorer.core.policy import Minor as Minor
from explorer.core.policy import Policy as Policy
from explorer.core.policy import PolicyClass as PolicyClass
from explorer.core.progress import Cancelled as Cancelled
from explorer.core.progress import Progress as Progress
from explorer.core.progress import delayed as _delayed
from explorer.core.progress import progress as progress
from explorer.core.progress import set_default_display as _set_default_display
from explorer.core.registry import Registry as Registry
from explorer.core.tracing.decorator import Function as Function
from explorer.core.tracing.decorator import function as function
from explorer.core.tracing.random_draws import RandomTraced as RandomTraced
from explorer.core.types.custom_dtypes import ElementType as ElementType
from explorer.core.types.device import Block as Block
from explorer.core.types.device import Device as Device
from explorer.core.types.device import cpu as cpu
from explorer.core.types.device import device as device
from explorer.core.types.tensor_type import TensorType as TensorType
from explorer.data.constructors import BiasVector as BiasVector
from explorer.data.constructors import Matrix as Matrix
from explorer.data.constructors import Scalar as Scalar
from explorer.data.constructors import ThreeDArray as ThreeDArray
from explorer.data.constructors import TrivialTensor as TrivialTensor
from explorer.data.constructors import Vector as Vector
from explorer.data.constructors import ZeroTensor as ZeroTensor
from explorer.data.copyto import copyto as copyto
from explorer.data.csv_table import load_csv as load_csv
from explorer.data.custom_data import Data as Data
from explorer.data.equality import same as same
from explorer.data.image import load_image as load_image
from explorer.data.rank import category as category
from explorer.data.rank import is_matrix as is_matrix
from explorer.data.rank import is_scalar as is_scalar
from explorer.data.rank import is_three_d_array as is_three_d_array
from explorer.data.rank import is_vector as is_vector
from explorer.data.scalable_tensor import ScalableTensor as ScalableTensor
from explorer.data.type_erasure import make_dynamic as make_dynamic
from explorer.data.type_erasure import try_cast as try_cast
from explorer.gradients import grad as grad
from explorer.ops.accumulation_dtype import AccumulationPolicy as AccumulationPolicy
from explorer.ops.accumulation_dtype import PAccumulateByProduct as PAccumulateByProduct
from explorer.ops.accumulation_dtype import PAccumulateBySum as PAccumulateBySum
from explorer.ops.accumulation_dtype import PAccumulateIn as PAccumulateIn
from explorer.ops.base import Elementwise as Elementwise
from explorer.ops.nn.conv import ConvolutionPolicy as ConvolutionPolicy
from explorer.plan import Again as Again
from explorer.plan import Applied as Applied
from explorer.plan import Declined as Declined
from explorer.plan import Pass as Pass
from explorer.plan import Reason as Reason
from explorer.plan import Rule as Rule
from explorer.plan import default_passes as default_passes
from explorer.plan import passes as passes
from explorer.plan import reason as reason
from explorer.plan.stabilise import stabilise as _stabilise
from explorer.record import Decision as Decision
from explorer.record import Recording as Recording
from explorer.run import EvalPlan as EvalPlan
from explorer.run import Handle as Handle
from explorer.run import default_plan as default_plan
from explorer.run import eval_register as eval_register
from explorer.run import evaluate as evaluate
from explorer.run.calibrate import calibrate as calibrate
from explorer.run.diagnosis.what_if import WhatIf as WhatIf
from explorer.run.execution.executors import Executor as Executor
from explorer.run.execution.executors import executors as executors
from explorer.run.execution.executors import register_executor as register_executor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Unpack

    from explorer import testing as testing
    from explorer import train as train
    from explorer.api import register_heat as register_heat
    from explorer.core.ir.explore_options import ExploreOptions
    from explorer.core.progress import ProgressCallback
    from explorer.course import exercise as exercise
    from explorer.formats.open_save import save as save
    from explorer.formats.pnnx.syntax_picture import syntax_tree as syntax_tree
    from explorer.formats.registry import file_operator as file_operator
    from explorer.formats.registry import layer_types as layer_types
    from explorer.formats.registry import register_format as register_format
    from explorer.net import Blob as Blob
    from explorer.net import ModelHelper as ModelHelper
    from explorer.net import Net as Net
    from explorer.net import TypeMeta as TypeMeta
    from explorer.net import Workspace as Workspace
    from explorer.net.blob_operator import blob_operator as blob_operator
    from explorer.net.databases import DBReader as DBReader
    from explorer.net.operators.caffe2 import net_operator as net_operator
    from explorer.ops.catalogue.functions import *  # noqa: F403  # one name for each operation, for type checkers alone
    from explorer.plan.rewrite.pattern import pattern as pattern
    from explorer.run.workers.workers import Workers as Workers
    from explorer.testing.laws import check as check
    from explorer.train.parallel import parallelize as parallelize
    from explorer.view.export.outputs import outputs as outputs

__version__ = "0.1.0"


def explore(what: Any, *more: Any, **options: "Unpack[ExploreOptions]") -> "View":
    """A widget to step through: of expressions or containers of them, of a plan, a net, or a recording.

    ``options`` are ``theme``, ``position`` (the step shown first), ``height`` (in pixels), ``selected``,
    ``open_boxes`` or ``depth`` (down to which boxes are open), ``direction`` (where values flow, "down" or "right") and
    ``layout``; for expressions also ``run``, ``record`` and ``plan`` (options of `EvalPlan`), for layers ``inputs``.
    Raises UnknownNameError for another option.

    >>> view = ex.explore(ex.tanh(ex.tensor([1.0])), theme="dark", position=0)
    >>> view.theme
    'dark'
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


def _order_completions() -> None:
    ipython = sys.modules.get("IPython")
    if ipython is not None and (shell := ipython.get_ipython()) is not None:
        from explorer.completion import order_completions

        order_completions(shell, sys.modules[__name__], ops)


def _import_when_idle() -> None:
    ipython = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        from explorer.idle_imports import import_when_idle

        import_when_idle()


def _notebook_bar() -> "AbstractContextManager[ProgressCallback] | None":
    """In a notebook, a bar for work that takes longer than a second; elsewhere none."""
    ipython = sys.modules.get("IPython")
    if ipython is None or threading.current_thread() is not threading.main_thread():
        return None
    if getattr(ipython.get_ipython(), "kernel", None) is None:
        return None

    def make() -> "AbstractContextManager[ProgressCallback]":
        from explorer import cell_outputs

        return cell_outputs.bar()

    return _delayed(make)


@_named
def open(
    path: Any, example_inputs: Any = None, *, weights: str | os.PathLike[str] | None = None, dynamic_shapes: Any = None
) -> "Net":
    """The net in a model's file, by its ending: ``x.pnnx.param``, ``x.onnx``, ``x.tflite``, ``x.json``, or your own.

    ``weights`` names the file of the weights where it lies elsewhere. Weights are read when they are needed. A file of
    weights alone (``x.safetensors``, ``x.gguf``, ``x.npz``, ``x.npy``) is opened to be looked at and compared. Raises
    FileError that names file, line, rule and fix.

    ``ex.open(module, example_inputs)`` opens a torch module by torch's own exporter: submodules are boxes, parameters
    weights, and operators have their lines of ``forward``. Inputs are a tensor or array, a tuple of the arguments, or a
    dict by name; ``dynamic_shapes={"x": {0: "batch"}}`` leaves lengths open. An ``x.pt2`` is read by torch, too, which
    may unpickle it: open only those that you trust. ``pip install "explorer-graphs[torch]"`` brings all of it.

    >>> net = ex.Net("positive")
    >>> net.output(net.Relu(net.input("x", (2,)), "y"))
    >>> net.save("positive.json")
    >>> ex.open("positive.json").run(np.array([-1, 2], dtype="float32"))
    array([0., 2.], dtype=float32)
    """
    from explorer.formats import open as open_file

    return open_file(path, example_inputs, weights=weights, dynamic_shapes=dynamic_shapes)


def _later(module: str, name: str) -> Any:
    """A function of a module that is imported when the function is called."""
    return lambda *arguments, **named: getattr(import_module(module), name)(*arguments, **named)


_hooks.open, _hooks.save = open, _later("explorer.formats", "save")
_hooks.save_training = _later("explorer.formats.checkpoint", "save")
_hooks.check_training_file = _later("explorer.formats.checkpoint", "check_target")
_hooks.restore_training = _later("explorer.formats.checkpoint", "restore")
_hooks.read_arrays = _later("explorer.formats.common.npz", "read_database")
_hooks.reference_values = _later("explorer.formats.onnx.reference_values", "reference_values")
_hooks.evaluate, _hooks.register, _hooks.explore = evaluate, eval_register, explore
_hooks.check_view, _hooks.explain = _check_view, _later("explorer.reports", "explain")
_hooks.preview = _later("explorer.cell_outputs", "preview")
_hooks.why, _hooks.to_graphviz = _later("explorer.reports", "why_pair_of"), _later("explorer.reports", "to_graphviz")
_hooks.note_declaration, _hooks.stabilise = _note_declaration, _stabilise
_hooks.describe_operation = _later("explorer.ops.catalogue.help_pages", "page")
_hooks.compare = _later("explorer.reports", "compare")
_hooks.lanes_picture = lambda lanes, micros: import_module("explorer.view.picture.lanes_svg").lanes_picture(
    lanes, micros
)
_set_default_display(_notebook_bar)
_order_completions()
_import_when_idle()
_number_from(1000)  # rules have recorded patterns: the numbers that users see do not depend on how many


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
    "syntax_tree": "explorer.formats.pnnx.syntax_picture",
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
    hint = _renamed(name) or _near(name)
    raise AttributeError(f"module 'explorer' has no attribute {name!r}" + (f"; {hint}" if hint else ""), name=name)


_RENAMED = {"Link": "Rule"}
"""Old public names, and today's."""


def _renamed(name: str) -> str:
    return f"it is called explorer.{_RENAMED[name]} now" if name in _RENAMED else ""


def _near(name: str) -> str:
    from explorer.names import hint_among  # only an unknown name asks for it

    return hint_among(name, __dir__())


_PACKAGES = ("layers", "ops", "passes", "testing", "train")
"""Modules among the public names; the others are reached by their files' names."""


def __dir__() -> list[str]:
    """Every public name, those of operations among them: ``help(ex)`` shows those of ``__all__`` alone."""
    hidden = {"TYPE_CHECKING", "Any", "import_module"}
    own = {name for name, value in globals().items() if name in _PACKAGES or not isinstance(value, type(sys))}
    return sorted({name for name in own - hidden if name[0] != "_"} | {*_LATER, *_registry.functions, "__version__"})


__all__ = ["evaluate", "exercise", "explore", "function", "grad", "open", "save", "tensor"]
