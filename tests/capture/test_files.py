"""`tracekit capture --files` against known programs and the kernel's own counts; how it ends."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capture.file_captures import NEEDS_STRACE, capture
from tests.capture.machine import rejection, start_capture, stop, wait_for
from tests.capture.strace_text import rows_of, sizes_of, some

# What the shells of version managers do would stand before the program's own operations.
PYTHON = os.path.realpath(sys.executable)

KNOWN = """
import os
fd = os.open("a", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
os.write(fd, b"x" * 5000)
os.pwrite(fd, b"y" * 100, 9000)
os.lseek(fd, 10, os.SEEK_SET)
os.read(fd, 20)
os.readv(fd, [bytearray(3), bytearray(4)])
other = os.dup(fd)
os.write(other, b"zz")
if os.fork() == 0:
    os.write(fd, b"child")
    os._exit(0)
os.wait()
os.write(fd, b"!")
os.fsync(fd)
os.fdatasync(fd)
os.ftruncate(fd, 4096)
os.posix_fallocate(fd, 4096, 4096)
os.close(fd)
os.close(other)
os.rename("a", "b")
os.link("b", "c")
os.stat("c")
log = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_SYNC)
os.writev(log, [b"ab", b"cd"])
os.write(log, b"e")
os.sync()
os.unlink("c")
os.mkdir("d")
os.chdir("d")
os.close(os.open("e", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644))
os.chdir("..")
os.truncate("d/e", 7)
os.unlink("d/e")
os.rmdir("d")
try:
    os.open("none", os.O_RDONLY)
except FileNotFoundError:
    pass
"""
EXPECTED: list[tuple[Any, ...]] = [
    ("create", "a", None, None, None, None, 0),
    ("write", "a", None, 0, 5000, 5000, 0),
    ("write", "a", None, 9000, 100, 100, 0),
    ("read", "a", None, 10, 20, 20, 0),
    ("read", "a", None, 30, None, 7, 0),
    ("write", "a", None, 37, 2, 2, 0),
    ("write", "a", None, 39, 5, 5, 0),
    ("write", "a", None, 44, 1, 1, 0),
    ("fsync", "a", None, None, None, None, 0),
    ("fdatasync", "a", None, None, None, None, 0),
    ("truncate", "a", None, None, 4096, None, 0),
    ("fallocate", "a", None, 4096, 4096, None, 0),
    ("close", "a", None, None, None, None, 0),
    ("rename", "a", "b", None, None, None, 0),
    ("link", "b", "c", None, None, None, 0),
    ("stat", "c", None, None, None, None, 0),
    ("open", "log", None, None, None, None, 0),
    ("write", "log", None, 1000, None, 4, 0),
    ("write", "log", None, 1004, 1, 1, 0),
    # Of no file, and of all: --below keeps it, too.
    ("sync", None, None, None, None, None, 0),
    ("unlink", "c", None, None, None, None, 0),
    ("mkdir", "d", None, None, None, None, 0),
    ("create", "d/e", None, None, None, None, 0),
    ("close", "d/e", None, None, None, None, 0),
    ("truncate", "d/e", None, None, 7, None, 0),
    ("unlink", "d/e", None, None, None, None, 0),
    ("rmdir", "d", None, None, None, None, 0),
    ("open", "none", None, None, None, None, 2),
    # The program ends with its log open.
    ("close", "log", None, None, None, None, 0),
]


@pytest.mark.parametrize("is_below", [True, False])
def test_known_operations_are_all_there(work: Path, source: str, is_below: bool) -> None:
    # GIVEN a program that does a list of things, and a file that is there before
    (work / "log").write_bytes(bytes(1000))
    options = ("--below", str(work)) if is_below else ()
    # WHEN it is captured
    trace, _ = capture(work, PYTHON, "-c", KNOWN, options=options, source=source)
    # THEN the rows of its files are that list
    names = {f"{work}/{name}": name for name in ("a", "b", "c", "log", "d", "d/e", "none")}
    rows = [
        {**row, "path": names.get(row["path"]), "other": names.get(row["other"])}
        for row in rows_of(trace)
        if row["path"] in names or row["operation"] == "sync"
    ]
    columns = ("operation", "path", "other", "offset_bytes", "length_bytes", "done_bytes", "error")
    assert some(rows, *columns) == EXPECTED
    # AND sizes before are known, by the snapshot or by the trace and the end
    sizes = sizes_of(trace)
    assert sizes[f"{work}/log"] == ("file", 1000, "snapshot" if is_below else "after")
    assert sizes[f"{work}/a"] == ("file", None, "absent")
    log = [row["is_append"] and row["is_sync"] for row in rows if row["path"] == "log"]
    assert log == [True] * 4
    if is_below:
        assert [path for path in sizes if not path.startswith(str(work))] == []


RANDOM = """
import json, os, random, sys
chance = random.Random(int(sys.argv[1]))
log, fds = [], []
def place(fd, flags, name):
    lines = open(f"/proc/self/fdinfo/{fd}").read().split()
    return os.stat(name).st_size if flags & os.O_APPEND else int(lines[1])
for step in range(300):
    kind = chance.choice(["open", "write", "write", "read", "dup", "close", "seek", "fork", "cut"])
    if kind == "open" or not fds:
        name = chance.choice("abc")
        flags = os.O_RDWR | os.O_CREAT | chance.choice([0, 0, os.O_APPEND, os.O_TRUNC])
        fds.append((os.open(name, flags, 0o600), flags, name))
        continue
    fd, flags, name = one = chance.choice(fds)
    size = chance.randrange(1, 5000)
    if kind == "write":
        log.append(["write", name, place(fd, flags, name), size, os.write(fd, bytes(size))])
    elif kind == "read":
        at = place(fd, 0, name)
        log.append(["read", name, at, size, len(os.read(fd, size))])
    elif kind == "dup":
        fds.append((os.dup(fd), flags, name))
    elif kind == "close":
        os.close(fd)
        fds.remove(one)
    elif kind == "seek":
        os.lseek(fd, chance.randrange(9000), os.SEEK_SET)
    elif kind == "cut":
        os.ftruncate(fd, size)
    else:
        at = place(fd, flags, name)
        child = os.fork()
        if child == 0:
            os.write(fd, bytes(size))
            os._exit(0)
        os.waitpid(child, 0)
        log.append(["write", name, at, size, size])
print(json.dumps(log))
"""


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_offsets_are_those_of_the_kernel(work: Path, source: str, seed: str) -> None:
    # GIVEN a program that asks the kernel for its position before each of 300 random operations
    (work / "a").write_bytes(bytes(3000))
    trace, printed = capture(work, PYTHON, "-c", RANDOM, seed, source=source)
    expected = json.loads(printed.splitlines()[0])
    # THEN reads and writes have these offsets and lengths
    rows = [
        [row["operation"], Path(row["path"]).name, *numbers]
        for row in rows_of(trace)
        if row["operation"] in ("read", "write") and Path(row["path"] or "").parent == work
        for numbers in some([row], "offset_bytes", "length_bytes", "done_bytes")
    ]
    assert len(expected) > 100
    assert rows == expected


COUNTED = """
import os
def counts():
    fd = os.open("/proc/self/io", os.O_RDONLY)
    text = os.read(fd, 4096)
    os.close(fd)
    return {line.split(b": ")[0].decode(): int(line.split()[1]) for line in text.splitlines()}
before = counts()
fd = os.open("a", os.O_RDWR | os.O_CREAT)
for size in range(1, 300, 7):
    os.write(fd, bytes(size))
    os.pwritev(fd, [bytes(size), bytes(3)], size)
os.lseek(fd, 0, 0)
while os.read(fd, 777): pass
os.sendfile(fd, os.open("b", os.O_RDONLY), 0, 9000)
after = counts()
print(*(after[name] - before[name] for name in ("rchar", "wchar", "syscr", "syscw")))
"""


def test_bytes_are_those_that_the_kernel_counts(work: Path, source: str) -> None:
    # GIVEN a program that reads the kernel's counters of its own I/O
    (work / "b").write_bytes(bytes(10_000))
    trace, printed = capture(work, PYTHON, "-c", COUNTED, source=source)
    counted = [int(word) for word in printed.split()[:4]]
    # THEN the rows between, and the first reading, come to the same bytes and calls
    rows = rows_of(trace)
    is_look = [row["operation"] == "read" and (row["path"] or "")[-3:] == "/io" for row in rows]
    first, second, *_ = (place for place, found in enumerate(is_look) if found)
    done = {
        name: [row["done_bytes"] for row in rows[first:second] if row["operation"] == name]
        for name in ("read", "write")
    }
    assert [*map(sum, done.values()), *map(len, done.values())] == counted


def test_a_database_and_an_archiver(work: Path, source: str) -> None:
    # GIVEN programs of others with children, temporary files and mappings
    if not shutil.which("tar") or not shutil.which("gzip"):
        pytest.skip("needs tar and gzip")
    code = "import sqlite3; c = sqlite3.connect('db'); c.execute('pragma journal_mode=wal')\n"
    code += "c.execute('create table t(a)')\n"
    code += "for i in range(20): c.execute('insert into t values (?)', (str(i) * 99,)); c.commit()"
    script = f'"{PYTHON}" -c "{code}" && tar czf ../out.tgz . && rm -f db'
    trace, _ = capture(
        work, "sh", "-c", script, options=("--below", str(work.parent)), source=source
    )
    rows = rows_of(trace)
    info = json.loads((trace / "trace.json").read_text())
    # THEN everything was understood, and the archive is as large as what was written to it
    assert info["loss"]["bad_lines"] == info["loss"]["orphan_ends"] == 0
    written = [row for row in rows if row["path"] == str(work.parent / "out.tgz")]
    end = max(
        row["offset_bytes"] + row["done_bytes"] for row in written if row["operation"] == "write"
    )
    assert end == (work.parent / "out.tgz").stat().st_size
    assert {"tar", "gzip", "rm"} <= {row["process"] for row in rows}
    assert [row["operation"] for row in rows if row["path"] == str(work / "db")][-1] == "unlink"


def test_names_can_be_hidden(work: Path, source: str) -> None:
    # GIVEN a file and a folder with telling names
    script = "mkdir secret; echo x > secret/plan"
    trace, _ = capture(work, "sh", "-c", script, options=("--hash-names",), source=source)
    # THEN no name is left, and what was equal is equal still
    paths = list(sizes_of(trace))
    rows = rows_of(trace)
    for file in trace.iterdir():
        assert not [word for word in (b"secret", b"plan", b"ld.so") if word in file.read_bytes()]
    made = next(row["path"] for row in rows if row["operation"] == "mkdir" and not row["error"])
    assert [path for path in paths if path.startswith(f"{made}/")]
    assert {len(part) for path in paths for part in path.split("/")[1:]} == {16}


@NEEDS_STRACE
def test_overhead_is_measured(work: Path) -> None:
    command = ("dd", "if=/dev/zero", "of=out", "bs=512", "count=3000")
    trace, printed = capture(work, *command, options=("--untraced",))
    assert "times as long" in printed
    overhead = json.loads((trace / "trace.json").read_text())["capture"]["overhead"]
    assert overhead["ratio"] == overhead["traced_ns"] / overhead["untraced_ns"] > 1
    # What a call costs, times the calls, explains most of the difference, on a busy machine too.
    assert 0.1 < overhead["expected_ns"] / (overhead["traced_ns"] - overhead["untraced_ns"]) < 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_whole_trace(work: Path, source: str, number: signal.Signals) -> None:
    # GIVEN a capture of a command that goes on for ever
    script = "while :; do echo x >> out; sleep 0.01; done"
    trace = work.parent / "trace"
    running = start_capture(
        "--files", "--source", source, "-o", trace, "--", "sh", "-c", script, cwd=work
    )
    wait_for((work / "out").exists)
    # WHEN it gets a signal
    code, _, messages = stop(running, number)
    # THEN the trace is there and says so
    assert (code, f"ended early by {number.name}" in messages) == (128 + number, True)
    info = json.loads((trace / "trace.json").read_text())
    assert info["capture"]["stopped_by"] == number.name
    writes = [row for row in rows_of(trace) if row["operation"] == "write"]
    assert [row["offset_bytes"] for row in writes] == [2 * i for i in range(len(writes))]
    assert writes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--files -o {0}/new", ""),
        ("--files -o {0}/new -- no-such-program", "no such program"),
        ("--files -o {0}/new --below {0}/none -- true", "is no folder"),
        ("--files -o {0}/new --duration 3s -- true", "records one command"),
        ("--hash-names -o {0}/new /dev/loop0", "belongs to --files"),
        ("-o {0}/new", "which disk"),
        ("--files -o {0} --force -- true", "exists already"),
        ("--files --source perf -o {0}/new -- true", "not with --files"),
    ],
)
def test_what_cannot_be_is_rejected(tmp_path: Path, words: str, message: str) -> None:
    code, text = rejection(*words.format(tmp_path).split())
    assert (code, message in text) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_the_exit_code_of_the_command_is_reported(tmp_path: Path, source: str) -> None:
    trace = tmp_path / "trace"
    code, text = rejection("--files", "--source", source, "-o", trace, "--", "sh", "-c", "exit 7")
    assert (code, "failed with status 7" in text) == (7, True)
    assert json.loads((trace / "trace.json").read_text())["capture"]["exit_status"] == 7
