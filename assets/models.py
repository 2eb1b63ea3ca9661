"""Export the models for tests with PNNX, and compute their expected results with PyTorch.

Only the ``.param`` files and small reference values are stored; ``seeded.py`` computes the weights, also for the tests.
README.md in this folder describes each file and explains how to install the imported packages.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import numpy as np
import pnnx
import seeded
import torch
from architectures import (
    ConvNorm,
    Encoder,
    Formula,
    MobileNetV2,
    Recurrent,
    ResNet18,
    binary,
    product_of_sum,
    shared,
    six_inputs,
)
from torch import Tensor, nn

SEED = 7
PICKED = 8
"""number of stored elements per operand, evenly spaced"""
DEPARTURE = 1e-5
"""tolerance between an export and its module, relative to the largest value"""


@dataclass(frozen=True)
class Model:
    """Export: a module, the shapes of its inputs, and other shapes that make sizes dynamic."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    other: tuple[tuple[int, ...], ...] = ()
    levels: tuple[int, ...] = (2,)
    tokens: int = 0
    run: tuple[tuple[int, ...], ...] = field(default=())
    """input shapes of the reference, if they differ from the export"""

    @property
    def dtype(self) -> str:
        """The dtype of all inputs."""
        return "int64" if self.tokens else "float32"

    def inputs(self, shapes: tuple[tuple[int, ...], ...]) -> tuple[Tensor, ...]:
        """Return inputs of these shapes, in order."""
        return tuple(
            torch.from_numpy(seeded.given(f"input{index}", shape, self.dtype, self.tokens))
            for index, shape in enumerate(shapes)
        )


SMALL = (1, 4, 6, 6)
MODELS = {
    "resnet18": Model(ResNet18, ((1, 3, 64, 64),), ((2, 3, 96, 96),), (2, 1), run=((2, 3, 64, 64),)),
    "mobilenet_v2": Model(MobileNetV2, ((1, 3, 64, 64),), ((2, 3, 96, 96),), (2, 1), run=((2, 3, 64, 64),)),
    "encoder": Model(Encoder, ((1, 32),), levels=(2, 1), tokens=256),
    "encoder_open": Model(Encoder, ((1, 32),), ((3, 32),), tokens=256, run=((3, 32),)),
    "lstm": Model(Recurrent, ((1, 20),), tokens=100),
    "convbn": Model(ConvNorm, ((1, 3, 32, 32),), levels=(2, 1, 0)),
    "ops1": Model(lambda: Formula(product_of_sum), (SMALL,) * 3, levels=(2, 1)),
    "ops2": Model(lambda: Formula(six_inputs), (SMALL,) * 6),
    "ops4_binary": Model(lambda: Formula(binary), (SMALL, SMALL, (1, 4, 1, 1))),
    "simple_ops": Model(lambda: Formula(shared), ((1, 3, 16, 16),)),
}


def export(module: nn.Module, model: Model, param: Path, level: int) -> None:
    """Write ``param``, its weights, and PNNX's translation of the file into PyTorch."""
    other = [model.inputs(model.other)] if model.other else []
    traced = param.with_name(param.name.replace(".pnnx.param", ".pt"))
    try:
        pnnx.export(module, str(traced), model.inputs(model.shapes), *other, optlevel=level, fp16=False)
    except SyntaxError:
        # The pnnx module imports the translation, which is invalid Python at level 0: prim::Constant(value=-1).
        if level:
            raise


def declared(param: Path) -> dict[str, tuple[int, ...]]:
    """Return a dict of ``operator.attribute`` and shape for the weights of a file, all of float32."""
    return {
        f"{line.split()[1]}.{attribute}": tuple(int(size) for size in shape.split(",") if size)
        for line in param.read_text().splitlines()[2:]
        for attribute, shape in re.findall(r" @(\w+)=\(([\d,]*)\)f32", line)
    }


def operands(param: Path) -> list[str]:
    """Return the names of a file's operands, in the order of their producers."""
    found = []
    for line in param.read_text().splitlines()[2:]:
        words = line.split()
        input_count, output_count = int(words[2]), int(words[3])
        found += words[4 + input_count : 4 + input_count + output_count]
    return found


def translated_module(param: Path) -> nn.Module:
    """Return PNNX's translation of a file with its weights, in float64; it returns a dict of all variables."""
    path = param.with_name(param.name.replace(".pnnx.param", "_pnnx.py"))
    source = re.sub(r"^        return v_\w+$", "        return dict(locals())", path.read_text(), count=1, flags=re.M)
    translation = ModuleType(path.stem)
    exec(compile(source, path, "exec"), translation.__dict__)
    module: nn.Module = translation.Model().eval().double()
    for name, value in vars(module).items():  # statistics of a normalisation are buffers rather than parameters
        if isinstance(value, Tensor):
            setattr(module, name, value.double())
    return module


def double(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.double() if x.is_floating_point() else x for x in inputs)


def variable(operand: str) -> str:
    return "v_" + re.sub(r"\W", "_", operand)


def check(module: nn.Module, model: Model, param: Path) -> None:
    """Raise unless the exported file and its module give the same values."""
    inputs = double(model.inputs(model.run or model.shapes))
    expected = module.double()(*inputs)
    found = translated_module(param)(*inputs)[variable(operands(param)[-1])]
    departure = ((found - expected).abs().max() / expected.abs().max()).item()
    if departure > DEPARTURE:
        raise RuntimeError(f"{param.name} differs from its module by {departure:.3g}")


def reference(model: Model, param: Path) -> dict[str, np.ndarray]:
    """Return the output of a file with seeded weights in float64, and statistics and samples of its operands."""
    with zipfile.ZipFile(param.with_suffix(".bin"), "w") as archive:
        for name, shape in declared(param).items():
            archive.writestr(name, seeded.weight(name, shape).tobytes())
    shapes = model.run or model.shapes
    values = translated_module(param)(*double(model.inputs(shapes)))
    names = [name for name in operands(param) if isinstance(values.get(variable(name)), Tensor)]
    arrays = [values[variable(name)].double().numpy() for name in names]
    given = [{"shape": shape, "dtype": model.dtype, "below": model.tokens} for shape in shapes]
    return {
        "inputs": np.array(json.dumps(given)),
        "output": arrays[-1].astype(np.float32),
        "names": np.array(names),
        "mean": np.array([array.mean() for array in arrays]),
        "deviation": np.array([array.std() for array in arrays]),
        "picked": np.array([array.flat[seeded.places(array.size, PICKED)] for array in arrays], np.float32),
    }


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "models", help="folder to write to")
    folder: Path = parser.parse_args().output
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    kept: dict[str, np.ndarray] = {}
    for name, model in MODELS.items():
        for level in model.levels:
            torch.manual_seed(SEED)
            title = name if level == 2 else f"{name}_opt{level}"
            with tempfile.TemporaryDirectory() as scratch:
                param = Path(scratch, f"{name}.pnnx.param")
                module = model.make().eval()
                export(module, model, param, level)
                (folder / f"{title}.pnnx.param").write_bytes(param.read_bytes())
                if level:
                    check(module, model, param)
                    kept |= {f"{title}/{key}": value for key, value in reference(model, param).items()}
    np.savez_compressed(folder / "reference.npz", **kept)


if __name__ == "__main__":
    main()
