"""Write operators.npz: a small PNNX file from pnnx for each operator type, with torch's results.

A case ``c`` is stored under ``c/param`` (the text of the file), ``c/bin`` (the bytes of the archive), ``c/input0``, …,
and ``c/output0``, …. Most arrays are float32. The cases are seeded. The name of a case is the function that the model
calls, because pnnx may replace an operator by others.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from itertools import chain
from pathlib import Path

import numpy as np
import pnnx
import torch
from operator_algebra import ALGEBRA
from operator_attention import ATTENTION
from operator_dtypes import DTYPES
from operator_elements import ELEMENTS
from operator_functions import FUNCTIONS
from operator_layers import LAYERS, Case
from operator_places import PLACES
from operator_rest import REST
from operator_scatters import SCATTERS
from operator_windows import WINDOWS

SEED = 5
FAMILIES = (*LAYERS, *FUNCTIONS, *WINDOWS, *SCATTERS, *REST, *DTYPES, *ELEMENTS, *PLACES, *ATTENTION, *ALGEBRA)


def export(case: Case) -> dict[str, np.ndarray]:
    """Return the arrays of one case as a dict with their names in the file."""
    model = case.model.eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        outputs = model(*case.inputs)
        # pnnx imports its generated Python, which fails for some cases after the files have been written.
        with contextlib.suppress(Exception):
            pnnx.export(model, str(Path(folder) / "model.pt"), case.inputs, moduleop="models.yolo.Detect")
        text = (Path(folder) / "model.pnnx.param").read_text()
        weights = (Path(folder) / "model.pnnx.bin").read_bytes()
    arrays = {"param": np.array(text), "bin": np.frombuffer(weights, np.uint8)}
    arrays |= {f"input{i}": value.numpy() for i, value in enumerate(case.inputs)}
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    arrays |= {f"output{i}": value.detach().numpy() for i, value in enumerate(several)}
    return {f"{case.name}/{key}": value for key, value in arrays.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("operators.npz"), help="file to write")
    path: Path = parser.parse_args().output

    torch.set_num_threads(1)
    # Real models do not contain the single operator for an encoder layer.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(SEED)
    arrays: dict[str, np.ndarray] = {}
    count = 0
    for case in chain.from_iterable(family() for family in FAMILIES):
        computed = export(case)
        if arrays.keys() & computed.keys():
            raise ValueError(f"two cases are named {case.name}: rename one of them")
        arrays |= computed
        count += 1
    np.savez_compressed(path, **arrays)
    print(f"{count} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
