"""Which disk areas are journals and swap when no layout says it."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.classify.traces import (
    FS,
    JOURNAL,
    SWAP,
    classified,
    entry,
    flush,
    read,
    roles_of,
    trace,
    write,
)
from tracekit.classify import ClassifyOptions, Override, classify
from tracekit.classify.evidence import (
    JBD2,
    JOURNALER,
    ORDINARY,
    SWAPPER,
    WRITE,
    Evidence,
    Part,
    coalesce,
    commit_runs,
    process_kind,
)
from tracekit.classify.infer import Extent, check, decide, decide_beside_journal
from tracekit.store import TraceFolder, write_json

Rows = list[dict[str, Any]]
COMMIT = {"is_sync": True, "is_meta": True, "is_fua": True, "is_preflush": True}
LOG = {"is_sync": True, "is_meta": True}


def transactions(count: int, start: int, end: int, **who: Any) -> Rows:
    """Return transactions of three blocks, written round and round in a log."""
    rows, place = [], start
    for _ in range(count):
        for kind in (LOG, LOG, COMMIT):
            rows.append(write(place, **kind, **who))
            place = place + 8 if place + 8 < end else start
    return rows


def file_system(count: int, start: int, **who: Any) -> Rows:
    """Return data and metadata here and there."""
    return [
        row
        for number in range(count)
        for row in (
            write(start + number * 7919 % 512 * 8, is_sync=True, **who),
            read(start + number * 104729 % 512 * 8, is_meta=number % 4 == 0, **who),
        )
    ]


def paging(count: int, start: int) -> Rows:
    """Return pages that reclaim writes and programs read back."""
    return [
        row
        for number in range(count)
        for row in (
            write(start + number * 8, process="kswapd0", partition="8,3"),
            read(start + number * 8, process="gnuplot", partition="8,3"),
        )
    ]


def study_rows() -> Rows:
    """Return traffic of three partitions that only remap records name."""
    journal = {"process": "jbd2/sda1", "partition": "8,2"}
    return [
        *file_system(40, 2048, process="sqlite", partition="8,1"),
        *transactions(40, 10240, 10240 + 800, **journal),
        *paging(40, 14336),
        flush(process="jbd2/sda1"),
        read(0, process="blkid"),
    ]


def guessed(folder: TraceFolder) -> dict[str, tuple[str, str]]:
    """Return role and confidence by name of each region."""
    return {
        entry["name"]: (entry["role"], entry["confidence"]) for entry in folder.content["layout"]
    }


def test_remap_records_and_threads_tell_the_roles(tmp_path: Path) -> None:
    folder, result = classified(tmp_path, study_rows())
    assert guessed(folder) == {
        "8,1": ("fs", "medium"),
        "8,2": ("journal", "high"),
        "8,3": ("swap", "high"),
    }
    roles = ["fs"] * 80 + ["journal"] * 120 + ["swap"] * 80 + ["fs", "other"]
    assert roles_of(folder) == roles
    assert {known["what"]: known["value"] for known in result["inferences"]} == {
        "clock": "unknown",
        "role of 8,1": "fs",
        "role of 8,2": "journal",
        "role of 8,3": "swap",
    }
    assert [warning["code"] for warning in result["warnings"]] == ["guessed_roles"]
    assert result["classification"]["evidence"] == {
        "inferred": {"fs": 80, "journal": 120, "swap": 80},
        "empty_flush": {"fs": 1},
        "outside": {"other": 1},
    }


def test_partitions_without_roles_get_them(tmp_path: Path) -> None:
    # GIVEN partitions as sfdisk lists them, and requests without remap records
    layout = [entry(region, role=None) for region in (FS, JOURNAL, SWAP)]
    rows = [{**row, "partition": None} for row in study_rows()]
    _, result = classified(tmp_path, rows, layout)
    assert [found["role"] for found in result["layout"]] == ["fs", "journal", "swap"]
    assert [found["given_role"] for found in result["layout"]] == [None] * 3
    assert result["layout"][1]["evidence"] == (
        "inferred: jbd2 queued 120 of 120 writes, 118 of them sequential, 40 with FUA or"
        " preflush; 0 reads"
    )


def test_a_log_is_known_by_its_shape_where_processes_have_no_names(tmp_path: Path) -> None:
    layout = [entry(FS, role=None), entry(JOURNAL, role=None)]
    rows = [*file_system(40, 2048), *transactions(40, 10240, 14336)]
    folder, _ = classified(tmp_path, rows, layout)
    assert guessed(folder) == {"sda1": ("fs", "medium"), "sda2": ("journal", "medium")}


def test_a_file_system_is_known_by_its_external_journal(tmp_path: Path) -> None:
    # GIVEN partitions without roles, no names, and synchronous data beside a log
    layout = [entry(FS, role=None), entry(JOURNAL, role="unknown"), entry(SWAP, role=None)]
    rows = [write(2048 + 80 * number, is_sync=True) for number in range(20)]
    rows += [*transactions(40, 10240, 14336), flush()]
    folder, _ = classified(tmp_path, rows, layout)
    # THEN the data is the file system's, and a partition without requests stays as it was
    assert roles_of(folder) == ["fs"] * 20 + ["journal"] * 120 + ["fs"]
    assert folder.content["layout"][2] == entry(SWAP, role=None)


def test_requests_that_do_not_tell_stay_unknown(tmp_path: Path) -> None:
    # GIVEN a bare list of reads and writes, as public traces are
    folder, result = classified(tmp_path, [write(80), read(800), write(160), flush()])
    assert roles_of(folder) == ["unknown"] * 4
    unknown = result["warnings"][-1]
    assert unknown["message"] == "requests without a role: 4"
    assert "--role NAME=ROLE" in unknown["advice"]


def test_an_option_wins_over_a_guess(tmp_path: Path) -> None:
    folder, result = classified(tmp_path, study_rows(), overrides=(Override("8,3", "other"),))
    assert roles_of(folder).count("other") == 81
    assert "role of 8,3" not in [known["what"] for known in result["inferences"]]


def test_only_reclaim_without_a_file_systems_care_is_swap(tmp_path: Path) -> None:
    # GIVEN a file system whose dirty pages kswapd writes too
    rows = [*paging(40, 2048), *file_system(5, 2048, process="cp")]
    folder, _ = classified(tmp_path, rows, [entry(FS, role=None)])
    assert guessed(folder) == {"sda1": ("fs", "medium")}


def with_inner_journal() -> Rows:
    """Return a file system whose jbd2 also writes ordered data and checkpoints, as it does."""
    rows: Rows = []
    log = transactions(60, 4096, 4096 + 1200, process="jbd2/sda1-8")
    for number in range(60):
        rows += [
            write(7168 + number * 40, is_sync=True, process="jbd2/sda1-8"),
            *log[number * 3 : number * 3 + 3],
            write(2048 + number * 64, process="kworker/u8:1"),
            read(9000 + number * 8, is_meta=True, process="find"),
        ]
    return [
        row
        for row in rows
        if not 4096 <= row["sector"] < 5296 or "is_fua" in row or "is_meta" in row
    ]


@pytest.mark.parametrize("role", ["fs", None])
def test_a_journal_inside_a_file_system_is_found(tmp_path: Path, role: str | None) -> None:
    rows = with_inner_journal()
    folder, _ = classified(tmp_path, rows, [entry(FS, role=role)])
    # THEN exactly the log's blocks are journal, jbd2's ordered data is not
    expected = ["journal" if 4096 <= row["sector"] < 5296 else "fs" for row in rows]
    assert roles_of(folder) == expected
    found = folder.content["layout"][1]
    assert (found["name"], found["confidence"]) == ("journal at sda:4096", "high")
    assert (found["start_sector"], found["sectors"]) == (4096, 1200)


def test_commits_among_other_traffic_are_no_journal(tmp_path: Path) -> None:
    # GIVEN others at work all over the place where jbd2 commits
    rows = [*with_inner_journal(), *[read(4096 + number * 8, process="cp") for number in range(90)]]
    folder, result = classified(tmp_path, rows, [entry(FS)])
    assert set(roles_of(folder)) == {"fs"}
    assert [found["name"] for found in result["layout"]] == ["sda1"]


def test_guesses_are_made_anew_each_time(tmp_path: Path) -> None:
    folder, _ = classified(tmp_path, with_inner_journal(), [entry(FS, role=None)])
    first = dict(folder.content)
    again = TraceFolder(folder.path)
    classify(again, ClassifyOptions())
    # THEN nothing is taken for given that was a guess
    assert again.content == first


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("jbd2/sda1-8", JBD2),
        ("jbd2/loop0p2", JBD2),
        ("kswapd0", SWAPPER),
        ("kdamond.0", SWAPPER),
        ("xfsaild/sda1", JOURNALER),
        ("btrfs-transacti", JOURNALER),
        ("my-jbd2/x", ORDINARY),
        ("kswapd", ORDINARY),
    ],
)
def test_process_names(name: str, kind: int) -> None:
    assert process_kind(name) == kind


AS_JOURNAL = Evidence(
    reads=5,
    writes=100,
    meta=100,
    barriers=1,
    pages=105,
    sequential=80,
    named=105,
    jbd2_writes=90,
    log_barriers=1,
)
AS_SWAP = Evidence(reads=300, writes=320, pages=620, named=620, swapper_writes=16)
SHAPE = replace(AS_JOURNAL, meta=0, named=0, jbd2_writes=0, log_barriers=0)


def role(evidence: Evidence) -> tuple[str, str]:
    decision = decide(evidence)
    return decision.role, decision.confidence


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (AS_JOURNAL, ("journal", "high")),
        (AS_SWAP, ("swap", "high")),
        (SHAPE, ("journal", "medium")),
        # one sign of a journal is missing
        (replace(AS_JOURNAL, jbd2_writes=89), ("fs", "high")),
        (replace(AS_JOURNAL, sequential=79), ("fs", "high")),
        (replace(AS_JOURNAL, reads=6), ("fs", "high")),
        (replace(AS_JOURNAL, barriers=0), ("fs", "high")),
        # few requests make it less sure
        (
            replace(AS_JOURNAL, reads=0, writes=15, sequential=15, jbd2_writes=15),
            ("journal", "medium"),
        ),
        (replace(AS_SWAP, writes=15, swapper_writes=15, pages=315), ("swap", "medium")),
        (Evidence(reads=9, meta=1), ("fs", "medium")),
        (Evidence(writes=9, barriers=1), ("fs", "low")),
        (Evidence(writes=9, meta=1, journaler_writes=1), ("fs", "high")),
    ],
)
def test_role_and_confidence_of_evidence(evidence: Evidence, expected: tuple[str, str]) -> None:
    assert role(evidence) == expected


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        # one sign of swap is missing
        (replace(AS_SWAP, pages=619), "unknown"),
        (replace(AS_SWAP, swapper_writes=15), "unknown"),
        (replace(AS_SWAP, meta=1), "fs"),
        (replace(AS_SWAP, barriers=1), "fs"),
        (replace(AS_SWAP, jbd2_writes=1), "fs"),
        # one sign of a log is missing
        (replace(SHAPE, named=1), "fs"),
        (replace(SHAPE, writes=15, sequential=15, reads=0), "fs"),
        (replace(SHAPE, sequential=79), "fs"),
        (replace(SHAPE, reads=6), "fs"),
        (replace(SHAPE, barriers=0), "unknown"),
    ],
)
def test_role_of_evidence_with_a_sign_missing(evidence: Evidence, expected: str) -> None:
    assert role(evidence)[0] == expected


def test_beside_an_external_journal_synchronous_writes_are_a_file_systems() -> None:
    assert decide_beside_journal(Evidence(writes=9, synchronous=1)).role == "fs"
    assert decide_beside_journal(Evidence(writes=9)).role == "unknown"


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
    check(folder.table("requests"), [second, first])
    assert (first.log, first.jbd2, first.others) == (1, 1, 1)
    assert (second.log, second.jbd2, second.others) == (0, 0, 1)
    assert not first.is_journal


def reclaim(count: int, start: int, **who: Any) -> Rows:
    """Return pages that a program under a memory limit writes out itself, twice, and reads back."""
    kinds = (write, write, read)
    named = {"process": "python3", **who}
    return [kind(start + 8 * number, **named) for kind in kinds for number in range(count)]


OLD_CACHE = {"evidence": "blocks in an order that is not known, of vg-lv (cache)"}
"""What a layout of the versions before `is_unordered` says of a cache."""


@pytest.mark.parametrize("cache", [{"is_unordered": True}, OLD_CACHE])
@pytest.mark.parametrize("is_in_a_row", [True, False])
def test_blocks_of_a_cache_have_a_role_only_where_the_journal_is_found(
    tmp_path: Path, is_in_a_row: bool, cache: dict[str, Any]
) -> None:
    # GIVEN a cache with blocks of a file system and of its journal, which may lie among them
    log = transactions(40, 65536, 65536 + 4096, process="jbd2/dm-0-8")
    if not is_in_a_row:
        log = [row | {"sector": 2048 + 8 * (n * 7919 % 512)} for n, row in enumerate(log)]
    rows = [*file_system(60, 2048, process="app"), *log]
    region = entry(FS, role="unknown", sectors=1 << 18) | cache
    folder, result = classified(tmp_path, rows, [region])
    # THEN all have a role, which is not certain, or none has one
    found = result["layout"][0]
    if is_in_a_row:
        assert Counter(roles_of(folder)) == {"fs": 120, "journal": 120}
        assert (found["role"], found["confidence"]) == ("fs", "medium")
    else:
        assert Counter(roles_of(folder)) == {"unknown": 240}
        assert found == region | {"is_unordered": True}


@pytest.mark.parametrize("role", ["fs", None])
@pytest.mark.parametrize("partition", ["8,1", None])
def test_swap_in_a_file_is_found_by_what_reclaim_does(
    tmp_path: Path, role: str | None, partition: str | None
) -> None:
    # GIVEN a file system, and a swap file in it that no layout names
    rows = [
        *file_system(60, 2048, process="jbd2/sda1-8", partition=partition),
        *reclaim(1024, 65536, partition=partition),
    ]
    region = entry(FS, role=role, sectors=1 << 18)
    folder, result = classified(tmp_path, rows, [region] if role else [])
    # THEN exactly its pages are swap
    roles = roles_of(folder)
    assert (Counter(roles[:120]), Counter(roles[120:])) == ({"fs": 120}, {"swap": 3072})
    found = result["layout"][1]
    assert (found["name"], found["confidence"]) == ("swap at sda:65536", "high")
    assert (found["start_sector"], found["sectors"]) == (65536, 8192)
    assert found["evidence"] == (
        "inferred: of 1,024 pages read none was read before it was written, and all 2,048 written"
        " pages were of reclaim: nobody waited for them"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"is_sync": True},
        {"is_fua": True},
        {"process": "kworker/u8:1"},
        {"process": None},
        {"sector": 65540},
    ],
)
def test_one_request_that_swap_never_has_takes_its_surroundings_out(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    rows = [*file_system(20, 2048, process="jbd2/sda1-8"), *reclaim(128, 65536)]
    rows.insert(0, write(65536, process="python3") | changed)
    folder, _ = classified(tmp_path, rows, [entry(FS, sectors=1 << 18)])
    # THEN of two stretches of 64 pages the second alone could be swap, which is enough
    roles = roles_of(folder)
    assert Counter(roles) == {"fs": 41 + 3 * 64, "swap": 3 * 64}


@pytest.mark.parametrize(
    ("flags", "who", "swap"),
    [
        ({"is_sync": True}, "python3", 385),
        # of a trace without flags, or of threads that pass on what others write, it is not certain
        ({}, "python3", 192),
        ({"is_sync": True}, "dmcrypt_write", 192),
    ],
)
def test_pages_that_were_swapped_before_the_trace_may_be_read_first(
    tmp_path: Path, flags: dict[str, Any], who: str, swap: int
) -> None:
    rows = [write(2048 + 8 * number, process="jbd2/sda1-8", **flags) for number in range(39)]
    rows += [read(2048, process=who), read(65536, process="python3"), *reclaim(128, 65536)]
    folder, _ = classified(tmp_path, rows, [entry(FS, sectors=1 << 18)])
    assert Counter(roles_of(folder)) == Counter(fs=425 - swap, swap=swap)
    start = 65536 if swap == 385 else 65536 + 512
    assert guessed_of(folder, f"swap at sda:{start}") == ("swap", "medium")


def test_an_undecided_partition_that_reclaim_fills_is_swap(tmp_path: Path) -> None:
    layout = [entry(FS), entry(SWAP, role=None, start_sector=14344, sectors=800)]
    folder, _ = classified(tmp_path, reclaim(100, 14344), layout)
    assert roles_of(folder) == ["swap"] * 300
    assert guessed_of(folder, "sda3") == ("swap", "medium")


def guessed_of(folder: TraceFolder, name: str) -> tuple[str, str]:
    (found,) = (one for one in folder.content["layout"] if one["name"] == name)
    return found["role"], found["confidence"]


def test_an_append_to_a_file_is_no_log(tmp_path: Path) -> None:
    # GIVEN durable writes of a program, one behind the other, that are no metadata
    rows = [*file_system(20, 2048, process="cp")]
    rows += [write(7168 + 8 * n, is_sync=True, is_fua=True, process="db") for n in range(90)]
    folder, _ = classified(tmp_path, rows, [entry(FS, role=None)])
    assert {*roles_of(folder)} == {"fs"}


@pytest.mark.parametrize("who", ["python3", "kworker/0:1H", "dmcrypt_write", None])
def test_a_log_is_found_whoever_queues_it(tmp_path: Path, who: str | None) -> None:
    # GIVEN the log of an XFS, and a super block that is written again and again
    rows = [*file_system(40, 2048, process="cp")]
    for number, log in enumerate(transactions(60, 6400, 7680, process=who)):
        rows += [log] if number % 9 else [log, write(10232, **COMMIT, process=who)]
    folder, _ = classified(tmp_path, rows, [entry(FS, role=None)])
    expected = Counter("journal" if 6400 <= row["sector"] < 7680 else "fs" for row in rows)
    assert Counter(roles_of(folder)) == expected


def test_a_device_over_two_disks_has_one_role(tmp_path: Path) -> None:
    # GIVEN a device of the device mapper on two disks, on one of which it has metadata
    over: dict[str, Any] = {"partition": "253,0", "process": "cp"}
    rows = [
        *file_system(30, 2048, **over),
        *[write(80 * n, device="sdb", **over) for n in range(9)],
    ]
    folder, _ = classified(tmp_path, rows)
    assert {*roles_of(folder)} == {"fs"}
    assert folder.content["layout"][1]["evidence"] == (
        "inferred: the device 253,0 is a file system's on sda"
    )


def test_a_layout_that_is_given_is_checked_by_all_requests(tmp_path: Path) -> None:
    # GIVEN a layout that has a role for everything, of which the requests say something else
    rows = [*paging(600, 14336), *[write(2048 + 80 * n) for n in range(40)]]
    rows += [read(2048 + 80 * n) for n in range(40)]
    file = tmp_path / "given.json"
    layout = [entry(FS, role="journal"), entry(SWAP, role="fs")]
    write_json(file, {"layout_version": 1, "devices": [], "partitions": layout})
    folder, result = classified(tmp_path, rows, [entry(FS), entry(SWAP)], layout_file=file)
    told = {one["code"]: one["message"] for one in result["warnings"]}
    # THEN a journal that is read and written all over is told
    wanted = "is a journal and has 40 reads and 40 writes out of sequence, of 80"
    assert wanted in told["contradicted_roles"]
    # AND swap is found as it is without a layout
    assert roles_of(folder).count("swap") == 1200


def test_requests_against_the_layout_are_told(tmp_path: Path) -> None:
    # GIVEN metadata and a barrier where the layout has swap
    rows = [*paging(10, 14336), write(14336, is_meta=True), write(14344, is_fua=True)]
    folder, result = classified(tmp_path, rows, [entry(FS), entry(SWAP)])
    assert {*roles_of(folder)} == {"swap"}
    told = {one["code"]: one["message"] for one in result["warnings"]}
    assert told == {
        "contradicted_roles": "the requests are against the layout: sda3 is swap and has"
        " 1 metadata requests, 1 writes with FUA or preflush, of 22"
    }
