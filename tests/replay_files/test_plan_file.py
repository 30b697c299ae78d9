"""The file plan, byte by byte as INTERFACE.md gives it, and circles of operations in one."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.replay_files.program import Operation, Replay, Rows, do, table
from tracekit.errors import InputError
from tracekit.plans import file_plan
from tracekit.plans.file_plan import CODES, NONE, FilePlanWriter, FileTable, Setting, new_records


def written(*parts: Rows, files: FileTable | None = None, setting: Setting | None = None) -> bytes:
    """Return a plan of one thread, whose records come in parts."""
    out = io.BytesIO()
    writer = FilePlanWriter(out)
    writer.thread()
    for part in parts:
        writer.append(part)
    writer.finish(files or FileTable(), setting or Setting())
    return out.getvalue()


@pytest.fixture
def data() -> bytes:
    """Return a plan: one thread makes and writes d/a, the other one looks at b of 100 bytes."""
    files = FileTable()
    made = files.add("d/a", there=False)
    old = files.add("b", size_bytes=100)
    first, second = new_records(2), new_records(1)
    first["operation"] = CODES["create"], CODES["write"]
    first["file"], first["handle"], first["flags"][0] = made, 3, file_plan.EXCLUSIVE
    first["offset"][1], first["length"][1], first["start_ns"][1] = 4096, 512, 7
    second["operation"], second["file"], second["after"] = CODES["stat"], old, 1
    second["operation_id"], second["step"] = 99, 0
    out = io.BytesIO()
    writer = FilePlanWriter(out)
    writer.thread(10, 11)
    writer.append(first)
    writer.thread()
    writer.append(second)
    assert writer.finish(files, Setting(steps=("look",))) == {"create": 1, "write": 1, "stat": 1}
    return out.getvalue()


def test_header_has_the_places_of_the_interface(data: bytes) -> None:
    assert data[:8] == b"TKFILE\r\n"
    assert struct.unpack_from("<6I", data, 8) == (1, 128, 64, 24, 32, 32)
    assert struct.unpack_from("<3Q", data, 32) == (3, 7, 3)  # records, duration, bytes of names
    assert struct.unpack_from("<4I", data, 56) == (3, 2, 1, 4)  # files, threads, steps, handles
    # d/a grows to 4096 + 512 bytes, b has 100
    assert struct.unpack_from("<2Q", data, 72) == (512, 4708)
    flags, records_crc, tables_crc = struct.unpack_from("<3I", data, 88)
    assert (flags, records_crc) == (0, zlib.crc32(data[128:320]))
    assert tables_crc == zlib.crc32(data[320:])
    assert struct.unpack_from("<I", data, 124) == (zlib.crc32(data[:124]),)


def test_records_and_tables_have_the_places_of_the_interface(data: bytes) -> None:
    assert struct.unpack_from("<5Q4I2H2B", data, 128 + 64) == (
        *(7, 0, 4096, 512, 0),
        *(1, NONE, 3, NONE),
        *(0, 0, 4, 255),
    )
    assert struct.unpack_from("<5Q4I2H2B", data, 128 + 128) == (
        *(0, 0, 0, 0, 99),
        *(2, NONE, NONE, 1),
        *(0, 0, 8, 0),
    )
    threads = 128 + 3 * 64
    assert struct.unpack_from("<2Q2I", data, threads) == (0, 2, 10, 11)
    assert struct.unpack_from("<2Q2I", data, threads + 24) == (2, 1, 0, 0)
    steps = threads + 48
    assert data[steps : steps + 32] == b"look".ljust(32, b"\0")
    files = steps + 32
    rows = [struct.unpack_from("<2Q2I2B", data, files + 32 * row) for row in range(3)]
    assert rows == [
        (0, 0, 1, NONE, 1, 1),  # d, added for d/a
        (0, 1, 1, 0, 0, 0),  # a, below d, not there yet
        (100, 2, 1, NONE, 0, 1),  # b
    ]
    assert data[files + 96 :] == b"dab"


@pytest.mark.parametrize("path", ["/etc/passwd", "../a", "d/../a", "", "a//b", "./a", "n" * 256])
def test_a_path_that_leaves_the_directory_is_refused(path: str) -> None:
    with pytest.raises(InputError):
        FileTable().add(path)


def test_a_path_below_a_file_or_below_nothing_is_refused() -> None:
    files = table("a")
    files.add("later", kind="directory", there=False)
    for path, words in (("a/b", "is a file"), ("later/b", "is not"), ("a", "twice")):
        with pytest.raises(InputError, match=words):
            files.add(path)


def test_needed_bytes_is_each_file_at_its_longest() -> None:
    # GIVEN a file of 1000 bytes that is cut to 10 and one that is appended to three times
    files = table("cut", size_bytes=1000)
    files.add("log", there=False)
    records = new_records(4)
    records["operation"] = [CODES["truncate"], *[CODES["write"]] * 3]
    records["file"] = [0, 1, 1, 1]
    records["length"] = [10, 5, 6, 7]
    records["offset"] = file_plan.AT_POSITION
    parts, setting = (records[:2], records[:0], records[2:]), Setting(is_repeatable=True)
    plan = written(*parts, files=files, setting=setting)
    # THEN the first counts as it was, the second with all that was appended
    assert struct.unpack_from("<Q", plan, 80) == (1018,)
    assert struct.unpack_from("<I", plan, 88) == (1,)


def test_parts_give_the_same_checksum_as_the_whole() -> None:
    records = new_records(1000)
    records["operation_id"] = np.arange(1000)
    whole = written(records[:0], records)
    assert whole == written(records[:1], records[1:]) == written(records[:500], records[500:])


@pytest.mark.parametrize("label", ["", "two words", "x" * 32, "ü"])
def test_a_label_that_does_not_fit_is_refused(label: str) -> None:
    with pytest.raises(InputError, match="label"):
        written(setting=Setting(steps=(label,)))


def test_a_plan_without_thread_is_refused() -> None:
    with pytest.raises(InputError, match="thread"):
        FilePlanWriter(io.BytesIO()).finish(FileTable(), Setting())


HEAD = "waits for record"


def looks(*waits: int | None) -> list[Operation]:
    """Return one thread: an operation each, waiting for the record of that number."""
    return [do("readdir", "d", **({} if after is None else {"after": after})) for after in waits]


def runs(threads: list[list[Operation]]) -> bool:
    """Say whether all threads come to their end, by trying until nothing moves."""
    numbers = iter(range(sum(map(len, threads))))
    left = [[(next(numbers), one.get("after")) for one in thread] for thread in threads]
    ended: set[int] = set()
    moved = True
    while moved:
        moved = False
        for thread in left:
            while thread and (thread[0][1] is None or thread[0][1] in ended):
                ended.add(thread.pop(0)[0])
                moved = True
    return not any(left)


@pytest.mark.parametrize(
    ("threads", "pairs"),
    [
        # each waits for the other
        ([looks(1), looks(0)], {(0, 1), (1, 0)}),
        # only by the order within the threads: 0, 1 wait for 3, which comes behind 2, for 1
        ([looks(None, 3), looks(1, None)], {(1, 3), (2, 1)}),
        # three threads, and a fourth that waits for the circle without being in it
        ([looks(2), looks(0), looks(1), looks(0)], {(0, 2), (1, 0), (2, 1)}),
    ],
)
def test_a_circle_is_refused(
    replay: Replay, target: Path, threads: list[list[Operation]], pairs: set[tuple[int, int]]
) -> None:
    ran = replay(threads, directory=target)
    # THEN it is one line that names two of the circle, and nothing was made
    ran.refused()
    assert any(f"record {a} {HEAD} {b}, which" in ran.messages for a, b in pairs), ran.messages
    assert list(target.iterdir()) == []


def random_threads(seed: int) -> list[list[Operation]]:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(0, 8, 5)
    lengths[0] += 1
    ends = np.cumsum(lengths)
    threads = []
    for thread, end in enumerate(ends):
        others = np.concatenate([np.arange(end - lengths[thread]), np.arange(end, ends[-1])])
        waits: list[int | None] = [None] * int(lengths[thread])
        for place in range(len(waits)):
            if len(others) and chance.random() < 0.25:
                waits[place] = int(chance.choice(others))
        threads.append(looks(*waits))
    return threads


def test_random_waits_run_exactly_when_they_can(replay: Replay) -> None:
    # GIVEN 60 plans of five threads with random waits
    found = []
    for seed in range(60):
        threads = random_threads(seed)
        ran = replay(threads, setting=Setting(is_repeatable=True), repeat=2)
        # THEN those that can end do, and the others are refused
        can_run = runs(threads)
        assert (ran.code == 1 and HEAD in ran.messages) is not can_run, (seed, ran.messages)
        if can_run:
            assert ran.code in (0, 3), (seed, ran.messages)
            assert len(ran.rows()) == 2 * sum(map(len, threads))
        found.append(can_run)
    assert 10 < sum(found) < 50


def test_many_threads_that_wait_for_one_start_at_once(replay: Replay) -> None:
    # GIVEN 200 threads that each wait for another record of the first thread, the last one first
    others = [looks(999 - 5 * number) for number in range(199)]
    assert replay([looks(*[None] * 1000), *others]).counts["operations"] == 1199
