"""Which of the studied applications a trace is like: by hand, and for the samples of the four."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.report.folder import numbers
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
    traits = applications.words(table, found, capacity_bytes=1 << 20)
    assert numbers(list(traits.values())) == ["75.0 %", "50.0 %", "33.3 %", "1 MiB"]
    assert numbers(applications.describe(table, found)) == ["4"]


def test_a_difference_has_the_numbers_of_the_trace() -> None:
    # GIVEN what is like a browser, but with most requests in the journal
    table = applications.counted(totals(fs=(10, 300, 300), journal=(30, 100, 100)))
    found = applications.shape(table, "fs", large="fs")
    # THEN there are the traits shared, the sectors of the file system, and 512 bytes * 300 / 10
    # of its requests beside 512 * 100 / 30 of the journal's
    sentences = applications.describe(table, found)
    assert numbers(sentences) == ["3", "4", "75.0 %", "15 KiB", "1.67 KiB"]
    assert "like video and browser" in sentences[0]


def test_a_trace_can_be_like_two_or_none() -> None:
    # GIVEN a hot journal with most requests, as no application of the study has
    table = applications.counted(totals(fs=(10, 60, 60), journal=(30, 40, 10)))
    # THEN with the file system as the best use of any NVM it shares two traits with two of them
    found = applications.shape(table, "fs", large="fs")
    hot = ["1.00", "4.00", "5.0 %"]
    assert numbers(applications.describe(table, found)) == [
        *("2", "4"),
        *("5 KiB", *hot),
        *("60.0 %", "3 KiB", "683 B", *hot),
    ]
    # and with none of the study's roles as the best one, or with swap hot, none
    swapped = applications.Shape("other", ("swap",), "other", "other")
    assert numbers(applications.describe(table, swapped)) == []


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
