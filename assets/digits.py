"""Train a small residual network on scikit-learn's handwritten digits and export it for the tests and notebooks.

Everything is seeded and runs on one thread, so a second run with the same versions writes the same bytes.
README.md in this folder describes each file and explains how to install the imported packages.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pnnx
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.nn import functional

SEED = 7
HELD_OUT_FRACTION = 0.2
REQUIRED_ACCURACY = 0.97
PIXEL_LEVELS = 16
PICTURE_SIDE = 64
PICTURED_DIGITS = (3, 5, 8)


class Residual(nn.Module):
    """Two convolutions with a skip connection: (N, C, H, W) → (N, C, H, W)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu1(self.bn1(self.conv1(x)))
        return self.relu2(self.bn2(self.conv2(inner)) + x)


class DigitNet(nn.Module):
    """Network for the probabilities of the ten digits: (N, 1, 8, 8) in [0, 1] → (N, 10), with rows that sum to one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(8, 12, 3, padding=1)
        self.relu2 = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.residual = Residual(12)
        self.fc1 = nn.Linear(12 * 4 * 4, 24)
        self.relu3 = nn.ReLU()
        self.fc2 = nn.Linear(24, 10)
        self.softmax = nn.Softmax(dim=1)

    def logits(self, x: Tensor) -> Tensor:
        """Return the scores before the softmax, for stable training: (N, 1, 8, 8) → (N, 10)."""
        x = self.relu1(self.bn1(self.conv1(x)))
        x = self.pool(self.relu2(self.conv2(x)))
        x = torch.flatten(self.residual(x), 1)
        return self.fc2(self.relu3(self.fc1(x)))

    def forward(self, x: Tensor) -> Tensor:
        return self.softmax(self.logits(x))


@dataclass(frozen=True)
class Digits:
    """Images (N, 1, 8, 8), float32 in [0, 1], with labels (N,), int64."""

    images: Tensor
    labels: Tensor

    def __getitem__(self, index: Tensor) -> Digits:
        return Digits(self.images[index], self.labels[index])

    def __len__(self) -> int:
        return len(self.labels)


def load() -> tuple[Digits, Digits]:
    """Return the training digits and a stratified held-out set."""
    pixels, labels = load_digits(return_X_y=True)
    digits = Digits(
        torch.from_numpy((pixels / PIXEL_LEVELS).astype(np.float32).reshape(-1, 1, 8, 8)),
        torch.from_numpy(labels.astype(np.int64)),
    )
    train, held_out = train_test_split(
        np.arange(len(digits)), test_size=HELD_OUT_FRACTION, stratify=labels, random_state=SEED
    )
    return digits[torch.from_numpy(train)], digits[torch.from_numpy(held_out)]


def train(digits: Digits, epochs: int, batch_size: int = 64) -> DigitNet:
    """Return a network trained with AdamW and one cosine cycle of the learning rate, in evaluation mode."""
    model = DigitNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for index in torch.randperm(len(digits)).split(batch_size):
            batch = digits[index]
            optimizer.zero_grad()
            # Label smoothing keeps probabilities away from 0 and 1, so that comparisons are meaningful.
            functional.cross_entropy(model.logits(batch.images), batch.labels, label_smoothing=0.1).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: DigitNet, digits: Digits) -> float:
    """Return the accuracy, in [0, 1]."""
    return (model(digits.images).argmax(1) == digits.labels).double().mean().item()


@torch.no_grad()
def select(model: DigitNet, held_out: Digits) -> Digits:
    """Return twelve held-out digits: the one nearest to the mean of each class, then the two least confident ones."""
    typical = []
    for digit in range(10):
        (index,) = (held_out.labels == digit).nonzero(as_tuple=True)
        images = held_out.images[index]
        typical.append(int(index[(images - images.mean(0)).square().sum((1, 2, 3)).argmin()]))
    unsure = model(held_out.images).amax(1).argsort(stable=True)[:2].tolist()
    return held_out[torch.tensor([*typical, *unsure])]


def export_pnnx(model: DigitNet, param: Path, level: int) -> None:
    """Write ``param`` and its ``.bin`` file with the pnnx tool and a dynamic batch size."""
    with tempfile.TemporaryDirectory() as scratch:
        # pnnx writes more files than needed. A second input of another size makes the batch size dynamic.
        traced = Path(scratch, "digits.pt")
        one, two = torch.zeros(1, 1, 8, 8), torch.zeros(2, 1, 8, 8)
        pnnx.export(model, str(traced), (one,), (two,), optlevel=level, fp16=False)
        for source, target in (("param", param), ("bin", param.with_suffix(".bin"))):
            target.write_bytes(Path(scratch, f"digits.pnnx.{source}").read_bytes())


def export_onnx(model: DigitNet, path: Path) -> None:
    """Write ``path`` with the tracing exporter and a dynamic batch size."""
    with warnings.catch_warnings():
        # It warns about its successor, which also needs onnxscript.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            model,
            (torch.zeros(1, 1, 8, 8),),
            str(path),
            input_names=["image"],
            output_names=["probability"],
            dynamic_axes={"image": {0: "batch"}, "probability": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )


@dataclass(frozen=True)
class Operator:
    """Fields of a ``.param`` line that this script needs."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...]


def read_operators(param: Path) -> list[Operator]:
    """Return the operators of a ``.param`` file in file order."""
    operators = []
    for line in param.read_text().splitlines()[2:]:
        _, name, inputs, outputs, *rest = line.split()
        end_of_inputs = int(inputs)
        end_of_outputs = end_of_inputs + int(outputs)
        operators.append(
            Operator(
                name,
                tuple(rest[:end_of_inputs]),
                tuple(rest[end_of_inputs:end_of_outputs]),
                tuple(rest[end_of_outputs:]),
            )
        )
    return operators


def check_weights(param: Path) -> None:
    """Raise unless the archive of ``param`` contains exactly its ``@attributes``, as uncompressed float32.

    The pnnx module ignores the exit status of its tool, so a truncated export would otherwise remain undetected.
    """
    expected = {}
    for operator in read_operators(param):
        for parameter in operator.parameters:
            if parameter.startswith("@"):
                attribute, shape = parameter[1:].removesuffix(")f32").split("=(")
                expected[f"{operator.name}.{attribute}"] = 4 * int(np.prod([int(size) for size in shape.split(",")]))
    with zipfile.ZipFile(param.with_suffix(".bin")) as archive:
        entries = archive.infolist()
    found = {entry.filename: entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED}
    if found != expected:
        raise RuntimeError(f"{param.name} declares {expected} but its archive contains {found}: run pnnx again")


@torch.no_grad()
def activations(model: DigitNet, images: Tensor, param: Path) -> dict[str, np.ndarray]:
    """Return the values that torch computes for all operands of a level 2 file, as a dict with their names."""
    modules = dict(model.named_modules())
    norms = [name for name, module in modules.items() if isinstance(module, nn.BatchNorm2d)]
    # A convolution and its batch normalisation become one operator with the output of the latter.
    sources = {f"convbn2d_{index}": name for index, name in enumerate(norms)}
    values: dict[str, np.ndarray] = {}
    hooks = []
    for operator in read_operators(param):
        module = modules.get(sources.get(operator.name, operator.name))
        if module is None:
            continue

        def record(module: nn.Module, inputs: tuple[Tensor], output: Tensor, operator: Operator = operator) -> None:
            values[operator.outputs[0]] = output.numpy()
            # No module computes the sum and the flattening, so their values are inputs of the next modules.
            if not isinstance(module, nn.BatchNorm2d):
                values.setdefault(operator.inputs[0], inputs[0].numpy())

        hooks.append(module.register_forward_hook(record))
    model(images)
    for hook in hooks:
        hook.remove()
    return values


def loss_and_gradients(model: DigitNet, digits: Digits) -> dict[str, np.ndarray]:
    """Return the mean of -log(probability of the label) and its gradients for both linear weights, in float64."""
    double = copy.deepcopy(model).double()
    loss = functional.nll_loss(torch.log(double(digits.images.double())), digits.labels)
    weights = {name: double.get_parameter(name) for name in ("fc1.weight", "fc2.weight")}
    gradients = torch.autograd.grad(loss, list(weights.values()))
    named = {f"gradient/{name}": gradient.float().numpy() for name, gradient in zip(weights, gradients, strict=True)}
    return {"loss": np.array(loss.item()), **named}


def write_pictures(digits: Digits, folder: Path) -> None:
    """Write some digits as greyscale PNG files with pixels enlarged to squares: 0 is black, 1 is white."""
    scale = PICTURE_SIDE // 8
    for digit in PICTURED_DIGITS:
        image = digits.images[digits.labels == digit][0, 0].numpy()
        grey = np.rint(image * 255).astype(np.uint8)
        Image.fromarray(grey.repeat(scale, axis=0).repeat(scale, axis=1)).save(folder / f"digit_{digit}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent, help="folder to write to")
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training digits")
    arguments = parser.parse_args()
    folder: Path = arguments.output

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    training, held_out = load()
    model = train(training, arguments.epochs)
    held_out_accuracy = accuracy(model, held_out)
    print(f"training accuracy {accuracy(model, training):.4f}, held-out accuracy {held_out_accuracy:.4f}")
    if held_out_accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"nothing written: held-out accuracy is below {REQUIRED_ACCURACY}")

    folded, unfolded = folder / "digits.pnnx.param", folder / "digits_opt1.pnnx.param"
    for param, level in ((folded, 2), (unfolded, 1)):
        export_pnnx(model, param, level)
        check_weights(param)
    export_onnx(model, folder / "digits.onnx")

    chosen = select(model, held_out)
    write_pictures(chosen, folder)
    with torch.no_grad():
        probability = model(chosen.images).numpy()
    operands = activations(model, chosen.images[:3], folded)
    np.savez(
        folder / "digits.npz",
        images=chosen.images.numpy(),
        labels=chosen.labels.numpy(),
        probability=probability,
        held_out_accuracy=np.array(held_out_accuracy),
        **{f"activation/{name}": value for name, value in operands.items()},
        **loss_and_gradients(model, chosen),
    )


if __name__ == "__main__":
    main()
