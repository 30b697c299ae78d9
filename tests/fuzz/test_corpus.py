"""Every input that the fuzzer found worth keeping, through the library as it was built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.decode.records import Decoded, decode
from tracekit.native.decode import DecodeError, Place, Problem

CORPUS = sorted((Path(__file__).parent / "corpus" / "decode").iterdir())
MOST_FILES = 3
SALVAGE = 0x80


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) > 50


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_input_ends_in_rows_or_a_problem(path: Path) -> None:
    # GIVEN an input as decode_fuzz.c cuts it
    options, data = path.read_bytes()[0], path.read_bytes()[1:]
    count = options % MOST_FILES + 1
    share = len(data) // count
    begins = [share * place for place in range(count)]
    files = [data[begin:end] for begin, end in zip(begins, [*begins[1:], None], strict=True)]

    # WHEN it is decoded
    found = outcome(files, keeps_whole=bool(options & SALVAGE))

    # THEN rows come in order, or the problem has a name and a place
    if isinstance(found, Place):
        assert found.kind not in {Problem.NONE, Problem.MEMORY}
        assert 0 <= found.offset <= len(files[found.file])
    else:
        assert [row["request_id"] for row in found.rows] == list(range(found.stats.rows))


def outcome(files: list[bytes], *, keeps_whole: bool) -> Decoded | Place:
    try:
        return decode(*files, keeps_whole=keeps_whole)
    except DecodeError as error:
        return error.place
