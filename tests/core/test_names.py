"""Errors about wrong names and wrong kinds of argument: similar names only, and a fix."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex


@pytest.mark.parametrize("function", [np.median, np.nonzero, np.average])
def test_errors_about_functions_that_are_not_recorded_suggest_evaluate(function: Any) -> None:
    with pytest.raises(ex.ExplorerError) as caught:
        function(ex.tensor(np.ones((3, 3))))
    assert caught.value.fix.endswith(f"evaluate first: np.{function.__name__}(ex.evaluate(x))")
    assert "subtract" not in str(caught.value)
    assert "absolute" not in str(caught.value)


def test_only_similar_names_are_suggested() -> None:
    many = [f"operation{index}" for index in range(30)]
    assert "operation7" in ex.UnknownNameError("operatoin7", kind="operation", known=many).rule
    assert ex.UnknownNameError("zzz", kind="operation", known=many).rule == "none of the 30 known names is near"
    assert ex.UnknownNameError("zzz", kind="record", known=["b", "a"]).rule == "known: a, b"


def test_the_most_similar_names_come_first_and_names_that_contain_it_last() -> None:
    known = ["conv2", "conv10", "layer1.conv.weight", "1", "2", "pool", *[f"blob{index}" for index in range(20)]]
    assert ex.UnknownNameError("conv", kind="name", known=known).rule.startswith(
        "known: conv2, conv10, layer1.conv.weight …"
    )
    assert ex.UnknownNameError("blob", kind="name", known=known).rule.startswith("known: blob0, blob1, blob2, ")
    assert ex.UnknownNameError("CONV.W", kind="name", known=known).rule.startswith("known: layer1.conv.weight …")


def test_open_rejects_folders_and_invalid_paths(tmp_path: Path) -> None:
    for wrong in (".", "", "/", tmp_path):
        with pytest.raises(ex.FileError, match="folder"):
            ex.open(wrong)
    with pytest.raises(ex.FileError, match="int is not a path"):
        ex.open(3)  # type: ignore[arg-type]


def test_function_accepts_only_functions() -> None:
    with pytest.raises(ex.DeclarationError, match="int"):
        ex.function(3)  # type: ignore[call-overload, arg-type]
