"""The committed documentation says what the program says."""

from __future__ import annotations

from itertools import pairwise

from tests.docs.pages import FOLDER, pages


def test_every_page_is_what_the_help_says_now() -> None:
    # GIVEN the pages as committed
    committed = {path: path.read_text() for path in FOLDER.glob("*.md")}
    # WHEN they are made anew, THEN nothing differs; if it does, run: make docs
    assert committed == pages()


def test_every_option_has_a_sentence() -> None:
    # GIVEN the options of all pages, one a line, with what they mean beside or below them
    bare = []
    for path, text in pages().items():
        lines = text.partition("Options:\n")[2].partition("```")[0].splitlines()
        for line, following in pairwise([*lines, ""]):
            is_option = line.startswith("  -")
            has_meaning = len(line.strip().split("  ")) > 1 or following.startswith("        ")
            if is_option and not has_meaning:
                bare.append(f"{path.name}: {line.strip()}")
    assert bare == []
