"""Where requests land that a target has no room or no sectors for, against a model in Python."""

from pathlib import Path

import numpy as np
import pytest

from tests.replay.disk import call, image, loop, mounted, needs_root, token_of
from tests.replay.program import (
    FLUSH,
    READ,
    WRITE,
    content,
    expected_content,
    pattern,
    record,
    run,
    write_plan,
)

Row = tuple[int, ...]
NEEDED = 1000


def rows(seed: int, *, grain: int = 1, sectors: int = 40) -> list[Row]:
    """Return writes and reads on NEEDED sectors, the last of which reaches the end."""
    random = np.random.default_rng(seed)
    found = [record(FLUSH)]
    for _ in range(200):
        length = grain * int(random.integers(1, sectors // grain + 1))
        sector = grain * int(random.integers(0, (NEEDED - length) // grain + 1))
        found.append(record(int(random.choice([READ, WRITE, WRITE])), sector, length))
    return [*found, record(WRITE, NEEDED - grain, grain)]


def landed(row: Row, policy: str, *, size: int, grain: int) -> Row | None:
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
    tmp_path: Path, policy: str, size: int, grain: int
) -> None:
    # GIVEN a target that is smaller than the plan needs
    plan_rows = rows(3, grain=grain)
    plan = write_plan(tmp_path / "a.plan", plan_rows, needed_sectors=NEEDED)
    target = tmp_path / "t"
    target.write_bytes(bytes(size * 512))
    # WHEN it runs one request after the other
    ran = run(
        plan,
        *("--target", str(target), "--write-to", str(target), "--out-of-range", policy),
        *("--engine", "threads", "--pace", "fast", "--depth", "1"),
    )
    # THEN the bytes are those of the model, and what was changed is counted
    assert ran.code == 0, ran.messages
    wanted = [landed(row, policy, size=size, grain=grain) for row in plan_rows]
    kept = [row for row in wanted if row is not None]
    assert (content(target) == expected_content(kept, size * 512)).all()
    counts = ran.summary["counts"]
    assert counts["skipped_out_of_range"] == wanted.count(None)
    beyond = sum(row[1] + row[3] > size for row in plan_rows)
    changed = beyond - wanted.count(None)
    if policy == "clip":
        assert (counts["clipped"], counts["moved"]) == (changed, 0)
    elif policy == "scale":
        assert counts["moved"] == sum(row is not None and row[4] != FLUSH for row in wanted)
    else:
        assert counts["moved"] == (0 if policy == "skip" else changed)
    assert ran.summary["targets"][0]["out_of_range"] == beyond


def test_nothing_runs_where_nothing_was_chosen(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.write_bytes(bytes(300 * 512))
    plan = write_plan(tmp_path / "a.plan", rows(3), needed_sectors=NEEDED)
    ran = run(plan, "--target", str(target), "--write-to", str(target))
    assert ran.code == 1
    assert "--out-of-range wrap, fold, scale, clip or skip" in ran.messages
    assert not content(target).any()


def test_a_dry_run_counts_before_the_first_request(tmp_path: Path) -> None:
    target = tmp_path / "t"
    target.write_bytes(bytes(300 * 512))
    plan_rows = rows(4)
    plan = write_plan(tmp_path / "a.plan", plan_rows, needed_sectors=NEEDED)
    ran = run(plan, "--target", str(target), "--out-of-range", "fold", "--dry-run")
    assert ran.code == 0
    beyond = sum(row[1] + row[3] > 300 for row in plan_rows)
    assert ran.summary["targets"][0]["out_of_range"] == beyond


def test_only_what_runs_must_fit(tmp_path: Path) -> None:
    # GIVEN a target on which only the first and the last of the requests do not fit
    target = tmp_path / "t"
    target.write_bytes(bytes(300 * 512))
    plan_rows = [
        record(WRITE, 400, 8),
        *(record(WRITE, 8 * n, 8, at_ns=1000 + n) for n in range(20)),
        record(WRITE, 296, 8, at_ns=10_000),
    ]
    plan = write_plan(tmp_path / "a.plan", plan_rows)
    told = ("--target", str(target), "--write-to", str(target))
    part = ("--from-ns", "1000", "--until-ns", "10000")
    # WHEN all of it, or only the part between them, is to run
    whole, between = run(plan, *told), run(plan, *told, *part)
    # THEN the part does
    assert whole.code == 1
    assert "2 requests lie beyond its 153600 bytes" in whole.messages
    assert between.code == 0, between.messages
    assert between.summary["counts"]["done"] == 20
    assert between.summary["targets"][0]["out_of_range"] == 0


@needs_root
def test_places_stay_whole_sectors_where_the_target_does_not_end_with_one(tmp_path: Path) -> None:
    # GIVEN a file of 1,001 sectors of 512 bytes on a file system of 4 KiB sectors
    disk = image(tmp_path / "disk")
    plan_rows = [record(WRITE, 8 * n, 8) for n in range(400)]
    plan = write_plan(tmp_path / "a.plan", plan_rows, needed_sectors=3200)
    with loop(disk, "--sector-size", "4096") as device:
        call("mkfs.ext4", "-q", str(device))
        with mounted(device, tmp_path / "mnt"):
            target = tmp_path / "mnt/t"
            target.write_bytes(bytes(1001 * 512))
            told = ("--target", str(target), "--write-to", str(target), "--direct", "on")
            for policy in ("wrap", "fold", "scale", "clip", "skip"):
                ran = run(plan, *told, "--out-of-range", policy, "--pace", "fast")
                # THEN no request fails for a place between sectors
                assert ran.code == 0, ran.messages
                assert ran.summary["targets"][0]["out_of_range"] == 275
            # and one made for the run has whole sectors to widen requests to
            odd = write_plan(tmp_path / "b.plan", [record(WRITE, 9, 1), record(READ, 2, 3)])
            made = run(odd, "--target", str(tmp_path / "mnt/new"), "--direct", "on", "--expand")
    assert made.code == 0, made.messages
    assert made.summary["counts"]["expanded"] == 2
    assert made.summary["targets"][0]["size_bytes"] == 8192


@needs_root
def test_small_sectors_are_widened_to_those_of_the_device(tmp_path: Path) -> None:
    # GIVEN a device of 4 KiB sectors, and requests of 512 bytes
    disk = image(tmp_path / "disk", mib=1)
    plan_rows = [
        record(WRITE, 3, 1),
        record(WRITE, 15, 2),
        record(READ, 9, 1),
        record(WRITE, 32, 8),
    ]
    plan = write_plan(tmp_path / "a.plan", plan_rows, needed_sectors=2048)
    with loop(disk, "--sector-size", "4096") as device:
        told = ("--target", str(device), "--write-to", token_of(device))
        buffered = run(plan, *told)
        ran = run(plan, *told, "--expand", "--pace", "fast", "--depth", "1")
    # THEN they are buffered unless asked otherwise
    assert not buffered.summary["targets"][0]["is_direct"]
    assert "not aligned" in buffered.summary["targets"][0]["direct_note"]
    # and then whole sectors are written past the page cache
    assert ran.code == 0, ran.messages
    assert ran.summary["targets"][0]["is_direct"]
    assert ran.summary["counts"]["expanded"] == 3
    written = content(disk)
    for first, end in ((0, 24), (32, 40)):
        assert (written[first * 512 : end * 512] == pattern(first * 512, (end - first) * 512)).all()
    assert not written[40 * 512 :].any()
    assert not written[24 * 512 : 32 * 512].any()
