"""Perfetto's traces, encoded by its own library from events that were recorded as text."""

import lzma
import re

import pytest

from tests.import_.examples import RECORDED
from tests.import_.importer import Importer
from tests.import_.test_drivers import UFS, recorded
from tests.parsed import requests
from tracekit.errors import UsageError
from tracekit.readers import importing, perfetto, stream


def encoded(name: str) -> bytes:
    """Return a trace that Perfetto's Python package (0.59.1) encoded.

    Of `sda` these are the block_rq_issue and _complete events of sda.ftrace.txt, bundles of a CPU
    one behind the other, half of them in a compressed packet, each with one of ext4 and one of
    sched; counters of 7 events that CPU 1 lost, and of a CPU 2. Of `ufs` the commands of UFS.
    """
    return lzma.decompress((RECORDED / f"{name}.perfetto.xz").read_bytes())


@pytest.mark.parametrize("is_packed", [False, True])
def test_block_events(read: Importer, is_packed: bool) -> None:
    # GIVEN a trace of Perfetto, compressed or not, and the text it was made of
    data = encoded("sda")
    folder = read(lzma.compress(data) if is_packed else data)
    lines = recorded("sda.ftrace").splitlines()
    text = "".join(f"{line}\n" for line in lines if re.search("block_rq_(issue|complete)", line))
    # WHEN both are imported THEN the requests are the same; which of two events of one microsecond
    # on two CPUs came first, which is the depth of one request, Perfetto's order does not say
    made, expected = (requests(one).drop_columns("depth") for one in (folder, read(text)))
    assert made.equals(expected)
    # AND what was lost, passed over, or is missing
    assert folder.content["source"]["format"] == "perfetto"
    assert folder.content["source"]["files"][0]["bytes"] > 0
    assert folder.content["loss"]["dropped"] == 7
    assert folder.content["completeness"]["absent_cpus"] == [2]
    told = [one["value"] for one in folder.content["inferences"] if one["what"] == "passed over"]
    assert told == ["events of ext4 (761), other (761)"]


def test_a_page_is_of_ufs_alone(read: Importer) -> None:
    made = [requests(read(encoded("ufs"), page_bytes=size)) for size in (512, 4096)]
    small, large = (table["sector"].to_pylist() for table in made)
    assert [8 * place for place in small] == large
    message = "pages of 512 bytes .--page., and a trace of the kernel's events says its page size"
    read.rejects(encoded("sda"), message, error=UsageError, page_bytes=512)


def test_events_are_sorted_in_bounded_memory(
    read: Importer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encoded("sda")
    whole = read(data)
    # GIVEN so little memory that a packet needs many reads, and the events many files
    monkeypatch.setattr(stream, "CHUNK_BYTES", 500)
    monkeypatch.setattr(importing, "HEAD_BYTES", 1000)
    monkeypatch.setattr(perfetto, "MOST_LINES", 40)
    monkeypatch.setattr(perfetto, "MOST_RUNS", 4)
    # THEN nothing else comes of it
    made = read(data)
    assert requests(made).equals(requests(whole))
    for name in ("counts", "loss", "completeness"):
        assert made.content[name] == whole.content[name]


def test_commands_of_ufs(read: Importer) -> None:
    made, text = read(encoded("ufs")), read(UFS)
    columns = ["sector", "length_bytes", "operation", "issue_ns", "complete_ns", "device", "pid"]
    assert requests(made).select(columns).equals(requests(text).select(columns))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (encoded("sda")[:-9], "no packet begins here, or it is cut"),
        (encoded("sda") + b"\xff", "byte 29,161"),
    ],
    ids=["cut", "more"],
)
def test_damage_is_named_with_its_byte(read: Importer, data: bytes, message: str) -> None:
    read.rejects(data, message, hint="damaged")


def test_a_trace_without_events_of_a_disk(read: Importer) -> None:
    # GIVEN one event of f2fs, and nothing of blocks
    event = b"\x08\x05\x10\x01\xc2\x0f\x02\x08\x01"  # timestamp, pid, f2fs_iget = 248
    bundle = b"\x08\x00\x12" + bytes([len(event)]) + event
    packet = b"\x40\x01\x0a" + bytes([len(bundle)]) + bundle
    data = b"\x0a" + bytes([len(packet)]) + packet
    # THEN that is said, and what to trace
    read.rejects(
        data,
        "(?s)without events of blocks.*events of f2fs .1. are passed over",
        hint="block_rq_issue",
    )
