"""Source lines of the exported program, which torch's exporter records in each node.

The record is a traceback, innermost line last. The line shown is the innermost line outside torch: the user's ``x =
self.conv(x)``, not the line in ``nn.Conv2d``. For a file from elsewhere, only the recorded code is shown; source files
that a model names are never opened.
"""

from __future__ import annotations

import re

from onnx import NodeProto

from explorer.core.ir.source_location import CodeLocation, SourceLocation
from explorer.formats.common.onnx_names import STACK_TRACE
from explorer.record.escape import visible

_TRACEBACK_LENGTH = 20_000
"""number of characters read at the end of a traceback, where the innermost lines are"""
_LINE_LENGTH = 400
"""maximum number of characters of a line"""
_FILE_NAME_LENGTH = 200
"""maximum number of characters of a file name"""
_FRAME = re.compile(r'[ \t]*File "([^"\n]+)", line ([0-9]{1,9})(?:, in [^\n]*)?(?:\n(?![ \t]*File ")([^\n]*))?')
_TORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|[/\\]torch[/\\](?:nn|fx|utils|_[a-z_]+)[/\\]")
"""folders of torch's code"""


def source_place(node: NodeProto, local: bool = False) -> SourceLocation | None:
    """Return the source line from which a node was exported; None if the node has no record.

    Set ``local`` if this process exported the node, so that the whole file or cell can be shown.
    """
    if not node.metadata_props:
        return None
    traceback = next((entry.value for entry in node.metadata_props if entry.key == STACK_TRACE), "")
    return innermost(traceback, local)


def innermost(traceback: str, local: bool) -> SourceLocation | None:
    """Return the innermost line of a traceback outside torch, or the innermost line if all are in torch."""
    frames = _FRAME.findall(traceback[-_TRACEBACK_LENGTH:])
    if not frames:
        return None
    filename, line, source = next((frame for frame in reversed(frames) if not _TORCH.search(frame[0])), frames[-1])
    stripped = source.strip()[:_LINE_LENGTH]
    if local:
        return CodeLocation.of(filename, int(line), stripped)
    return SourceLocation(visible(re.split(r"[/\\]", filename)[-1][:_FILE_NAME_LENGTH]), int(line), stripped)
