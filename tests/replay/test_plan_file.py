"""Plans as bytes: what INTERFACE.md says is accepted, everything else is one line and code 1."""

import struct
import subprocess
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.replay.program import compiled, record, run, write_plan
from tracekit._native.workload import tally
from tracekit.errors import TracekitError
from tracekit.plans import Records, block_plan
from tracekit.plans.block_plan import FLUSH, OPERATIONS, READ, WRITE, ZONE_APPEND, ZONE_FINISH

HEADER_BYTES, RECORD_BYTES, STRIDE = 192, 48, 4096
TARGETS = 3
COUNT = 1_000_000_000
GAP_NS = 1000
ZONED = range(ZONE_APPEND, ZONE_FINISH + 1)
LAST_BLOCK = (COUNT - 1) // STRIDE


def sealed_header(
    count: int, duration_ns: int, index: bytes, target: bytes, extent: bytes, transfer_bytes: int
) -> bytes:
    """Pack the header of a plan of one target by the document, with its checksums."""
    version = 2 if len(target) == 128 else 3
    index_at = HEADER_BYTES + count * RECORD_BYTES
    target_at = index_at + len(index)
    packed = struct.pack(
        "<8sIIIIQQQQQIIQIIQIIQ32sIII32s",
        *(b"TKPLAN\r\n", version, HEADER_BYTES, RECORD_BYTES, 512, 1, count, duration_ns),
        *(HEADER_BYTES, index_at, STRIDE, 16, target_at, 1, len(target)),
        *(target_at + len(target), len(extent) // 64, 64, transfer_bytes, bytes(32), 0),
        *(zlib.crc32(target + extent), zlib.crc32(index), bytes(32)),
    )
    return packed + struct.pack("<I", zlib.crc32(packed))


def sums_of(records: list[list[int]]) -> list[int]:
    """Return requests and bytes by operation; of version 3 if one is on a zone."""
    kinds = 11 if any(row[4] in ZONED for row in records) else 5
    sums = [0] * (2 * kinds)
    for row in records:
        operation = row[4] if row[4] < kinds else READ
        sums[operation] += 1
        sums[kinds + operation] += row[3] * 512
    return sums


def pack_target(needed_bytes: int, sums: list[int], bits: int) -> bytes:
    return struct.pack(f"<32sQ{len(sums)}QQ", b"default", needed_bytes, *sums, bits)


def by_hand(
    records: list[list[int]], *, duration_ns: int | None = None, transfer_bytes: int = 512
) -> bytes:
    """Return a plan of one target with reads of a sector, packed from INTERFACE.md alone."""
    packed = [struct.pack("<QQQIBBHQII", *fields, 0, 0, 0) for fields in records]
    index, bits, needed_bytes = b"", 0, len(records) * 512
    for fields in records:
        bits |= fields[1] | fields[3]
    for first in range(0, len(packed), STRIDE):
        block = packed[first : first + STRIDE]
        index += struct.pack("<QII", records[first][0], zlib.crc32(b"".join(block)), len(block))
    target = pack_target(needed_bytes, sums_of(records), bits)
    extent = struct.pack("<32sQQQII", b"sda", 0, needed_bytes // 512, 0, 0, 0)
    last_ns = records[-1][0] if duration_ns is None else duration_ns
    header = sealed_header(len(records), last_ns, index, target, extent, transfer_bytes)
    return header + b"".join(packed) + index + target + extent


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Return a plan of 100 reads of a sector."""
    return write_plan(tmp_path / "a.plan", [record(READ, i, 1, at_ns=i) for i in range(100)])


def test_a_plan_packed_from_the_document_runs(tmp_path: Path) -> None:
    # GIVEN 5,000 reads (two blocks of the index), packed by struct from the document
    plan = tmp_path / "a.plan"
    plan.write_bytes(by_hand([[i * 100, i, 7 * i, 1, READ, 0, 0] for i in range(5000)]))
    ran = run(plan, engine="null")
    # THEN each request comes back under its own id
    assert ran.code == 0, ran.messages
    assert sorted(ran.statuses()) == [7 * i for i in range(5000)]
    assert ran.summary["plan"]["duration_ns"] == 499_900


def test_operations_on_zones_are_those_of_version_3(tmp_path: Path) -> None:
    # GIVEN each operation on zones, packed from the document, and the same by the product
    kinds = ZONED
    rows = [[n, 8, n, int(kind == ZONE_APPEND), kind, 0, 0] for n, kind in enumerate(kinds)]
    rows += [[6 + n, n, 6 + n, 1, READ, 0, 0] for n in range(10)]
    plan = tmp_path / "a.plan"
    plan.write_bytes(by_hand(rows))
    made = write_plan(
        tmp_path / "b.plan",
        [record(row[4], row[1], row[3], at_ns=row[0]) for row in rows],
        needed_sectors=len(rows),
    )
    assert made.read_bytes()[:192][8] == 3
    for path in (plan, made):
        # WHEN they run where everything goes THEN each comes back, and is counted by its name
        ran = run(path, engine="null")
        assert ran.counts["done"] == len(rows)
        planned = ran.target["planned"]
        assert [planned[OPERATIONS[kind]] for kind in kinds] == [1] * 6
    # and a zone has no length
    rows[1][3] = 1
    plan.write_bytes(by_hand(rows))
    run(plan, engine="null").refused("record 1 is an operation on a zone with a length")
    # and a plan of version 2 has no such operations
    rows = [[n, 8, n, 1, READ, 0, 0] for n in range(10)]
    content = by_hand(rows)
    appends = by_hand([[*row[:4], ZONE_APPEND, 0, 0] for row in rows])
    records_end = HEADER_BYTES + len(rows) * RECORD_BYTES
    index = struct.pack("<QII", 0, zlib.crc32(appends[HEADER_BYTES:records_end]), len(rows))
    target, extent = content[records_end + 16 : -64], content[-64:]
    header = sealed_header(len(rows), 9, index, target, extent, 512)
    plan.write_bytes(header + appends[HEADER_BYTES:records_end] + index + target + extent)
    run(plan, engine="null").refused("record 0 has an unknown operation")


@pytest.mark.parametrize(
    ("offset", "data", "message"),
    [
        pytest.param(0, b"TKPLAN\n\n", "first bytes are wrong", id="magic"),
        pytest.param(8, struct.pack("<I", 1), "another version", id="version"),
        pytest.param(16, struct.pack("<I", 40), "does not fit its version", id="record size"),
        pytest.param(24, struct.pack("<Q", 1000), "does not fit its version", id="time unit"),
        pytest.param(32, struct.pack("<Q", 1 << 60), "more than 2^40", id="count"),
        pytest.param(40, struct.pack("<Q", 1 << 63), "292 years", id="duration"),
        pytest.param(32, struct.pack("<Q", 101), "do not follow each other", id="too few"),
        pytest.param(80, struct.pack("<I", 0), "1 to 64 targets", id="no target"),
        pytest.param(80, struct.pack("<I", 65), "1 to 64 targets", id="too many targets"),
        pytest.param(96, struct.pack("<I", 1 << 31), "65,536 extents", id="extents"),
        pytest.param(104, struct.pack("<Q", 1 << 40), "more than 64 MiB", id="transfer"),
        pytest.param(144, struct.pack("<I", 9), "unknown event level", id="level"),
    ],
)
def test_a_header_that_lies_is_refused(plan: Path, offset: int, data: bytes, message: str) -> None:
    content = bytearray(plan.read_bytes())
    content[offset : offset + len(data)] = data
    content[188:192] = struct.pack("<I", zlib.crc32(bytes(content[:188])))
    plan.write_bytes(content)
    run(plan, engine="null").refused(message)


def test_a_flipped_bit_anywhere_is_found(tmp_path: Path) -> None:
    # GIVEN a plan of 40 requests
    plan = write_plan(tmp_path / "a.plan", [record(READ, i, 1, at_ns=i) for i in range(40)])
    whole = plan.read_bytes()
    for place in range(0, len(whole), 37):
        # WHEN one bit of it is flipped, THEN the program refuses it in one line
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        plan.write_bytes(damaged)
        run(plan, engine="null").refused(str(plan))


@pytest.mark.parametrize("length", [0, 1, 191, 192, 200, 1000])
def test_a_truncated_plan_is_refused(plan: Path, length: int) -> None:
    plan.write_bytes(plan.read_bytes()[:length])
    run(plan, engine="null").refused(str(plan))


def test_a_plan_with_bytes_behind_it_is_refused(plan: Path) -> None:
    plan.write_bytes(plan.read_bytes() + b"x")
    run(plan, engine="null").refused("longer than its header says")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (0, 0, "record 2 is earlier"),
        (0, 1 << 63, "record 2 is later than the plan"),
        (1, 1 << 60, "record 2 lies beyond"),
        (1, 100, "record 2 lies beyond"),
        (3, 1 << 31, "record 2 is longer"),
        (3, 0, "record 2 has no length"),
        (4, 11, "record 2 has an unknown operation"),
        (4, 2, "record 2 is a flush with a length"),
        (5, 0x80, "record 2 has unknown flags"),
        (6, 1, "record 2 names a target"),
    ],
)
def test_a_record_with_an_absurd_value_is_refused(
    tmp_path: Path, field: int, value: int, message: str
) -> None:
    # GIVEN a plan whose checksums are right, but whose third record is not
    rows = [[10 * i + 1, i, i, 1, READ, 0, 0] for i in range(10)]
    rows[2][field] = value
    plan = tmp_path / "a.plan"
    plan.write_bytes(by_hand(rows, duration_ns=91))
    # THEN the record is named
    run(plan, engine="null").refused(message)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for plan in (tmp_path / ".", Path("/dev/zero"), tmp_path / "missing"):
        ran = run(plan, engine="null")
        assert ran.code == 1
        assert len(ran.messages.splitlines()) == 1


def write_sparse(path: Path, blocks: tuple[int, ...]) -> None:
    """Write a plan of a billion reads of which only these blocks are there; others are holes."""
    index = np.zeros(LAST_BLOCK + 1, block_plan.INDEX)
    index["first_ns"] = np.arange(LAST_BLOCK + 1) * STRIDE * GAP_NS
    index["count"] = STRIDE
    with block_plan.open_new(path) as out:
        for number in blocks:
            position = np.arange(number * STRIDE, min((number + 1) * STRIDE, COUNT))
            rows = np.zeros(len(position), block_plan.RECORD)
            rows["intended_ns"], rows["request_id"] = position * GAP_NS, position
            rows["length_sectors"] = 8
            out.seek(HEADER_BYTES + number * STRIDE * RECORD_BYTES)
            out.write(rows.tobytes())
            index[number] = (position[0] * GAP_NS, zlib.crc32(rows.tobytes()), len(position))
        sums = [COUNT, 0, 0, 0, 0, COUNT * 4096, 0, 0, 0, 0]
        target = pack_target(4096, sums, 8)
        out.seek(HEADER_BYTES + COUNT * RECORD_BYTES)
        out.write(index.tobytes() + target)
        out.seek(0)
        out.write(sealed_header(COUNT, (COUNT - 1) * GAP_NS, index.tobytes(), target, b"", 4096))


@pytest.fixture
def long_plan(tmp_path: Path) -> Path:
    path = tmp_path / "long.plan"
    write_sparse(path, (122_070, LAST_BLOCK))
    if path.stat().st_blocks * 512 > 1 << 30:
        pytest.skip("this file system has no sparse files")
    return path


def test_a_billion_requests_start_at_once_and_anywhere(long_plan: Path) -> None:
    # GIVEN the middle of the plan, and the last millisecond of it
    for first in (500_000_000, COUNT - 20):
        # WHEN 20 us of it run
        began, part = time.monotonic(), (first * GAP_NS, (first + 20) * GAP_NS)
        options = {"from_ns": part[0], "until_ns": part[1], "no_calibration": True}
        ran = run(long_plan, engine="null", **options)
        took = time.monotonic() - began
        # THEN they are the right ones, after no more time than the program needs to start
        assert ran.code == 0, ran.messages
        assert sorted(ran.statuses()) == list(range(first, first + 20))
        assert ran.summary["peak_memory_bytes"] < 64 << 20
        assert took < 5


def test_a_block_that_is_not_what_the_index_says_ends_the_run(long_plan: Path) -> None:
    ran = run(long_plan, engine="null", from_ns=4_096_000)
    assert ran.code == 1
    assert "the checksum of block 0 is wrong" in ran.messages


def random_records(count: int) -> Records:
    random = np.random.default_rng(3)
    records = np.zeros(count, block_plan.RECORD)
    records["sector"] = random.integers(0, 1 << 40, count) * 8
    records["length_sectors"] = random.integers(1, 1 << 17, count)
    records["operation"] = random.integers(0, len(block_plan.OPERATIONS), count)
    records["target"] = random.integers(0, TARGETS, count)
    records["intended_ns"] = np.arange(count) * 7
    return records


def test_sums_are_those_of_every_record_alone() -> None:
    records = random_records(5000)
    totals = block_plan.Totals(np.zeros(TARGETS, block_plan.TARGET))
    # WHEN they come in three parts
    for part in np.split(records, [1, 3000]):
        totals.add(part)
    kinds = len(OPERATIONS)
    counts, lengths = np.zeros((TARGETS, kinds), int), np.zeros((TARGETS, kinds), int)
    bits, longest = [0] * TARGETS, 0
    for row in records:
        where = int(row["target"]), int(row["operation"])
        counts[where] += 1
        lengths[where] += 512 * int(row["length_sectors"])
        if where[1] != FLUSH:
            bits[where[0]] |= int(row["sector"]) | int(row["length_sectors"])
        if where[1] in (READ, WRITE, ZONE_APPEND):
            longest = max(longest, 512 * int(row["length_sectors"]))
    assert totals.targets["counts"].tolist() == counts.tolist()
    assert totals.targets["bytes"].tolist() == lengths.tolist()
    assert totals.targets["address_bits"].tolist() == bits
    assert (totals.max_transfer_bytes, totals.duration_ns) == (longest, 4999 * 7)
    assert list(totals.operations.values()) == counts.sum(axis=0).tolist()


@pytest.mark.parametrize(("key", "value"), [("target", TARGETS), ("operation", 11)])
def test_what_is_beyond_the_table_is_refused(key: str, value: int) -> None:
    records, targets = random_records(9), np.zeros(TARGETS, block_plan.TARGET)
    records[4][key] = value
    with pytest.raises(TracekitError, match="cannot be counted"):
        tally(records, targets, most_sectors=0)
    # THEN nothing beyond it was written
    assert targets["counts"].sum() == 4


def test_a_plan_in_place_of_a_longer_one_has_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(b"x" * 100_000)
    with block_plan.open_new(path) as out:
        out.write(b"new")
    assert path.read_bytes() == b"new"


def test_checksums_are_those_of_zlib(tmp_path: Path) -> None:
    # GIVEN pieces of every length, at every place
    data = np.random.default_rng(1).bytes(700)
    driver = compiled(tmp_path, "crc.c", "crc.c")
    done = subprocess.run([driver], input=data, capture_output=True, check=True)
    whole = zlib.crc32(data)
    expected = [[zlib.crc32(data[:length]), whole] for length in range(len(data) + 1)]
    assert [[int(n) for n in line.split()] for line in done.stdout.splitlines()] == expected
