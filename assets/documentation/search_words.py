"""Words that readers search for and that pages of the documentation site do not contain.

The search of the site finds a page if it contains all words of a query, so a page also gets synonyms, other spellings,
names of other tools, and the words with which questions begin.
"""

from __future__ import annotations

QUESTIONS = "can do does explorer find get how i make my need put see should use using want what when where which why"
"""words of questions, under which every guide is found"""
WORDS = {
    "array-api": "compatible compatibility dispatch interoperability numpy",
    "ask-why": "activation conv convolution did explain fuse fused fusion missed optimization optimized reason relu",
    "ci": "action automate automatic continuous github gitlab integration jenkins pipeline regression under workflow",
    "colours": "color coloring colouring heat heatmap highlight map metric overlay values",
    "compare-models": "accuracy checkpoint comparing diff difference fp16 fp32 int8 quantization quantized versions",
    "compiled-kernels": "accelerate clang compiler fast faster gcc jit native optimize performance slow speed speedup",
    "edit-models": "batch change crop extract modify remove resize size split subgraph submodel surgery",
    "explore": "beginner draw getting quickstart started tutorial visualise visualize",
    "install": "conda download getting pip quickstart requirements setup started",
    "navigate": "big collapse expand find keyboard large pan search shortcut zoom",
    "open-a-model": "coreml import keras load netron safetensors tensorflow view visualise visualize",
    "other-compilers": "another did dynamo hlo jax jit ort tensorrt torch.compile triton xla",
    "own-operations": "add create custom define extend function kernel new op operator ops plugin",
    "paper": "article dpi figure graphic image latex publication slides vector",
    "publish": "binder blog colab deploy html website",
    "record": "autograd backward derivative differentiate lazy trace tracing vmap",
    "shapes": "broadcast broadcasting clash clashes debug dimension incompatible match mismatch mismatched size wrong",
    "share": "email embed export html picture send",
    "slow-operators": "benchmark bottleneck latency performance profiler profiling slow slowest takes timing",
    "test-notebooks": "diff git jupyter regression reproducible review",
    "test-plans": "assert ci fusion lost pytest regression unit",
    "torch-modules": "export import load model nn pytorch view visualise visualize",
    "train": "epoch fit learn loop loss training",
}
"""guide → further words"""


def keywords(guide: str) -> str:
    """Return the front matter of a guide, given by its name in docs/, with its words; empty for other pages."""
    words = f"{QUESTIONS} {WORDS.get(guide, '')}".split()
    return f'---\nmyst:\n  html_meta:\n    keywords: "{", ".join(words)}"\n---\n'
