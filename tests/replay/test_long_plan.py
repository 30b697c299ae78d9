"""A plan of a billion requests: made sparse, so that only its index and two blocks are real."""

import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import run
from tracekit.plans import block_plan

COUNT = 1_000_000_000
GAP_NS = 1000
LAST_BLOCK = (COUNT - 1) // block_plan.STRIDE


def block_of(number: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    position = number * block_plan.STRIDE + np.arange(block_plan.STRIDE)
    position = position[position < COUNT]
    rows = np.zeros(len(position), block_plan.RECORD)
    rows["intended_ns"] = position * GAP_NS
    rows["request_id"] = position
    rows["length_sectors"] = 8
    return rows


def write_sparse(path: Path, blocks: tuple[int, ...]) -> None:
    """Write a plan of which only these blocks are there; the others are holes of zeroes."""
    index = np.zeros(LAST_BLOCK + 1, block_plan.INDEX)
    index["first_ns"] = np.arange(LAST_BLOCK + 1) * block_plan.STRIDE * GAP_NS
    index["count"] = block_plan.STRIDE
    with block_plan.open_new(path) as out:
        for number in blocks:
            data = block_of(number).tobytes()
            out.seek(
                block_plan.HEADER.itemsize + number * block_plan.STRIDE * block_plan.RECORD.itemsize
            )
            out.write(data)
            index[number] = (number * block_plan.STRIDE * GAP_NS, zlib.crc32(data),
                             len(data) // block_plan.RECORD.itemsize)  # fmt: skip
        records_end = block_plan.HEADER.itemsize + COUNT * block_plan.RECORD.itemsize
        sums = (COUNT, 0, 0, 0, 0, COUNT * 4096, 0, 0, 0, 0)
        target = struct.pack("<32sQ10QQ", b"default", 4096, *sums, 8)
        out.seek(records_end)
        out.write(index.tobytes() + target)
        out.seek(0)
        out.write(header(records_end, index.tobytes(), target))


def header(records_end: int, index: bytes, target: bytes) -> bytes:
    """Pack the header by the document: no extents, one target, reads of 4 KiB."""
    targets_at = records_end + len(index)
    packed = struct.pack(
        "<8sIIIIQQQQQIIQIIQIIQ32sIII32s",
        b"TKPLAN\r\n", 2, 192, 48, 512, 1, COUNT, (COUNT - 1) * GAP_NS, 192, records_end,
        block_plan.STRIDE, 16, targets_at, 1, 128, targets_at + len(target), 0, 64, 4096,
        bytes(32), 0, zlib.crc32(target), zlib.crc32(index), bytes(32),
    )  # fmt: skip
    return packed + struct.pack("<I", zlib.crc32(packed))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "long.plan"
    write_sparse(path, (122_070, LAST_BLOCK))
    if path.stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no sparse files")
    return path


def test_a_billion_requests_start_at_once_and_anywhere(plan: Path) -> None:
    # GIVEN the middle of the plan, and the last millisecond of it
    for from_ns, ids in (
        (500_000_000_000, range(500_000_000, 500_000_020)),
        ((COUNT - 20) * GAP_NS, range(COUNT - 20, COUNT)),
    ):
        # WHEN 20 us of it run
        began = time.monotonic()
        ran = run(
            plan, "--engine", "null", "--no-calibration",
            "--from-ns", str(from_ns), "--until-ns", str(from_ns + 20 * GAP_NS),
        )  # fmt: skip
        took = time.monotonic() - began
        # THEN they are the right ones, after no more time than the program needs to start
        assert ran.code == 0, ran.messages
        assert sorted(ran.statuses()) == list(ids)
        assert ran.summary["peak_memory_bytes"] < 64 << 20
        assert took < 5


def test_a_block_that_is_not_what_the_index_says_ends_the_run(plan: Path) -> None:
    ran = run(plan, "--engine", "null", "--from-ns", "4096000")
    assert ran.code == 1
    assert "the checksum of block 0 is wrong" in ran.messages
