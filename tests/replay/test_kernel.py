"""What the kernel saw: each request of the plan, by its block trace events, row by row."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.replay.disk import image, loop, needs_root, token_of
from tests.replay.program import (
    DISCARD,
    FLUSH,
    FUA,
    PREFLUSH,
    READ,
    WRITE,
    WRITE_ZEROES,
    record,
    run,
    write_plan,
)

TRACING = Path("/sys/kernel/tracing")
# A flush has no data, so the letter of its direction says nothing; write zeroes may have no letter
# of their own.
NAMES = {"FW": "flush", "FN": "flush", "F": "flush", "N": "zeroes", "WZ": "zeroes"}
EVENT = re.compile(r"block_bio_queue: [\d,]+ (\w+) (\d+) \+ (\d+) ")

EVERY_KIND = [
    record(READ, 8, 16),
    record(WRITE, 64, 8),
    record(WRITE, 128, 8, flags=FUA),
    record(WRITE, 256, 24, flags=PREFLUSH),
    record(WRITE, 512, 8, flags=PREFLUSH | FUA),
    record(FLUSH, flags=PREFLUSH),
    record(DISCARD, 1024, 2048),
    record(WRITE_ZEROES, 4096, 16),
    record(READ, 4096, 8),
]


@contextmanager
def queued_bios(device: Path) -> Iterator[list[tuple[str, int, int]]]:
    """Yield a list that holds (flags, sector, sectors) of the device's bios after the block.

    An instance of its own, so that no other tracing on the machine is touched.
    """
    place = TRACING / "instances" / f"tracekit-test-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"needs tracefs instances: {error}")
    numbers = os.stat(device).st_rdev
    bios: list[tuple[str, int, int]] = []
    event = place / "events/block/block_bio_queue"
    try:
        # An instance starts with the machine's options, which a capture may have changed.
        for option in ("bin", "raw", "hex"):
            (place / "options" / option).write_text("0")
        # Only this device, or a busy machine fills the buffer; the kernel packs the number so.
        (event / "filter").write_text(f"dev == {(os.major(numbers) << 20) | os.minor(numbers)}")
        (event / "enable").write_text("1")
        yield bios
        (event / "enable").write_text("0")
        for line in (place / "trace").read_text().splitlines():
            found = EVENT.search(line)
            if found:
                bios.append((found[1].replace("S", ""), int(found[2]), int(found[3])))
    finally:
        place.rmdir()


@needs_root
@pytest.mark.root
@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_the_device_gets_what_the_plan_says(tmp_path: Path, engine: str) -> None:
    # GIVEN requests of every kind, one at a time
    plan = write_plan(tmp_path / "a.plan", EVERY_KIND)
    with loop(image(tmp_path / "img"), "--direct-io=on") as device:
        # WHEN they run on a block device that the kernel watches
        arguments = ("--engine", engine, "--pace", "fast", "--depth", "1", "--direct", "on")
        with queued_bios(device) as bios:
            ran = run(plan, "--target", str(device), "--write-to", token_of(device), *arguments)
        assert ran.code == 0, ran.messages
    # THEN its bios are these, in this order, before anything that closing the device adds
    kinds = [(NAMES.get(flags, flags), sector, sectors) for flags, sector, sectors in bios]
    start = kinds.index(("R", 8, 16))
    # After a synchronous FUA write Linux flushes a block device once more.
    again = [("flush", 0, 0)] if engine == "threads" else []
    expected = [
        ("R", 8, 16),
        ("W", 64, 8),
        ("WF", 128, 8),
        *again,
        ("flush", 0, 0),
        ("W", 256, 24),
        ("flush", 0, 0),
        ("WF", 512, 8),
        *again,
        ("flush", 0, 0),
        ("D", 1024, 2048),
        ("zeroes", 4096, 16),
        ("R", 4096, 8),
    ]
    assert kinds[start : start + len(expected)] == expected


@needs_root
@pytest.mark.root
@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("engine", ["threads", "io_uring"])
def test_reads_go_where_the_plan_says(tmp_path: Path, engine: str) -> None:
    # GIVEN 500 reads of different places and lengths
    records = [record(READ, (i * 7919 % 4000) * 8, 8 * (1 + i % 4), at_ns=i) for i in range(500)]
    plan = write_plan(tmp_path / "a.plan", records)
    # WHEN 16 of them are in flight on a device that may only be read
    with loop(image(tmp_path / "img", mib=17)) as device, queued_bios(device) as bios:
        arguments = ("--engine", engine, "--pace", "fast", "--depth", "16", "--direct", "on")
        ran = run(plan, "--target", str(device), *arguments)
        assert ran.summary["counts"]["done"] == 500
    # THEN the kernel saw exactly these
    found = sorted((sector, sectors) for flags, sector, sectors in bios if sector < 32_100)
    wanted = sorted((row[1], row[3]) for row in records)
    assert [place for place in wanted if place not in found] == []
    assert {flags for flags, _, _ in bios} == {"R"}
