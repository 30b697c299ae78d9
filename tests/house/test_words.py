"""What must not stand in a committed file, and what must."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import ROOT, files, place

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
