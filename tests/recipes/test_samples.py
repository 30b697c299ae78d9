"""The shipped samples and the recipes that make them."""

import collections
import lzma
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.capture.machine import read_layout, skip_unless_it_can_trace, tracer_turn
from tests.command_line import succeed
from tests.lab.guests import skip_unless_guests_run
from tests.recipes import make_in_lab, make_sample, record_memory
from tests.recipes.describe import describe
from tests.recipes.memory_limit import V1, V2
from tests.traces import json_of, rows_of
from tracekit.classify import ClassifyOptions, classify
from tracekit.readers.blktrace import parse

SAMPLES = Path(__file__).resolve().parents[2] / "sample-traces"
FOLDERS = sorted(path for path in SAMPLES.iterdir() if path.is_dir())
TRACES = [path for path in FOLDERS if path.name != "memory"]
LARGEST_BYTES = 3 << 20


@pytest.mark.parametrize("trace", FOLDERS, ids=lambda path: path.name)
def test_readme_has_the_files_with_their_hashes_and_counts(trace: Path) -> None:
    assert "\n".join(describe(trace)) in (SAMPLES / "README.md").read_text()


@pytest.mark.parametrize("trace", FOLDERS, ids=lambda path: path.name)
def test_a_sample_is_small(trace: Path) -> None:
    assert sum(path.stat().st_size for path in trace.iterdir()) < LARGEST_BYTES


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name)
def test_blkparse_reads_every_record(trace: Path, tmp_path: Path) -> None:
    if shutil.which("blkparse") is None:
        pytest.skip("needs blkparse")
    for path in trace.glob("*.blktrace.*.xz"):
        (tmp_path / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    command = ["blkparse", "-i", trace.name, "-f", "%a\n"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    # THEN it counts them as the README does, misses none and refuses none
    lines = collections.Counter(done.stdout.splitlines())
    table = re.findall(r"\| ([A-Z]+) [^|]+ \| (\d+) \|\n", "\n".join(describe(trace)) + "\n")
    assert [(action, str(lines[action])) for action, _ in table] == table
    assert f"Events ({trace.name}): {sum(int(count) for _, count in table)} entries" in lines
    assert "Skips: 0 forward (0 -   0.0%)" in lines
    assert "error" not in done.stderr


def test_oltp_has_a_layout_of_three_roles_and_no_loss() -> None:
    layout = json_of(SAMPLES / "oltp" / "layout.json")
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["loss"] == {"overrun": 0, "dropped": 0}
    assert layout["capture"]["own_requests"] == 0
    names = set(layout["processes"].values())
    assert {"oltp-teller-0", "oltp-report", "oltp-checkpoint"} <= names


def test_gnuplot_requests_are_swap(tmp_path: Path) -> None:
    # GIVEN the capture of a program whose memory does not fit
    folder, _ = parse([SAMPLES / "gnuplot"], tmp_path / "trace")
    classify(folder, ClassifyOptions())
    # THEN every request but what opening the disk costs is swap, each block touched several times
    requests = folder.content["classification"]["requests"]
    assert requests["swap"] > 100_000
    assert requests["fs"] < 10
    swap = folder.content["hotness"]["roles"]["swap"]
    assert sum(swap["touches"].values()) > 2 * sum(swap["blocks"].values())


def test_oltp_requests_fall_into_its_partitions() -> None:
    # GIVEN the queue records with data, and the ranges of the layout
    layout = json_of(SAMPLES / "oltp" / "layout.json")
    counts = dict.fromkeys(["fs", "journal", "swap", "outside", "flush"], 0)
    for path in (SAMPLES / "oltp").glob("*.xz"):
        data = lzma.decompress(path.read_bytes())
        at = 0
        while at < len(data):
            sector, length, action = struct.unpack_from("<QII", data, at + 16)
            if action & 0xFFFF == 1 and not action & 0x400 << 16:
                counts[_place(layout, sector) if length else "flush"] += 1
            at += 48 + struct.unpack_from("<H", data, at + 46)[0]
    # THEN all are in the file system or the journal, each with a good share, and some are flushes
    assert counts["outside"] == counts["swap"] == 0
    assert min(counts["fs"], counts["journal"], counts["flush"]) > 5000


def _place(layout: dict[str, list[dict[str, int]]], sector: int) -> str:
    for part in layout["partitions"]:
        if part["start_sector"] <= sector < part["start_sector"] + part["sectors"]:
            return str(part["role"])
    return "outside"


@pytest.mark.root
@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("name", sorted(make_sample.RECIPES))
def test_a_short_run_has_three_roles_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    skip_unless_it_can_trace()
    output = tmp_path / "sample"
    with tracer_turn():
        make_sample.make(name, output, scratch=tmp_path, arguments=["--seconds", "1"])
    # THEN there is a capture with reads and writes of the load's processes
    layout = read_layout(output)
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["capture"]["records"] > 500
    assert any(process.startswith(name) for process in layout["processes"].values())
    assert "| Q queued |" in "\n".join(describe(output))
    # AND neither disk, nor mount, nor control group is left
    assert list(tmp_path.iterdir()) == [output]
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in loops.stdout
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not (V1 / make_sample.GROUP).exists()
    assert not (V2 / make_sample.GROUP).exists()


@pytest.mark.root
@pytest.mark.xdist_group("kernel")
@pytest.mark.parametrize("name", sorted(make_sample.RECIPES))
def test_a_load_that_fails_leaves_nothing_either(name: str, tmp_path: Path) -> None:
    skip_unless_it_can_trace()
    with tracer_turn(), pytest.raises(subprocess.CalledProcessError):
        # WHEN the load does not know its option
        make_sample.make(
            name, tmp_path / "sample", scratch=tmp_path, arguments=["--no-such-option"]
        )
    # THEN the capture that was made is there, and says in its exit that it is partial
    assert [path.name for path in tmp_path.iterdir()] == ["sample"]
    loops = subprocess.run(["losetup", "--all"], capture_output=True, text=True, check=True)
    assert str(tmp_path) not in loops.stdout


SHORT: dict[str, dict[str, Any]] = {
    "browser": {
        "command": ("sh", "visit.sh", "1"),
        "prepare": "python3 pages.py build $LAB_FS/site 1 2",
    },
    "gnuplot": {"command": ("gnuplot-nox", "-e", "points=100", "surface.gp")},
    "sysbench": {"command": ("sh", "transact.sh", "100", "2"), "prepare": "sh fill.sh 100"},
    "video": {"prepare": "sh film.sh 1"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(make_in_lab.RECIPES))
def test_a_short_run_gives_a_whole_capture(name: str, tmp_path: Path) -> None:
    skip_unless_guests_run()
    recipe = replace(make_in_lab.RECIPES[name], **SHORT[name])
    make_in_lab.make(name, tmp_path / name, recipe=recipe)
    # THEN there is a capture of a disk with three roles, and nothing was lost
    layout = json_of(tmp_path / name / "layout.json")
    assert [part["role"] for part in layout["partitions"]] == ["fs", "journal", "swap"]
    assert layout["capture"]["command"] == list(recipe.command)
    assert layout["loss"] == {"overrun": 0, "dropped": 0}


@pytest.mark.parametrize("name", record_memory.COMMANDS)
def test_a_sample_of_memory_has_the_page_locality_of_its_text(name: str, tmp_path: Path) -> None:
    # GIVEN pages in the order of the text's loads and stores; a modify is both
    pages: list[int] = []
    packed = SAMPLES / "memory" / f"{name}.lackey.xz"
    assert packed.stat().st_size < 300 << 10
    lines = lzma.decompress(packed.read_bytes()).splitlines()
    for letter, place in (line.split() for line in lines):
        if letter != b"I":
            address, size = place.split(b",")
            begin, end = int(address, 16), int(address, 16) + int(size)
            # Lines of 64 bytes are asked for one after the other.
            touched = [at * 64 // 4096 for at in range(begin // 64, (end - 1) // 64 + 1)]
            pages += touched * (2 if letter == b"M" else 1)
    open_pages: dict[int, None] = {}  # 16, the one that was used last at the end
    hits = 0
    for page in pages:
        hits += page in open_pages
        open_pages.pop(page, None)
        open_pages[page] = None
        if len(open_pages) > 16:
            del open_pages[next(iter(open_pages))]
    # WHEN it is imported and simulated as its README says
    succeed("import", packed, "-o", tmp_path / "t")
    asked = ("simulate", "buffer", tmp_path / "t", "--caches", "4KiB/4,32KiB/8")
    answer = succeed(*asked).stdout
    row = next(
        row
        for row in rows_of(tmp_path / "t" / "simulations" / "buffer.parquet")
        if (row["level"], row["mapping"], row["operation"]) == ("processor", "lru", "all")
        and (row["row_bytes"], row["buffers"]) == (4096, 16)
    )
    # THEN 16 pages are open as counted, and nothing is doubted
    assert (row["accesses"], row["hits"]) == (len(pages), hits)
    assert re.match(r"[0-9,]+ loads and stores make", answer)
    assert json_of(tmp_path / "t" / "trace.json")["counts"]["memory_accesses"] == len(lines)


def test_memory_is_recorded_anew(tmp_path: Path) -> None:
    if not all(map(shutil.which, ("valgrind", "zip", "unzip"))):
        pytest.skip("needs valgrind, zip and unzip")
    record_memory.record("unzip", tmp_path, first=5, count=7)
    lines = lzma.decompress((tmp_path / "unzip.lackey.xz").read_bytes()).splitlines()
    assert len(lines) == 7
    assert all(re.fullmatch(rb"(I | [LSM]) [0-9a-f]{8,},[0-9]+", line) for line in lines)
