"""Dropout with masks that depend on a seed, the layer's name and the step number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError
from explorer.core.ir.expr import Expr
from explorer.layers.framework.class_checks import check_integers
from explorer.layers.framework.layer import Layer
from explorer.ops.manipulation.slicing import part_of
from explorer.ops.nn.hyperparameters import plain
from explorer.ops.nn.training_modes import apply_dropout, dropout_mask
from explorer.train.layers.training_layers import Trained, Training


class Dropout(Layer):
    """Dropout: in training, each element is 0 with probability ``ratio``; ``predict`` drops none.

    Kept elements are divided by 1 − ratio. The mask depends only on ``seed``, the layer's name and the step number, so
    it is the same in restored training and on several workers. Source: Srivastava et al., 2014.

    >>> ex.train.Dropout("drop", 0.2).ratio
    0.2
    """

    ratio: float = 0.5
    seed: int = 0
    mixes_samples: ClassVar[bool] = False
    replaced: ClassVar[tuple[str, ...]] = ()

    def prepare(self) -> None:
        """Check the options."""
        self.ratio = plain(self.ratio)
        if type(self.ratio) not in (int, float) or not 0 <= self.ratio < 1:
            raise DeclarationError(
                f"Dropout({self.name!r}, {self.ratio!r})",
                rule="ratio must be at least 0 and less than 1",
                fix=f"Dropout({self.name!r}, 0.5)",
            )
        check_integers(self, "seed", least=0)
        super().prepare()

    def forward(self, input: Expr) -> Expr:
        """Return the input unchanged, since nothing is dropped in inference."""
        return input

    def in_training(self, value: Expr, parameters: Mapping[str, Expr], training: Training) -> Trained:
        """Record the kept elements divided by 1 − ratio, and zeros for all others."""
        if self.ratio == 0:
            return Trained(value, {})
        part, axis = training.part, training.axis % value.ndim
        if part is None:
            mask = dropout_mask(training.step, value.shape, self.ratio, self.seed, self.name)
        else:
            # The mask is drawn for the whole batch, and each worker uses the part for its samples.
            rows = value.shape[axis] // (part.last - part.first)
            shape = (*value.shape[:axis], rows * part.whole, *value.shape[axis + 1 :])
            full_mask = dropout_mask(training.step, shape, self.ratio, self.seed, self.name)
            slice_of_part = slice(rows * part.first, rows * part.last)
            mask = part_of(full_mask, (*[slice(None)] * axis, slice_of_part))
        return Trained(apply_dropout(value, mask, self.ratio), {})

    def settings(self) -> dict[str, Any]:
        """Return ratio and seed as a dict."""
        return {"ratio": float(self.ratio), "seed": self.seed}
