"""Write tests/compilers/stored/inductor_*.json.gz: what Inductor did with small programs, for tests without torch.

Requires torch and a C++ compiler.
"""

from __future__ import annotations

import gzip
import json
import runpy
from dataclasses import asdict
from pathlib import Path

import torch

from explorer.compilers.adapters.inductor.capture import capture

HERE = Path(__file__).parent
STORED = HERE.parent / "tests" / "compilers" / "stored"


def broken(x: torch.Tensor) -> torch.Tensor:
    """Return a value of two graphs, because Dynamo does not trace the print between them."""
    y = torch.exp(x) + 1
    print("between two graphs")
    return torch.tanh(y) * 2


def write(name: str, program: object, inputs: tuple[torch.Tensor, ...], *, run: bool) -> None:
    """Capture the compilation of a program and write it without times, which differ between runs."""
    plain = asdict(capture(program, inputs, run=run))
    plain["micros"] = plain["micros"] and 100.0
    plain["times"] = [(event, 10.0 + number) for number, (event, _) in enumerate(plain["times"])]
    for graph in plain["graphs"]:
        graph["micros"] = 0.0
    content = json.dumps(plain, separators=(",", ":")).encode()
    (STORED / f"inductor_{name}.json.gz").write_bytes(gzip.compress(content, mtime=0))


def main() -> None:
    for name in ("mlp", "attention", "convnet"):
        space = runpy.run_path(str(HERE / "one_model" / f"{name}.py"))
        write(name, space["program"], space["inputs"], run=name != "attention")
    write("two_graphs", broken, (torch.ones(4),), run=False)


if __name__ == "__main__":
    main()
