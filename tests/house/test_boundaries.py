"""What may know what: SQL, the native border and the layers keep to their own places."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import ROOT, nodes, place, product

pytestmark = pytest.mark.xdist_group("house")  # one worker reads all syntax trees

SQL = re.compile(
    r"^\s*(select\s.*\sfrom\s|with\s.*\sas\s*\(|create\s+(or\s+replace\s+)?(table|view|macro)\s"
    r"|insert\s+into\s|copy\s*\(|attach\s+'|pragma\s|set\s+\w+\s*=)",
    re.IGNORECASE | re.DOTALL,
)


@cache
def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at any depth."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def importers(module: str) -> set[str]:
    return {
        place(path)
        for path in product()
        if any(name == module or name.startswith(f"{module}.") for name in imports(path))
    }


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and value of each string of a file that is not a docstring."""
    prose = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    ("modules", "allowed"),
    [
        (("duckdb",), ("query.py",)),
        (("cffi", "_cffi_backend", "ctypes"), ("_native/",)),
        (("typer",), ("cli.py", "commands/")),
    ],
    ids=["the database", "the native border", "talking to the user"],
)
def test_one_place_knows(modules: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    places = tuple(f"tracekit/{name}" for name in allowed)
    found = set[str]().union(*map(importers, modules))
    assert [name for name in found if not name.startswith(places)] == []


def test_only_query_holds_sql_text() -> None:
    found = [
        f"{place(path)}:{line}: {text.strip()[:40]}"
        for path in product()
        if place(path) != "tracekit/query.py"
        for line, text in texts(path)
        if SQL.search(text)
    ]
    assert found == []


def test_only_the_command_line_ends_the_program() -> None:
    ways = {"sys.exit", "os._exit", "SystemExit", "exit", "quit"}
    found = {
        place(path)
        for path in product()
        for node in nodes(path)
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ways
    }
    assert found <= {"tracekit/cli.py"}


def test_the_layers_name_every_package() -> None:
    # GIVEN the contract of layers that `make check` holds
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    named = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    # THEN it names each package and module once, and one that is missing breaks it
    there = {path.stem for path in (ROOT / "tracekit").glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (ROOT / "tracekit").glob("*/__init__.py")}
    assert sorted(named) == sorted(there)
    assert contract["exhaustive"]
    assert "ignore_imports" not in contract


def circles() -> list[set[str]]:
    """Return the modules that import each other in a loop, wherever an import stands."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in product()}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {
        name: {whole if whole in modules else whole.rpartition(".")[0] for whole in imports(path)}
        & modules.keys() - {name}
        for name, path in modules.items()
    }
    # What imports nothing that is left, or is imported by nothing that is left, is in no circle.
    while True:
        used = set().union(*graph.values()) if graph else set()
        outside = {name for name, targets in graph.items() if not targets or name not in used}
        if not outside:
            return [{name, *targets} for name, targets in graph.items()]
        graph = {name: targets - outside for name, targets in graph.items() if name not in outside}


def test_no_modules_import_each_other() -> None:
    # A package and its parts are one: `from package import part` names both.
    assert circles() == []


# One file a member, each used by the one that lists them or by the page it stands on; what runs in
# the guest is started there by its name.
FAMILIES = ("commands", "report/sections", "report/figures", "lab/guest")
SMALL_LINES = 80


def test_a_small_module_has_two_users_or_belongs_to_a_family() -> None:
    alone = []
    for path in product():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        is_free = path.stem.startswith("__") or place(path).startswith(
            tuple(f"tracekit/{family}/" for family in FAMILIES)
        )
        if not is_free and len(path.read_text().splitlines()) < SMALL_LINES:
            users = importers(name) - {place(path)}
            alone += [f"{place(path)}: {sorted(users)}"] if len(users) < 2 else []
    assert alone == []


def test_options_name_their_stage() -> None:
    assert [place(path) for path in product() if "\nclass Options" in path.read_text()] == []


def numbers(path: Path) -> dict[str, int]:
    """Return name and line of each constant of a module whose value is computed from numbers."""
    return {
        target.id: node.lineno
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        and not any(isinstance(part, ast.Tuple | ast.Dict | ast.Call) for part in ast.walk(node))
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def test_units_are_defined_once() -> None:
    units = ROOT / "tracekit" / "units.py"
    known = numbers(units).keys()
    assert {"SECTOR_BYTES", "BLOCK_BYTES", "PAGE_BYTES", "MIB", "NS_PER_S"} <= known
    again = [
        f"{place(path)}:{line}: {name}"
        for path in product()
        if path != units
        for name, line in numbers(path).items()
        if name.removeprefix("_") in known
    ]
    assert again == []


def test_sql_text_is_recognized() -> None:
    assert SQL.search("select role\nfrom requests")
    assert SQL.search("CREATE OR REPLACE VIEW requests AS")
    assert not SQL.search("Select the device with --device")
    assert not SQL.search("the queries that select a role from the layout")
