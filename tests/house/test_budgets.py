"""Nothing is longer than the style allows, but for the exceptions with their reasons."""

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from tests.house.tree import files, nodes, place, product

pytestmark = pytest.mark.xdist_group("house")  # one worker reads all syntax trees

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
