"""onnxruntime: what each of its graph transformers changes in an ONNX model, what it declines, and times of nodes.

A child process creates a session for each transformer that changed something, with the transformers after it disabled.
Each session writes its log and its graph, and `explorer.compilers.snapshots` compares the graphs.
"""

from explorer.compilers.adapters.onnxruntime.story import record
from explorer.compilers.registry import Compiler

COMPILER = Compiler("onnxruntime", "pip install 'explorer-graphs[onnxruntime]'", record)

__all__ = ["COMPILER"]
