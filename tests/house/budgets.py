"""How long things are: functions and files, in lines."""

import ast
import re
from collections.abc import Iterator

C_FUNCTION = 60
C_FILE = 400
C_HEADER = 120
PYTHON_FUNCTION = 40
PYTHON_PARAMETERS = 6
PYTHON_POSITIONAL = 2

# "file" or "file: function", and why it is better long than cut.
EXCEPTIONS: dict[str, str] = {}


COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#(?:[^\n]*\\\n)*[^\n]*", re.DOTALL | re.MULTILINE)
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


def python_functions(text: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, int]]:
    """Yield each function with its lines, from `def` to its last statement."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            yield node, node.end_lineno - node.lineno + 1
