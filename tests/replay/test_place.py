"""Where requests land that a target has no room or no sectors for, against a model in Python."""

from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import call, image, loop, mounted, needs_root, token_of
from tests.replay.program import Record, Replay, content, expected_content, pattern, record
from tracekit.plans.block_plan import FLUSH, READ, WRITE

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


@needs_root
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


@needs_root
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
