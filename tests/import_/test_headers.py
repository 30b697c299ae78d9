"""Texts whose own header names the columns, and who says which unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.import_.test_import import rows, stored
from tracekit.errors import InputError, UsageError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

ROW = (0, None, "trace", 16, 512, "write")


@pytest.mark.parametrize(
    ("header", "line", "units"),
    [
        ("version,time,op,size,lbn", "1,563,2a,512,16", ("time=s",)),
        ("Timestamp_us;IOType;LBA;Size (bytes)", "563;WS;16;512", ()),
        ("time [us]|op|offset [sectors]|length [bytes]", "563|W|16|512", ()),
        ("time_ns      op  sector   nsectors", "     563 W       16 1", ()),
        ("# ts(ns)\toperation\tOffset\tlength", "563\tW\t8192\t512", ()),
        ('"Time (ms)","Type","Start Sector","Sectors","Name"', '"563","write","16","1","x,y"', ()),
    ],
)
def test_a_header_names_the_columns(
    tmp_path: Path, header: str, line: str, units: tuple[str, ...]
) -> None:
    source = stored(tmp_path / "x", f"{header}\n{line}\n")
    made = import_trace(source, tmp_path / "out", options=ImportOptions(units=units))
    assert rows(made.path) == [ROW]
    assert made.content["counts"]["bad_lines"] == 0
    assert made.content["inferences"][0]["evidence"] == f"its header: {header.lstrip('# ')}"


@pytest.mark.parametrize(
    ("text", "choice", "expected"),
    [
        ("5,w,512,512\n", ImportOptions(columns="time,op,offset,length", units=("time=us",)),
         ["not given, that of a text of one's own", "given by the user"]),
        ("time_us,op,offset,size\n5,w,512,512\n", ImportOptions(units=("offset=bytes",)),
         ["given by the user", "its header: time_us,op,offset,size"]),
        ("5 0 16 1 0\n", ImportOptions(units=("time=ms",)), ["format mqsim", "given by the user"]),
    ],
)  # fmt: skip
def test_who_says_a_unit_is_told(
    tmp_path: Path, text: str, choice: ImportOptions, expected: list[str]
) -> None:
    info = import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice).content
    told = {one["what"]: one["evidence"] for one in info["inferences"]}
    assert [told["unit of places"], told["unit of times"]] == expected


def test_a_header_without_the_unit_of_time_is_not_enough(tmp_path: Path) -> None:
    source = stored(tmp_path / "x", "time,op,size,lbn,latency\n5,w,512,16,3\n")
    with pytest.raises(UsageError, match="not the unit of time and response") as refused:
        import_trace(source, tmp_path / "out")
    assert "--unit time=UNIT" in (refused.value.hint or "")
    # AND a header that lacks a column is none
    source = stored(tmp_path / "y", "time,op,size\n5,w,512\n")
    with pytest.raises(InputError, match="of no known format"):
        import_trace(source, tmp_path / "out")
