"""Write XLA's dumps and log of an MLP to tests/compilers/stored: ``python assets/xla_dumps.py``.

It requires jax. Tests of the adapter read the files, and run without jax. The version of jax is a part of the file's
name: ``xla_mlp_0.10.2.json.gz``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import jax

from explorer.compilers.adapters.xla import story
from tests.support.jax_programs import PROGRAMS

STORED = Path(__file__).parents[1] / "tests" / "compilers" / "stored"


def main() -> None:
    function, arguments = PROGRAMS["mlp"]
    files, log, inputs, result = story.compiled_in_child(jax.jit(function), *arguments)
    root = f"{Path(__file__).parents[1]}/"
    files = {name: text.replace(root, "") for name, text in files.items() if story.is_used(name)}
    content = {"files": files, "log": log.replace(root, ""), "inputs": inputs, "result": result}
    STORED.mkdir(exist_ok=True)
    data = gzip.compress(json.dumps(content, indent=0).encode(), mtime=0)
    (STORED / f"xla_mlp_{result['version']}.json.gz").write_bytes(data)


if __name__ == "__main__":
    main()
