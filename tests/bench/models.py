"""Models of the contests: plain PyTorch modules with weights drawn by name, exported for each contestant."""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
import zlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from assets import seeded

ASSETS = Path(seeded.__file__).parent
SOURCES = ("architectures", "seeded")


def export_folder() -> Path:
    """Return the cache folder of exports, whose name depends on everything that determines them."""
    made_by = [version("torch"), version("pnnx"), *[(ASSETS / f"{name}.py").read_text() for name in SOURCES]]
    return Path(tempfile.gettempdir()) / f"explorer-bench-{zlib.crc32(''.join(made_by).encode()):08x}"


@dataclass(frozen=True)
class Model:
    """Module with its input's shape; ``tokens`` is the size of the vocabulary if the input contains token numbers."""

    name: str
    architecture: str
    shape: tuple[int, ...]
    tokens: int = 0

    def module(self) -> Any:
        """Return the module in evaluation mode."""
        import torch

        from assets import architectures

        module = getattr(architectures, self.architecture)().eval()
        drawn = {
            name: torch.from_numpy(np.asarray(seeded.weight(name, tuple(value.shape)))) if value.ndim else value
            for name, value in module.state_dict().items()
        }
        module.load_state_dict(drawn)
        return module

    def input(self) -> np.ndarray[Any, Any]:
        """Return the input, which is equal in every run."""
        return seeded.given("input", self.shape, "int64" if self.tokens else "float32", self.tokens)

    def file(self, ending: str) -> Path:
        """Return the exported file with ``ending`` "pnnx.param", "onnx" or "ncnn.param", exporting it if it does not
        exist."""
        folder = export_folder() / f"{self.name}-{'x'.join(map(str, self.shape))}"
        if not folder.is_dir():
            export_folder().mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=export_folder()) as value:
                self._export(Path(value))
                with contextlib.suppress(OSError):  # another process was faster
                    Path(value).rename(folder)
                    Path(value).mkdir()
        return folder / f"{self.name}.{ending}"

    def write_onnx(self, folder: Path) -> Path:
        """Write an ONNX file into ``folder``, and return its path."""
        import torch

        path = folder / f"{self.name}.onnx"
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            torch.onnx.export(self.module(), (torch.from_numpy(self.input()),), str(path), dynamo=False)
        return path

    def _export(self, folder: Path) -> None:
        import pnnx
        import torch

        self.write_onnx(folder)
        module, given = self.module(), torch.from_numpy(self.input())
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")
            pnnx.export(module, str(folder / f"{self.name}.pt"), (given,), fp16=False)


@contextlib.contextmanager
def _quiet() -> Any:
    """Silence exporters that write to the process's standard output and error."""
    with open(os.devnull, "w") as nowhere, contextlib.ExitStack() as stack:
        for number in (1, 2):
            held = os.dup(number)
            stack.callback(os.close, held)
            stack.callback(os.dup2, held, number)
            os.dup2(nowhere.fileno(), number)
        yield


RESNET18 = Model("resnet18", "ResNet18", (1, 3, 224, 224))
RESNET18_8 = Model("resnet18", "ResNet18", (8, 3, 224, 224))
MOBILENET_V2 = Model("mobilenet_v2", "MobileNetV2", (1, 3, 224, 224))
ENCODER = Model("encoder", "Encoder", (1, 32), tokens=256)
