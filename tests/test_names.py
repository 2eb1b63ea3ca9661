"""Public names in ``help`` and ``dir``, in editors, and their order in completion."""

from __future__ import annotations

import pydoc
import re
import subprocess
import sys

import pytest
from IPython.core.oinspect import Inspector

import explorer as ex
from assets import public_names
from explorer.completion import ordered_names
from explorer.core import registry
from explorer.ops.catalogue import functions

OWN = {name for name, function in registry.functions.items() if function.__module__.startswith("explorer.ops.")}
SCRIPT = """
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_cell("import explorer as ex; {before}", silent=True)
for text in {texts}:
    with provisionalcompleter():
        print(*[entry.text for entry in shell.Completer.completions(text, len(text))])
"""


def completed(*texts: str, before: str = "") -> list[list[str]]:
    """Return IPython's completions of each string after importing explorer and running ``before``."""
    command = [sys.executable, "-c", SCRIPT.format(texts=texts, before=before)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return [line.split(" ") for line in ended.stdout.splitlines()]


def test_help_begins_with_start_here() -> None:
    text = pydoc.plain(pydoc.render_doc(ex))
    description = text[text.index("DESCRIPTION") :].splitlines()
    assert description[1].strip() == "Start here"
    assert "CLASSES" not in text
    for name in ex.__all__:
        assert f"    {name}(" in text


def test_help_of_operations_lists_all_of_them_by_kind() -> None:
    text = pydoc.plain(pydoc.render_doc(ex.ops))
    words = {word.strip(" ,") for word in text.split()}
    assert {name for name in dir(ex.ops) if registry.functions[name].__module__.startswith("explorer.")} <= words
    assert len(text.splitlines()) <= 100


def test_expressions_of_a_program_are_numbered_from_a_thousand() -> None:
    """Explorer's own rules record expressions at import, which must not change the numbers in outputs."""
    command = [sys.executable, "-c", "import explorer as ex; print(ex.tensor(1.0).uid)"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "1000\n"


def test_dir_has_every_public_name() -> None:
    assert {*ex.__all__, *OWN, "EvalPlan", "Net", "Rule", "layers", "ops", "train", "__version__"} <= {*dir(ex)}
    for name in dir(ex):
        assert getattr(ex, name) is not None
    assert not {"Any", "TYPE_CHECKING", "import_module", "os", "sys"} & {*dir(ex)}


def test_editors_know_every_public_name() -> None:
    """``python assets/public_names.py`` would change nothing."""
    assert public_names.STUB.read_text(encoding="utf-8") == public_names.stub()
    listed = set(re.findall(r"import \w+ as (\w+)", public_names.stub()))
    assert listed | OWN | {"__version__"} == {*dir(ex)} - (set(registry.functions) - OWN - listed)


@pytest.mark.parametrize("code", ["import explorer", "from explorer.record import loads"])
def test_importing_the_package_does_not_import_the_engine(code: str) -> None:
    """A server or pytest that finds a plugin in the package starts quickly."""
    script = f"import sys; {code}; print('numpy' in sys.modules, 'explorer.core' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert ended.stdout == "False False\n"


def test_exploring_an_expression_imports_no_nets_layers_or_formats() -> None:
    script = "import sys, explorer as ex; ex.explore(ex.tanh(ex.tensor([1.0]))); print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    optional = ("explorer.formats", "explorer.net", "explorer.layers", "explorer.train", "explorer.testing", "onnx")
    assert not [name for name in ended.stdout.split() if name.startswith(optional)]


@pytest.mark.parametrize("first", ["explorer.core.ir.tensor", "explorer.layers", "explorer.record", "explorer.train"])
def test_each_part_can_be_imported_first(first: str) -> None:
    """What it needs from higher parts is imported later."""
    script = f"import {first}\nfrom explorer.core.ir.tensor import tensor\nassert (tensor([1.0]) + 1).shape == (1,)\n"
    script += "import explorer as ex; print(ex.evaluate(ex.grad((ex.tensor([2.0]) ** 2).sum(), [ex.tensor([1.0])])))"
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)


def test_editors_know_every_operation() -> None:
    """Type checkers and jedi read a file that has the registry's names and the same functions."""
    # pytest adds names that begin with @ to modules whose assertions it rewrites
    named = {name: value for name, value in vars(functions).items() if not name.startswith(("_", "@"))}
    assert {*named} == OWN
    assert {name for name in OWN if named[name] is not registry.functions[name]} == set()


def test_operations_are_in_ops_too() -> None:
    assert ex.ops.tanh is ex.tanh
    others = {name for name, function in registry.functions.items() if not function.__module__.startswith("explorer.")}
    assert {*dir(ex.ops)} - others == OWN - {"as_expr"}
    with pytest.raises(AttributeError, match=r"no operation 'tahn'"):
        ex.ops.tahn  # noqa: B018


def test_completion_shows_everyday_functions_first_and_operations_last() -> None:
    first, begun, own, text = completed("ex.", "y = ex.tan", "ex.ops.tan", "'ex.")
    assert first[: len(ex.__all__)] == sorted(ex.__all__)
    operations = [name for name in first if name in dir(ex.ops)]
    assert first[-len(operations) :] == operations
    others = {name for name, function in registry.functions.items() if not function.__module__.startswith("explorer.")}
    assert {*first} == {name for name in dir(ex) if not name.startswith("_")} - others  # from other tests
    assert begun == own == ["tan", "tanh", "tanhshrink"]
    assert text[:1] != ["evaluate"]


def test_completion_shows_a_views_own_names_before_widget_names() -> None:
    (names,) = completed("view.", before="view = ex.explore(ex.tanh(ex.tensor([1.0])))")
    assert names.index("why") < names.index("add_class")
    everyday = {
        "depth",
        "first_nan",
        "focus",
        "overlay",
        "predict",
        "save",
        "selected_expression",
        "step",
        "trace",
        "why",
    }
    assert everyday <= {*names[:47]}
    assert len(names) > 80


def test_a_question_mark_shows_the_help_page() -> None:
    for name in ("tanh", "softmax"):
        shown = Inspector(theme_name="nocolor").info(getattr(ex, name), oname=name)["docstring"]
        assert shown == getattr(ex, name).__doc__
        assert "Gradient  of x: " in shown


def test_classes_follow_functions_in_completion() -> None:
    names = ordered_names(ex, dir(ex.ops))
    assert names.index("load_csv") < names.index("EvalPlan") < names.index("absolute")
