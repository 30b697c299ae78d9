"""What may know what: SQL, ctypes and the stages keep to their own places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT, files, place

STAGES = {"capture", "parse", "classify", "analyze", "recommend", "replay", "report"}
# A stage's own parts may live beside it under another name.
PARTS = {"formats": "parse", "plan": "replay"}
SQL = re.compile(
    r"^\s*(select\s.*\sfrom\s|with\s.*\sas\s*\(|create\s+(or\s+replace\s+)?(table|view|macro)\s"
    r"|insert\s+into\s|copy\s*\(|attach\s+'|pragma\s|set\s+\w+\s*=)",
    re.IGNORECASE | re.DOTALL,
)


def product() -> list[Path]:
    return files("*.py", under="tracekit")


def imports(path: Path) -> set[str]:
    """Return the full names of the modules that a file imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
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


def stage_of(module: str) -> str | None:
    """Return the stage that `tracekit.<name>...` belongs to, None for what all may use."""
    words = module.split(".")
    if words[0] != "tracekit" or len(words) < 2:
        return None
    name = PARTS.get(words[1], words[1])
    return name if name in STAGES else None


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and value of each string of a file that is not a docstring."""
    tree = ast.parse(path.read_text())
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def test_only_query_knows_the_database() -> None:
    assert importers("duckdb") <= {"tracekit/query.py"}


def test_only_query_holds_sql_text() -> None:
    found = [
        f"{place(path)}:{line}: {text.strip()[:40]}"
        for path in product()
        if place(path) != "tracekit/query.py"
        for line, text in texts(path)
        if SQL.search(text)
    ]
    assert found == []


def test_only_native_touches_ctypes() -> None:
    assert [name for name in importers("ctypes") if not name.startswith("tracekit/native/")] == []


def test_only_the_commands_talk_to_the_user() -> None:
    told = importers("typer") - {"tracekit/cli.py"}
    assert [name for name in told if not name.startswith("tracekit/commands/")] == []


def test_only_the_command_line_ends_the_program() -> None:
    ways = {"sys.exit", "os._exit", "SystemExit", "exit", "quit"}
    found = {
        place(path)
        for path in product()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ways
    }
    assert found <= {"tracekit/cli.py"}


def test_no_stage_imports_another() -> None:
    found = []
    for path in product():
        own = stage_of(".".join(path.relative_to(ROOT).with_suffix("").parts))
        others = {stage_of(name) for name in imports(path)} - {None, own}
        found += [f"{place(path)} imports stage {other}" for other in others if own]
    assert found == []


def test_nothing_imports_the_commands_but_the_command_line() -> None:
    # A group of commands names its own sub-commands.
    groups = {name for name in importers("tracekit.commands") if name.endswith("/__init__.py")}
    assert importers("tracekit.commands") <= {"tracekit/cli.py", *groups}
    assert all(name.startswith("tracekit/commands/") for name in groups)


def test_sql_text_is_recognized() -> None:
    assert SQL.search("select role\nfrom requests")
    assert SQL.search("CREATE OR REPLACE VIEW requests AS")
    assert not SQL.search("Select the device with --device")
    assert not SQL.search("the queries that select a role from the layout")
