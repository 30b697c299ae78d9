"""Several captures read as one: pieces of one recording, or not."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import parsed as traces
from tests.decode.records import pack
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

MS = 1_000_000


def read_at(at_ms: int, pid: int) -> str:
    """Return the events of a read that completes at a time."""
    at_ns = at_ms * MS
    times = ((at_ns - 2000, "Q"), (at_ns - 1000, "D"), (at_ns, "C"))
    return "\n".join(f"{time} {action} R {at_ms * 8}+8 pid={pid}" for time, action in times)


def piece(folder: Path, number: int, *, reads: int, **layout: Any) -> Path:
    """Write a piece of a second with so many reads; the kernel counts 10, and one at the cut."""
    folder.mkdir()
    first_ms = number * 1000
    lines = [read_at(first_ms + 100 + turn, pid=number) for turn in range(reads)]
    (folder / "c.blktrace.0").write_bytes(pack("\n".join(lines)))
    ends = {"begin": (50, 0), "end": (900, 10)}
    counters = {
        name: {
            "before_ns": (first_ms + at_ms) * MS,
            "after_ns": (first_ms + at_ms) * MS + 1000,
            "completed": {"read": 11 * number + count},
        }
        for name, (at_ms, count) in ends.items()
    }
    content = {
        "layout_version": 1,
        "devices": [{"device": "loop0", "major": 7, "minor": 0}],
        "processes": {str(number): f"program{number}"},
        "cgroups": {str(number): f"/group{number}"},
        "loss": {"overrun": number, "dropped": 10 * number},
        "counters": [{"device": "loop0", **counters}],
        "capture": {"source": "tracefs-blk", "own_pid": 7, "piece": number},
    }
    (folder / "layout.json").write_text(json.dumps(content | layout))
    return folder


def joined(tmp_path: Path, *pieces: Path) -> TraceFolder:
    return parse(pieces, tmp_path / "trace")[0]


def not_measured(folder: TraceFolder) -> list[str]:
    return [one["why"] for one in folder.content["loss"]["unseen"]["not_measured"]]


def test_pieces_have_what_each_of_them_knows(tmp_path: Path) -> None:
    # GIVEN three pieces with 11, 8 and 10 reads, where the kernel counted 11 from one to the next
    pieces = [piece(tmp_path / f"p{n}", n, reads=reads) for n, reads in ((1, 11), (2, 8), (3, 10))]
    # WHEN they are read as one, the last one first
    found = joined(tmp_path, *reversed(pieces))
    # THEN the kernel's count is of all, and so are the losses and the names
    (row,) = found.content["loss"]["unseen"]["disks"]
    assert (row["counted"], row["recorded"], row["at_least"]) == (32, 29, 3)
    assert found.content["loss"]["dropped"] == 1 + 2 + 3 + 10 * (1 + 2 + 3)
    names = set(traces.requests(found)["process"].to_pylist())
    assert names == {"program1", "program2", "program3"}


def test_a_name_that_one_piece_knows_is_known_in_all(tmp_path: Path) -> None:
    first = piece(tmp_path / "p1", 1, reads=10, processes={})
    second = piece(tmp_path / "p2", 2, reads=10, processes={"1": "late", "2": "other"})
    found = joined(tmp_path, first, second)
    assert set(traces.requests(found)["process"].to_pylist()) == {"late", "other"}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"capture": {"own_pid": 7, "piece": 3}}, "not all pieces of one recording, in a row"),
        ({"capture": {"own_pid": 8, "piece": 2}}, "not all pieces of one recording, in a row"),
        ({"capture": {}}, "not all pieces of one recording, in a row"),
        ({"counters": []}, "has no counters of it"),
        ({"counters": [{"device": "loop0", "why_not": "it went away"}]}, "it went away"),
    ],
)
def test_without_a_row_of_counters_what_is_missing_is_not_known(
    tmp_path: Path, second: dict[str, Any], why: str
) -> None:
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8, **second)
    (found,) = not_measured(joined(tmp_path, *pieces))
    assert why in found


def test_counters_that_went_back_are_of_another_boot(tmp_path: Path) -> None:
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8)
    file = pieces[0] / "layout.json"
    file.write_text(file.read_text().replace('"read": 21', '"read": 210'))
    assert not_measured(joined(tmp_path, *pieces)) == ["its counters went back between two pieces"]


def test_a_time_from_which_records_found_no_space_counts_from_the_first(tmp_path: Path) -> None:
    loss = {"overrun": 0, "dropped": 5, "whole_ns": 200 * MS}
    pieces = piece(tmp_path / "p1", 1, reads=11), piece(tmp_path / "p2", 2, reads=8, loss=loss)
    message = traces.warnings(joined(tmp_path, *pieces))["lost_records"]
    assert "behind the first 1.200 s, of some CPUs" in message
