"""Traces whose places lie within files or blocks: Google's Thesios, Meta's Tectonic and Baleen."""

import csv
import io
import random
from collections import Counter

import pytest

from tests import parsed as traces
from tests.import_.importer import Importer
from tests.parsed import requests
from tracekit.readers.within import PIECE_BYTES, TECTONIC_HEADER, THESIOS_HEADER
from tracekit.store import TraceFolder

BALEEN = {
    "2019": "block_id io_offset io_size op_time op_name pipeline user_namespace user_name",
    "2021": "block_id io_offset io_size op_time op_name user_namespace user_name host_name"
    " op_count",
    "2023": "block_id io_offset io_size op_time op_name user_namespace user_name rs_shard_id"
    " op_count host_name",
}
"""The columns of each year, as github.com/wonglkd/BCacheSim reads them."""


def made(header: str, delimiter: str, *, rows: int = 400, seed: int = 1) -> str:
    """Return a trace of these columns: requests at any byte of 40 files, in order of time."""
    chance = random.Random(seed)  # noqa: S311 - test data
    lines = [header]
    for number in range(rows):
        size, place = chance.randrange(1, 9 << 20), chance.randrange(200 << 20)
        values = {
            "block_id": f"{chance.randrange(40)}",
            "filename": f"{chance.randrange(40):032x}",
            "op_name": chance.choice(["getChunkData.Permanent", "putChunk.NotInitialized"]),
            "op_type": chance.choice(["READ", "WRITE"]),
            "application": chance.choice(["spanner", "f00"]),
            **dict.fromkeys(("io_size", "request_io_size_bytes"), str(size)),
            **dict.fromkeys(("io_offset", "file_offset"), str(place)),
            "op_count": str(1 + (number % 7 == 0)),
            "op_time": str(1702511878 + number // 9),
            "start_time": f"{1705363200 + number / 8}",
            "simulated_latency": f"{number / 1000:.6f}",
        }
        if delimiter == " ":
            values |= {"op_name": chance.choice("123456"), "op_time": f"{1572074461 + number / 4}"}
        words = header.removeprefix("# ").split(delimiter)
        lines.append(delimiter.join(values.get(name, "7") for name in words))
    return "\n".join(lines) + "\n"


def counted(text: str, delimiter: str) -> tuple[Counter[str], Counter[str], list[tuple[str, int]]]:
    """Return requests and bytes of each operation, and where each lies, by Python's csv."""
    rows, sizes, places = Counter[str](), Counter[str](), []
    for row in csv.DictReader(io.StringIO(text.removeprefix("# ")), delimiter=delimiter):
        word = row.get("op_type") or row["op_name"]
        kind = "read" if word.startswith("get") or word in ("READ", "1", "2", "5") else "write"
        count = int(row.get("op_count") or 1)
        rows[kind] += count
        sizes[kind] += count * int(row.get("io_size") or row["request_io_size_bytes"])
        file = row.get("filename") or row["block_id"]
        places += [(file, int(row.get("io_offset") or row["file_offset"]))] * count
    return rows, sizes, places


def check(folder: TraceFolder, text: str, delimiter: str) -> None:
    rows, sizes, places = counted(text, delimiter)
    got = requests(folder).to_pylist()
    assert Counter(row["operation"] for row in got) == rows
    bytes_of: Counter[str] = Counter()
    for row in got:
        bytes_of[row["operation"]] += row["length_bytes"]
    assert bytes_of == sizes
    # Each piece of a file lies at a place of its own, within which the file's places are kept.
    lies: dict[tuple[str, int], int] = {}
    for (file, place), row in zip(places, got, strict=True):
        piece, at = divmod(place, PIECE_BYTES)
        assert row["sector"] * 512 % PIECE_BYTES == at // 512 * 512
        first = row["sector"] * 512 // PIECE_BYTES
        assert lies.setdefault((file, piece), first) == first
    assert sorted(lies.values()) == list(range(len(lies)))
    assert list(lies.values()) == sorted(lies.values()), "in the order in which they come"
    assert folder.content["counts"]["bad_lines"] == 0
    assert "each 64 MiB of a file" in traces.warnings(folder)["assumed_values"]


@pytest.mark.parametrize(
    ("header", "delimiter", "name"),
    [
        (THESIOS_HEADER, ",", "thesios"),
        (TECTONIC_HEADER, ",", "tectonic"),
        *((f"# {header}", " ", "tectonic") for header in BALEEN.values()),
    ],
)
def test_requests_within_files(read: Importer, header: str, delimiter: str, name: str) -> None:
    # GIVEN a trace of the published columns WHEN it is imported
    text = made(header, delimiter)
    folder = read(text)
    # THEN requests, bytes and places are what another reader counts
    check(folder, text, delimiter)
    assert folder.content["source"]["format"] == name
    assert ("coarse_times" in traces.warnings(folder)) == (header == TECTONIC_HEADER)
    if name == "thesios":
        rows = requests(folder).to_pylist()
        assert {row["process"] for row in rows} == {"spanner", "f00"}
        assert [row["complete_ns"] - row["queue_ns"] for row in rows[:3]] == [0, 10**6, 2 * 10**6]


def test_shards_one_behind_the_other_and_without_a_header(read: Importer) -> None:
    # GIVEN a shard of Thesios without its header, and two in one file
    text = made(THESIOS_HEADER, ",")
    body = text.partition("\n")[2]
    check(read(body), text, ",")
    both = read(text + text, join="overlay")
    # THEN a header in the middle is passed over
    assert both.content["counts"]["passed_lines"] == 1
    assert both.content["counts"]["requests"] == 800


def test_more_than_one_block_of_lines(read: Importer) -> None:
    text = made(TECTONIC_HEADER, ",", rows=30_000, seed=3)
    check(read(text), text, ",")


def test_blocks_that_are_read_whole_are_no_sequence(read: Importer) -> None:
    # GIVEN reads of 128 KiB, each of another block: 512 times as much is the distance of the places
    lines = [f"{number} 0 131072 {9e8 + number:.1f} 1 1 1 1" for number in range(2000)]
    folder = read("\n".join([f"# {BALEEN['2019']}", *lines]))
    # THEN they are bytes, without a doubt
    assert {row["length_bytes"] for row in requests(folder).to_pylist()} == {131072}
    assert "doubtful_units" not in traces.warnings(folder)
