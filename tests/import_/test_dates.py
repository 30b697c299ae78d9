"""Dates as times: by the calendar, by hand, and in texts of one's own and of known formats."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.import_.test_import import rows, stored
from tests.import_.test_variants import numbers
from tracekit._native.columns import Kind
from tracekit.errors import UsageError
from tracekit.readers.importing import import_trace
from tracekit.readers.units import ImportOptions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ns_of(date: datetime) -> int:
    return (date - EPOCH) // timedelta(microseconds=1) * 1000


def test_dates_are_those_of_the_calendar() -> None:
    # GIVEN random moments of 1970 to 2115 in random zones, as people write them
    chance = random.Random(2)  # noqa: S311 - a fixed sequence, no secret
    words, expected = [], []
    for _ in range(3000):
        minutes = chance.choice((0, 0, 60, 330, -570, 840, -45))
        zone = timezone(timedelta(minutes=minutes))
        moment = datetime.fromtimestamp(chance.randrange(10**5, 4_607_000_000), zone)
        moment = moment.replace(microsecond=chance.choice((0, 5, 123456, 999999)))
        word = moment.strftime(chance.choice(("%Y-%m-%dT%H:%M:%S.%f", "%Y/%m/%d %H:%M:%S.%f")))
        plain = chance.choice(("", "Z", " UTC", "+00:00")) if not minutes else ""
        ahead = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        words.append(word + (plain if not minutes else chance.choice((ahead, f" {ahead}"))))
        expected.append(ns_of(moment))
    # WHEN they are read THEN they are the calendar's
    assert numbers(Kind.DATE, 0, words) == expected


def test_dates_by_hand() -> None:
    words = {
        "1970-01-01T00:00:00": 0,
        "1970-01-01 00:00:00.000000001234Z": 1,
        "2000-02-29t12:00:00+0130": 951_820_200_000_000_000,
        "2016-12-31T23:59:60Z": 1_483_228_800_000_000_000,
        "2100-02-29T00:00:00": None,
        "2023-13-01T00:00:00": None,
        "2023-00-01T00:00:00": None,
        "2023-01-32T00:00:00": None,
        "2023-01-01T24:00:00": None,
        "2023-01-01T00:60:00": None,
        "2023-01-01T00:00": None,
        "2023-01-01": None,
        "2023-01/01T00:00:00": None,
        "2023-01-01T00:00:00.": None,
        "2023-01-01T00:00:00+1": None,
        "2023-01-01T00:00:00+15:00": None,
        "1970-01-01T00:00:00+01:00": None,
        "1969-12-31T23:59:59": None,
        "2116-01-01T00:00:00": None,
        '"2023-01-01 00:00:00"': 1_672_531_200_000_000_000,
        "1672531200": None,
    }
    assert numbers(Kind.DATE, 0, list(words)) == list(words.values())


COLUMNS = "time,op,offset,length"
PATTERN = r"\[(?P<time>[^]]+)\] (?P<op>\w) at (?P<offset>\d+): (?P<length>\d+)"
DATED = [
    (
        "2024-02-29T03:04:05.5Z,R,4096,512\n2024-02-29 03:04:06,W,8192,512\n",
        ImportOptions(columns=COLUMNS),
    ),
    (
        "ts,op,offset,size\n2024-02-29T03:04:05.5,R,4096,512\n2024-02-29T03:04:06,W,8192,512\n",
        ImportOptions(),
    ),
    (
        "[2024/02/29 03:04:05.5] R at 4096: 512\n[2024/02/29 03:04:06] W at 8192: 512\n",
        ImportOptions(regex=PATTERN),
    ),
    (
        "2024-02-29 05:04:05.5+02:00 R 4096 512\n2024-02-29 03:04:06 W 8192 512\n",
        ImportOptions(columns=COLUMNS, delimiter=" "),
    ),
]


@pytest.mark.parametrize(("text", "given"), DATED, ids=["columns", "header", "regex", "blanks"])
@pytest.mark.parametrize("units", [(), ("time=date",)], ids=["known", "told"])
def test_dates_as_times_of_ones_own(
    tmp_path: Path, text: str, given: ImportOptions, units: tuple[str, ...]
) -> None:
    # GIVEN a text of one's own whose times are dates WHEN it is imported
    choice = replace(given, units=units)
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out", options=choice)
    # THEN they count from the first, the clock knows its date, and what was taken is told
    assert [row[0] for row in rows(made.path)] == [0, 500_000_000]
    moment = datetime(2024, 2, 29, 3, 4, 5, 500_000, tzinfo=UTC)
    assert made.content["clock"]["wall_ns"] == ns_of(moment)
    told = {one["what"]: one for one in made.content["inferences"]}["unit of times"]
    assert told["value"] == "date"
    assert "taken as UTC" in told["evidence"]


def test_dates_in_a_known_format_and_not_as_responses(tmp_path: Path) -> None:
    text = "419,W,8192,512,2020-01-01 00:00:00.5\n725,R,512,512,2020-01-01 00:00:01\n"
    made = import_trace(stored(tmp_path / "x", text), tmp_path / "out")
    assert made.content["source"]["format"] == "alibaba"
    assert [row[0] for row in rows(made.path)] == [0, 500_000_000]
    choice = ImportOptions(columns="time,op,offset,length", units=("response=date",))
    with pytest.raises(UsageError, match="not one of time, response"):
        import_trace(tmp_path / "x", tmp_path / "none", options=choice)
