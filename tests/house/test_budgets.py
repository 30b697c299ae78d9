"""Nothing is longer than the style allows, but for the exceptions with their reasons."""

from tests.house import budgets
from tests.house.tree import files, place

OF_OPTIONS = ("tracekit/commands/", "tracekit/api/")


def over(sizes: dict[str, int], limit: int) -> list[str]:
    return [
        f"{what} has {size}, the limit is {limit}"
        for what, size in sizes.items()
        if size > limit and what not in budgets.EXCEPTIONS
    ]


def lines(*patterns: str, under: str = ".") -> dict[str, int]:
    return {
        place(path): len(path.read_text().splitlines()) for path in files(*patterns, under=under)
    }


def c_function_lines() -> dict[str, int]:
    return {
        f"{place(path)}: {name}": size
        for path in files("*.c", "*.h")
        for name, size in budgets.c_functions(path.read_text())
    }


def python_function_lines() -> dict[str, int]:
    found = {}
    for path in files("*.py"):
        for node, size in budgets.python_functions(path.read_text()):
            # Parameters of commands and of the API are a table of options: only the body counts.
            has_options = place(path).startswith(OF_OPTIONS)
            options = node.body[0].lineno - node.lineno if has_options else 0
            found[f"{place(path)}: {node.name}"] = size - options
    return found


def test_c_functions() -> None:
    assert over(c_function_lines(), budgets.C_FUNCTION) == []


def test_c_files() -> None:
    assert over(lines("*.c"), budgets.C_FILE) == []
    assert over(lines("*.h"), budgets.C_HEADER) == []


def test_python_functions() -> None:
    assert over(python_function_lines(), budgets.PYTHON_FUNCTION) == []


def python_parameters() -> list[tuple[str, list[str], int]]:
    """Name, positional parameters and all parameters of each function of the product."""
    found = []
    for path in files("*.py", under="tracekit"):
        for node, _ in budgets.python_functions(path.read_text()):
            named = [arg.arg for arg in node.args.posonlyargs + node.args.args]
            named = [name for name in named if name not in {"self", "cls"}]
            count = len(named) + len(node.args.kwonlyargs)
            found.append((f"{place(path)}: {node.name}", named, count))
    return found


def test_python_parameters() -> None:
    # A command's parameters are its options, one line of help each; a call of the API has the same.
    counts = {
        what: count for what, _, count in python_parameters() if not what.startswith(OF_OPTIONS)
    }
    assert over(counts, budgets.PYTHON_PARAMETERS) == []


def test_later_parameters_of_public_functions_are_keyword_only() -> None:
    positional = {
        what: len(named)
        for what, named, _ in python_parameters()
        if ": _" not in what and not what.startswith("tracekit/commands/")
    }
    assert over(positional, budgets.PYTHON_POSITIONAL) == []


def test_every_exception_is_still_needed() -> None:
    sizes = lines("*.c", "*.h", "*.py", "*.sql") | c_function_lines() | python_function_lines()
    assert [what for what in budgets.EXCEPTIONS if what not in sizes] == []


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
    assert list(budgets.c_functions(text)) == [("add", 5), ("one", 1), ("two", 6)]


def test_python_functions_are_found_and_measured() -> None:
    # GIVEN a method and a function inside a function
    text = "class A:\n  def f(self):\n    pass\ndef g():\n  def h():\n    pass\n  return h\n"
    # WHEN they are measured
    found = {node.name: size for node, size in budgets.python_functions(text)}
    # THEN each is, the inner one also by itself
    assert found == {"f": 2, "g": 4, "h": 2}
