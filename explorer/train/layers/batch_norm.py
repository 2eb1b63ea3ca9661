"""Batch normalization with batch statistics in training, and stored statistics in inference."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.argument_checks import check_name
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.class_checks import check_integers
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.fillers import Constant
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameter_layers import ParamSource, ValueSource
from explorer.layers.framework.topology import InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.ops.nn.hyperparameters import plain
from explorer.ops.nn.normalization import batch_norm
from explorer.ops.nn.training_modes import batch_norm_by_batch
from explorer.record.reasons import counted_text
from explorer.train.layers.linear_module import SAMPLES
from explorer.train.layers.training_layers import Trained, Training


class Scale(ParamSource):
    """Source of scales, initially ones."""

    begins_with = Constant(1.0)


class Variance(ValueSource):
    """Source of stored variances, initially ones."""

    begins_with = Constant(1.0)


class Normalize(Layer):
    """Normalization of samples (N, C, …) with a stored mean and variance per channel, each of shape (C,)."""

    epsilon: float
    samples: str
    inputs: ClassVar[tuple[str, ...]] = ("input", "scale", "shift", "mean", "variance")

    def forward(self, input: Expr, scale: Expr, shift: Expr, mean: Expr, variance: Expr) -> Expr:
        """Record the normalization with stored statistics."""
        x = _samples_first(input, self.samples, mean.shape[0])
        return _samples_restored(batch_norm(x, mean, variance, scale, shift, self.epsilon), self.samples)


class BatchNorm(Composite):
    """Batch normalization of samples (N, channels, …): (x − mean) / √(variance + ε) · scale + shift of each channel.

    Training uses the mean and variance of the batch. The stored statistics become ``momentum`` times their old value
    plus (1 − ``momentum``) times the batch's; torch's momentum is 1 minus this one. ``predict`` normalizes with the
    stored statistics. They are the parameters ``mean`` and ``variance``, so checkpoints contain them, but no optimizer
    changes them. ``scale`` and ``shift`` are trained unless a group freezes them; the statistics change in any case.
    With ``samples="last"``, samples are (channels, …, N). ``ex.parallelize`` rejects this layer, because it needs the
    statistics of a whole batch. Source: Ioffe and Szegedy, 2015.

    >>> ex.train.BatchNorm("norm", 16).paths()
    ('scale', 'shift', 'mean', 'variance')
    """

    channels: int
    epsilon: float = 1e-5
    momentum: float = 0.9
    samples: str = "first"
    mixes_samples: ClassVar[bool] = True
    replaced: ClassVar[tuple[str, ...]] = ("mean", "variance")
    topology: ClassVar[Topology] = Topology(
        Sublayer("scale", Scale),
        Sublayer("shift", ParamSource),
        Sublayer("mean", ValueSource),
        Sublayer("variance", Variance),
        Sublayer("normalize", Normalize),
        InConnect("input", "normalize", "input"),
        *[InternalConnect(name, "output", "normalize", name) for name in ("scale", "shift", "mean", "variance")],
        OutConnect("normalize", "output", "output"),
    )

    def prepare(self) -> None:
        """Check the options and create the sublayers."""
        check_name(self.samples, "samples", SAMPLES)
        check_integers(self, "channels")
        for name, maximum in (("epsilon", sys.float_info.max), ("momentum", 1.0)):
            value = plain(getattr(self, name))
            setattr(self, name, value)
            if type(value) not in (int, float) or not 0 <= value <= maximum:
                raise DeclarationError(
                    f"BatchNorm({self.name!r}, {self.channels}, {name}={value!r})",
                    rule=f"{name} must be " + ("a number from 0 to 1" if maximum == 1 else "finite, and 0 or more"),
                    fix=f"{name}={1e-5 if name == 'epsilon' else 0.9}",
                )
        super().prepare()

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the parameters' shapes, and the settings of the normalization."""
        shape = {"shape": (self.channels,)}
        parts = dict.fromkeys(("scale", "shift", "mean", "variance"), shape)
        return {**parts, "normalize": {"epsilon": self.epsilon, "samples": self.samples}}

    def in_training(self, value: Expr, parameters: Mapping[str, Expr], training: Training) -> Trained:
        """Record the normalization with batch statistics, and the new stored statistics."""
        x = _samples_first(value, self.samples, self.channels)
        mean, variance, scale, shift = (parameters[name] for name in ("mean", "variance", "scale", "shift"))
        description = f"BatchNorm {self.name!r}"
        normalized = batch_norm_by_batch(x, mean, variance, scale, shift, self.epsilon, self.momentum, description)
        return Trained(
            _samples_restored(normalized.value, self.samples),
            {"mean": normalized.new_mean, "variance": normalized.new_variance},
        )

    def settings(self) -> dict[str, Any]:
        """Return ε and the momentum as a dict."""
        return {"epsilon": float(self.epsilon), "momentum": float(self.momentum)}


def _samples_first(value: Expr, samples: str, channels: int) -> Expr:
    """Record samples as (N, channels, …); raise OperandError for a wrong number of channels."""
    x = moveaxis(value, -1, 0) if samples == "last" else value
    if x.ndim < 2 or x.shape[1] != channels:
        raise OperandError(
            f"a BatchNorm of {counted_text(channels, 'channel')} with an input {value.type}",
            rule="samples must be (N, channels, …), or (channels, …, N) with samples='last'",
            fix=f"BatchNorm(name, {x.shape[1] if x.ndim > 1 else 1})",
        )
    return x


def _samples_restored(value: Expr, samples: str) -> Expr:
    return moveaxis(value, 0, -1) if samples == "last" else value
