"""Policies that explorer's layers read, and frequently used policy objects."""

from __future__ import annotations

from types import NoneType

import numpy as np

from explorer.core.policy import Minor, Policy, PolicyClass
from explorer.core.types.device import Device, cpu
from explorer.layers.framework.fillers import Filler, VarScalePolicy
from explorer.layers.framework.parameters import Parameter


class GradPolicy(PolicyClass):
    """Policies for gradients: whether the gradients of parameters and of inputs are built."""

    update = Minor(False, among=(False, True), recorded=False)
    feedback_output = Minor(False, among=(False, True), recorded=False)


class ParameterPolicy(PolicyClass):
    """Policies for parameters: class, dtype, device, and filler for parameters without a named value.

    ``type`` is a subclass of Parameter. ``filler`` is a filler object; if it is None, ``initializer`` names one of the
    Initializer's ``fillers``.
    """

    dtype = Minor(np.dtype(np.float32), kind=np.dtype, convert=np.dtype, recorded=False)
    device = Minor(cpu, kind=Device, recorded=False)
    filler = Minor(None, kind=(Filler, NoneType), recorded=False)
    initializer = Minor(None, kind=(str, NoneType), recorded=False)
    type = Minor(Parameter, kind=type, recorded=False)


class InputPolicy(PolicyClass):
    """Policies for inputs.

    With ``row_vector``, the left input of a Dot layer must be a single row or a vector, which is treated as 1×n.
    """

    row_vector = Minor(False, among=(False, True))


class PerceptronPolicy(PolicyClass):
    """Policies for single-layer perceptrons: the activation layer's class, and whether a bias is added."""

    activation = Minor(kind=type)
    bias_involved = Minor(True, among=(False, True))


class DimensionPolicy(PolicyClass):
    """Policies for axes: which axes (or how many) a layer processes, and whether reduced axes are kept with size 1."""

    keep = Minor(False, among=(False, True))
    count = Minor(1, kind=int)
    axes = Minor(None, kind=(tuple, type(None)))


class RecurrentPolicy(PolicyClass):
    """Policies for recurrent layers: step layer, time axis, and whether gradients flow back through time.

    ``axis`` is the time axis of all inputs, or a tuple of (port, axis) pairs; inputs at all other ports are then passed
    whole to each step.
    """

    step = Minor(kind=type)
    axis = Minor(0, kind=(int, tuple))
    through_time = Minor(True, among=(False, True))


class GRUPolicy(PolicyClass):
    """Policies for a GRU: whether biases are added, and what the reset gate is applied to.

    "before" is (r·h) @ U, as originally published; "after" is r·(h @ U), as in PyTorch and cuDNN.
    """

    bias_involved = Minor(False, among=(False, True))
    reset = Minor("before", among=("before", "after"))


def PUpdateIs(value: bool) -> Policy:  # noqa: N802  # MetaNN's name for a parametrized policy
    """Return ``PUpdate`` if ``value`` is true, otherwise ``PNoUpdate``."""
    return GradPolicy.update(value)


PUpdate, PNoUpdate = GradPolicy.update(True), GradPolicy.update(False)
PFeedbackOutput, PNoFeedbackOutput = GradPolicy.feedback_output(True), GradPolicy.feedback_output(False)
PNormVarScale, PUniformVarScale = VarScalePolicy.distribution("normal"), VarScalePolicy.distribution("uniform")
PRowVecInput = InputPolicy.row_vector(True)
PBiasInvolved, PBiasNotInvolved = PerceptronPolicy.bias_involved(True), PerceptronPolicy.bias_involved(False)
PKeepDim, PNoKeepDim = DimensionPolicy.keep(True), DimensionPolicy.keep(False)
PEnableBptt, PDisableBptt = RecurrentPolicy.through_time(True), RecurrentPolicy.through_time(False)
