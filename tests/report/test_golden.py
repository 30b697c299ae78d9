"""The words of the report: the text of a page with every section, as a whole."""

from difflib import unified_diff
from pathlib import Path

from tests.report.golden import GOLDEN, golden_text


def test_the_text_of_the_page_is_the_golden_one(tmp_path: Path) -> None:
    lines = golden_text(tmp_path).splitlines()
    # THEN every sentence is as it was; `python -m tests.report.golden` renews the file
    golden = GOLDEN.read_text(encoding="utf-8").splitlines()
    assert list(unified_diff(golden, lines, "golden.txt", "the page", lineterm="", n=0)) == []
