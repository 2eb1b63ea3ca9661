"""``open``: from a model's file to its net."""

from __future__ import annotations

import os
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import printable
from explorer.core.progress import Progress, follower, work
from explorer.formats import explorer_json, onnx, pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.formats.registry import table_of
from explorer.net import Net

ENDINGS = (".pnnx.param", ".param", ".onnx", ".json")
"""the endings of files that can be opened"""


@work()
def open(path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None) -> Net:
    """The net in a model's file, chosen by its ending: ``x.onnx``, ``x.param`` with ``x.bin``, ``x.json``.

    The graph is read, weights when they are asked for: from the file ``weights``, for None from the one beside the
    graph's. Raises FileError that names file, line, rule and fix for a file that is absent, malformed, or of another
    ending, and where ``weights`` is named for an ONNX file, which says itself where its weights lie.
    """
    for value in (path, weights):
        if not isinstance(value, (str, os.PathLike)) and (value is path or value is not None):
            raise FileError(
                f"a {type(value).__name__} is no path",
                path=repr(value),
                rule="a model is opened by the path of its file",
            )
    given = Path(path)
    if os.path.isdir(given) or not given.name:
        raise FileError(
            "this is a folder",
            path=printable(path),
            rule=f"a model is a file: {', '.join(ENDINGS)}",
            fix="name a file in it",
        )
    follow = follower()
    if follow is not None:
        follow(Progress("reading", given.name))
    if given.name.endswith(".onnx"):
        if weights is not None:
            raise FileError(
                f"weights={os.fspath(weights)!r} for an ONNX file",
                path=str(given),
                rule="an ONNX file holds its weights, or names the files in its folder that do",
                fix=f"ex.open({str(given)!r})",
            )
        definition = onnx.read(given)
        from explorer.formats.onnx.operators import TABLE as ONNX

        return Net(definition, ONNX)
    if given.name.endswith(".json"):
        definition = explorer_json.read(given, weights)
        return Net(definition, table_of(definition))
    if given.name.endswith(ENDINGS):
        return Net(pnnx.read(given, weights), TABLE)
    param = given.with_suffix(".param")
    beside = given.suffix == ".bin" and os.path.exists(param)
    raise FileError(
        f"the ending {given.suffix!r} is not that of a model's file" if given.suffix else "the name has no ending",
        path=printable(given),
        rule=f"files that can be opened end with {', '.join(ENDINGS)}",
        fix=f"open {param}, which says what the weights in {given.name} are for"
        if beside
        else "give such a file; torch models are exported by pnnx or torch.onnx",
    )
