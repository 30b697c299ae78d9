"""Two known formats in one file: the second is named, with its line and its share."""

import re

import pytest

from tests import parsed as traces
from tests.import_.damages import texts
from tests.import_.importer import Importer

LINES = {text.name: text.lines for text in texts()}
NAMES = ("msr", "spc", "alibaba", "fiu", "blk", "ftrace")
PAIRS = [
    (one, other)
    for one in NAMES
    for other in NAMES
    if one != other and {one, other} != {"blk", "ftrace"}
]
"""Events of ftrace and of its blk tracer are read as one."""


NO_REQUESTS = {"blk": 2, "ftrace": 12}
"""Lines before the first event, which go with what is before them."""


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_second_format_is_named(read: Importer, one: str, other: str) -> None:
    first = LINES[one][:500]
    for count in (300, 1000):
        # GIVEN lines of one format before more or fewer of another
        text = b"".join([*first, *LINES[other][:count]])
        # WHEN it is imported THEN it is refused with both names, and how to part them
        lines = 500 + (NO_REQUESTS.get(other, 0) if one not in NO_REQUESTS else 0)
        message = read.rejects(text, "it looks like", hint=f"head -n {lines} ")
        assert {one, other} <= set(message.replace(",", " ").split())


def test_few_lines_of_another_format_are_told(read: Importer) -> None:
    text = b"".join([*LINES["msr"], *LINES["alibaba"][:9]])
    said = traces.warnings(read(text))["bad_lines"]
    assert "from line 2,001 on (9 lines, 0.4%) it looks like alibaba, not msr" in said


SUMMARY = b"""CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
 IO unplugs:             0        \t Timer unplugs:           0

Throughput (R/W): 4KiB/s / 0KiB/s
Events (8,0): 3 entries
Skips: 0 forward (0 -   0.0%)
"""
PROCESSES = b"""kworker/u8:1 (77)
 Reads Queued:           0,        0KiB
[md0_raid1] (12, ...)
 Reads Queued:           0,        0KiB
"""


PROCESS = re.compile(rb"^ +\S+(?=[ -] *[0-9]+ +\[)", re.MULTILINE)


@pytest.mark.parametrize("other", ["perf", "ftrace"])
def test_what_follows_a_summary_of_blkparse_is_named(read: Importer, other: str) -> None:
    text = b"".join(
        b"  8,0 0 %d 0.%09d 42 %s R %d + 8 [%s]\n" % (3 * n + at + 1, n, act, 8 * n, name)
        for n in range(100)
        for at, (act, name) in enumerate([(b"Q", b"a"), (b"D", b"a"), (b"C", b"0")])
    )
    for summary in (SUMMARY, PROCESSES + SUMMARY, SUMMARY + PROCESSES):
        assert read(text + summary).content["counts"]["bad_lines"] == 0
    # AND also where its processes have a colon in their names
    plain = b"".join(LINES[other])
    colons, count = PROCESS.subn(b" kworker/0:1H", plain)
    assert count > len(LINES[other]) // 2
    for events in (plain, colons):
        message = read.rejects(text + SUMMARY + events, "lines are wrong")
        assert f"it looks like {other}, not blkparse" in message


def test_lines_of_the_same_format_are_told_by_how_they_differ(read: Importer) -> None:
    lines = LINES["msr"]
    for first in (500, 1600):
        others = (line.replace(b",", b";") for line in lines[first:])
        message = read.rejects(
            b"".join([*lines[:first], *others]), "line", hint=f"head -n {first} "
        )
        assert "it looks like msr, too, but with another delimiter or words" in message
