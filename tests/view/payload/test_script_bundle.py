import re
import shutil
import subprocess

import pytest

from explorer.view.payload import script_bundle
from explorer.view.payload.script_bundle import STATIC, join, script, stylesheet


def write(folder, **modules):
    for name, code in modules.items():
        (folder / f"{name}.js").write_text(code)


def test_imports_come_first_and_names_do_not_collide(tmp_path):
    write(
        tmp_path,
        low="const PAD = 1;\nexport function low() {\n  return PAD;\n}\n",
        middle='import { low } from "./low.js";\nconst PAD = 2;\nexport const middle = low() + PAD;\n',
        main='import { low } from "./low.js";\nimport { middle } from "./middle.js";\nexport default middle;\n',
    )
    joined = join(tmp_path, "main.js")
    assert joined.index("const $low =") < joined.index("const $middle =") < joined.index("export default")
    assert "const { low } = $low;" in joined
    assert "return { middle };" in joined
    assert "import" not in joined
    assert joined == join(tmp_path, "main.js")


def test_an_import_cycle_is_rejected(tmp_path):
    write(
        tmp_path,
        a='import { b } from "./b.js";\nexport const a = 1;\n',
        b='import { a } from "./a.js";\nexport const b = 1;\n',
    )
    with pytest.raises(ValueError, match=r"b\.js imports a\.js, which imports it"):
        join(tmp_path, "a.js")


@pytest.mark.parametrize(
    "line", ['import * as b from "./b.js";', 'import b from "https://example.org/b.js";', "export * from './b.js';"]
)
def test_other_forms_are_rejected(tmp_path, line):
    write(tmp_path, a='import { b } from "./b.js";\n', b=f"{line}\nexport const b = 1;\n")
    with pytest.raises(ValueError, match="none of the forms that can be joined"):
        join(tmp_path, "a.js")


@pytest.mark.spec("V-14")
def test_the_front_end_is_one_module_that_a_page_can_contain():
    code = script()
    assert {"_".join(path.relative_to(STATIC).with_suffix("").parts) for path in STATIC.rglob("*.js")} - {"mount"} == {
        line.removeprefix("const $").split(" ")[0] for line in code.splitlines() if line.startswith("const $")
    }
    assert "</script" not in code
    assert "</style" not in stylesheet()
    assert not re.search(r"outerHTML\s*=", code)
    for forbidden in (
        "innerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "http",
    ):
        assert forbidden not in code.replace("http://www.w3.org/2000/svg", ""), forbidden
        assert forbidden not in stylesheet(), forbidden


@pytest.mark.skipif(shutil.which("node") is None, reason="node checks the syntax; the browser tests run the module")
def test_the_module_parses(tmp_path):
    (tmp_path / "bundle.mjs").write_text(script())
    subprocess.run(["node", "--check", tmp_path / "bundle.mjs"], check=True)


def types_of(code: str) -> set[str]:
    """Return the types that comments in other files may import from a file: its exports and typedefs."""
    exported = re.findall(r"^export (?:async )?(?:function|class|const|interface|type) (\w+)", code, re.MULTILINE)
    return {*exported, *re.findall(r"@typedef \{.*?\}+ (\w+)", code, re.DOTALL)}


def unresolved(folder):
    """Return the types that comments import from files that do not define them."""
    missing = []
    for file in sorted(folder.rglob("*.js")):
        for path, name in re.findall(r"import\(\"([^\"]+)\"\)\.(\w+)", file.read_text()):
            source = file.parent / path
            if not source.suffix:  # a declaration file
                source = source.with_name(f"{source.name}.d.ts")
            if not source.is_file() or name not in types_of(source.read_text()):
                missing.append(f"{file.relative_to(folder)}: {path} has no {name}")
    return missing


def test_every_type_imported_by_a_comment_exists():
    assert any("import(" in file.read_text() for file in STATIC.rglob("*.js"))
    assert unresolved(STATIC) == []


def test_a_missing_type_is_reported(tmp_path):
    note = '/** @param {import("./a.js").A} one @param {import("./a.js").B} two @param {import("./c.js").C} three */\n'
    write(tmp_path, a="/** @typedef {{x: {y: number}}} A */\n", b=note)
    assert unresolved(tmp_path) == ["b.js: ./a.js has no B", "b.js: ./c.js has no C"]


@pytest.mark.spec("V-7")
def test_no_list_of_nodes_is_spread_into_arguments():
    """A browser's stack fits about 100,000 arguments, so minima and maxima of lists are found in a loop."""
    spread = re.compile(r"Math\.(?:max|min|hypot)\((?:[\w\s.]+, )*\.\.\.")
    results = [
        f"{path.name}: {line.strip()}"
        for path in STATIC.rglob("*.js")
        for line in path.read_text(encoding="utf-8").splitlines()
        if spread.search(line)
    ]
    assert results == []


def test_style_sheets_replace_their_imports():
    """Every rule of every sheet occurs once, and no import is left, which a style element would resolve elsewhere."""
    rules = [line for path in STATIC.rglob("*.css") for line in path.read_text("utf-8").splitlines() if "{" in line]
    assert "@import" not in stylesheet()
    assert sorted(line for line in stylesheet().splitlines() if line in {*rules}) == sorted(rules)


def test_the_front_end_has_the_label_sizes_of_python(monkeypatch):
    """Python finds space for labels with the numbers that the front end uses to draw them."""
    monkeypatch.setattr(script_bundle, "HEIGHT", 34)
    monkeypatch.setattr(script_bundle, "OFFSET", 7)
    assert 'const EDGE_LABEL = {"height": 34, "aside": 7};' in script.__wrapped__()
