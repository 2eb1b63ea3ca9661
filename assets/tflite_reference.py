"""Write tflite.npz: results of the reference kernels of LiteRT's interpreter for files with one operator each.

The results of a case ``c`` from tflite_models.py or tflite_quantized.py are stored under ``c/0`` and so on. Requires
ai-edge-litert.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from assets.tflite_models import CASES as REAL
from assets.tflite_models import Case, Input
from assets.tflite_quantized import CASES as QUANTIZED

CASES = REAL | QUANTIZED
_WITHOUT_REFERENCE = ("CEIL", "ROUND", "ELU", "BROADCAST_TO")
"""operator types without a reference kernel"""


def results(case: Case) -> list[np.ndarray]:
    """Return the interpreter's results for the inputs of a case."""
    kernels = OpResolverType.BUILTIN_REF
    # Integers of the reference kernel for quantised sums overflow.
    is_quantized_sum = case.type == "SUM" and isinstance(case.operands[0], Input)
    if case.type in _WITHOUT_REFERENCE or is_quantized_sum:
        kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(model_content=case.file(), experimental_op_resolver_type=kernels, num_threads=1)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), case.inputs(), strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("tflite.npz"), help="file to write")
    path: Path = parser.parse_args().output
    arrays = {f"{name}/{place}": array for name, case in CASES.items() for place, array in enumerate(results(case))}
    np.savez_compressed(path, **arrays)
    print(f"{path}: {len(CASES)} cases, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
