"""Where things are, what must stand in a committed file and what must not, and declarations."""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import MADE, ROOT, files, place
from tracekit._native.declarations import ffi
from tracekit._native.library import dtype_of, library, plain, struct
from tracekit.commands import COMMANDS, GROUPS, function_name

TOP_LEVEL = """
    .ci .clang-format .gitignore CHANGELOG.md CMakeLists.txt CONTRIBUTING.md LICENSE Makefile
    README.md analyzers docs pyproject.toml replayer reports requirements.lock sample-traces tests
    tracekit
"""
MADE_BY_TOOLS = MADE | {".mypy_cache", ".pytest_cache", ".ruff_cache", ".github"}
NAMES = list(COMMANDS)
PIPELINE = """
    capture layout lab parse import generate fit export anonymize set classify analyze sql report
    recommend simulate replay verify-placement prove compare verify-certificate
    characterize-device bench sweep counters run doctor profiles formats personalities
"""


def test_top_level_names_are_fixed() -> None:
    assert {path.name for path in ROOT.iterdir()} - MADE_BY_TOOLS == {*TOP_LEVEL.split()}


def test_commands_stand_in_the_order_of_the_pipeline() -> None:
    assert PIPELINE.split() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_command_has_its_file_page_and_tests(name: str) -> None:
    # GIVEN a command, THEN the same word names its module, its page and its tests
    folder = ROOT / "tracekit" / "commands"
    module = folder / f"{function_name(name)}.py"
    assert module.is_file() != (folder / name / "__init__.py").is_file()
    assert (ROOT / "docs" / "commands" / f"{name}.md").is_file()
    assert files("test_*.py", under=f"tests/{function_name(name)}") or files(
        f"test_{name}.py", under="tests"
    )


def test_no_command_module_is_left_over() -> None:
    folder = ROOT / "tracekit" / "commands"
    shared = {"__init__", "completion", "examples", "options"}
    single = {function_name(name) for name in NAMES} - {*GROUPS}
    assert {path.stem for path in folder.glob("*.py")} - shared == single
    for name, parts in GROUPS.items():
        modules = {path.stem for path in (folder / name).glob("*.py")}
        assert modules - {"__init__"} == {*parts}


def test_every_analysis_has_an_example_by_hand() -> None:
    # GIVEN the queries whose result is a table; views and macros are tried by those that use them
    queries = [path for path in files("*.sql", under="analyzers") if path.parent.name != "lib"]
    assert queries
    # THEN each has the rows that should come out of an input small enough to check by hand
    missing = [
        place(path)
        for path in queries
        if not (ROOT / "tests" / path.relative_to(ROOT).with_suffix("") / "expected.csv").is_file()
    ]
    assert missing == []


def test_make_help_is_complete() -> None:
    # GIVEN the targets that the Makefile declares
    text = (ROOT / "Makefile").read_text()
    phony = text.partition(".PHONY:")[2].partition("\n")[0].split()
    targets = {name for name in phony if not name.startswith("$")}
    # WHEN make is asked for help
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # THEN each is named, with a sentence
    described = {line.split()[1] for line in shown.splitlines() if len(line.split()) > 2}
    assert described == targets


def test_every_file_of_the_player_is_described() -> None:
    # GIVEN the lists of files in the replayer's design
    text = (ROOT / "replayer/DESIGN.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = [name.removesuffix(".h") for row in rows for name in row.split("`")[1::2]]
    there = {path.stem for path in files("*.[ch]", under="replayer/play")}
    # THEN each file stands there once by its name, and nothing else does
    assert sorted(named) == sorted(there)


# Written in pieces, so that this file passes its own test.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]))
REGISTRIES = ["pypi" + ".org", "python" + "hosted.org", "npmjs" + ".org", "npmjs" + ".com"]
MACHINE = re.compile(r"(?<![\w.~}])/(work|root|opt/wheels)/|/home/(?!user\b|alice\b)\w+/")
NAMELESS = {"utils", "util", "misc", "helpers", "common2", "v2", "old", "new"}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield each committed text file; captures and pictures are passed over."""
    for path in files():
        try:
            yield path, path.read_text()
        except UnicodeDecodeError:
            continue


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{place(path)}:{number}: {line.strip()[:60]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def said_by(path: Path) -> Iterator[str]:
    """Yield the texts of a module but the docstrings that nobody sees; 0 for a value in one."""
    tree = ast.parse(path.read_text())
    docstrings = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    seen = path.is_relative_to(ROOT / "tracekit/commands")
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                getattr(one, "value", "") if isinstance(one, ast.Constant) else "0"
                for one in node.values
            )
        elif isinstance(node, ast.Constant) and (seen or id(node) not in docstrings):
            yield str(node.value)


def test_percent_is_written_in_one_style() -> None:
    # 37.4%, in tables, sentences and figures alike; what is left are formats of other programs.
    spaced = re.compile(r"\d[ \u00a0\u202f]%(?!\w)")
    modules = [
        path for path in files() if place(path).startswith("tracekit/") and path.suffix == ".py"
    ]
    assert len(modules) > 100
    found = [place(path) for path in modules for text in said_by(path) if spaced.search(text)]
    assert found == []


def test_nothing_is_left_to_do() -> None:
    assert lines_with(UNFINISHED) == []


def test_no_registry_address() -> None:
    assert lines_with(re.compile("|".join(map(re.escape, REGISTRIES)))) == []


def test_no_path_of_one_machine() -> None:
    assert lines_with(MACHINE) == []
    assert lines_with(re.compile(re.escape(f"{ROOT}/"))) == []


def test_no_file_is_named_after_nothing() -> None:
    assert [place(path) for path in files() if path.stem in NAMELESS] == []


def test_every_change_is_dated() -> None:
    entries = [
        line
        for line in (ROOT / "CHANGELOG.md").read_text().splitlines()
        if line.startswith(("- ", "* "))
    ]
    assert entries
    assert [line for line in entries if not re.match(r"- 20\d\d-\d\d-\d\d: \S", line)] == []


def test_changelog_has_the_usual_sections() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert [
        h for h in headings[1:] if not re.fullmatch(r"\d+\.\d+\.\d+ - 20\d\d-\d\d-\d\d", h)
    ] == []
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds


def test_locks_agree_and_name_no_address() -> None:
    # GIVEN what a user installs and what a developer installs
    pins = {}
    for name in ("requirements.lock", "tests/requirements.lock"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        pins[name] = set(re.findall(r"^([\w.-]+==\S+)", text, re.MULTILINE))
    # THEN a developer tests with the very releases that a user gets
    assert pins["requirements.lock"] <= pins["tests/requirements.lock"]
    # AND everybody has the same releases, whatever the Python
    names = [pin.partition("==")[0] for pin in pins["tests/requirements.lock"]]
    assert len(names) == len(set(names))


HEADERS = ROOT / "replayer"
EXPORT = re.compile(r"^TK_EXPORT [^;(]*?(\w+)\(", re.MULTILINE)


def exported() -> set[str]:
    return {
        name for path in files("*.h", under="replayer") for name in EXPORT.findall(path.read_text())
    }


def is_opaque(kind: str) -> bool:
    try:
        ffi.sizeof(kind)
    except ffi.error:
        return True
    return False


def test_every_exported_function_is_declared_and_there() -> None:
    assert {name for name in dir(library()) if name.startswith("tk_")} == exported()
    assert all(getattr(library(), name) for name in exported())


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_structures_lie_in_memory_as_the_compiler_has_them(tmp_path: Path) -> None:
    # GIVEN size and places of all structures' fields as numpy gets them
    lines = ['#include "tracekit.h"', "#include <stddef.h>"]
    _, names, _ = ffi.list_types()
    for kind in (f"struct {name}" for name in names):
        if is_opaque(kind):
            continue
        lines.append(f'_Static_assert(sizeof({kind}) == {ffi.sizeof(kind)}, "{kind}");')
        for field, found in ffi.typeof(kind).fields:
            place = f"offsetof({kind}, {field}) == {found.offset}"
            lines.append(f'_Static_assert({place}, "{kind}.{field}");')
    source = tmp_path / "layout.c"
    source.write_text("\n".join(lines) + "\n")
    # THEN the compiler agrees
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", f"-I{HEADERS}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(lines) > 200


def test_a_structure_of_numpy_is_that_of_c() -> None:
    access = dtype_of("struct page_access")
    assert access.names == ("key", "count", "is_write", "role", "unused")
    assert [str(access[name]) for name in access.names] == [
        *("int64", "uint32", "uint8", "uint8", "uint16")
    ]
    assert access.itemsize == 16


def test_what_goes_into_a_structure_comes_out_of_it() -> None:
    cost = {"latency_ps": (1, 2), "sequential_ps": (3, 4), "sector_ps": (5, 6), "fua_ps": 7}
    disk = {"track_ps": 0.5, "settle_ps": (8, 9)}
    found = plain(
        struct("tk_simulation_prices", base=cost, disk=disk, flush_ps=((10, 11), (12, 13)))
    )
    assert found["base"] == cost
    assert found["nvm"]["latency_ps"] == (0, 0)
    assert (found["disk"]["track_ps"], found["disk"]["settle_ps"]) == (0.5, (8, 9))
    assert found["flush_ps"] == ((10, 11), (12, 13))
