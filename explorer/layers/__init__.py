"""Layers with named ports, parameters and policies. Layers record expressions and compute nothing themselves.

The names below are the complete public API. Layers are optional: nets and expressions work without them.
"""

from typing import TYPE_CHECKING

from explorer.core.policy import Minor, Policies, Policy, PolicyClass, Sub
from explorer.layers.framework.composite import Composite, Feedback
from explorer.layers.framework.fillers import Constant, Filler, Gaussian, Uniform, VarScale, VarScalePolicy
from explorer.layers.framework.initializer import Initializer
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.layer_functions import (
    feed_backward,
    feed_forward,
    grad_collect,
    init,
    load_weights,
    neutral_invariant,
    save_weights,
)
from explorer.layers.framework.parameter_layers import ParamSource, ValueSource
from explorer.layers.framework.parameters import GradCollector, Parameter
from explorer.layers.framework.policy_classes import (
    DimensionPolicy,
    GradPolicy,
    GRUPolicy,
    InputPolicy,
    ParameterPolicy,
    PBiasInvolved,
    PBiasNotInvolved,
    PDisableBptt,
    PEnableBptt,
    PerceptronPolicy,
    PFeedbackOutput,
    PKeepDim,
    PNoFeedbackOutput,
    PNoKeepDim,
    PNormVarScale,
    PNoUpdate,
    PRowVecInput,
    PUniformVarScale,
    PUpdate,
    PUpdateIs,
    RecurrentPolicy,
)
from explorer.layers.framework.ports import Container, Ports
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.layers.library.conv import Conv2d
from explorer.layers.library.linear import Bias, Linear, SingleLayerPerceptron, Weight
from explorer.layers.library.operation_layers import (
    Absolute,
    Add,
    Arccos,
    Arccosh,
    Arcsin,
    Arcsinh,
    Cos,
    Dot,
    Elementwise,
    Interpolate,
    Multiply,
    NLLLoss,
    Permute,
    Relu,
    Sigmoid,
    Sin,
    Softmax,
    Square,
    Subtract,
    Tan,
    Tanh,
)
from explorer.layers.library.recurrent import GRUStep, Recurrent

if not TYPE_CHECKING:  # type checkers resolve the names statically and report unknown ones

    def __getattr__(name):
        """Raise AttributeError; for another library's name, the message contains explorer's counterpart."""
        from explorer.names import hint_among  # only needed for unknown names

        renamed = {"PFeedbackNoOutput": "PNoFeedbackOutput"}
        hint = hint_among(name, __all__)
        if name in renamed:
            hint = f"it is called explorer.layers.{renamed[name]} now"
        raise AttributeError(f"module 'explorer.layers' has no attribute {name!r}" + (f"; {hint}" if hint else ""))


__all__ = [
    "Absolute",
    "Add",
    "Arccos",
    "Arccosh",
    "Arcsin",
    "Arcsinh",
    "Bias",
    "Composite",
    "Constant",
    "Container",
    "Conv2d",
    "Cos",
    "DimensionPolicy",
    "Dot",
    "Elementwise",
    "Feedback",
    "Filler",
    "GRUPolicy",
    "GRUStep",
    "Gaussian",
    "GradCollector",
    "GradPolicy",
    "InConnect",
    "Initializer",
    "InputPolicy",
    "InternalConnect",
    "Interpolate",
    "Layer",
    "Linear",
    "Minor",
    "Multiply",
    "NLLLoss",
    "OutConnect",
    "PBiasInvolved",
    "PBiasNotInvolved",
    "PDisableBptt",
    "PEnableBptt",
    "PFeedbackOutput",
    "PKeepDim",
    "PNoFeedbackOutput",
    "PNoKeepDim",
    "PNoUpdate",
    "PNormVarScale",
    "PRowVecInput",
    "PUniformVarScale",
    "PUpdate",
    "PUpdateIs",
    "ParamSource",
    "Parameter",
    "ParameterPolicy",
    "PerceptronPolicy",
    "Permute",
    "Policies",
    "Policy",
    "PolicyClass",
    "Ports",
    "Recurrent",
    "RecurrentPolicy",
    "Relu",
    "Sigmoid",
    "Sin",
    "SingleLayerPerceptron",
    "Softmax",
    "Square",
    "Sub",
    "Sublayer",
    "Subtract",
    "Tan",
    "Tanh",
    "Topology",
    "Uniform",
    "ValueSource",
    "VarScale",
    "VarScalePolicy",
    "Weight",
    "feed_backward",
    "feed_forward",
    "grad_collect",
    "init",
    "load_weights",
    "neutral_invariant",
    "save_weights",
]
