"""`tracekit export` to MSR's CSV and oracleGeneral: by hand, by import, and by brute force."""

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.export.test_export import ROWS, many
from tests.parsed import rows
from tests.replay.trace import trace
from tracekit.errors import InputError
from tracekit.formats import ORACLE_RECORD
from tracekit.metadata import Clock
from tracekit.readers.importing import import_trace
from tracekit.store import TraceFolder
from tracekit.writers.export import export
from tracekit.writers.oracle import link

WALL_NS = 1_763_700_000_123_456_700


def with_clock(path: Path, requests: list[dict[str, Any]], **more: int) -> TraceFolder:
    made = trace(path, requests, **more)
    made.save_info(clock=Clock(base_ns=0, wall_ns=WALL_NS, duration_ns=1))
    return made


def test_msr_by_hand(tmp_path: Path) -> None:
    # GIVEN a trace with a wall clock, of reads and writes and of what MSR has not
    made = with_clock(tmp_path / "trace", ROWS)
    # WHEN it is exported
    result = export(made, "msr", output=tmp_path / "t.csv")
    # THEN times are 100 ns since 1601, and a request without a completion took 0
    assert (tmp_path / "t.csv").read_text() == (
        "134081736001234567,8,0,Read,4096,4096,5000\n"
        "134081736001234597,8,16,Write,512,512,0\n"
        "134081736001234637,8,16,Write,8192,8192,0\n"
    )
    assert result["left_out"] == {"flush": 1, "discard": 1, "empty": 1, "too_long": 1}
    assert result["changed"] == {"no_completion": 2, "guessed_times": 1}
    assert "complete_ns" not in result["unheld"]


def test_an_import_gives_back_what_msr_can_hold(tmp_path: Path) -> None:
    made = with_clock(tmp_path / "trace", many(5000, ("read", "write"), 100), row_group_rows=700)
    result = export(made, "msr", output=tmp_path / "t.csv")
    again = import_trace(tmp_path / "t.csv", tmp_path / "again")
    assert not result["changed"]
    assert again.content["source"]["format"] == "msr"
    assert again.content["clock"]["wall_ns"] == WALL_NS
    assert rows(again) == rows(made)


def test_msr_without_a_wall_clock_is_of_2000(tmp_path: Path) -> None:
    # GIVEN devices that are no host with a number, two of them alike once they are plain
    requests = [{"device": name} for name in ("a b", "a_b", "a_b,0", "x,y,1")]
    result = export(trace(tmp_path / "trace", requests), "msr", output=tmp_path / "t.csv")
    # THEN their names differ, and the time is the first of 2000
    assert list(result["names"].values()) == ["a_b,0", "a_b_2,0", "a_b,1", "x_y,1"]
    assert result["has_wall_clock"] is False
    assert (tmp_path / "t.csv").read_text().startswith("125911584000000000,a_b,0,Write,0,4096,0\n")


def test_oracle_by_hand(tmp_path: Path) -> None:
    # GIVEN a place that is done again, on one device of two
    requests = [
        {"queue_ns": 0, "device": "a", "sector": 8, "operation": "read"},
        {"queue_ns": 1_500_000_000, "device": "b", "sector": 8, "length_bytes": 512},
        {"queue_ns": 2_000_000_000, "device": "a", "sector": 8, "length_bytes": 1024},
        {"queue_ns": 2_000_000_000, "device": "a", "operation": "flush", "length_bytes": 0},
        {"queue_ns": 2_000_000_000, "device": "b", "sector": 8},
    ]
    result = export(trace(tmp_path / "trace", requests), "oracleGeneral", output=tmp_path / "t.bin")
    # THEN b stands behind a, which ends after 16 sectors, and only the last accesses have no next
    expected = [(0, 8, 4096, 2), (1, 24, 512, 3), (2, 8, 1024, -1), (2, 24, 4096, -1)]
    assert (tmp_path / "t.bin").read_bytes() == b"".join(
        struct.pack("<IQIq", *record) for record in expected
    )
    assert result["first_objects"] == {"a": 0, "b": 16}
    assert result["left_out"] == {"flush": 1}
    # AND the second access of either has another size than the first
    assert result["changed"] == {"rounded_times": 1, "changed_objects": 2}
    assert result["unheld"]["operation"] == 4


def test_an_import_gives_back_what_oracle_can_hold(tmp_path: Path) -> None:
    requests = [{**row, "device": "trace"} for row in many(5000, ("read",), 10**9)]
    made = trace(tmp_path / "trace", requests, row_group_rows=700)
    export(made, "oracleGeneral", output=tmp_path / "t.bin")
    again = import_trace(tmp_path / "t.bin", tmp_path / "again")
    assert again.content["source"]["format"] == "oracleGeneral"
    assert rows(again) == [(row[0], None, *row[2:-1], None) for row in rows(made)]


@pytest.mark.parametrize("bucket_rows", [1, 7, 1000])
def test_next_accesses_are_those_of_a_search(tmp_path: Path, bucket_rows: int) -> None:
    # GIVEN accesses to few objects
    pick = random.Random(bucket_rows)  # noqa: S311 - a fixed sequence, no secret
    objects = [pick.randrange(40) for _ in range(300)]
    records = np.zeros(300, ORACLE_RECORD)
    records["object"], records["next"] = objects, -1
    records.tofile(tmp_path / "t.bin")
    # WHEN they are linked in buckets of some size
    link(tmp_path / "t.bin", 300, bucket_rows=bucket_rows)
    # THEN each names the first later one of its object
    found = np.fromfile(tmp_path / "t.bin", ORACLE_RECORD)["next"].tolist()
    assert found == [
        next((later for later in range(now + 1, 300) if objects[later] == objects[now]), -1)
        for now in range(300)
    ]


def test_oracle_has_no_time_beyond_its_seconds(tmp_path: Path) -> None:
    made = trace(tmp_path / "trace", [{"queue_ns": (1 << 32) * 10**9}])
    with pytest.raises(InputError, match=r"4,294,967,296 s is too large"):
        export(made, "oracleGeneral", output=tmp_path / "t.bin")
