"""Every input of the fuzzer of strace's decoder, through the library as it was built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.strace_text import decode_text
from tracekit.errors import InputError

CORPUS = sorted((Path(__file__).parent / "corpus" / "calls").iterdir())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_input_ends_in_rows_or_is_refused(path: Path, tmp_path: Path) -> None:
    try:
        rows, found = decode_text(tmp_path, path.read_bytes()[1:])
    except InputError:
        return
    assert [row["operation_id"] for row in rows] == list(range(found.stats["rows"]))
    assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)
