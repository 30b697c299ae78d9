"""Rules of the sources: what may know what, and nothing longer than the style allows."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import ROOT, files, nodes, place, product

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
    assert found <= {"tracekit/__main__.py", "tracekit/cli.py"}


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


C_FUNCTION = 60
C_FILE = 400
C_HEADER = 120
C_BLOCK = 15
PYTHON_FUNCTION = 40
PYTHON_PARAMETERS = 6
PYTHON_POSITIONAL = 2

# "file" or "file: function", and why it is better long than cut.
EXCEPTIONS: dict[str, str] = {}


Function = ast.FunctionDef | ast.AsyncFunctionDef
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
# A definition begins in the first column, as clang-format lays it out; it ends on the same line or
# with a brace alone in the first column. Types and tables end with a brace and a semicolon.
C_FUNCTION_TEXT = re.compile(
    r"^[A-Za-z_][^;{}=]*?\b(\w+)\([^;{}]*\)\s*\{(?:[^\n]*\}$|.*?^\}$)", re.DOTALL | re.MULTILINE
)


def c_functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name of each function and its lines, comments inside it included."""
    bare = COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text)
    for found in C_FUNCTION_TEXT.finditer(bare):
        yield found.group(1), found.group().count("\n") + 1


def python_functions(found: Iterable[ast.AST]) -> Iterator[tuple[Function, int]]:
    """Yield each function with its lines, from `def` to its last statement."""
    for node in found:
        if isinstance(node, Function) and node.end_lineno:
            yield node, node.end_lineno - node.lineno + 1


OF_OPTIONS = ("tracekit/commands/", "tracekit/api/")


def unexplained_blocks(text: str) -> Iterator[int]:
    """Yield the line of each long block inside a function that begins with no sentence.

    The sentence stands above the block's statement, in its first line, or above the function.
    """
    lines = text.splitlines()
    bare = STRING.sub("", COMMENT.sub(lambda comment: "\n" * comment.group().count("\n"), text))
    opened: list[int] = []
    for number, line in enumerate(bare.splitlines()):
        for brace in re.findall("[{}]", line):
            if brace == "{":
                opened.append(number)
                continue
            begin = opened.pop()
            if opened and number - begin - 1 > C_BLOCK:
                statement, function = begin, opened[0]
                while lines[statement - 1] and lines[statement - 1][-1] not in ";{}:/":
                    statement -= 1
                while lines[function - 1]:
                    function -= 1
                places = (lines[statement - 1], lines[begin + 1].strip()[:2], lines[function][:2])
                if not any(place.endswith(("*/", "/*")) for place in places):
                    yield begin + 1


def over(sizes: dict[str, int], limit: int) -> list[str]:
    return [
        f"{what} has {size}, the limit is {limit}"
        for what, size in sizes.items()
        if size > limit and what not in EXCEPTIONS
    ]


def lines(*patterns: str, under: str = ".") -> dict[str, int]:
    return {
        place(path): len(path.read_text().splitlines()) for path in files(*patterns, under=under)
    }


def c_function_lines() -> dict[str, int]:
    return {
        f"{place(path)}: {name}": size
        for path in files("*.c", "*.h")
        for name, size in c_functions(path.read_text())
    }


def python_function_lines() -> dict[str, int]:
    found = {}
    for path in files("*.py"):
        for node, size in python_functions(nodes(path)):
            # Parameters of commands and of the API are a table of options: only the body counts.
            has_options = place(path).startswith(OF_OPTIONS)
            options = node.body[0].lineno - node.lineno if has_options else 0
            found[f"{place(path)}: {node.name}"] = size - options
    return found


def test_c_functions() -> None:
    assert over(c_function_lines(), C_FUNCTION) == []


def test_long_c_blocks_begin_with_a_sentence() -> None:
    found = [
        f"{place(path)}:{line}"
        for path in files("*.c", "*.h")
        for line in unexplained_blocks(path.read_text())
    ]
    assert found == []


def test_c_files() -> None:
    assert over(lines("*.c"), C_FILE) == []
    assert over(lines("*.h"), C_HEADER) == []


def test_python_functions() -> None:
    assert over(python_function_lines(), PYTHON_FUNCTION) == []


def parameters() -> list[tuple[str, Function, list[ast.arg]]]:
    """Return name, node and positional parameters of each function of the product."""
    found = []
    for path in product():
        for node, _ in python_functions(nodes(path)):
            named = [*node.args.posonlyargs, *node.args.args]
            named = [one for one in named if one.arg not in {"self", "cls"}]
            found.append((f"{place(path)}: {node.name}", node, named))
    return found


def test_python_parameters() -> None:
    # A command's parameters are its options, one line of help each; a call of the API has the same.
    counts = {
        what: len(named) + len(node.args.kwonlyargs)
        for what, node, named in parameters()
        if not what.startswith(OF_OPTIONS)
    }
    assert over(counts, PYTHON_PARAMETERS) == []


def test_later_parameters_of_public_functions_are_keyword_only() -> None:
    positional = {
        what: len(named)
        for what, _, named in parameters()
        if ": _" not in what and not what.startswith("tracekit/commands/")
    }
    assert over(positional, PYTHON_POSITIONAL) == []


def is_mixed(annotation: ast.expr | None) -> bool:
    """Say whether a parameter is a tuple of different types."""
    if not (isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "tuple"):
        return False
    kinds = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
    return len({ast.unparse(kind) for kind in kinds} - {"..."}) > 1


def test_no_parameter_is_a_tuple_of_mixed_things() -> None:
    found = [
        f"{what}: {one.arg}"
        for what, node, named in parameters()
        for one in (*named, *node.args.kwonlyargs)
        if is_mixed(one.annotation)
    ]
    assert found == []


def test_every_exception_is_still_needed() -> None:
    sizes = lines("*.c", "*.h", "*.py", "*.sql") | c_function_lines() | python_function_lines()
    assert [what for what in EXCEPTIONS if what not in sizes] == []


def test_c_functions_are_found_and_measured() -> None:
    # GIVEN a function over three lines, one on a single line, a type, a table and a macro
    text = """\
#define TWICE(x) \\
  ((x) * 2)
struct point {
  int x; /* a { brace } in a comment */
};
static const int table[] = {
    1,
};
static int
add(int a,
    int b) {
  return a + b;
}
int one(void) { return 1; }
// int not_this(void) {
int two(void) {
  if (one()) {
    return 2;
  }
  return TWICE(1);
}
"""
    # WHEN they are measured, THEN only functions are, from the first line to the last brace
    assert list(c_functions(text)) == [("add", 5), ("one", 1), ("two", 6)]


def test_long_c_blocks_are_found() -> None:
    body = "  for (;;) {\n" + "    x = '{';\n" * (C_BLOCK + 1) + "  }\n"
    with_sentence = "  /* Why. */\n" + body
    text = f"int f(void) {{\n  int x;\n{body}{with_sentence}}}\n"
    assert list(unexplained_blocks("\n" + text)) == [4]
    assert list(unexplained_blocks("\n/* Does it. */\n" + text)) == []


def test_python_functions_are_found_and_measured() -> None:
    # GIVEN a method and a function inside a function
    text = "class A:\n  def f(self):\n    pass\ndef g():\n  def h():\n    pass\n  return h\n"
    # WHEN they are measured
    found = {node.name: size for node, size in python_functions(ast.walk(ast.parse(text)))}
    # THEN each is, the inner one also by itself
    assert found == {"f": 2, "g": 4, "h": 2}
