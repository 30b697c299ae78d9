"""Words of columns against a dictionary of Python, and blocks whose lines become shorter."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tracekit._native.columns import ColumnReader, Kind
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

CHANCE = random.Random(5)  # noqa: S311 - a fixed sequence, no secret


def some_words(count: int) -> list[str]:
    """Return words of 1 to 11 letters, of which many begin alike and some come again."""
    return [
        "".join(CHANCE.choice("ab7") for _ in range(CHANCE.randrange(1, 12))) for _ in range(count)
    ]


@pytest.mark.parametrize("blocks", [1, 7])
def test_words_are_numbered_as_they_come(blocks: int) -> None:
    # GIVEN more words than are kept at hand, two columns of them and one of choices
    lines = [
        (first, second, CHANCE.choice(("R", "w", " W ", "r")))
        for first, second in zip(some_words(6000), some_words(6000), strict=True)
    ]
    reader = ColumnReader(
        [(Kind.WORD, 0), (Kind.WORD, 0), (Kind.CHOICE, 0)], ",", choices=["r", "w"]
    )
    # WHEN they are read in blocks
    read: list[list[int]] = [[], [], []]
    size = len(lines) // blocks + 1
    for at in range(0, len(lines), size):
        text = "".join(f"{','.join(line)}\n" for line in lines[at : at + size])
        found = reader.read(text.encode())
        assert not found.wrong
        for numbers, values in zip(read, found.values, strict=True):
            numbers.extend(values.tolist())
    # THEN each word has the number of its first place among the column's different words
    for column in (0, 1):
        known: dict[str, int] = {}
        expected = [known.setdefault(line[column], len(known)) for line in lines]
        assert read[column] == expected
        assert reader.words(column).to_pylist() == list(known)
        assert len(known) > 2000
    assert read[2] == ["rw".index(line[2].strip().lower()) for line in lines]


def test_a_word_with_a_zero_is_wrong_each_time() -> None:
    # GIVEN a word that no text has, beside the same letters without what is behind them
    reader = ColumnReader([(Kind.WORD, 0), (Kind.DIGITS, 0)], ",")
    # WHEN lines of them are read twice
    for _ in range(2):
        found = reader.read(b"ab,12\nab\0,12\nab,1x\nab, 12\nab\0,12\n,12\nab,\n" + b"a,0\n" * 3)
        # THEN the good ones are the same
        assert [number for number, _ in found.wrong] == [1, 2, 4, 5, 6]
        assert [values.tolist() for values in found.values] == [[0, 0, 1, 1, 1], [0, 1, 2, 2, 2]]


def test_lines_become_shorter_than_the_block_before_told() -> None:
    # GIVEN blocks of long lines, and one of short and wrong ones behind them
    reader = ColumnReader([(Kind.INTEGER, 0), (Kind.WORD, 0)], ",")
    reader.read(b"1234567890123,averylongwordindeed\n" * 1000)
    # WHEN it is read
    found = reader.read(b"1,b\nx,b\n" * 5000 + b"2,c\n")
    # THEN nothing is missing, nor there twice
    assert found.rows == 5001
    assert found.lines == 10001
    assert len(found.wrong) == 5000
    assert found.values[0].tolist() == [1] * 5000 + [2]
    assert found.values[1].tolist() == [1] * 5000 + [2]
    assert reader.words(1).to_pylist() == ["averylongwordindeed", "b", "c"]


def test_a_file_of_lines_that_become_shorter(tmp_path: Path) -> None:
    # GIVEN a file of several blocks, of long lines first and of short ones then
    text = tmp_path / "trace.csv"
    with text.open("w") as out:
        for number in range(100_000):
            out.write(
                f"{number:019},read,{number * 512:019},4096,a-long-name-of-a-device-{9:030}\n"
            )
        for number in range(100_000, 700_000):
            out.write(f"{number},r,0,512,s\n")
    # WHEN it is imported
    choice = ImportOptions(
        columns="time,op,offset,length,device", units=("time=us", "offset=bytes")
    )
    folder = import_trace(text, tmp_path / "trace", options=choice)
    # THEN all lines are there
    assert folder.content["counts"]["requests"] == 700_000
    assert folder.content["counts"]["bad_lines"] == 0
    assert [device["device"] for device in folder.content["devices"]][1] == "s"
