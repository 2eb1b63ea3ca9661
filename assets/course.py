"""Write goals and links of the notebooks, the table in docs/course.md, and the glossary: ``python assets/course.py``.

`REPOSITORY` is the name on GitHub of the copy that the addresses in docs/publish.md open in Binder and Colab.

Each notebook's first cell ends with its goal, the notebooks that it needs, and minutes; its exercises stand before
"What to try next", or where a cell shows them; its last cell leads to those before and behind it; the first use of a
term in the course leads to the glossary; slides begin at headings. What a new exercise shows comes of
``python tests/notebooks/execute.py NOTEBOOK``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from explorer.course import exercises  # noqa: E402
from explorer.record.glossary import GLOSSARY, inflections  # noqa: E402

NOTEBOOKS = ROOT / "notebooks"
COURSE, PUBLISHING, GLOSSARY_PAGE = ROOT / "docs" / "course.md", ROOT / "docs" / "publish.md", HERE / "glossary.md"
REPOSITORY = "OWNER/REPOSITORY"
"""name on GitHub of the copy that Binder and Colab open, as written into docs/publish.md"""
LINKS = "course-links"
"""id of the cell with the links to other notebooks"""


class Lesson(NamedTuple):
    """Notebook of the course."""

    name: str
    title: str
    shows: str
    """contents, as the table lists them"""
    goal: str
    needs: tuple[str, ...]
    """numbers of the notebooks to read before"""
    minutes: int
    """to read it, run it, and do its exercises"""


LESSONS = (
    Lesson(
        "01_expressions_and_the_plan",
        "expressions and the plan",
        "recording, plans before and after a run, explanations of decisions",
        "read a plan before and after its run, and ask for the reason of each decision",
        (),
        45,
    ),
    Lesson(
        "02_a_models_graph",
        "a model's graph",
        "a small trained net, opened from its file",
        "open a trained net, follow a value through it, and find out which of its operators run as one kernel",
        ("01",),
        30,
    ),
    Lesson(
        "03_layers_and_parameters",
        "layers and parameters",
        "ports and arguments; how parameters are initialised, saved and shared",
        "write a layer with ports and arguments, and choose the initial values of its parameters",
        ("01",),
        30,
    ),
    Lesson(
        "04_composites_and_policies",
        "composites and policies",
        "layers built from other layers; how each part inherits its policies",
        "build a layer from other layers, and find out which policies apply to each part and why",
        ("03",),
        35,
    ),
    Lesson(
        "05_gradients",
        "gradients",
        "gradients as expressions; the forward program and its gradients in one plan",
        "differentiate a program, check its gradient, and find out which values are saved for it",
        ("01",),
        35,
    ),
    Lesson(
        "06_layers_fed_backward",
        "layers, fed backward",
        "gradients of layers, gradients that are skipped, numerically stable losses",
        "feed layers backward, and find out which gradients were never built, and why",
        ("04", "05"),
        30,
    ),
    Lesson(
        "07_a_network_that_remembers",
        "a network that remembers",
        "a gated recurrent unit, back-propagation through time, a hand-written training loop",
        "run a recurrent step along a sequence, write one, and find out what its gradients cost",
        ("06",),
        35,
    ),
    Lesson(
        "08_dedup_and_batching",
        "deduplication and batching",
        "loops over samples that become batches: `ex.map`, sequences, trees, gradients, training",
        "write programs for one sample, and predict when the plan makes a batch of them",
        ("01",),
        50,
    ),
    Lesson(
        "09_fusion_and_stability",
        "fusion and stability",
        "fused kernels, formulas that no longer overflow, how a plan may change rounding, custom rules",
        "predict what is fused, what ends a kernel, and which formulas the plan makes stable",
        ("01",),
        50,
    ),
    Lesson(
        "10_memory",
        "memory",
        "live ranges, reuse of memory, the arena and the peak",
        "find out how long values are live, where they are stored, and what makes up the peak",
        ("01", "09"),
        35,
    ),
    Lesson(
        "11_order_and_executors",
        "order and executors",
        "order, levels and chains; execution on one and several threads; failing kernels",
        "find out what can run at the same time, what threads cost, and what happens after a kernel fails",
        ("10",),
        30,
    ),
    Lesson(
        "12_a_picture_through_a_classifier",
        "a picture through a classifier",
        "ResNet-18 from its file, one value after another",
        "open a large unknown net, and find out what it is and what its plan decided",
        ("02", "09"),
        35,
    ),
    Lesson(
        "13_nets_by_name",
        "nets by name",
        "nets built from named operators, then edited and saved; custom operator types; loading a table",
        "write, edit, save and train a net of named operators",
        ("01", "02"),
        45,
    ),
    Lesson(
        "14_data_types_and_the_default_plan",
        "data types, the default plan, policies",
        "custom data types and their rules, dynamic types, values that are computed together, policies of operations",
        "write a data type and a rule for it, and choose how an operation computes",
        ("01", "04", "09"),
        40,
    ),
    Lesson(
        "15_your_own",
        "your own",
        "a custom operation, rule, pass, file format, executor and heat metric, each in twenty lines",
        "add your own operation, rule, pass, format, executor and heat metric",
        ("01", "09", "11"),
        40,
    ),
    Lesson(
        "16_training",
        "training",
        "modules, losses and optimizers; one step and its updates as a graph; custom update rules; checkpoints",
        "train a network, read the plan of one training step, and write an update rule",
        ("06",),
        40,
    ),
    Lesson(
        "17_more_than_one_worker",
        "more than one worker",
        "estimates for many workers, chains on threads and Dask processes, data-parallel training, a lost worker",
        "estimate what workers would gain, and run the same plan on threads and processes",
        ("11", "16"),
        35,
    ),
    Lesson(
        "18_write_the_pass_yourself",
        "write the pass yourself",
        "deduplication, topological order and fusion in fifteen lines each, in place of the planner's own passes",
        "write passes that merge, order and fuse, run them, and compare them with the planner's",
        ("08", "09", "11"),
        50,
    ),
    Lesson(
        "19_your_own_model",
        "a model of your own",
        "checking, running and comparing any file with a reference; a quantised and a recurrent model",
        "check whether a model file computes the right values and, if not, where they first differ",
        ("02", "12"),
        30,
    ),
    Lesson(
        "20_one_model_several_compilers",
        "one model, several compilers",
        "what Explorer, Inductor, onnxruntime and XLA fuse in the same models, and what they refuse, in their words",
        "read what several compilers do with one model, which operations they fuse, and why they refuse others",
        ("09",),
        25,
    ),
)
LINKED = (
    "arena", "batch", "broadcast", "dedup", "elementwise", "flops", "fused", "inlined", "kernel", "lane", "live",
    "one-hot", "operand", "peak", "policy", "reduction", "sigmoid", "softmax", "temporary", "working memory",
)  # fmt: skip
"""terms whose first use leads to the glossary: those that mean nothing else in the notebooks"""
NEXT = "## What to try next"
ABOUT_EXERCISES = (
    "## Exercises\n\nEach cell below shows a task. Write your answer in the next cell and pass it to `check`, which"
    " tells you whether it is right and shows the relevant facts. Each call of `hint()` gives a little more help, and"
    " `solution()` shows the solution, collapsed at first."
)
_EXERCISE = re.compile(r"(exercises?|answer)-\d\d")
_LINK = re.compile(r"\[([^\]]+)\]\(\.\./assets/glossary\.md#[^)]+\)")
_GOAL = re.compile(r"\n\n\*\*Goal:\*\* [^\n]+\Z")
_SKIPPED = re.compile(r"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|<[^>]+>|^#[^\n]*|\$[^$]+\$", re.DOTALL | re.MULTILINE)
_ADDRESS = re.compile(r"(?<=https://mybinder\.org/v2/gh/)[^/]+/[^/]+(?=/HEAD)|(?<=git clone https://github\.com/)\S+")
_TABLE = re.compile(r"\| notebook \| shows \|.*?(?=\n\n)", re.DOTALL)


def main() -> None:
    """Write what differs."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages() -> dict[Path, str]:
    """Every file of the course as it should be."""
    course = _TABLE.sub(lambda _: table(), COURSE.read_text(encoding="utf-8"))
    publishing = _ADDRESS.sub(REPOSITORY, PUBLISHING.read_text(encoding="utf-8"))
    found = {COURSE: course, PUBLISHING: publishing, GLOSSARY_PAGE: glossary()}
    waiting = list(LINKED)
    for lesson in LESSONS:
        path = NOTEBOOKS / f"{lesson.name}.ipynb"
        notebook = nbformat.read(path, as_version=4)
        _frame(notebook, lesson)
        _exercises(notebook, lesson)
        _link(notebook, waiting)
        _slides(notebook)
        found[path] = nbformat.writes(notebook) + "\n"
    return found


def table() -> str:
    """Return the table of notebooks, with the notebooks that each needs and its minutes."""
    rows = [
        f"| [`{lesson.name[:2]}`](../notebooks/{lesson.name}.ipynb) {lesson.title} | {lesson.shows} |"
        f" {', '.join(lesson.needs) or '–'} | {lesson.minutes} |"
        for lesson in LESSONS
    ]
    return "\n".join(["| notebook | shows | needs | minutes |", "| --- | --- | --- | --- |", *rows])


def glossary() -> str:
    """The page of terms; each has an anchor of its own."""
    entries = [f"## {term}\n\n{text[0].upper()}{text[1:]}.\n" for term, text in GLOSSARY.items()]
    return "# Terms of the planner\n\nThis page is written by `python assets/course.py`.\n\n" + "\n".join(entries)


def _frame(notebook: nbformat.NotebookNode, lesson: Lesson) -> None:
    """Write a notebook's goal and links."""
    first = notebook.cells[0]
    needs = ", ".join(_address(other) for other in LESSONS if other.name[:2] in lesson.needs)
    about = f"**Goal:** {lesson.goal}. **Needs:** {needs or 'only NumPy'}."
    about += f" **Takes:** about {lesson.minutes} minutes."
    first.source = f"{_GOAL.sub('', first.source)}\n\n{about}"
    place = LESSONS.index(lesson)
    around = [
        f"← {_address(LESSONS[place - 1])}" if place else "",
        "[the map of all notebooks](../docs/course.md)",
        f"{_address(LESSONS[place + 1])} →" if place + 1 < len(LESSONS) else "",
    ]
    notebook.cells = [cell for cell in notebook.cells if cell.id != LINKS]
    notebook.cells.append(new_markdown_cell(" · ".join(filter(None, around)), id=LINKS))


def _exercises(notebook: nbformat.NotebookNode, lesson: Lesson) -> None:
    """Write the section of exercises, each with a cell for its answer; keep outputs, and those that stand elsewhere."""
    number = lesson.name[:2]
    section = []
    others = [cell for cell in notebook.cells if not _EXERCISE.match(cell.id)]
    elsewhere = {cell.source for cell in others}
    for place, exercise in enumerate((e for e in exercises() if e.number.startswith(f"{number}.")), 1):
        call = f'ex.exercise("{exercise.number}")'
        if call not in elsewhere:
            section.append(new_code_cell(call, id=f"exercise-{number}-{place}"))
            section.append(new_code_cell(f"# Your answer. Then: {call}.check(…)", id=f"answer-{number}-{place}"))
    if section:
        section.insert(0, new_markdown_cell(ABOUT_EXERCISES, id=f"exercises-{number}"))
    standing = {(cell.id, cell.source): cell for cell in notebook.cells}
    ends = [place for place, cell in enumerate(others) if cell.source.startswith(NEXT) or cell.id == LINKS]
    section = [standing.get((cell.id, cell.source), cell) for cell in section]
    notebook.cells = [*others[: ends[0]], *section, *others[ends[0] :]]


def _slides(notebook: nbformat.NotebookNode) -> None:
    """Let a slide begin at each heading, and prose further down below it; answers and links are on none."""
    for cell in notebook.cells:
        if cell.id == LINKS or cell.id.startswith("answer-") or cell.source.startswith(NEXT):
            cell.metadata["slideshow"] = {"slide_type": "skip"}
        elif cell.cell_type == "markdown":
            cell.metadata["slideshow"] = {
                "slide_type": "slide" if cell.source.startswith(("# ", "## ")) else "subslide"
            }
        else:
            cell.metadata.pop("slideshow", None)


def _link(notebook: nbformat.NotebookNode, waiting: list[str]) -> None:
    """Let the first uses of terms lead to the glossary, and take those that have one from ``waiting``."""
    for cell in notebook.cells:
        if cell.cell_type != "markdown" or cell.id == LINKS:
            continue
        cell.source = _LINK.sub(r"\1", cell.source)
        for term in list(waiting):
            prose = _SKIPPED.sub(lambda match: "\0" * len(match[0]), cell.source)
            use = re.search(
                rf"\b({'|'.join(sorted(map(re.escape, inflections(term)), key=len, reverse=True))})\b", prose
            )
            if use:
                link = f"[{use[1]}](../assets/glossary.md#{term.replace(' ', '-')})"
                cell.source = cell.source[: use.start()] + link + cell.source[use.end() :]
                waiting.remove(term)


def _address(lesson: Lesson) -> str:
    return f"[{lesson.name[:2]} {lesson.title}]({lesson.name}.ipynb)"


if __name__ == "__main__":
    main()
