"""Layers: named ports, parameters and policies; they write expressions and compute nothing."""

from typing import TYPE_CHECKING

from explorer.core.policy import Minor, Policies, Policy, PolicyClass, Sub
from explorer.layers.combine import Add, Dot, Interpolate, Multiply, NLLLoss, Permute, Softmax, Subtract
from explorer.layers.composite import Composite, Feedback
from explorer.layers.elementwise import (
    Absolute,
    Arccos,
    Arccosh,
    Arcsin,
    Arcsinh,
    Cos,
    Elementwise,
    Relu,
    Sigmoid,
    Sin,
    Square,
    Tan,
    Tanh,
)
from explorer.layers.filler import Constant, Filler, Gaussian, Uniform, VarScale, VarScalePolicy
from explorer.layers.general import (
    feed_backward,
    feed_forward,
    grad_collect,
    init,
    load_weights,
    neutral_invariant,
    save_weights,
)
from explorer.layers.gru import GRUStep
from explorer.layers.initializer import Initializer
from explorer.layers.layer import Layer
from explorer.layers.linear import Bias, Linear, SingleLayerPerceptron, Weight
from explorer.layers.parameter import GradCollector, Parameter
from explorer.layers.policies import (
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
from explorer.layers.port import Container, Ports
from explorer.layers.recurrent import Recurrent
from explorer.layers.source import ParamSource, ValueSource
from explorer.layers.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology

if not TYPE_CHECKING:  # a type checker knows the names, and refuses others by itself

    def __getattr__(name):
        """What another system's name is called here."""
        from explorer.names import told  # only an unknown name asks for it

        hint = "" if name.startswith("_") else told(name)
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
