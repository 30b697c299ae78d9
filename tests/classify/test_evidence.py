from pathlib import Path

import numpy as np

from tests.classify.traces import read, trace, write
from tracekit.classify.infer import (
    JBD2,
    WRITE,
    Evidence,
    Extent,
    Part,
    check,
    coalesce,
    commit_runs,
)


def jbd2(*writes: tuple[int, int, bool]) -> Part:
    """Return writes of jbd2: first sector, sector behind the last, whether it is a commit."""
    columns = np.array(writes, np.int64).reshape(-1, 3).T
    count = len(writes)
    return Part(
        sector=columns[0],
        end=columns[1],
        operation=np.full(count, WRITE),
        process=np.full(count, JBD2),
        is_sync=np.ones(count, np.bool_),
        is_meta=np.ones(count, np.bool_),
        is_barrier=columns[2].astype(np.bool_),
    )


def test_a_run_without_a_commit_is_no_part_of_the_log() -> None:
    # GIVEN ordered data, a transaction behind it elsewhere, and one that begins the log anew
    writes = jbd2((900, 916, False), (80, 88, False), (88, 96, True), (8, 16, True))
    assert commit_runs(writes).tolist() == [[80, 96], [8, 16]]
    assert commit_runs(jbd2()).tolist() == []


def test_runs_join_over_small_gaps_only() -> None:
    # GIVEN a run within another, one 2048 sectors behind it and one a sector too far
    runs = np.array([[5000, 5100], [0, 1000], [10, 20], [3048, 3050], [5099, 5099 + 2100]])
    assert coalesce(runs).tolist() == [[0, 7199]]
    assert coalesce(np.array([[0, 1000], [10, 20], [3049, 3050]])).tolist() == [
        [0, 1000],
        [3049, 3050],
    ]


def test_sequences_go_on_from_batch_to_batch() -> None:
    evidence = Evidence()
    evidence.add(jbd2((0, 8, False), (8, 16, False)))
    evidence.add(jbd2((16, 24, True), (32, 40, True)))
    assert (evidence.writes, evidence.sequential, evidence.barriers) == (4, 2, 2)
    assert (evidence.first_sector, evidence.end_sector) == (0, 40)
    assert evidence.commit_runs is not None
    assert evidence.commit_runs.tolist() == [[16, 40]]


def test_only_what_lies_within_an_extent_counts_for_it(tmp_path: Path) -> None:
    # GIVEN two extents and requests up to, over and behind their edges
    rows = [
        write(96, process="cp"),  # ends where the first begins
        write(100, process="cp"),  # reaches into it
        write(104, process="jbd2/sda1-8"),
        read(192, process="cp"),  # behind it
        read(400, process="cp"),
        write(400, device="sdb", process="cp"),
    ]
    folder = trace(tmp_path / "t", rows)
    first, second = Extent("sda", 104, 192), Extent("sda", 400, 408)
    # WHEN
    check(folder.table("requests"), [second, first])
    # THEN
    assert (first.jbd2, first.others) == (1, 1)
    assert (second.jbd2, second.others) == (0, 1)
    assert not first.is_journal
