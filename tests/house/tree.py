"""The files of the checkout that are ours: what git would commit, found without asking git."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = {".git", ".venv", ".hypothesis", "build", "out", "__pycache__"}


def files(*patterns: str, under: str = ".") -> list[Path]:
    """Return the files below `under` whose names match one of the patterns, in order."""
    found = (
        path
        for path in _walk(ROOT / under)
        if not patterns or any(path.match(pattern) for pattern in patterns)
    )
    return sorted(found)


def product() -> list[Path]:
    """Return the modules of the package."""
    return files("*.py", under="tracekit")


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a module's syntax tree, of which collections need look at none."""
    found = list(ast.walk(ast.parse(path.read_text())))
    gc.freeze()
    return found


def place(path: Path) -> str:
    """Name a file the way a person would: from the root of the checkout."""
    return str(path.relative_to(ROOT))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name in MADE or path.name.endswith(("_cache", ".egg-info")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path
