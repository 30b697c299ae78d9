"""Which of the studied applications a trace is like: by hand, and for the samples of the four."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.report.folder import plain
from tracekit.analyze import analyze
from tracekit.classify import ClassifyOptions as Roles
from tracekit.classify import classify
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.report.inputs import Inputs
from tracekit.report.sections import applications

SAMPLES = Path(__file__).resolve().parents[2] / "sample-traces"


def totals(**rows: tuple[int, int, int]) -> pd.DataFrame:
    """Return a table of totals: of each role its requests, sectors and different sectors."""
    return pd.DataFrame(
        {
            "role": list(rows),
            "read_count": 0,
            "write_count": [row[0] for row in rows.values()],
            "total_sectors": [row[1] for row in rows.values()],
            "distinct_sectors": [row[2] for row in rows.values()],
        }
    )


def test_a_role_is_hot_by_its_share_of_the_different_sectors() -> None:
    # GIVEN a file system with 50 of 100 sectors, and 25 of 75 different ones
    table = applications.counted(totals(fs=(10, 50, 25), journal=(30, 50, 50), other=(99, 9, 9)))
    # THEN 50 % are above 33 % by more than 5 points, and what the study has not is not counted
    found = applications.shape(table, "fs", large="journal")
    assert found == applications.STUDY["OLTP"]
    assert plain(list(applications.words(table, found, capacity_bytes=1 << 20).values())) == [
        "journal: 75.0 % of reads and writes",
        "file system: 50.0 % of all sectors, 33.3 % of the different ones",
        "file system",
        "journal, from 1 MiB on",
    ]
    assert applications.describe(table, found) == [
        "In all 4 traits this trace is like OLTP in the study."
    ]


def test_a_difference_is_told_with_the_traces_own_numbers() -> None:
    # GIVEN what is like a browser, but with most requests in the journal
    table = applications.counted(totals(fs=(10, 300, 300), journal=(30, 100, 100)))
    found = applications.shape(table, "fs", large="fs")
    assert plain(applications.describe(table, found)) == [
        "This trace is most like video and browser in the study: 3 of 4 traits.",
        "There the file system has most requests, here the journal; of all sectors the file system"
        " has 75.0 % here.",
        "A request has 15 KiB in the file system and 1.67 KiB in the journal on average.",
    ]


HOT = (
    "here the journal: a sector is touched 1.00 times in the file system and 4.00 times in the"
    " journal on average. A role is hot where its share of the different sectors is 5.0 % of the"
    " whole or more below its share of all."
)


def test_what_is_like_two_or_none_is_told_so() -> None:
    # GIVEN a hot journal with most requests, as no application of the study has
    table = applications.counted(totals(fs=(10, 60, 60), journal=(30, 40, 10)))
    # THEN with the file system as the best use of any NVM it shares two traits with two of them
    found = applications.shape(table, "fs", large="fs")
    assert plain(applications.describe(table, found)) == [
        "This trace is equally like \u201cOLTP\u201d and \u201cvideo and browser\u201d:"
        " 2 of 4 traits each.",
        "Beside \u201cOLTP\u201d: There much NVM serves best as journal, which has only 5 KiB of"
        f" different sectors here. There the role with hot sectors is the file system, {HOT}",
        "Beside \u201cvideo and browser\u201d: There the file system has most requests, here the"
        " journal; of all sectors the file system has 60.0 % here. A request has 3 KiB in the file"
        " system and 683 B in the journal on average. There the role with hot sectors is none,"
        f" {HOT}",
    ]
    # and with none of the study's roles as the best one, or with swap hot, none
    swapped = applications.Shape("other", ("swap",), "other", "other")
    assert applications.describe(table, swapped) == [
        "This trace is like none of the study's applications."
    ]


def test_a_role_without_traffic_has_no_share() -> None:
    table = applications.counted(totals(fs=(10, 300, 300), swap=(0, 0, 0)))
    found = applications.shape(table, "fs", large="fs")
    assert list(table.index) == ["fs"]
    assert found == applications.STUDY["video and browser"]


@pytest.mark.parametrize(
    ("sample", "expected", "differing"),
    [
        ("gnuplot", "graph drawing", set()),
        ("sysbench", "OLTP", set()),
        ("video", "video and browser", set()),
        # Under emulation the journal commits more often beside what a visit reads and writes.
        ("browser", "video and browser", {"busiest"}),
    ],
)
def test_the_samples_have_the_shapes_of_the_study(
    sample: str, expected: str, differing: set[str], tmp_path: Path
) -> None:
    # GIVEN the sample, as far as the answer
    folder, _ = parse([SAMPLES / sample], tmp_path / "trace")
    classify(folder, Roles())
    analyze(folder)
    recommend(folder, RecommendOptions())
    # WHEN its traits are compared
    section: Any = applications.applications(Inputs(folder))
    # THEN they are those of the study's application but for what is known to differ
    agrees = section.parts["agrees"][expected]
    assert {trait for trait, is_same in agrees.items() if not is_same} == differing
    assert expected in section.parts["sentences"][0]
