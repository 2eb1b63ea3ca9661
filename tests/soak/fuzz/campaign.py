"""Fuzzing campaign: cases distributed among worker processes, and a table of outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.fuzz.cases import FORMATS, plan

ROOT = Path(__file__).parents[3]
RIGHT = ("clean", "fine")
KINDS = (*RIGHT, "bare", "broken", "hang", "memory", "crash")
FOLDER = ROOT / ".fuzz"
"""folder for cases that fail"""


@dataclass
class Campaign:
    """Outcomes of all cases."""

    seed: int
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    finds: list[dict[str, Any]] = field(default_factory=list)
    slowest: list[tuple[float, str, int]] = field(default_factory=list)

    def add(self, outcome: dict[str, Any]) -> None:
        """Count an outcome."""
        self.counts.setdefault(outcome["format"], Counter())[outcome["kind"]] += 1
        if outcome["kind"] not in RIGHT:
            self.finds.append(outcome)
        entry = (outcome["seconds"], outcome["format"], outcome["number"])
        self.slowest = sorted([*self.slowest, entry], reverse=True)[:8]

    def table(self) -> str:
        """Return the number of cases by format and outcome, as a Markdown table."""
        lines = [f"| format | cases | {' | '.join(KINDS)} |", f"|{' --- |' * (len(KINDS) + 2)}"]
        for name, counts in (*sorted(self.counts.items()), ("all", sum(self.counts.values(), Counter()))):
            cells = [name, f"{sum(counts.values()):,}", *(f"{counts[kind]:,}" for kind in KINDS)]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def report(self) -> str:
        """Return each location of a failure, its count, and the command that replays its first case."""
        places: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for find in self.finds:
            places.setdefault((find["kind"], find["where"]), []).append(find)
        lines = []
        for (kind, where), result in sorted(places.items(), key=lambda entry: -len(entry[1])):
            first = result[0]
            lines.append(
                f"{len(result)} × {kind}: {where}: {first.get('message', '')}\n"
                f"    of {first['origin']}; python -m tests.soak.fuzz replay {first['folder']}"
            )
        return "\n".join(lines)


def run(
    count: int, seed: int, jobs: int, formats: Iterable[str] = (), folder: Path = FOLDER, first: int = 0
) -> Campaign:
    """Try ``count`` cases in ``jobs`` processes, from number ``first`` of each format on."""
    numbers = plan(count, list(formats) or list(FORMATS))
    # Formats alternate, so that all processes end at about the same time.
    cases = [(name, first + index) for name, amount in numbers.items() for index in range(amount)]
    campaign, lock = Campaign(seed), threading.Lock()
    threads = [
        threading.Thread(target=_follow, args=(cases[job::jobs], seed, folder, campaign, lock)) for job in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tried = sum(sum(counts.values()) for counts in campaign.counts.values())
    if tried != len(cases):
        raise RuntimeError(f"{tried} of {len(cases)} cases came back: a worker ended early")
    return campaign


def _follow(
    cases: Sequence[tuple[str, int]], seed: int, folder: Path, campaign: Campaign, lock: threading.Lock
) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "tests.soak.fuzz.worker"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps({"seed": seed, "cases": cases, "folder": str(folder)}) + "\n")
        worker.stdin.close()
        for line in worker.stdout:
            with lock:
                campaign.add(json.loads(line))
