"""Lines of the program that a file was exported from, as torch's exporter notes them with each node.

A note is a traceback: the lines that called one another, the innermost last. The line shown is the innermost outside
torch, the user's ``x = self.conv(x)`` and not the line of ``nn.Conv2d`` behind it. The text of a foreign file is taken
from its note alone: no file is read because a model names it.
"""

from __future__ import annotations

import re

from onnx import NodeProto

from explorer.core.ir.source_location import CodePlace, Place
from explorer.formats.common.onnx_words import STACK_TRACE
from explorer.record.escape import visible

_LONGEST = 20_000
"""characters of a traceback that are read, from its end, where the innermost lines are"""
_SHOWN = 400
"""characters of a line that are kept"""
_NAME = 200
"""characters of a file's name that are kept"""
_FRAME = re.compile(r'[ \t]*File "([^"\n]+)", line ([0-9]{1,9})(?:, in [^\n]*)?(?:\n(?![ \t]*File ")([^\n]*))?')
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|[/\\]torch[/\\](?:nn|fx|utils|_[a-z_]+)[/\\]")
"""folders of torch's own code"""


def written_at(node: NodeProto, local: bool = False) -> Place | None:
    """Return the line that a node was exported from; None where nothing is noted.

    ``local`` says that the note was made in this process, so that its file, or cell, can be shown whole.
    """
    if not node.metadata_props:
        return None
    note = next((entry.value for entry in node.metadata_props if entry.key == STACK_TRACE), "")
    return innermost(note, local)


def innermost(note: str, local: bool) -> Place | None:
    """Return the innermost line outside torch of a traceback's text; of a torch line alone, that one."""
    frames = _FRAME.findall(note[-_LONGEST:])
    if not frames:
        return None
    filename, line, text = next((frame for frame in reversed(frames) if not _TORCH.search(frame[0])), frames[-1])
    shown = text.strip()[:_SHOWN]
    if local:
        return CodePlace.of(filename, int(line), shown)
    return Place(visible(re.split(r"[/\\]", filename)[-1][:_NAME]), int(line), shown)
