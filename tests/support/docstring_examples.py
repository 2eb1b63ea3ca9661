"""Run the examples of the package's docstrings: ``python tests/support/docstring_examples.py MODULE …``.

It runs in a separate process and an empty folder, because examples register operations, devices and executors, which
would affect later tests.
"""

from __future__ import annotations

import doctest
import importlib
import sys

import numpy as np

import explorer as ex
import explorer.api
import explorer.names  # imported before doctest reads the package's names, each of which is an import


def run(modules: list[str]) -> int:
    """Run all examples, each docstring with its own namespace; return the number of failures.

    Examples of all operations belong to the module explorer.ops.
    """
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    for name in modules:
        module = importlib.import_module(name)
        for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs={"ex": ex, "np": np}):
            runner.run(example)
    names = {name: getattr(ex.ops, name).__doc__ for name in dir(ex.ops)} if "explorer.ops" in modules else {}
    for name, text in names.items():  # doctest finds neither operations nor functions with checked arguments
        runner.run(doctest.DocTestParser().get_doctest(text, {"ex": ex, "np": np}, f"explorer.ops.{name}", None, None))
    print(f"{runner.tries} examples, {runner.failures} failed")
    return runner.failures


if __name__ == "__main__":
    sys.exit(bool(run(sys.argv[1:])))
