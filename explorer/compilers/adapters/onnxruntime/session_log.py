"""Log of an onnxruntime session: the transformers that ran, and the fusions that they declined.

A log contains names from the model, so any line may be invented. No row of a log is trusted further than to name a
stage or a node: the graphs come from onnxruntime itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PREFIX = re.compile(r"\S+ \S+ \[[VIWEF]:onnxruntime:[^,\]]*, ([\w.-]+:\d+) ([^\]]*)\] (.*)")
_EVENT = re.compile(r"GraphTransformer (\S+) modified: ([01]) with status: OK")
_APPLYING = re.compile(r"Applying graph transformer (\S+) on step \d+\.")
_SKIPPED = re.compile(r"(\w+)\[(.*)\]: (?:fusion )?skipped(?:: | because )(.*)")
_END = "Session successfully initialized."
_KNOWN = re.compile(
    "|".join(
        (
            r"Session Options \{|Flush-to-zero|Creating and using per session|Dynamic block base|Initializing session",
            r"This model does not have any local functions|AOT inlining|No graph transformers registered",
            r"Applying \d+ graph transformer|Graph transformer step|Stopping graph transformer",
            r"Skipping graph transformer|Running graph optimizations|Matched \w+|Removing (?:initializer|NodeArg)",
            r"Use DeviceBasedPartition|Saving initialized|Done saving|Node placements| ?All nodes placed on",
            r" ?Node\(s\) placed on|SaveMLValueNameIndexMapping|Serializing optimized model|Total shared|Total fused",
            r"Fused |Inlining|Extending|Reserving|Allocated|Created|Using global",
        )
    )
)
"""beginnings of messages without decisions"""
_LENGTH = 200
"""maximum number of characters of a reason or an unknown message"""


class Skipped(NamedTuple):
    """Fusion that a transformer declined, in the words of the log."""

    transformer: str
    rule: str
    node: str
    reason: str
    location: str


class SessionLog(NamedTuple):
    """Content of a log."""

    events: tuple[tuple[str, bool], ...]
    """each run of a transformer: its name, and whether it changed the graph"""
    skipped: tuple[Skipped, ...]
    """from the last run of each transformer"""
    unknown: tuple[str, ...]
    """messages in a form that this version of Explorer does not know"""
    complete: bool
    """whether the log ends with the end of the session's creation"""

    @property
    def tried(self) -> tuple[str, ...]:
        """Names of the transformers that ran, in order of their first run."""
        return tuple(dict.fromkeys(name for name, _ in self.events))


def parsed(text: str) -> SessionLog:
    """Return the content of a log."""
    events: list[tuple[str, bool]] = []
    skipped: dict[str, dict[Skipped, None]] = {}
    unknown: list[str] = []
    current, complete = "", False
    for line in text.splitlines():
        prefix = _PREFIX.fullmatch(line)
        if prefix is None:
            continue  # further line of a message
        location, _, message = prefix.groups()
        if event := _EVENT.fullmatch(message):
            events.append((event[1], event[2] == "1"))
            current = ""
        elif applying := _APPLYING.fullmatch(message):
            current = applying[1]
            skipped.pop(current, None)  # only the last run of a transformer decides
        elif skip := _SKIPPED.fullmatch(message):
            reason = skip[3].strip().rstrip(".")[:_LENGTH]
            skipped.setdefault(current, {})[Skipped(current, skip[1], skip[2], reason, location)] = None
        elif message == _END:
            complete = True
        elif not _KNOWN.match(message):
            unknown.append(message[:_LENGTH])
    return SessionLog(
        tuple(events), tuple([row for rows in skipped.values() for row in rows]), tuple(unknown), complete
    )
