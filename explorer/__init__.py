"""Explorer: see how a planner changes a tensor program, step by step and with reasons, in Jupyter.

Start here
----------

>>> import numpy as np, explorer as ex
>>> x, W = ex.tensor(np.ones((2, 3))), ex.tensor(np.full((3, 2), 0.5))
>>> y = np.tanh(x @ W) + 2 * (x @ W)  # recorded, not computed
>>> ex.evaluate(y).round(2).tolist()  # planned, run: a NumPy array
[[3.91, 3.91], [3.91, 3.91]]
>>> view = ex.explore(y)  # as the last line of a cell: every step with its reasons

Where to go next
----------------

a model's file       ex.open("model.onnx").explore(), or PNNX's .pnnx.param; ex.save writes one
your own plan        plan = ex.EvalPlan(); plan.register(y); plan.explain(); plan.explore(): help(ex.EvalPlan)
gradients            ex.grad(loss, [W]); to trace a function once and call it often: @ex.function
operations           help(ex.ops) lists them; ex.tanh is ex.ops.tanh, and np.tanh also records it
layers, training     help(ex.layers), help(ex.train), ex.Net for nets of named operators
extensions           ex.Operation, ex.Rule, ex.Pass, ex.Policy; ex.check tests the laws on your operations
exercises            ex.exercise("09.1"): an exercise from the notebooks, which checks your answer

dir(ex) lists every name; a star import only imports the functions below.
"""

import sys
from functools import cache
from importlib import import_module
from typing import Any

__version__ = "0.2.0"

__all__ = ["evaluate", "exercise", "explore", "function", "grad", "open", "save", "tensor"]

_NAMES = {
    "api": "explore register_heat",
    "core.errors": "BudgetError DeclarationError ExplorerError FileError OperandError ReaderError RunError "
    "StateError UnknownNameError",
    "core.ir.expr": "Expr kernel kernels Operation operation OperationRedefined",
    "core.ir.hooks": "ComparedPlans View",
    "core.ir.operation_examples": "Example integers real",
    "core.ir.policy_operations": "Adjustable policies",
    "core.ir.recording_context": "scope",
    "core.ir.tensor": "Tensor tensor",
    "core.memory_budget": "budget",
    "core.policy": "Minor Policy PolicyClass",
    "core.progress": "Cancelled Progress progress",
    "core.registry": "Registry",
    "core.tracing.decorator": "Function function",
    "core.tracing.random_draws": "RandomTraced",
    "core.types.custom_dtypes": "ElementType",
    "core.types.device": "Block cpu Device device",
    "core.types.tensor_type": "TensorType",
    "course": "exercise",
    "data.constructors": "BiasVector Matrix Scalar ThreeDArray TrivialTensor Vector ZeroTensor",
    "data.copyto": "copyto",
    "data.csv_table": "load_csv",
    "data.custom_data": "Data",
    "data.equality": "same",
    "data.image": "load_image",
    "data.rank": "category is_matrix is_scalar is_three_d_array is_vector",
    "data.scalable_tensor": "ScalableTensor",
    "data.type_erasure": "make_dynamic try_cast",
    "formats.open_save": "open save",
    "formats.pnnx.syntax_tree": "syntax_tree",
    "formats.registry": "file_operator layer_types register_format",
    "gradients": "grad",
    "net": "Blob ModelHelper Net TypeMeta Workspace",
    "net.blob_operator": "blob_operator",
    "net.database_operators": "DBReader",
    "net.operators.caffe2": "net_operator",
    "ops.accumulation_dtype": "AccumulationPolicy PAccumulateByProduct PAccumulateBySum PAccumulateIn",
    "ops.base": "Elementwise",
    "ops.nn.conv": "ConvolutionPolicy",
    "plan": "Again Applied Declined default_passes Pass passes Reason reason Rule",
    "plan.rewrite.pattern": "pattern",
    "record": "Decision Recording",
    "reports": "compare",
    "run": "default_plan eval_register EvalPlan evaluate Handle",
    "run.calibrate": "calibrate",
    "run.diagnosis.what_if": "WhatIf",
    "run.execution.executors": "Executor executors register_executor",
    "run.workers.workers": "Workers",
    "testing.laws": "check",
    "train.parallel": "parallelize",
    "view.export.outputs": "outputs",
}
"""Module → its public names, each of which is imported on first use. All other names of ``ex`` are registered
operations. ``python assets/public_names.py`` writes the names to __init__.pyi for editors and mypy."""
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
_PACKAGES = ("array_api", "layers", "ops", "testing", "train")
"""packages that are public names; all others must be imported explicitly"""
_OPERATIONS = ("ops", "data.type_erasure", "gradients")
"""modules that register operations on import; they are imported before the first public name is"""
_RENAMED = {"Link": "Rule"}
"""old public name → current name"""


def __getattr__(name: str) -> Any:
    """Return a public name, or an operation's recording function, such as ``ex.exp``."""
    if name.startswith("_"):  # tools probe for private names
        raise AttributeError(f"module 'explorer' has no attribute {name!r}", name=name)
    functions = _functions()
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(f"explorer.{_MODULES[name]}"), name)
        return value
    if name in functions:
        value = functions[name]
        # Cache only explorer's own operations, because a user may redefine an operation under the same name.
        if value.__module__.partition(".")[0] == __name__:
            globals()[name] = value
        return value
    if name in _PACKAGES:
        return import_module(f"explorer.{name}")
    hint = f"it is called explorer.{_RENAMED[name]} now" if name in _RENAMED else _near(name)
    raise AttributeError(f"module 'explorer' has no attribute {name!r}" + (f"; {hint}" if hint else ""), name=name)


def __dir__() -> list[str]:
    """Return every public name, including the operations, whereas ``help(ex)`` shows only ``__all__``."""
    return sorted({*_MODULES, *_PACKAGES, *_functions(), "__version__"})


@cache
def _functions() -> dict[str, Any]:
    for package in _OPERATIONS:
        import_module(f"explorer.{package}")
    functions: dict[str, Any] = import_module("explorer.core.registry").functions
    return functions


def _near(name: str) -> str:
    from explorer.names import hint_among  # only needed for unknown names

    return hint_among(name, __dir__())


if "IPython" in sys.modules:
    from explorer.in_notebook import start as _start

    _start(sys.modules[__name__])
