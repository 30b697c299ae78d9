"""The file plan that is written, byte by byte as INTERFACE.md gives it."""

import io
import struct
import zlib

import numpy as np
import pytest

from tests.replay_files.program import Rows, table
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
