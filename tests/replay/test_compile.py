"""From a trace to a plan: which requests, when, where a placement has them, and after which."""

import json
import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.replay.trace import compiled, trace
from tests.simulate.placement_models import Request, hottest_first, write_trace
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Region
from tracekit.model.block_orders import read_blocks
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.plans import Records, block_plan
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE
from tracekit.replay import compiler, placed
from tracekit.replay.compiler import BATCH_ROWS, ROWS, PlanOptions, PlanReport, Waits, compile_plan
from tracekit.replay.placed import place
from tracekit.replay.routes import Part, Routes, parts_of
from tracekit.store import TraceFolder, write_json

Rows = list[dict[str, Any]]


def plan_of(tmp_path: Path, rows: Rows, **options: Any) -> tuple[list[tuple[int, ...]], PlanReport]:
    """Return the plan's records as (intended_ns, sector, id, sectors, operation, flags, target)."""
    records, report = compiled(trace(tmp_path / "trace", rows), **options)
    named = list(block_plan.RECORD.names or ())[:7]
    return [tuple(int(row[name]) for name in named) for row in records], report


def test_as_queued_every_request_is_at_its_queue_time(tmp_path: Path) -> None:
    rows: Rows = [
        {"queue_ns": 1000, "sector": 8, "length_bytes": 512, "operation": "read"},
        {"queue_ns": 1500, "sector": 16, "merged_into": 0, "is_sync": True, "is_fua": True},
        {"queue_ns": 1500, "operation": "flush", "length_bytes": 0, "is_preflush": True},
        {"queue_ns": 9000, "sector": 64, "operation": "discard", "length_bytes": 1 << 33},
        {"queue_ns": 9001, "sector": 64, "operation": "write_zeroes", "is_meta": True},
    ]
    records, report = plan_of(tmp_path, rows)
    assert records == [
        (0, 8, 0, 1, block_plan.READ, 0, 0),
        (500, 16, 1, 8, block_plan.WRITE, block_plan.SYNC | block_plan.FUA, 0),
        (500, 0, 2, 0, block_plan.FLUSH, block_plan.PREFLUSH, 0),
        (8000, 64, 3, 1 << 24, block_plan.DISCARD, 0, 0),
        (8001, 64, 4, 8, block_plan.WRITE_ZEROES, block_plan.META, 0),
    ]
    assert report.skipped == {}
    assert report.targets == [{"label": "default", "needed_bytes": 64 * 512 + (1 << 33)}]


def test_as_issued_a_request_carries_what_was_merged_into_it(tmp_path: Path) -> None:
    # GIVEN a back merge (1), a front merge (2), a merge through a merged request (3), and requests
    # that are issued in another order than they were queued
    rows: Rows = [
        {"queue_ns": 10, "issue_ns": 900, "sector": 100},
        {"queue_ns": 20, "issue_ns": 900, "sector": 108, "merged_into": 0},
        {"queue_ns": 30, "issue_ns": 900, "sector": 92, "merged_into": 0},
        {"queue_ns": 40, "issue_ns": 900, "sector": 116, "merged_into": 1},
        {"queue_ns": 50, "issue_ns": 60, "sector": 8, "operation": "read"},
        {"queue_ns": 70, "issue_ns": None, "sector": 8},
        {"queue_ns": 80, "issue_ns": 80, "sector": 8, "merged_into": 5},
    ]
    records, report = plan_of(tmp_path, rows, level="issued")
    # THEN the read is first, and the write covers all four
    assert records == [
        (0, 8, 4, 8, block_plan.READ, 0, 0),
        (840, 92, 0, 32, block_plan.WRITE, 0, 0),
    ]
    assert report.skipped == {"unissued": 1, "merged_into_unknown": 1}


@pytest.mark.parametrize("level", ["queued", "issued"])
def test_batches_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    # GIVEN requests with merge targets before and after them, and wild issue times
    random = np.random.default_rng(5)
    count = 500
    queue = np.sort(random.integers(0, 100_000, count))
    rows: Rows = []
    for number in range(count):
        row = {"queue_ns": int(queue[number]), "sector": 8 * number}
        row["issue_ns"] = int(queue[number] + random.integers(0, 5000))
        if number % 5 == 1:
            row["merged_into"] = number - 1
        rows.append(row)
    whole, _ = plan_of(tmp_path, rows, level=level)
    # WHEN they are read seven at a time
    monkeypatch.setattr("tracekit.replay.compiler.BATCH_ROWS", 7)
    (tmp_path / "again").mkdir()
    pieces, _ = plan_of(tmp_path / "again", rows, level=level)
    # THEN the plan is the same, and in order of time
    assert count < BATCH_ROWS
    assert pieces == whole
    assert [row[0] for row in whole] == sorted(row[0] for row in whole)
    key = "queue_ns" if level == "queued" else "issue_ns"
    times = [row[key] for row in rows if level == "queued" or "merged_into" not in row]
    assert sorted(row[0] + min(times) for row in whole) == sorted(times)


def test_a_role_with_its_own_target_starts_at_its_beginning(tmp_path: Path) -> None:
    rows: Rows = [
        {"queue_ns": 0, "sector": 200_008, "role": "journal"},
        {"queue_ns": 1, "sector": 4096, "role": "fs"},
        {"queue_ns": 2, "sector": 300_000, "role": "swap"},
        {"queue_ns": 3, "sector": 200_000, "role": "journal"},
        {"queue_ns": 4, "operation": "flush", "length_bytes": 0, "role": "journal"},
    ]
    records, report = plan_of(tmp_path, rows, own_labels=("journal", "swap"))
    assert [(row[1], row[6]) for row in records] == [(8, 0), (4096, 2), (0, 1), (0, 0), (0, 0)]
    assert report.targets == [
        {"label": "journal", "needed_bytes": 16 * 512},
        {"label": "swap", "needed_bytes": 4096},
        {"label": "default", "needed_bytes": (4096 + 8) * 512},
    ]


def test_several_devices_and_parts_follow_each_other(tmp_path: Path) -> None:
    # GIVEN journal requests outside any partition, and two devices on the default target
    rows: Rows = [
        {"queue_ns": 0, "sector": 500_000, "role": "journal", "device": "sdb"},
        {"queue_ns": 1, "sector": 200_000, "role": "journal"},
        {"queue_ns": 2, "sector": 3000, "device": "sda"},
        {"queue_ns": 3, "sector": 7, "device": "sdb", "length_bytes": 512},
    ]
    records, report = plan_of(tmp_path, rows, own_labels=("journal",))
    # THEN each area starts at the next MiB of its target
    assert [(row[1], row[6]) for row in records] == [
        (2048 + 500_000 - 499_712, 0),
        (0, 0),
        (3000, 1),
        (4096 + 7, 1),
    ]
    places = {(e["target"], e["device"], e["target_sector"]) for e in report.extents}
    assert places == {(0, "sda", 0), (0, "sdb", 2048), (1, "sda", 0), (1, "sdb", 4096)}


def test_what_cannot_be_replayed_is_counted(tmp_path: Path) -> None:
    rows: Rows = [
        {"queue_ns": 0, "operation": "zone"},
        {"queue_ns": 1, "length_bytes": 0},
        {"queue_ns": 2, "sector": -8},
        {"queue_ns": 3, "length_bytes": 1 << 30},
        {"queue_ns": 4, "length_bytes": 700},
        {"queue_ns": 5, "length_bytes": 0, "is_preflush": True},
        {"queue_ns": None, "issue_ns": 6, "complete_ns": 9},
    ]
    records, report = plan_of(tmp_path, rows)
    assert report.skipped == {"operation": 1, "empty": 1, "address": 1, "too_long": 1}
    assert report.rounded == 1
    assert report.guessed_times == 1
    assert [(row[0], row[3], row[4]) for row in records] == [
        (0, 2, block_plan.WRITE),
        (1, 0, block_plan.FLUSH),
        (2, 8, block_plan.WRITE),
    ]


def test_operations_on_zones_name_their_zone(tmp_path: Path) -> None:
    # GIVEN an append and what is done to zones as a whole, which a capture has without a length
    words = ("append", "reset", "reset_all", "open", "close", "finish")
    rows: Rows = [
        {
            "queue_ns": n,
            "operation": f"zone_{word}",
            "sector": 8192,
            "length_bytes": 4096 * (n == 0),
        }
        for n, word in enumerate(words)
    ]
    records, report = plan_of(tmp_path, rows)
    # THEN each has its operation, and a length only what has data
    assert [(row[1], row[3], row[4]) for row in records] == [
        (8192, 8 * (n == 0), block_plan.ZONE_APPEND + n) for n in range(6)
    ]
    assert report.operations["zone_reset_all"] == 1
    assert report.targets[0]["needed_bytes"] == 8200 * 512


def test_the_limit_is_exact(tmp_path: Path) -> None:
    rows = [{"queue_ns": number, "sector": 8 * number} for number in range(100)]
    records, report = plan_of(tmp_path, rows, limit=7)
    assert len(records) == report.requests == 7
    assert report.targets[0]["needed_bytes"] == 7 * 4096


def test_a_table_out_of_order_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.replay.compiler.BATCH_ROWS", 2)
    rows = [{"queue_ns": ns} for ns in (0, 100, 50, 60)]
    with pytest.raises(InputError, match="request 2 stands behind requests of later times"):
        plan_of(tmp_path, rows)
    assert list(tmp_path.rglob("*.bin")) == []


@pytest.mark.parametrize(
    ("row", "labels", "message"),
    [
        ({"operation": "zone"}, (), "no request to replay at level 'queued'"),
        ({"operation": "zone"}, ("log",), "there is no role 'log'"),
        ({"role": "fs"}, ("swap",), "no requests of role 'swap'"),
        ({"sector": 8}, ("sda@100+8",), r"no requests on 'sda@100[+]8'"),
    ],
)
def test_nothing_to_replay_and_unknown_roles_are_errors(
    tmp_path: Path, row: dict[str, Any], labels: tuple[str, ...], message: str
) -> None:
    folder = trace(tmp_path / "trace", [row])
    with pytest.raises((UsageError, InputError), match=message):
        compile_plan(folder, tmp_path / "a.bin", options=PlanOptions(own_labels=labels))
    assert list(tmp_path.glob("*.bin")) == []


def test_what_lies_behind_an_inner_region_is_still_of_the_partition() -> None:
    # GIVEN a file system with a journal inside it, each an entry of the layout
    layout = [
        Region(device="sda", start_sector=2048, sectors=10_000),
        Region(device="sda", start_sector=6048, sectors=1000),
    ]
    routes = Routes(layout, ("fs",))
    # WHEN requests of the file system lie before, in and behind the journal, and outside of all
    sector = np.array([2056, 6048, 8000, 12_048], np.int64)
    numbers = routes.number("sda", "fs", sector=sector, end=sector + 8)
    extents = routes.tables(trace_sha256=bytes(32), level="queued").extents
    moved = [
        int(place) + extents[number].target_sector - extents[number].source_sector
        for place, number in zip(sector, numbers, strict=True)
    ]
    # THEN those of the partition keep their distance to its start, and the others do not mix in
    assert numbers[0] == numbers[2] != numbers[1]
    assert moved[0] == 8
    assert moved[2] == 8000 - 2048
    assert moved[1] != moved[3]
    assert min(moved[1], moved[3]) >= 8008 - 2048


def expected(
    time_ns: list[int], complete_ns: list[int | None], after_max: int = 1 << 20
) -> list[int | None]:
    """Say when the completion was that each request came after, by looking at all of them."""
    found = []
    for number, now in enumerate(time_ns):
        near = range(max(0, number - after_max), number)
        ends = [complete_ns[other] for other in near]
        seen = [e for o, e in zip(near, ends, strict=True) if e is not None and time_ns[o] <= e]
        found.append(max((end for end in seen if end < now), default=None))
    return found


def random_trace(seed: int, count: int) -> tuple[list[int], list[int | None]]:
    random = np.random.default_rng(seed)
    time_ns = np.sort(random.integers(0, 5 * count, count))
    service = random.exponential(40, count).astype(int)
    ends: list[int | None] = [
        None if random.random() < 0.1 else int(now + took - (3 if random.random() < 0.05 else 0))
        for now, took in zip(time_ns, service, strict=True)
    ]
    return time_ns.tolist(), ends


def rows_of(time_ns: list[int], complete_ns: list[int | None]) -> Any:
    rows = np.zeros(len(time_ns), ROWS)
    rows["time_ns"] = time_ns
    rows["complete_ns"] = [-1 if end is None else end for end in complete_ns]
    return rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_request_waits_for_the_last_completion_before_it(seed: int, batch: int) -> None:
    time_ns, complete_ns = random_trace(seed, 300)
    rows = rows_of(time_ns, complete_ns)
    found, after = Waits(), []
    for first in range(0, 300, batch):
        steps, think = found.add(rows[first : first + batch])
        after += list(zip(steps.tolist(), think.tolist(), strict=True))
    for number, wanted in enumerate(expected(time_ns, complete_ns)):
        steps, think = after[number]
        if wanted is None:
            assert (steps, think) == (0, 0)
        else:
            assert complete_ns[number - steps] == wanted
            assert think == time_ns[number] - wanted
    broken = [e is None or e < t for t, e in zip(time_ns, complete_ns, strict=True)]
    assert found.without_completion == sum(broken)


@pytest.mark.parametrize("seed", range(3))
def test_one_that_is_too_far_back_is_not_waited_for(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "AFTER_MAX", 4)
    time_ns, complete_ns = random_trace(seed, 200)
    steps, think = Waits().add(rows_of(time_ns, complete_ns))
    assert steps.max() <= 4
    for number, wanted in enumerate(expected(time_ns, complete_ns, 4)):
        assert think[number] == (0 if wanted is None else time_ns[number] - wanted)


@pytest.mark.parametrize(("level", "think"), [("queued", [0, 0, 80]), ("issued", [0, 0, 90])])
def test_a_plan_says_what_a_request_waits_for(tmp_path: Path, level: str, think: list[int]) -> None:
    # GIVEN a discard that the plan leaves out, because it is empty, between the requests
    rows: Rows = [
        {"queue_ns": 0, "issue_ns": 5, "complete_ns": 100},
        {"queue_ns": 50, "issue_ns": 55, "complete_ns": None},
        {"queue_ns": 60, "issue_ns": 65, "complete_ns": 120, "operation": "discard",
         "length_bytes": 0},
        {"queue_ns": 180, "issue_ns": 190, "complete_ns": 300},
    ]  # fmt: skip
    records, report = compiled(trace(tmp_path / "t", rows), level=level)
    # THEN the last waits for the first, two records before it
    assert records["after"].tolist() == [0, 0, 2]
    assert records["think_ns"].tolist() == think
    assert report.without_completion == 1


LABELS = ("sdb", "sda@1000+500", "sda@4000+500", "journal")


def of_two_devices(seed: int) -> Rows:
    """Return requests on two devices: in, across and outside of the parts, flushes too."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    found = []
    for at in range(400):
        device = rng.choice(["sda", "sda", "sdb"])
        operation = rng.choice(["read", "write", "flush"])
        length = 0 if operation == "flush" else 512 * rng.randint(1, 64)
        found.append(
            {"queue_ns": at * 1000, "device": device, "operation": operation,
             "sector": 0 if operation == "flush" else rng.randrange(5000), "length_bytes": length,
             "role": rng.choice(["fs", "journal"])}
        )  # fmt: skip
    return found


def two_devices(place: Path, seed: int) -> TraceFolder:
    """Write a trace of both."""
    folder = trace(place, of_two_devices(seed))
    write_json(place / "trace.json", {**folder.content, "devices": [{"device": "sdb"}]})
    return TraceFolder(place)


def label_of(row: dict[str, Any]) -> str:
    """Say where a request belongs, from the words of the help."""
    is_flush = row["operation"] == "flush"
    if row["device"] == "sdb":
        return "sdb"
    if not is_flush and 1000 <= row["sector"] < 1500:
        return "sda@1000+500"
    if not is_flush and 4000 <= row["sector"] < 4500:
        return "sda@4000+500"
    return "journal" if row["role"] == "journal" else "default"


@pytest.mark.parametrize("seed", range(5))
def test_each_request_goes_where_it_begins(tmp_path: Path, seed: int) -> None:
    made = of_two_devices(seed)
    records, report = compiled(two_devices(tmp_path / "trace", seed), own_labels=LABELS)
    labels = [target["label"] for target in report.targets]
    firsts = {"sdb": 0, "sda@1000+500": 1000, "sda@4000+500": 4000}
    # THEN one timeline has all of them, each on its target, at its distance to the part's start
    assert records["intended_ns"].tolist() == [row["queue_ns"] for row in made]
    for row, record in zip(made, records, strict=True):
        label = labels[record["target"]]
        assert label == label_of(row)
        if label in firsts and row["operation"] != "flush":
            assert record["sector"] == row["sector"] - firsts[label]


def test_the_command_replays_them_on_targets_of_their_own(tmp_path: Path) -> None:
    folder = two_devices(tmp_path / "trace", 9)
    words = [f"--target={label}={tmp_path / str(n)}" for n, label in enumerate(LABELS)]
    succeed("replay", folder.path, "--pace", "fast", *words)
    found = pq.read_table(folder.path / "replays/latest/completions.parquet").to_pylist()
    assert {row["status"] for row in found} == {"done"}
    assert len({row["target"] for row in found}) == 5
    emulated = "--engine emulated --device hdd-15k --device sda@1000+500=dax-pcm"
    succeed("replay", folder.path, "--pace", "fast", "--limit", "50", *emulated.split())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("sdc",), "there is no role 'sdc', and no such device"),
        (("sda@x+8",), "there is no role 'sda@x[+]8', and no such device"),
        (("sda@8",), "no such device"),
        (("sda@8+0",), "is empty"),
        (("sda@0+100", "sda@99+1"), "sda@0[+]100 and sda@99[+]1 overlap"),
        (("sda", "sda@99+1"), "overlap"),
        (("sda@1234567890123+12345678901234",), "no name for a target"),
    ],
)
def test_what_names_nothing_is_refused(labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parts_of(labels, ["sda", "sdb"])


def test_neighbours_do_not_overlap() -> None:
    assert parts_of(("fs", "sda@0+8", "sda@8+8", "sdb"), ["sda", "sdb"]) == (
        Part("sda@0+8", "sda", 0, 8),
        Part("sda@8+8", "sda", 8, 16),
        Part("sdb", "sdb"),
    )


ROLES = ("fs", "journal", "swap")
SHARES = {"fs": 9, "journal": 4}


def mixed(seed: int, count: int = 400) -> list[Request]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        role = str(random.choice(ROLES))
        operation = str(random.choice(["read", "write", "write", "flush"]))
        is_flush = operation == "flush"
        sectors = 0 if is_flush else int(random.integers(1, 60))
        sector = 0 if is_flush else 400 * ROLES.index(role) + int(random.integers(0, 200))
        found.append(
            Request(
                role,
                sector,
                sectors,
                operation,
                is_fua=bool(random.random() < 0.1) and operation == "write",
                is_preflush=is_flush or bool(random.random() < 0.2),
                device=str(random.choice(["sda", "sdb"])),
                queue_ns=number * 1000,
            )
        )
    return found


def placed_plan(folder: Path, shares: dict[str, int]) -> tuple[Records, PlanReport]:
    chosen = place(read_blocks(folder / "blocks.parquet"), "hottest", blocks=shares)
    return compiled(TraceFolder(folder), placed=chosen)


def on_nvm_of(requests: list[Request], shares: dict[str, int]) -> dict[str, list[Any]]:
    """Return the blocks of each role that are on NVM, as the model's own brute force has them."""
    return {role: sorted(hottest_first(requests, role)[: shares.get(role, 0)]) for role in ROLES}


def expected_pieces(requests: list[Request], shares: dict[str, int]) -> Iterator[tuple[Any, ...]]:
    """Yield (request, is NVM, sector, sectors, operation, flags) of each piece by its sectors."""
    moved = on_nvm_of(requests, shares)
    slots = {(role, block): n for n, (role, block) in enumerate(
        (role, block) for role in ROLES for block in moved[role])}  # fmt: skip
    everything = {role: len(hottest_first(requests, role)) for role in ROLES}
    shift = {"sda": 0, "sdb": None}
    for number, request in enumerate(requests):
        count = len(moved[request.role])
        devices = (
            [False] if not count else [True] if count == everything[request.role] else [False, True]
        )
        flags = request.is_preflush * PREFLUSH + request.is_fua * FUA
        if request.operation == "flush":
            yield from ((number, is_nvm, None, 0, FLUSH, flags) for is_nvm in devices)
            continue
        places = []
        for sector in range(request.sector, request.sector + request.sectors):
            slot = slots.get((request.role, (request.device, sector // 8)))
            places.append((slot is not None, sector if slot is None else slot * 8 + sector % 8))
        runs = [list(group) for _, group in groupby(places, key=lambda one: one[0])]
        on_nvm = [place for run in runs for place in run if place[0]]
        pieces = [run for run in runs if not run[0][0] or run[0] == on_nvm[0]]
        pieces = [on_nvm if run[0][0] else run for run in pieces]
        seen = {piece[0][0] for piece in pieces}
        if request.is_preflush:
            yield from ((number, n, None, 0, FLUSH, 0) for n in devices if n not in seen)
        flushed = {False, True} - {*devices}
        operation = READ if request.operation == "read" else WRITE
        for piece in pieces:
            is_nvm, sector = piece[0]
            own = flags & ~PREFLUSH if is_nvm in flushed else flags
            flushed.add(is_nvm)
            key = sector if is_nvm or shift[request.device] == 0 else None
            yield number, is_nvm, key, len(piece), operation, own
            assert [one[1] for one in piece] == list(range(sector, sector + len(piece)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shares", [SHARES, {"journal": 1 << 40}, {"fs": 1, "swap": 30}])
def test_each_sector_goes_where_the_placement_has_it(
    tmp_path: Path, seed: int, shares: dict[str, int]
) -> None:
    requests = mixed(seed)
    folder = write_trace(tmp_path / "t", requests)
    records, report = placed_plan(folder, shares)
    labels = [target["label"] for target in report.targets]
    wanted = list(expected_pieces(requests, shares))
    assert len(records) == len(wanted)
    for record, (number, is_nvm, sector, sectors, operation, flags) in zip(
        records, wanted, strict=True
    ):
        assert record["request_id"] == number
        assert (labels[record["target"]] == "nvm") == is_nvm
        assert (record["length_sectors"], record["operation"]) == (sectors, operation)
        assert record["flags"] == flags
        if sector is not None:
            assert record["sector"] == sector
    # THEN no two blocks share a place on NVM
    on_nvm = sum(len(blocks) for blocks in on_nvm_of(requests, shares).values())
    needed = {target["label"]: target["needed_bytes"] for target in report.targets}
    assert needed["nvm"] <= on_nvm * 4096


def test_requests_are_cut_alike_in_small_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_trace(tmp_path / "t", mixed(1))
    whole, report = placed_plan(folder, SHARES)
    monkeypatch.setattr(placed, "CHUNK_BLOCKS", 5)
    again, _ = placed_plan(folder, SHARES)
    assert (again == whole).all()
    assert report.cut_requests > 20
    assert report.pieces >= 2 * report.cut_requests


def test_a_request_waits_for_the_last_piece_of_another(tmp_path: Path) -> None:
    # GIVEN a request in three pieces, of which the middle one is on NVM, and one that came later
    hot = [Request("fs", 8, 8, "read", queue_ns=n) for n in range(3)]
    wide = Request("fs", 0, 24, "write", queue_ns=10)
    later = Request("fs", 0, 8, "read", queue_ns=100)
    folder = write_trace(tmp_path / "t", [*hot, wide, later])
    _complete(folder, {3: 50})
    records, _ = placed_plan(folder, {"fs": 1})
    assert records["request_id"].tolist() == [0, 1, 2, 3, 3, 3, 4]
    assert records["after"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert records["think_ns"].tolist()[-1] == 50


def _complete(folder: Path, ends: dict[int, int]) -> None:
    table = pq.read_table(folder / "requests.parquet")
    column = pa.array([ends.get(n) for n in range(table.num_rows)], pa.int64())
    index = table.schema.names.index("complete_ns")
    table = table.set_column(index, table.schema.field(index), column)
    pq.write_table(table, folder / "requests.parquet")


def advice(folder: Path, **answer: Any) -> None:
    recommend(TraceFolder(folder), RecommendOptions())
    content = json.loads((folder / "recommendation.json").read_text())
    told = {"capacity_bytes": 40960, "fs_bytes": 0, "journal_bytes": 0, "swap_bytes": 0, **answer}
    content["answer"] |= told
    content["answers"] = [{**content["answer"], "capacity_bytes": 8192}]
    (folder / "recommendation.json").write_text(json.dumps(content))


def test_the_command_replays_the_answer(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "t", mixed(3))
    advice(folder, fs_bytes=36864, journal_bytes=16384)
    emulated = "--engine emulated --device ssd-nvme --device nvm=dax-pcm --pace fast"
    succeed("replay", folder, "--placement", "answer", *emulated.split())
    told = json.loads((folder / "replays/latest/summary.json").read_text())
    assert {target["label"] for target in told["targets"]} == {"nvm", "default"}
    assert told["placement"] == "answer"
    nvm = next(target for target in told["targets"] if target["label"] == "nvm")
    assert nvm["device"]["read_setup_ns"] < 10_000
    assert told["counts"]["done"] == told["compiled"]["requests"] > 400


@pytest.mark.parametrize(
    ("answer", "wanted", "message"),
    [
        ({"fs_bytes": 4096}, "16MiB", "there is no answer for this capacity"),
        ({"fs_bytes": 4096}, "7XB", "'7XB' is not a size"),
        ({"fs_bytes": 4096}, "much", "--placement much: there is no such placement"),
        ({"fs_bytes": 4096}, "unit", "--placement unit: there is no such placement"),
        ({}, "answer", "leave everything on the base device"),
        (None, "answer", "has no recommendation yet"),
    ],
)
def test_a_placement_that_is_none_is_refused(
    tmp_path: Path, answer: dict[str, Any] | None, wanted: str, message: str
) -> None:
    folder = write_trace(tmp_path / "t", mixed(3, 10))
    if answer is not None:
        advice(folder, **answer)
    done = invoke("replay", folder, "--placement", wanted, "--engine", "null")
    assert isinstance(done.exception, InputError | UsageError)
    assert message in str(done.exception)


def test_nvm_is_a_target_only_with_a_placement(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "t", mixed(3, 10))
    done = invoke("replay", folder, "--target", f"nvm={tmp_path / 'x'}")
    refused(done, "there is no role 'nvm'")
