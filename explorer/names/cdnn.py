"""Map of CDNN's names."""

from __future__ import annotations

from explorer.names.entry import Entry, Said, Sections

TENSORS: dict[str, Entry] = {
    "Tensor": "Tensor",
    "shape": "Expr.shape",
    "stride, strides": "Tensor.strides",
    "Inplace": Said("functions make new values; only ex.copyto and writing to a tensor before its use change one"),
}
PARTS: dict[str, Entry] = {
    "Layer": "train.Node",
    "forward": "train.Node.forward",
    "backward": "train.Node.backward",
    "Linear": "train.Linear",
    "ReLU": "relu",
    "input_size, output_size": Said("train.Node has both: elements a sample, of any shape"),
    "parameters": "train.Node.parameters",
    "gradients, last_input, last_output": Said("a train.Node keeps them until the next forward"),
    "Loss, loss": "train.Loss",
    "grad_loss": "train.Loss.gradient",
    "Optim, step": "train.Optimizer, train.Optimizer.step",
}
TRAINING: dict[str, Entry] = {
    "Module, add_node, attach": "train.Module, train.Module.add_node, train.Module.attach",
    "init": "train.Module.attach",
    "dump, restore": "train.Module.save, train.Module.restore",
    "Dataset, DataLoader": "train.Dataset, train.DataLoader",
    "len, get, free": "train.Dataset.get, train.Dataset.free",
}
SECTIONS: Sections = {"Tensors": TENSORS, "Layers, losses, optimizers": PARTS, "Training": TRAINING}
