"""The committed documentation says what the program says."""

import difflib
from itertools import pairwise

from tests.docs import tables
from tests.docs.pages import FOLDER, pages


def changes(committed: str, made: str) -> list[str]:
    """Return the lines that `make docs` would change."""
    lines = difflib.unified_diff(committed.splitlines(), made.splitlines(), n=0, lineterm="")
    return list(lines)[2:]


def test_every_page_is_what_the_help_says_now() -> None:
    # GIVEN the pages as committed
    committed = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    # WHEN they are made anew, THEN nothing differs; if it does, run: make docs
    made = {path.name: text for path, text in pages().items()}
    assert set(committed) == set(made)
    assert [line for name in made for line in changes(committed[name], made[name])] == []


def test_every_table_is_described_as_it_is_now() -> None:
    # GIVEN the page as committed, THEN the schema and the queries say the same; if not: make docs
    assert changes(tables.PAGE.read_text(), tables.page()) == []


def test_every_column_has_a_meaning() -> None:
    lines = [line for line in tables.page().splitlines() if line.startswith("| `")]
    assert len(lines) > 100
    assert [line for line in lines if line.endswith("|  |")] == []


def test_every_option_has_a_sentence() -> None:
    # GIVEN the options of all pages, one a line, with what they mean beside or below them
    bare = []
    for path, text in pages().items():
        blocks = text.split("```")[1::2]
        lines = [line for block in blocks for line in block.partition("Options:\n")[2].splitlines()]
        for line, following in pairwise([*lines, ""]):
            is_option = line.startswith("  -")
            has_meaning = len(line.strip().split("  ")) > 1 or following.startswith("        ")
            if is_option and not has_meaning:
                bare.append(f"{path.name}: {line.strip()}")
    assert bare == []
