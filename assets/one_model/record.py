"""Write recordings/MODEL_COMPILER.json: one model, planned by explorer and by other compilers, for notebook 20.

Requires torch, onnxscript, jax, onnxruntime and a C++ compiler. Times are measured with one thread.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
MODELS = ("mlp", "attention", "convnet")


def main() -> None:
    import jax
    import torch

    import explorer as ex
    from explorer.compilers import record
    from explorer.record import Recording, to_json

    torch.set_num_threads(1)
    sys.path.insert(0, str(HERE))
    from jax_programs import PROGRAMS

    folders = (HERE.parents[1], Path(torch.__file__).parents[1])

    def write(name: str, compiler: str, recording: Recording) -> None:
        recording.title = f"{name} · {compiler}"
        path = HERE / "recordings" / f"{name}_{compiler}.json"
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(to_json(recording), separators=(",", ":"))
        for folder in folders:  # torch stores its stack traces in the model
            text = text.replace(f"{folder}/", "")
        path.write_text(text)

    for name in sys.argv[1:] or MODELS:
        space = runpy.run_path(str(HERE / f"{name}.py"))
        program, inputs = space["program"], space["inputs"]
        net = ex.open(program, inputs)
        arrays = [each.numpy() for each in inputs]
        write(name, "explorer", net.explore(*arrays).recording)
        write(name, "inductor", record("inductor", program, *inputs))
        write(name, "onnxruntime", record("onnxruntime", net, *arrays))
        function, arguments = PROGRAMS[name]
        write(name, "xla", record("xla", jax.jit(function), *arguments))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
