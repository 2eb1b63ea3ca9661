"""Map of CDNN's names."""

from __future__ import annotations

from explorer.names.entry import Entry, Owed, Said, Sections

TENSORS: dict[str, Entry] = {
    "Tensor": "Tensor",
    "shape": "Expr.shape",
    "stride, strides": Owed("T-14", "a training tensor's strides, in elements"),
    "Inplace": Said("functions make new values; only ex.copyto and writing to a tensor before its use change one"),
}
PARTS: dict[str, Entry] = {
    "Layer": "layers.Layer",
    "forward": "layers.Layer.feed_forward",
    "backward": "layers.Layer.feed_backward",
    "Linear": "layers.Linear",
    "ReLU": "layers.Relu",
    "input_size": Said("in_features of ex.layers.Linear; other layers take any shape"),
    "output_size": Said("out_features of ex.layers.Linear"),
    "parameters": "layers.Layer.parameters",
    "gradients": "layers.GradCollector",
    "last_input, last_output": Owed("T-5", "what a layer keeps until the next forward"),
    "Loss, loss": Owed("T-3", "losses with a type id; ex.nll_loss, ex.softmax_cross_entropy are operations"),
    "grad_loss": "grad",
    "Optim, step": Owed("T-4"),
}
TRAINING: dict[str, Entry] = {
    "Module, add_node, attach": Owed("T-1"),
    "init": "layers.Layer.init",
    "dump, restore": Owed("T-11", "a module's; weights alone: ex.layers.Layer.save_weights, load_weights"),
    "Dataset, DataLoader": Owed("T-9"),
    "len, get, free": Owed("T-9", "what a Dataset gives"),
}
SECTIONS: Sections = {"Tensors": TENSORS, "Layers, losses, optimizers": PARTS, "Training": TRAINING}
