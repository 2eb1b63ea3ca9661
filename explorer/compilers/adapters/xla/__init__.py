"""XLA: what it does with a jax function, from its dumps and its log (story.py), which a child process writes."""

from explorer.compilers.adapters.xla.story import record
from explorer.compilers.registry import Compiler

COMPILER = Compiler("jax", 'pip install "explorer-graphs[xla]"', record)

__all__ = ["COMPILER"]
