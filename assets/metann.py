"""Writes metann.md: what MetaNN's names are called in explorer, with ports, defaults and descriptions from the code.

Run it again after a change: ``.venv/bin/python assets/metann.py``.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import explorer as ex
from explorer.layers import Layer, Policy, PolicyClass

WRITTEN = Path(__file__).with_suffix(".md")

DATA = {
    "Tensor<Elem, Device, Dim>": "tensor",
    "Scalar": "Scalar",
    "Vector": "Vector",
    "Matrix": "Matrix",
    "ThreeDArray": "ThreeDArray",
    "ZeroTensor": "ZeroTensor",
    "TrivialTensor": "TrivialTensor",
    "BiasVector": "BiasVector",
    "ScalableTensor": "ScalableTensor",
    "DynamicData, MakeDynamic": "make_dynamic",
    "TryCastTo": "try_cast",
    "DataCategory": "category",
    "IsScalar": "is_scalar",
    "IsVector": "is_vector",
    "IsMatrix": "is_matrix",
    "IsThreeDArray": "is_three_d_array",
    "operator==": "same",
    "DataCopy": "copyto",
    "a data type of one's own": "Data",
    "an element type of one's own": "ElementType",
    "DeviceTags": "Device",
}
OPERATIONS = {
    "Abs": "absolute",
    "Sign": "sign",
    "Negative": "negative",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Cos": "cos",
    "Sin": "sin",
    "Tan": "tan",
    "Exp": "exp",
    "Log": "log",
    "Square": "square",
    "Sqrt": "sqrt",
    "ReLU": "relu",
    "Sigmoid": "sigmoid",
    "SigmoidGrad": "sigmoid_gradient",
    "Tanh": "tanh",
    "Add": "add",
    "Subtract": "subtract",
    "Multiply": "multiply",
    "Divide": "divide",
    "Interpolate": "interpolate",
    "ReduceSum": "sum",
    "Dot": "tensordot",
    "Permute, Transpose": "transpose",
    "PermuteInv": "inverse_transpose",
    "Reshape": "reshape",
    "Slice": "getitem",
    "Tile": "tile",
    "Softmax": "softmax",
    "SoftmaxGrad": "softmax_gradient",
    "NLLLoss": "nll_loss",
    "NLLLossGrad": "nll_loss_gradient",
    "the gradient of any other": "grad",
    "OpTags, IsValidOper": "Operation",
}
LAYERS = {
    "AbsLayer": "Absolute",
    "AcosLayer": "Arccos",
    "AcoshLayer": "Arccosh",
    "AsinLayer": "Arcsin",
    "AsinhLayer": "Arcsinh",
    "CosLayer": "Cos",
    "SinLayer": "Sin",
    "TanLayer": "Tan",
    "SquareLayer": "Square",
    "SigmoidLayer": "Sigmoid",
    "TanhLayer": "Tanh",
    "ReLULayer": "Relu",
    "SoftmaxLayer": "Softmax",
    "PermuteLayer": "Permute",
    "AddLayer": "Add",
    "SubtractLayer": "Subtract",
    "MultiplyLayer": "Multiply",
    "DotLayer": "Dot",
    "InterpolateLayer": "Interpolate",
    "NLLLossLayer": "NLLLoss",
    "ParamSourceLayer": "ParamSource",
    "ValueSourceLayer": "ValueSource",
    "WeightLayer": "Weight",
    "BiasLayer": "Bias",
    "LinearLayer": "Linear",
    "SingleLayerPerceptron": "SingleLayerPerceptron",
    "GruStep": "GRUStep",
    "RecurrentLayer": "Recurrent",
    "ComposeKernel": "Composite",
}
PORTS = {
    "LayerInput": ("input", "Tanh"),
    "LayerOutput": ("output", "Tanh"),
    "LeftOperand": ("left", "Add"),
    "RightOperand": ("right", "Add"),
    "InterpolateLayerWeight1": ("first", "Interpolate"),
    "InterpolateLayerWeight2": ("second", "Interpolate"),
    "Lambda": ("weight", "Interpolate"),
    "LossLayerWeight": ("weight", "NLLLoss"),
    "the state of the step before": ("previous", "GRUStep"),
}
PARTS = {
    "VarTypeDict": "layers.Ports",
    "Layer, MakeTrainLayer, MakeInferLayer": "layers.Layer",
    "Init": "layers.Layer.init",
    "LoadWeights": "layers.Layer.load_weights",
    "SaveWeights": "layers.Layer.save_weights",
    "GradCollect": "layers.Layer.grad_collect",
    "NeutralInvariant": "layers.Layer.neutral_invariant",
    "FeedForward": "layers.Layer.feed_forward",
    "FeedBackward": "layers.Layer.feed_backward",
    "Sublayer": "layers.Sublayer",
    "InConnect": "layers.InConnect",
    "InternalConnect": "layers.InternalConnect",
    "OutConnect": "layers.OutConnect",
    "ComposeTopology": "layers.Topology",
    "ParamInitializer": "layers.Initializer",
    "ConstantFiller": "layers.Constant",
    "UniformFiller": "layers.Uniform",
    "GaussianFiller": "layers.Gaussian",
    "VarScaleFiller": "layers.VarScale",
    "GradCollector": "layers.GradCollector",
    "PolicyContainer": "layers.Policies",
    "SubPolicyContainer": "layers.Sub",
    "PolicySelect": "layers.Layer.select",
    "a major policy class": "layers.PolicyClass",
    "a minor policy class": "layers.Minor",
}
POLICIES = {
    "IsUpdate: PUpdate, PNoUpdate": ("GradPolicy.update", "PUpdate", "PNoUpdate"),
    "PUpdateIs": ("GradPolicy.update", "PUpdateIs"),
    "IsFeedbackOutput: PFeedbackOutput, PNoFeedbackOutput": (
        "GradPolicy.feedback_output",
        "PFeedbackOutput",
        "PNoFeedbackOutput",
    ),
    "Element": ("ParameterPolicy.dtype",),
    "Device": ("ParameterPolicy.device",),
    "an initializer's filler": ("ParameterPolicy.filler",),
    "Distribute: PNormVarScale, PUniformVarScale": (
        "VarScalePolicy.distribution",
        "PNormVarScale",
        "PUniformVarScale",
    ),
    "PRowVecInput": ("InputPolicy.row_vector", "PRowVecInput"),
    "Activation": ("PerceptronPolicy.activation",),
    "BiasInvolved": ("PerceptronPolicy.bias_involved", "PBiasInvolved", "PBiasNotInvolved"),
    "IsKeepDim": ("DimensionPolicy.keep", "PKeepDim", "PNoKeepDim"),
    "ModifyDimNum": ("DimensionPolicy.count",),
    "DimArray": ("DimensionPolicy.axes",),
    "Step": ("RecurrentPolicy.step",),
    "the axes of sequences": ("RecurrentPolicy.axis",),
    "UseBptt: PEnableBptt, PDisableBptt": ("RecurrentPolicy.through_time", "PEnableBptt", "PDisableBptt"),
    "– (biases, where the reset gate stands)": ("GRUPolicy.bias_involved", "GRUPolicy.reset"),
}
EVALUATION = {
    "Evaluate": "evaluate",
    "EvalRegister": "Expr.eval_register",
    "EvalHandle": "Handle",
    "handle.Data": "Handle.data",
    "EvalPlan": "EvalPlan",
    "EvalPlan::Inst": "default_plan",
    "EvalPlan.Eval": "EvalPlan.eval",
    "OperSeq (a link of it)": "Link",
}


def found(name: str) -> Any:
    """What a dotted name of explorer's stands for; raises AttributeError for one that is none."""
    value: Any = ex
    for part in name.split("."):
        value = getattr(value, part)
    return value


def sentence(value: Any) -> str:
    """The first sentence of its docstring."""
    told = " ".join((inspect.getdoc(value) or "").split())
    first = re.split(r"(?<=[.;!?:]) (?=[A-Z`])|(?<=[a-z])\. |\(MetaNN", told)[0]
    return first.strip().rstrip(".:;").replace("|", r"\|")


def code(*names: str) -> str:
    return ", ".join([f"`{name}`" for name in names])


def theirs(names: str) -> str:
    """MetaNN's names as code; what it has no name for as it stands."""
    return names if names[0] in "–a" or names.startswith("the ") else f"`{names}`"


def ports(kind: type[Layer]) -> str:
    return f"{code(*kind.inputs) or '–'} → {code(*kind.outputs) or '–'}" if kind.outputs else "by its topology"


def rows(names: dict[str, str], prefix: str = "ex.") -> list[str]:
    return [f"| {theirs(name)} | `{prefix}{ours}` | {sentence(found(ours))} |" for name, ours in names.items()]


def layer_rows() -> list[str]:
    made = []
    for name, ours in LAYERS.items():
        kind = found(f"layers.{ours}")
        made.append(f"| {theirs(name)} | `ex.layers.{ours}` | {ports(kind)} | {sentence(kind)} |")
    return made


def policies() -> list[str]:
    made = []
    for name, ours in POLICIES.items():
        minors = [found(f"layers.{each}") for each in ours if "." in each]
        told = []
        for minor in minors:
            values = f"one of {code(*map(repr, minor.among))}" if minor.among else "any value"
            kinds = minor.kind if isinstance(minor.kind, tuple) else (minor.kind,)
            kinds = [kind.__name__ for kind in kinds if kind is not None and kind is not type(None)]
            has_default = repr(minor.default) != "no default"
            default = f"default {code(str(minor.default))}" if has_default else "must be given"
            told.append(f"{' or '.join(code(kind) for kind in kinds) or values}; {default}")
        made.append(f"| {theirs(name)} | {code(*[f'ex.layers.{each}' for each in ours])} | {' · '.join(told)} |")
    return made


def table() -> str:
    """The whole page."""
    sections = {
        "Data": ("| MetaNN | explorer | what it is |", rows(DATA)),
        "Operations": ("| MetaNN | explorer | what it gives |", rows(OPERATIONS)),
        "Layers": (
            "| MetaNN | explorer | ports | what it writes |",
            layer_rows(),
        ),
        "Ports": (
            "| MetaNN | explorer | for instance of |",
            [f"| {theirs(name)} | `{port}` | `ex.layers.{kind}` |" for name, (port, kind) in PORTS.items()],
        ),
        "What layers are made of, and are asked": ("| MetaNN | explorer | what it does |", rows(PARTS)),
        "Policies": ("| MetaNN | explorer | its values |", policies()),
        "Evaluation": ("| MetaNN | explorer | what it does |", rows(EVALUATION)),
    }
    lines = [
        "# MetaNN's names",
        "",
        "Explorer's expressions, layers and policies follow [MetaNN](https://github.com/liwei-cpp/MetaNN), a C++",
        "template library. Who comes from there finds here what its names are called. Written by `metann.py`.",
    ]
    for title, (head, body) in sections.items():
        lines += ["", f"## {title}", "", head, "| --- " * (head.count("|") - 1) + "|", *body]
    return "\n".join(lines) + "\n"


def named() -> set[str]:
    """Every name of explorer's on the page, as it is asked of the package."""
    own = {*DATA.values(), *OPERATIONS.values(), *PARTS.values(), *EVALUATION.values()}
    own |= {f"layers.{name}" for name in LAYERS.values()}
    return own | {f"layers.{name}" for names in POLICIES.values() for name in names}


def unnamed() -> set[str]:
    """Layers and policies that ``explorer.layers`` hands on and the page leaves out."""
    shown = {name.split(".")[1] for name in named() if name.startswith("layers.")}
    public = {name: getattr(ex.layers, name) for name in ex.layers.__all__}
    kinds = {name for name, value in public.items() if isinstance(value, type) and issubclass(value, Layer)}
    chosen = {name for name, value in public.items() if isinstance(value, Policy)}
    majors = {n for n, v in public.items() if isinstance(v, type) and issubclass(v, PolicyClass)}
    return (kinds | chosen | majors) - shown


if __name__ == "__main__":
    WRITTEN.write_text(table(), encoding="utf-8")
