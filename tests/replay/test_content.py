"""What reaches the target: the right bytes, at the right place or where there is room for them."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.replay.disk import call, image, loop, mounted, small_file_system, token_of
from tests.replay.program import Record, Replay, content, expected_content, pattern, record
from tracekit.plans.block_plan import DISCARD, FLUSH, FUA, PREFLUSH, READ, WRITE, WRITE_ZEROES

ENGINES = ("threads", "io_uring", "dax")
SIZE_SECTORS = 16384
ONE_BY_ONE: dict[str, Any] = {"pace": "fast", "depth": 1, "keep": True}


def mixed(seed: int, count: int) -> list[Record]:
    """Requests of all kinds; aligned to 4 KiB, so that O_DIRECT takes them."""
    random = np.random.default_rng(seed)
    records = []
    for number in range(count):
        operation = int(random.choice([READ, WRITE, WRITE, WRITE, FLUSH, DISCARD, WRITE_ZEROES]))
        if operation == FLUSH:
            records.append(record(FLUSH, at_ns=number * 1000))
            continue
        sectors = 8 * int(random.integers(1, 33))
        sector = 8 * int(random.integers(0, (SIZE_SECTORS - sectors) // 8 + 1))
        flags = int(random.choice([0, 0, FUA, PREFLUSH, FUA | PREFLUSH]))
        flags = flags if operation == WRITE else 0
        records.append(record(operation, sector, sectors, at_ns=number * 1000, flags=flags))
    return records


@pytest.mark.parametrize("engine", ENGINES)
def test_every_byte_is_what_and_where_the_plan_says(
    replay: Replay, target: Path, engine: str
) -> None:
    # GIVEN requests of all kinds that overlap each other
    records = mixed(seed=1, count=600)
    # WHEN they run one after the other
    ran = replay(records, needed_sectors=SIZE_SECTORS, target=target, engine=engine, **ONE_BY_ONE)
    # THEN the file is what the same requests make of an array of zeroes
    assert ran.code == 0, ran.messages
    assert ran.summary["engine"]["used"] == engine
    assert ran.counts["done"] == 600
    assert (content(target) == expected_content(records, SIZE_SECTORS * 512)).all()


@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_depth_changes_no_byte(replay: Replay, target: Path, engine: str) -> None:
    # GIVEN writes that never overlap, in random order
    order = np.random.default_rng(2).permutation(SIZE_SECTORS // 16)
    records = [record(WRITE, 16 * int(place), 16, flags=FUA * (place % 2)) for place in order]
    # WHEN 64 of them are in flight
    ran = replay(records, target=target, engine=engine, **(ONE_BY_ONE | {"depth": 64}))
    # THEN all of the file is written
    assert ran.summary["in_flight_max"] == 64
    assert (content(target) == expected_content(records, SIZE_SECTORS * 512)).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("sectors", [1, 7])
@pytest.mark.parametrize("direct", ["auto", "off"])
def test_odd_addresses_are_written_direct_or_not(
    replay: Replay, target: Path, engine: str, sectors: int, direct: str
) -> None:
    # GIVEN addresses and lengths that are no multiples of 4 KiB
    records = [record(WRITE, 3, sectors), record(WRITE, 100 + sectors, sectors)]
    ran = replay(records, target=target, engine=engine, direct=direct, keep=True)
    # THEN they are written, and buffered I/O is said to be that
    assert (content(target) == expected_content(records, (100 + 2 * sectors) * 512)).all()
    if direct == "off":
        assert ran.target["is_direct"] is False
        assert ran.target["direct_note"] == "buffered I/O was asked for"


@pytest.mark.parametrize("engine", ENGINES)
def test_long_write_zeroes_where_the_file_system_has_no_zero_range(
    replay: Replay, engine: str
) -> None:
    # GIVEN tmpfs, which lacks zero range and O_DIRECT, and a range longer than any buffer
    records = [record(WRITE, 0, 2048), record(WRITE_ZEROES, 64, 1900), record(DISCARD, 0, 8)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        target = Path(place, "t")
        ran = replay(records, target=target, engine=engine, **ONE_BY_ONE)
        # THEN the zeroes are written by hand and the summary names what was missing
        assert ran.code == 0, ran.messages
        assert (content(target) == expected_content(records, 2048 * 512)).all()
        if not ran.target["can_zero"]:
            assert ran.target["can_discard"] is True


def test_each_target_gets_its_own_requests(replay: Replay, tmp_path: Path) -> None:
    # GIVEN one timeline for two targets, each with its own path
    records = [record(WRITE, 8 * i, 8, target=i % 2, at_ns=i * 1000) for i in range(64)]
    first, second = tmp_path / "journal", tmp_path / "rest"
    targets = [f"journal={first}", second]
    ran = replay(records, labels=("journal", "default"), target=targets, keep=True)
    # THEN each file holds the requests of its label and nothing else
    assert ran.code == 0, ran.messages
    for number, path in enumerate((first, second)):
        assert (content(path) == expected_content(records[number::2], 64 * 4096)).all()


def test_reads_past_the_end_of_a_file_that_shrank_are_errors(replay: Replay, target: Path) -> None:
    # GIVEN a file that is long enough by its size, but whose plan wraps nothing
    target.write_bytes(bytes(4096))
    ran = replay([record(READ, 0, 8), record(READ, 8, 8)], target=target)
    # THEN it is refused before the first request
    ran.refused("1 request lies beyond its 4096 bytes")


def test_wrap_and_skip_are_counted(replay: Replay, target: Path) -> None:
    # GIVEN a file of half the plan's size
    target.write_bytes(bytes(8 * 4096))
    records = [record(READ, 8 * i, 8, at_ns=i) for i in range(16)]
    # WHEN addresses are wrapped, or skipped, THEN eight requests are concerned
    wrapped = replay(records, target=target, out_of_range="wrap")
    assert (wrapped.counts["moved"], wrapped.counts["done"]) == (8, 16)
    skipped = replay(records, target=target, out_of_range="skip")
    assert (skipped.counts["skipped_out_of_range"], skipped.counts["done"]) == (8, 8)
    assert skipped.statuses() == {i: "done" if i < 8 else "skipped_out_of_range" for i in range(16)}


def test_a_wrapped_write_stays_inside_and_aligned(replay: Replay, target: Path) -> None:
    # GIVEN a file of 10 blocks and a write of 4 blocks whose wrapped start would pass the end
    target.write_bytes(bytes(10 * 4096))
    ran = replay([record(WRITE, 8 * 19, 32)], confirmed=target, out_of_range="wrap")
    # THEN it lies at the end
    assert ran.code == 0, ran.messages
    assert target.stat().st_size == 10 * 4096
    assert (content(target) == expected_content([record(WRITE, 48, 32)], 10 * 4096)).all()


def test_stores_of_the_dax_engine_reach_the_file_and_it_is_told_how(
    replay: Replay, target: Path
) -> None:
    rows = [record(WRITE, 8 * n, 8, flags=FUA * (n % 2)) for n in range(64)]
    ran = replay(
        [*rows, record(FLUSH), record(READ, 0, 512)], engine="dax", target=target, keep=True
    )
    assert ran.code == 0, ran.messages
    assert (content(target) == pattern(0, 64 * 4096)).all()
    features = ran.summary["engine"]["features"]
    assert set(features) == {"map_sync", "prefaulted", "libpmem", "non_temporal_stores"}
    assert features["prefaulted"]
    assert not (features["libpmem"] and features["non_temporal_stores"])
    assert ran.summary["in_flight_max"] == 1


# TSan's own handler of signals leaves the signal blocked when ours jumps back.
@pytest.mark.plain
@pytest.mark.root
def test_a_page_that_cannot_be_had_is_an_error_of_the_request(
    replay: Replay, tmp_path: Path
) -> None:
    # GIVEN a file of 4 MiB without blocks on a file system of 1 MiB
    with small_file_system(tmp_path / "small", mib=1) as small:
        target = image(small / "t", mib=4)
        # WHEN all of it is written
        options = {"engine": "dax", "confirmed": target, "no_space_check": True}
        ran = replay([record(WRITE, 8 * n, 8) for n in range(1024)], **options)
    # THEN what fits is written, the others fail, and no signal ends the program
    assert ran.code == 3, ran.messages
    found = Counter(ran.statuses().values())
    assert 0 < found["done"] <= 256
    assert found["done"] + found["failed"] == 1024
    assert list(ran.errors) == ["EIO"]
    assert not ran.summary["engine"]["features"]["prefaulted"]


def test_what_may_only_be_read_is_only_read(replay: Replay, target: Path) -> None:
    target.write_bytes(bytes(64 << 10))
    ran = replay([record(WRITE, 0, 8), record(READ, 0, 128)], engine="dax", target=target)
    assert ran.statuses() == {0: "skipped_read_only", 1: "done"}
    assert not content(target).any()


def test_only_flushes_need_no_mapping(replay: Replay, target: Path) -> None:
    ran = replay([record(FLUSH)] * 3, needed_sectors=8, engine="dax", target=target)
    assert ran.code == 0, ran.messages
    assert ran.counts["done"] == 3


def test_a_smaller_file_is_read_to_its_end_only(replay: Replay, target: Path) -> None:
    target.write_bytes(bytes(4096))
    rows = [record(READ, 0, 8), record(READ, 8, 8)]
    ran = replay(rows, engine="dax", target=target, out_of_range="skip")
    assert ran.statuses() == {0: "done", 1: "skipped_out_of_range"}


def test_every_request_of_the_dax_engine_has_a_submission_of_its_own(
    replay: Replay, target: Path
) -> None:
    # GIVEN many requests that are due at once
    rows = replay([record(WRITE, 0, 2048)] * 50, engine="dax", target=target).rows()
    # THEN the time of one does not contain that of those before it
    order = rows["submit_ns"].argsort()
    assert (rows["submit_ns"][order][1:] >= rows["complete_ns"][order][:-1]).all()


NEEDED = 1000


@pytest.fixture
def small(target: Path) -> Path:
    """Return a target of 300 sectors."""
    target.write_bytes(bytes(300 * 512))
    return target


def rows(seed: int, *, grain: int = 1, sectors: int = 40) -> list[Record]:
    """Return writes and reads on NEEDED sectors, the last of which reaches the end."""
    random = np.random.default_rng(seed)
    found = [record(FLUSH)]
    for _ in range(200):
        length = grain * int(random.integers(1, sectors // grain + 1))
        sector = grain * int(random.integers(0, (NEEDED - length) // grain + 1))
        found.append(record(int(random.choice([READ, WRITE, WRITE])), sector, length))
    return [*found, record(WRITE, NEEDED - grain, grain)]


def landed(row: Record, policy: str, *, size: int, grain: int) -> Record | None:
    """Say where a request goes, or None, from the words of INTERFACE.md."""
    at, sector, number, length, *rest = row
    if row[4] == FLUSH or (sector + length <= size and policy != "scale"):
        return row
    if policy == "clip":
        return None if sector >= size else (at, sector, number, size - sector, *rest)
    if policy == "skip" or length > size:
        return None
    if policy == "wrap":
        place = sector % size
    elif policy == "scale":
        place = sector * size // NEEDED // grain * grain
    else:
        mirrored = list(range(size)) + list(reversed(range(size)))
        place = sector % (2 * size)
        if place >= size:
            place = max(mirrored[place] + 1 - length, 0)
    return (at, min(place, size - length), number, length, *rest)


@pytest.mark.parametrize("policy", ["wrap", "skip", "fold", "scale", "clip"])
@pytest.mark.parametrize(("size", "grain"), [(300, 1), (304, 8), (999, 1), (10, 1)])
def test_what_lies_beyond_the_end_lands_where_the_policy_says(
    replay: Replay, target: Path, policy: str, size: int, grain: int
) -> None:
    # GIVEN a target that is smaller than the plan needs
    records = rows(3, grain=grain)
    target.write_bytes(bytes(size * 512))
    # WHEN it runs one request after the other
    options = {"engine": "threads", "pace": "fast", "depth": 1, "out_of_range": policy}
    ran = replay(records, needed_sectors=NEEDED, confirmed=target, **options)
    # THEN the bytes are those of the model, and what was changed is counted
    assert ran.code == 0, ran.messages
    wanted = [landed(row, policy, size=size, grain=grain) for row in records]
    kept = [row for row in wanted if row is not None]
    assert (content(target) == expected_content(kept, size * 512)).all()
    assert ran.counts["skipped_out_of_range"] == wanted.count(None)
    beyond = sum(row[1] + row[3] > size for row in records)
    changed = beyond - wanted.count(None)
    moved = sum(row[4] != FLUSH for row in kept) if policy == "scale" else changed
    clips = policy == "clip"
    if clips:
        assert ran.counts["clipped"] == changed
    assert ran.counts["moved"] == (0 if clips or policy == "skip" else moved)
    assert ran.target["out_of_range"] == beyond


def test_nothing_runs_where_nothing_was_chosen(replay: Replay, small: Path) -> None:
    ran = replay(rows(3), needed_sectors=NEEDED, confirmed=small)
    ran.refused("--out-of-range wrap, fold, scale, clip or skip")
    assert not content(small).any()


def test_a_dry_run_counts_before_the_first_request(replay: Replay, small: Path) -> None:
    options = {"target": small, "out_of_range": "fold", "dry_run": True}
    ran = replay(rows(4), needed_sectors=NEEDED, **options)
    assert ran.code == 0
    assert ran.target["out_of_range"] == sum(row[1] + row[3] > 300 for row in rows(4))


def test_only_what_runs_must_fit(replay: Replay, small: Path) -> None:
    # GIVEN a target on which only the first and the last of the requests do not fit
    fitting = [record(WRITE, 8 * n, 8, at_ns=1000 + n) for n in range(20)]
    records = [record(WRITE, 400, 8), *fitting, record(WRITE, 296, 8, at_ns=10_000)]
    # WHEN all of it, or only the part between them, is to run, THEN the part does
    replay(records, confirmed=small).refused("2 requests lie beyond its 153600 bytes")
    between = replay(records, confirmed=small, from_ns=1000, until_ns=10_000)
    assert between.code == 0, between.messages
    assert between.counts["done"] == 20
    assert between.target["out_of_range"] == 0


@pytest.mark.root
def test_places_stay_whole_sectors_where_the_target_does_not_end_with_one(
    replay: Replay, tmp_path: Path
) -> None:
    # GIVEN a file of 1,001 sectors of 512 bytes on a file system of 4 KiB sectors
    records = [record(WRITE, 8 * n, 8) for n in range(400)]
    with loop(image(tmp_path / "disk"), "--sector-size", "4096") as device:
        call("mkfs.ext4", "-q", device)
        with mounted(device, tmp_path / "mnt") as mount:
            target = mount / "t"
            target.write_bytes(bytes(1001 * 512))
            for policy in ("wrap", "fold", "scale", "clip", "skip"):
                options = {"direct": "on", "out_of_range": policy, "pace": "fast"}
                ran = replay(records, needed_sectors=3200, confirmed=target, **options)
                # THEN no request fails for a place between sectors
                assert ran.code == 0, ran.messages
                assert ran.target["out_of_range"] == 275
            # AND one made for the run has whole sectors to widen requests to
            odd = [record(WRITE, 9, 1), record(READ, 2, 3)]
            made = replay(odd, target=mount / "new", direct="on", expand=True)
    assert made.code == 0, made.messages
    assert made.counts["expanded"] == 2
    assert made.target["size_bytes"] == 8192


@pytest.mark.root
def test_small_sectors_are_widened_to_those_of_the_device(replay: Replay, tmp_path: Path) -> None:
    # GIVEN a device of 4 KiB sectors, and requests of 512 bytes
    disk = image(tmp_path / "disk", mib=1)
    places = ((WRITE, 3, 1), (WRITE, 15, 2), (READ, 9, 1), (WRITE, 32, 8))
    records = [record(*place) for place in places]
    with loop(disk, "--sector-size", "4096") as device:
        told = {"needed_sectors": 2048, "target": device, "write_to": token_of(device)}
        buffered = replay(records, **told)
        ran = replay(records, expand=True, pace="fast", depth=1, **told)
    # THEN they are buffered unless asked otherwise
    assert not buffered.target["is_direct"]
    assert "not aligned" in buffered.target["direct_note"]
    # AND then whole sectors are written past the page cache
    assert ran.code == 0, ran.messages
    assert ran.target["is_direct"]
    assert ran.counts["expanded"] == 3
    written = content(disk)
    for first, end in ((0, 24), (32, 40)):
        assert (written[first * 512 : end * 512] == pattern(first * 512, (end - first) * 512)).all()
    assert not written[40 * 512 :].any()
    assert not written[24 * 512 : 32 * 512].any()
