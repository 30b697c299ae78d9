"""What captures cost and miss, their faults by the dozen, and the files that they name.

`file_names`: each page that a program writes holds the number of its file and its place there. The
pages are read from the disk afterwards, so that whose a request's sectors are comes from their
content."""

import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import tracekit as tk
from tests.bench.harness import (
    MEMORY,
    TRACEKIT,
    Bench,
    Failed,
    Skipped,
    files_open,
    fio,
    isolated,
    needs,
    needs_root,
    run,
    timed,
    tracekit,
)
from tests.capture.faults import FAULTS, fault
from tests.capture.machine import TRACER, Disk, run_capture, small_disk, tracer_turn
from tests.capture.test_accounted import READS, mixed, reads
from tests.recipes import three_roles
from tests.recipes.three_roles import loop_disk, mounted
from tests.replay.disk import image, loop
from tracekit._native.calls import Calls, Start
from tracekit.capture.files import SOURCES, decode
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.readers.blktrace import parse

DISK_MIB = 512
CASES = (("2,000 a second", 2_000), ("20,000 a second", 20_000), ("as many as it takes", None))
DEPTH = 32
MOST_A_SECOND = 60_000
UNTRACED = "untraced"
MISSING = "block events cannot be captured"


def job(device: Path, *, requests: int, depth: int, a_second: int | None = None) -> list[str]:
    """Return fio's words: random reads of 4 KiB past the page cache, so many of them."""
    rate = (f"--rate_iops={a_second}", "--rate_process=poisson") if a_second else ()
    return [
        *rate,
        *("--name=read", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1"),
        *("--ioengine=io_uring", f"--iodepth={depth}", "--size=100%", "--norandommap"),
        *("--randseed=7", f"--number_ios={requests}", "--readonly"),
    ]


class Rounds:
    """Runs of one job, whose latency, records and losses are kept beside the rates."""

    def __init__(self, folder: Path, device: Path, words: list[str]) -> None:
        self.folder, self.device, self.words = folder, device, words
        self.p99_us: dict[str, list[float]] = {}
        self.iops: dict[str, list[float]] = {}
        self.records: dict[str, int] = {}
        self.lost: dict[str, int] = {}

    def add(self, name: str, read: dict[str, Any]) -> float:
        """Keep the rate and the 99th percentile; return the median latency in microseconds."""
        shares = read["clat_ns"]["percentile"]
        self.p99_us.setdefault(name, []).append(shares["99.000000"] / 1e3)
        self.iops.setdefault(name, []).append(read["iops"])
        return float(shares["50.000000"]) / 1e3

    def run(self, source: str) -> float:
        """Run under a capture with this source, or untraced."""
        if source == UNTRACED:
            return self.add(source, fio(*self.words)[0]["read"])
        output, report = self.folder / "capture", self.folder / "fio.json"
        shutil.rmtree(output, ignore_errors=True)
        command = ["fio", *self.words, "--output-format=json", f"--output={report}"]
        tracekit("capture", self.device, "-o", output, "--source", source, "--", *command)
        layout = json.loads((output / "layout.json").read_text())
        self.records[source] = layout["capture"]["records"]
        lost = sum(layout["loss"].values())
        self.lost[source] = self.lost.get(source, 0) + lost
        return self.add(source, json.loads(report.read_text())["jobs"][0]["read"])

    def works(self, source: str) -> bool:
        try:
            self.run(source)
        except Failed as error:
            if MISSING in str(error):
                return False
            raise
        return True


def bench_block_capture(out: Bench, *, seconds: int = 2, rounds: int = 9) -> None:
    """Run on a loop device over memory: the hardest case, as a real disk takes longer.

    Compared is the median latency, by turns, beside no capture. FOLDER must be on another disk.
    """
    needs_root()
    needs("fio")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "disk", mib=DISK_MIB)) as device,
    ):
        for case, a_second in CASES:
            requests = seconds * (a_second or MOST_A_SECOND)
            words = job(device, requests=requests, depth=DEPTH, a_second=a_second)
            sources = [name for name in NAMES if Rounds(out.scratch, device, words).works(name)]
            for missing in set(NAMES) - set(sources):
                out.note(f"{missing}: {MISSING} here")
            runs = Rounds(out.scratch, device, words)
            ways = {name: partial(runs.run, name) for name in (UNTRACED, *sources)}
            out.compare(case, ways, rounds=rounds, unit="p50 us")
            for name in ways:
                found = {"p99_us": runs.p99_us[name], "iops": runs.iops[name]}
                medians = {key: statistics.median(values) for key, values in found.items()}
                counts = {"records": runs.records.get(name, 0), "lost": runs.lost.get(name, 0)}
                out.row(f"{case}: {name}", **medians, **counts)


LINE = re.compile(
    rb"^(\d+) +(\d+\.\d+) (\w+)\((\d+)<([^>]*)>, (?:\"\"\.\.\., )?(.*)\) = (-?\d+).* <(\d+\.\d+)>$"
)
SQL = (
    "drop table if exists t; create table t(a, b); insert into t select value,"
    " hex(randomblob(200)) from generate_series(1, 20000); create index i on t(b); vacuum;"
)
PROGRAMS = {
    "dd, 512 B at a time": ["dd", "if=/dev/zero", "of=out", "bs=512", "count=20000"],
    "dd, 1 MiB at a time": ["dd", "if=/dev/zero", "of=out", "bs=1M", "count=512"],
    "sqlite3, 20,000 rows in one transaction": ["sqlite3", "db", SQL],
    "tar of the Python library": ["tar", "cf", "out.tar", os.path.dirname(os.__file__)],
}


class FileRounds:
    """Runs of one program, untraced and under each source of file operations."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        self.folder, self.program = folder, program
        self.calls: dict[str, int] = {}
        self.lost: dict[str, int] = {}

    def run(self, source: str) -> float:
        """Return the seconds that the program took."""
        if source == UNTRACED:
            began_s = time.perf_counter()
            subprocess.run(self.program, cwd=self.folder, capture_output=True, check=True)
            return time.perf_counter() - began_s
        words = ("--files", "--source", source, "--json", "--force", "-o", self.folder / "trace")
        ran = run([TRACEKIT, "capture", *words, "--", *self.program], cwd=self.folder)
        found = json.loads(ran.output)
        self.calls[source] = found["counts"]["calls"]
        self.lost[source] = self.lost.get(source, 0) + found["loss"]["dropped"]
        return float(found["capture"]["overhead"]["traced_ns"]) / 1e9


def overhead(out: Bench, name: str, program: list[str], *, rounds: int) -> None:
    """Print what a program takes without a capture and with each source that works, by turns."""
    needs(program[0])
    runs = FileRounds(out.scratch, program)
    # What is read for the first time would make the first run the slower one.
    runs.run(UNTRACED)
    working = [source for source, one in SOURCES.items() if one.probe() is None]
    ways = {way: partial(runs.run, way) for way in (UNTRACED, *working)}
    found = out.compare(name, ways, rounds=rounds, unit="s")
    plain_s = statistics.median(found[UNTRACED])
    for source in working:
        calls, lost = runs.calls[source], runs.lost[source]
        more_us = (statistics.median(found[source]) - plain_s) * 1e6 / calls
        out.row(f"{name}: {source}", calls=calls, lost=lost, us_a_call=more_us)


def write_text(file: Path, lines: int) -> None:
    """Write lines as strace prints them, of four threads that read and write by turns."""
    with file.open("w") as out:
        for fd in range(3, 7):
            opened = f'openat(-100</w>, "f{fd}", 0x42, 0644) = {fd}</w/f{fd}> <0.000012345>'
            out.write(f"100 1800000000.{fd:09} {opened}\n")
        for number in range(lines):
            fd = 3 + number % 4
            name = ("write", "read", "fsync")[number % 3]
            rest, result = ("", 0) if name == "fsync" else (', ""..., 4096', 4096)
            seconds, ns = divmod((number + 10) * 1000, 10**9)
            call = f"{name}({fd}</w/f{fd}>{rest}) = {result} <0.000000900>"
            out.write(f"100 {1800000000 + seconds}.{ns:09} {call}\n")


def decode_rows(file: Path, lines: int) -> None:
    """Decode without a table."""
    with files_open([file]) as fds, Calls(fds[0], Start("/w")) as calls:
        assert sum(len(batch) for batch in calls.batches()) == lines + 4


def decode_tables(file: Path, folder: Path) -> None:
    decode(file, folder, start=Start("/w"))


def python_loop(file: Path) -> None:
    """Match the lines with one regular expression."""
    with file.open("rb") as lines:
        assert sum(LINE.match(line.rstrip()) is not None for line in lines)


def bench_file_capture(out: Bench, *, lines: int = 2_000_000, rounds: int = 5) -> None:
    """Decode a text of strace: rows only, with both tables, in a loop; then capture programs."""
    file = out.input(f"strace-{lines}.txt", partial(write_text, lines=lines))
    ways = {
        "rows": (decode_rows, file, lines),
        "with tables": (decode_tables, file, out.scratch),
        "Python loop": (python_loop, file),
    }
    rates = {
        name: lambda way=way: lines / timed(*way)[1].wall_s / 1e6 for name, way in ways.items()
    }
    out.compare("strace's text", rates, rounds=1, unit="M lines/s")
    out.row("with tables", peak_mib=isolated(decode_tables, file, out.scratch)[1].peak_mib)
    for name, program in PROGRAMS.items():
        with out.part(name):
            overhead(out, name, program, rounds=rounds)


def capture_once(disk: Disk, source: str, command: list[str], folder: Path) -> dict[str, int]:
    """Return requests counted, recorded, unseen (least, most), rows without completion."""
    done = run_capture(disk.device, "-o", str(folder / "c"), "--source", source, "--", *command)
    if done.returncode:
        raise SystemExit(done.stderr)
    loss = parse([folder / "c"], folder / "trace")[0].content["loss"]
    rows = loss["unseen"]["disks"]
    names = ("counted", "recorded", "at_least", "at_most")
    found = {name: sum(row[name] for row in rows) for name in names}
    counted = sum(row["counted"] for row in rows if row["kind"] == "read")
    return found | {"open": loss["unmatched"]["queue"], "reads": counted}


def show_unseen(out: Bench, disk: Disk, source: str, runs: int) -> None:
    """Print what became of the reads and of requests of all kinds."""
    try:
        choose(source, tracefs=tracefs_folder(), disks=[find_disk(disk.device)])
    except TracekitError as error:
        raise Skipped(str(error)) from error
    for name, command in (("reads", reads(disk)), ("mixed", ["sh", "-c", mixed(disk)])):
        found: list[dict[str, int]] = []
        while len(found) < runs:
            with tempfile.TemporaryDirectory(dir=out.scratch) as folder:
                one = capture_once(disk, source, command, Path(folder))
            if name == "mixed" or one["reads"] == READS:
                found.append(one)
        exact = sum(one["at_least"] == one["at_most"] for one in found)
        out.row(f"{source}: {name}", requests=found[-1]["counted"], runs=runs, exact=exact)
        told = sorted((one["at_least"], one["at_most"], one["open"]) for one in found)
        out.note(f"  unseen at least, at most, rows without completion: {told}")


def bench_unseen(out: Bench, *, runs: int = 10, source: str | None = None) -> None:
    """Capture with each source in turn; the truth is the number of direct reads that were made.

    They are of a partition that nobody else uses; a capture in which somebody else read is made
    again.
    """
    needs_root()
    with tempfile.TemporaryDirectory(dir=out.folder) as work, small_disk(Path(work)) as disk:
        for name in [source] if source else NAMES:
            with out.part(name):
                show_unseen(out, disk, name, runs)


def bench_capture_faults(out: Bench, *, runs: int = 60, seed: int = 1) -> None:
    """Each kind of fault in turn, at random moments: programs hurt, records lost, what is left."""
    needs_root()
    total: Counter[str] = Counter()
    kinds: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory(dir=out.folder) as work, small_disk(Path(work)) as disk:
        for number in range(runs):
            name = [*FAULTS][number % len(FAULTS)]
            with tracer_turn():  # others wait for theirs between two faults
                found = fault(name, disk, Path(work) / f"case-{number}", seed=seed + number)
            total += Counter(hurt=found.hurt, lost=found.lost, left=found.left)
            kinds.setdefault(name, []).append(found.kept)
            if found.hurt or found.lost or found.left:
                out.note(f"{number}: {found}")
            shutil.rmtree(Path(work) / f"case-{number}")
    for name, kept in kinds.items():
        out.row(name, faults=len(kept), least_kept=min(kept), most_kept=max(kept))
    out.row("all", faults=runs, hurt=total["hurt"], lost=total["lost"], left=total["left"])


def bench_capture_losses(out: Bench, *, requests: int = 100_000, rounds: int = 5) -> None:
    """Losses that are declared beside those that the kernel's counters show, over memory.

    With a buffer that is large enough, and with one that is not.
    """
    needs_root()
    needs("fio")
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as place,
        loop(image(Path(place) / "disk", mib=DISK_MIB)) as device,
    ):
        words = ["fio", *job(device, requests=requests, depth=32), "--output-format=json"]
        for buffer in ("32MiB", "1MiB"):
            for _ in range(rounds):
                folder, report = out.scratch / "capture", out.scratch / "fio.json"
                for old in (folder, out.scratch / "trace"):
                    shutil.rmtree(old, ignore_errors=True)
                options = ("--source", "tracefs-blk", "--buffer", buffer)
                tracekit(
                    "capture", device, "-o", folder, *options, "--", *words, f"--output={report}"
                )
                loss = parse([folder], out.scratch / "trace")[0].content["loss"]
                declared = sum(json.loads((folder / "layout.json").read_text())["loss"].values())
                disks = loss["unseen"]["disks"]
                counted = sum(row["counted"] for row in disks)
                unseen = sum(row["at_least"] for row in disks)
                rate = json.loads(report.read_text())["jobs"][0]["read"]["iops"]
                out.row(
                    f"buffer {buffer}",
                    iops=rate,
                    counted=counted,
                    completions_missing=unseen,
                    records_declared_lost=declared,
                    undeclared=int(unseen > 0 and declared == 0),
                )


SIZE_BYTES = 400 << 20
PAGE, TAG = 4096, b"page of a file: "
MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "XFS": ("mkfs.xfs", "-q"),
    "btrfs": ("mkfs.btrfs", "-q", "-d", "single", "-m", "single"),
}
KINDS = {"ext4": "ext4", "XFS": "XFS", "btrfs": "btrfs", "overlay on ext4": "ext4"}
PROGRAM = """
import os, random, struct, sys
folder, files = sys.argv[1], int(sys.argv[2])
TAG, PAGE = b"page of a file: ", 4096
rng = random.Random(5)
def page(number, place):
    return (TAG + struct.pack("<QQ", number, place)).ljust(PAGE, b".")
def write(number, name, places, *, flags=0):
    file = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | flags)
    for place in places:
        os.pwrite(file, page(number, place), place * PAGE)
        if rng.random() < 0.1:
            os.fsync(file)
    os.fsync(file)
    os.close(file)
begin = 0 if sys.argv[3] == "before" else files
for number in range(begin, begin + files):
    write(number, f"file{number}", range(rng.randrange(1, 40)))
if sys.argv[3] == "before":
    os._exit(0)
for number in range(0, files, 3):  # again, in their places, and behind their ends
    write(number, f"file{number}", range(0, 50, 7))
for number in range(1, 2 * files, 9):
    os.unlink(f"{folder}/file{number}")
for number in range(2, 2 * files, 9):
    os.rename(f"{folder}/file{number}", f"{folder}/renamed{number}")
os.sync()
open("/proc/sys/vm/drop_caches", "w").write("3")
for name in sorted(os.listdir(folder)):
    if name != "lost+found":
        open(f"{folder}/{name}", "rb").read()
"""


def bench_file_names(out: Bench, *, files: int = 300) -> None:
    """Files written, changed, deleted, renamed and read, on four kinds of file systems."""
    needs_root()
    for kind, name in KINDS.items():
        if shutil.which(MAKE[name][0]) is None:
            out.note(f"{kind}: needs {MAKE[name][0]}")
            continue
        with tempfile.TemporaryDirectory(dir=out.folder) as work:
            out.row(kind, **_counts(Path(work), kind, make=MAKE[name], files=files))


def _counts(work: Path, kind: str, *, make: tuple[str, ...], files: int) -> dict[str, int]:
    """Return requests by whether they have their file's name."""
    words = (sys.executable, "-c", PROGRAM)
    with loop_disk(work / "disk.img", SIZE_BYTES) as device, ExitStack() as undo:
        three_roles.run(*make, device)
        point = undo.enter_context(mounted(device, work / "point"))
        folder = home = point
        if kind.startswith("overlay"):
            home = point / "upper"
            for part in ("lower", "upper", "work"):
                (point / part).mkdir()
            layers = f"lowerdir={point}/lower,upperdir={home},workdir={point}/work"
            folder = work / "union"
            folder.mkdir()
            three_roles.run("mount", "-t", "overlay", "overlay", "-o", layers, str(folder))
            undo.callback(three_roles.run, "umount", str(folder))
        three_roles.run(*words, str(folder), str(files), "before")
        three_roles.run("sync", "-f", str(folder))
        with tracer_turn():
            command = (*words, str(folder), str(files), "during")
            run_capture(device, *TRACER, "-o", work / "capture", "--", *command)
        undo.close()
        return _judged(work, device, home)


UNNAMED = (
    "select sector, null, null from requests"
    " where operation in ('read', 'write') and length_bytes > 0 order by request_id"
)
NAMED = (
    "select sector, path, file_sector from requests left join files_of_requests using (request_id)"
    " where operation in ('read', 'write') and length_bytes > 0 order by request_id"
)


def _judged(work: Path, device: str, home: Path) -> dict[str, int]:
    trace = tk.parse(work / "capture", work / "trace")
    has_map = (work / "trace/file_extents.parquet").exists()
    rows = trace.sql(NAMED if has_map else UNNAMED).fetchall()
    found: Counter[str] = Counter()
    with Path(device).open("rb") as disk:
        for sector, name, file_sector in rows:
            content = os.pread(disk.fileno(), PAGE, sector * 512)
            found[_verdict(content, name, file_sector, home)] += 1
    return {one: found[one] for one in VERDICTS}


VERDICTS = ("right", "unknown", "wrong", "metadata", "metadata_named")


def _verdict(content: bytes, name: str | None, file_sector: int | None, home: Path) -> str:
    """Return what a request's name is worth, by the page at its first sector."""
    if not content.startswith(TAG):
        return "metadata" if name is None else "metadata_named"
    if name is None:
        return "unknown"
    number, place = struct.unpack_from("<QQ", content, len(TAG))
    # Of a file that is made and renamed meanwhile, the name that it has in the end is right, too.
    names = (f"{home}/file{number}", f"{home}/renamed{number}")
    return "right" if name in names and file_sector == place * PAGE // 512 else "wrong"
