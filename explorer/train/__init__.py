"""Training: modules with layers, a loss and an optimizer; datasets and loaders; learning-rate policies.

Modules are optional: a custom loop needs only ``ex.grad``.
"""

from typing import TYPE_CHECKING

from explorer.ops.nn.learning_rates import (
    ConstantWarmup,
    Cosine,
    Exp,
    Fixed,
    Inv,
    LearningRate,
    LinearWarmup,
    Poly,
    Step,
)
from explorer.ops.nn.update_rules import UpdateRule
from explorer.train.data_loader import ArrayDataset, DataLoader, Dataset
from explorer.train.layers.batch_norm import BatchNorm
from explorer.train.layers.dropout import Dropout
from explorer.train.layers.embedding import Embedding
from explorer.train.layers.linear_module import Linear
from explorer.train.layers.recurrent_layers import GRU, LSTM
from explorer.train.losses.loss import Loss
from explorer.train.losses.training_losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    MeanSquaredError,
    NegativeLogLikelihood,
)
from explorer.train.module import Module
from explorer.train.node import Node
from explorer.train.optimizers.named_optimizers import SGD, Adagrad, Adam, AdamW, AMSGrad, Ftrl, Momentum, RMSProp
from explorer.train.optimizers.optimizer import Optimizer
from explorer.train.optimizers.parameter_groups import ParameterGroup

if not TYPE_CHECKING:  # a type checker knows the names, and rejects other names itself

    def __getattr__(name):
        """Raise an AttributeError that suggests similar names."""
        from explorer.names import hint_among  # needed only for an unknown name

        hint = hint_among(name, __all__)
        raise AttributeError(f"module 'explorer.train' has no attribute {name!r}" + (f"; {hint}" if hint else ""))


__all__ = [
    "GRU",
    "LSTM",
    "SGD",
    "AMSGrad",
    "Adagrad",
    "Adam",
    "AdamW",
    "ArrayDataset",
    "BatchNorm",
    "BinaryCrossEntropy",
    "ConstantWarmup",
    "Cosine",
    "CrossEntropy",
    "DataLoader",
    "Dataset",
    "Dropout",
    "Embedding",
    "Exp",
    "Fixed",
    "Ftrl",
    "Inv",
    "LearningRate",
    "Linear",
    "LinearWarmup",
    "Loss",
    "MeanSquaredError",
    "Module",
    "Momentum",
    "NegativeLogLikelihood",
    "Node",
    "Optimizer",
    "ParameterGroup",
    "Poly",
    "RMSProp",
    "Step",
    "UpdateRule",
]
