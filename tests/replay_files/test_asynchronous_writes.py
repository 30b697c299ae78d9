"""Asynchronous writes of filebench's files: how many are under way, who waits, and what is counted.

A library before the C library makes writes of 4 KiB slow and notes when they begin and end.
"""

import errno
import json
import re
import resource
import signal
import subprocess
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line import succeed
from tests.replay.processes import await_true, limited
from tests.replay.program import compiled_shim
from tests.replay_files.program import KEPT, Ran, command, run
from tests.sweep.test_filebench import FILES, done, play, process, read
from tests.traces import written
from tracekit.errors import InputError
from tracekit.plans import file_plan, flow_plan
from tracekit.workload.file_plan import write_personality

MS = 1_000_000
OPEN = "openfile name=o,filesetname=a,fd=1"
CLOSE = "closefile name=c,fd=1"
WRITE = "aiowrite name=w,fd=1,iosize=4k,workingset=64k,random"
FOREVER = "semblock name=forever,value=1"
Event = tuple[str, int]
Slow = Callable[[int], Callable[[], list[Event]]]


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Return a function that makes writes take so many ms; that returns one for their log."""

    def make_slow(ms: int) -> Callable[[], list[Event]]:
        log = tmp_path / "log"
        monkeypatch.setenv("LD_PRELOAD", str(compiled_shim(tmp_path)))
        for name, value in (("SLOW_BYTES", 4096), ("SLOW_MS", ms), ("LOG", log)):
            monkeypatch.setenv(f"SHIM_{name}", str(value))

        def events() -> list[Event]:
            rows = (line.split() for line in log.read_text().splitlines())
            return [(row[0], int(row[3])) for row in rows]

        return events

    return make_slow


def by_name(ran: Ran, text: str, tmp_path: Path) -> dict[str, Any]:
    """Return the rows of the results by their step, in the order of their starts."""
    rows = np.sort(ran.rows(), order="start_ns")
    labels = read(tmp_path, text).labels
    return {name: rows[rows["step"] == number] for number, name in enumerate(labels)}


@pytest.mark.parametrize(
    ("threads", "writers"),
    [
        # One descriptor is written to by one, those in turn by as many as glibc has.
        ({"one": (1, WRITE)}, {"one": 1}),
        ({"one": (3, WRITE.replace("fd=1", "filename=a,opennext"))}, {"one": 6}),
        ({"one": (1, WRITE.replace("fd=1", "filename=a,opennext"))}, {"one": 20}),
        # A process has these together.
        (
            {
                "one": (1, WRITE.replace("fd=1", "filename=a,opennext")),
                "two": (1, WRITE),
                "three": (1, "statfile name=s,filesetname=a"),
            },
            {"one": 10, "two": 1, "three": 0},
        ),
        ({"one": (40, WRITE.replace("fd=1", "filename=a,opennext"))}, {"one": 1}),
    ],
)
def test_writes_under_way_are_as_many_as_glibc_has_threads(
    tmp_path: Path, threads: dict[str, tuple[int, str]], writers: dict[str, int]
) -> None:
    body = "\n".join(
        f"thread name={name},instances={count} {{"
        f" flowop {OPEN}\n flowop {flowop}\n flowop {CLOSE}\n}}"
        for name, (count, flowop) in threads.items()
    )
    found = read(tmp_path, f"{FILES}define process name=p,instances=2 {{\n{body}\n}}\n")
    assert {one.name: one.writers for one in found.groups} == {
        f"p.{name}": count for name, count in writers.items()
    }
    assert found.threads == 2 * sum(count for count, _ in threads.values())


@pytest.mark.parametrize(
    ("flowop", "words"),
    [
        (WRITE.replace(",random", ""), "flowop w: aiowrite is not random, as it must be"),
        (WRITE.replace(",iosize=4k", ""), "aiowrite has no iosize"),
        (WRITE.replace("64k", "2k").replace("fd=1", "filename=a"), "calls of 4,096 bytes at"),
        (WRITE.replace("fd=1", "fd=2"), "fd 2 is not open there"),
        ("aioread name=r,fd=1,iosize=4k", "no flowop 'aioread', nor has filebench one"),
    ],
)
def test_what_filebench_has_not_is_named(tmp_path: Path, flowop: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, FILES + process(OPEN, flowop, CLOSE))
    assert words in str(error.value)
    assert "own.f" in str(error.value)


def test_writers_count_as_threads(tmp_path: Path) -> None:
    text = FILES + process(WRITE.replace("fd=1", "filename=a,opennext"))
    text = text.replace("name=p", "name=p,instances=200")
    with pytest.raises(InputError, match="200 threads and 4,000 for their asynchronous writes"):
        read(tmp_path, text)


def test_all_that_is_submitted_is_written(tmp_path: Path) -> None:
    # GIVEN 500 writes of 4 KiB into a new file
    text = "set mode quit alldone\n" + FILES.replace("prealloc", "prealloc=0")
    text += process(
        "createfile name=n,filesetname=a,fd=1",
        f"{WRITE},iters=500",
        "aiowait name=x",
        CLOSE,
        "finishoncount name=e,value=500,target=w",
    )
    ran = play(tmp_path, text)
    # THEN each is done and counted once, by the thread's one writer
    assert (ran.code, ran.summary["ended_by"], done(ran)) == (0, "plan", {"n": 1, "w": 500, "c": 1})
    assert (ran.of("w", key="steps")["bytes"], ran.counts["dropped"]) == (500 * 4096, 0)
    assert (ran.summary["plan"]["threads"], ran.summary["plan"]["writers"]) == (1, 1)
    assert Counter(ran.rows()["thread"].tolist()) == {0: 2, 1: 500}
    # AND the file has all places that there are: multiples of 4 KiB below 60 KiB
    (file,) = (one for one in (tmp_path / KEPT / "a").rglob("*") if one.is_file())
    blocks = np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, 4096)
    assert len(blocks) == 15
    assert blocks.any(axis=1).all()


@pytest.mark.parametrize(("by", "most"), [("fd=1", 1), ("filename=a,opennext", 20)])
def test_those_of_a_descriptor_come_one_after_the_other(
    tmp_path: Path, slow: Slow, by: str, most: int
) -> None:
    # GIVEN 130 writes by one descriptor, or by 128 in turn, each of which takes 20 ms
    events = slow(20)
    flowops = (OPEN, f"{WRITE.replace('fd=1', by)},iters=130", "aiowait name=x", CLOSE)
    text = "set mode quit alldone\n" + FILES
    ran = play(tmp_path, text + process(*flowops, "finishoncount name=e,value=130,target=w"))
    # THEN all are done, and opens of the others count as well, as in filebench
    assert done(ran)["w"] == (130 if most == 1 else 130 + 127)
    # AND never are two by one descriptor under way, nor more than 20
    under_way: Counter[int] = Counter()
    reached = 0
    for what, fd in events():
        under_way[fd] += 1 if what == "begin" else -1
        assert under_way[fd] <= 1
        reached = max(reached, under_way.total())
    assert reached == most


def test_a_wait_ends_when_half_have_ended(tmp_path: Path, slow: Slow) -> None:
    # GIVEN turns of eight writes one after the other, of 0.1 s each, a wait, and a stat
    slow(100)
    text = "set mode quit alldone\n" + FILES
    text += process(
        OPEN,
        f"{WRITE},iters=8",
        "aiowait name=x",
        "statfile name=s,filesetname=a",
        f"{WRITE.replace('name=w', 'name=v')},iters=8",
        "aiowait name=y",
        "statfile name=t,filesetname=a",
        CLOSE,
        "finishoncount name=e,value=1",
    )
    ran = play(tmp_path, text)
    rows = by_name(ran, text, tmp_path)
    ends = np.sort(np.concatenate([rows["w"]["end_ns"], rows["v"]["end_ns"]]))
    assert len(ends) == 16
    # THEN the first wait takes half of eight, the second half of those that are left and eight more
    taken = 0
    for submitted, stat in ((8, rows["s"]), (16, rows["t"])):
        wanted = (submitted - taken) // 2
        ended = int(np.sum(ends <= stat["start_ns"][0]))
        assert ended - taken in (wanted, wanted + 1)
        taken = ended
    # AND the file is closed after the last of them
    assert rows["c"]["start_ns"][0] >= ends[-1]
    assert ran.counts["failed"] == 0


@pytest.mark.parametrize(
    ("iters", "each_ms", "least_ms", "most_ms"),
    [
        # Half of eight take 1.6 s: a wait ends after a second.
        (8, 400, 1000, 1500),
        # Half of one is one.
        (1, 200, 200, 900),
    ],
)
def test_a_wait_takes_at_least_one_and_at_most_a_second(
    tmp_path: Path, slow: Slow, iters: int, each_ms: int, least_ms: int, most_ms: int
) -> None:
    slow(each_ms)
    text = "set mode quit firstdone\n" + FILES
    flowops = (
        OPEN,
        f"{WRITE},iters={iters}",
        "aiowait name=x",
        "statfile name=s,filesetname=a",
        CLOSE,
    )
    ran = play(tmp_path, text + process(*flowops, "finishoncount name=e,value=1"))
    rows = by_name(ran, text + process(*flowops), tmp_path)
    waited_ns = int(rows["s"]["start_ns"][0] - rows["o"]["end_ns"][0])
    assert least_ms * MS <= waited_ns < most_ms * MS


def test_a_wait_takes_all_that_have_ended(tmp_path: Path, slow: Slow) -> None:
    # GIVEN a wait after four writes have ended, and one after two more have begun
    slow(100)
    text = "set mode quit alldone\n" + FILES
    flowops = (
        OPEN,
        f"{WRITE},iters=4",
        "delay name=d,value=1",
        "aiowait name=x",
        f"{WRITE.replace('name=w', 'name=v')},iters=2",
        "aiowait name=y",
        "statfile name=s,filesetname=a",
        CLOSE,
    )
    ran = play(tmp_path, text + process(*flowops, "finishoncount name=e,value=1"))
    rows = by_name(ran, text + process(*flowops), tmp_path)
    # THEN the second waits for one of the two
    assert rows["s"]["start_ns"][0] >= rows["v"]["end_ns"].min()


def test_a_descriptor_is_opened_anew_after_its_writes(tmp_path: Path, slow: Slow) -> None:
    # GIVEN writes by descriptor 127, which is the first that is opened in turn
    slow(50)
    text = "set mode quit alldone\n" + FILES
    write = WRITE.replace("fd=1", "filename=a,fd=127")
    text += process(
        f"{write},iters=4", "openfile name=o,filesetname=a,opennext", "finishoncount name=e,value=1"
    )
    ran = play(tmp_path, text)
    rows = by_name(ran, text, tmp_path)
    # THEN it is opened again once the four have ended, by which none has failed
    assert (done(ran), ran.counts["failed"]) == ({"w": 5, "o": 1}, 0)
    assert rows["o"]["start_ns"][0] >= rows["w"]["end_ns"].max()


def test_nothing_to_wait_for_is_no_wait(tmp_path: Path) -> None:
    text = "set mode quit firstdone\n" + FILES
    text += process(
        OPEN, WRITE, CLOSE, "aiowait name=x,iters=1000", "finishoncount name=e,value=1003"
    )
    # A wait counts for limits, as in filebench. A second for each would be more than there is.
    ran = play(tmp_path, text)
    assert (ran.code, ran.summary["ended_by"]) == (0, "plan")


def test_how_long_a_write_was_queued_is_its_lateness(tmp_path: Path, slow: Slow) -> None:
    slow(100)
    text = "set mode quit alldone\n" + FILES
    flowops = (OPEN, f"{WRITE},iters=8", CLOSE, "finishoncount name=e,value=1")
    ran = play(tmp_path, text + process(*flowops))
    queued = ran.summary["issue_error"]
    assert queued["count"] == 8
    assert queued["max_ns"] >= 7 * 100 * MS
    latency = ran.of("w", key="steps")["latency"]
    assert 100 * MS <= latency["min_ns"] <= latency["p50_ns"] < 300 * MS


@pytest.mark.parametrize("way", ["time", "signal", "plan"])
def test_the_end_of_a_run_drops_what_is_not_begun(tmp_path: Path, slow: Slow, way: str) -> None:
    # GIVEN 100 writes of 20 ms, and a thread that then waits for ever, or is done
    slow(20)
    last = "finishoncount name=e,value=100,target=w" if way == "plan" else FOREVER
    text = "set mode quit firstdone\n" + FILES + process(OPEN, f"{WRITE},iters=100", last, CLOSE)
    if way == "signal":
        write_personality(read(tmp_path, text), tmp_path / "plan")
        line = command(tmp_path / "plan", tmp_path, repeat=0, duration_ns=60 * 10**9)
        with subprocess.Popen(line) as child:
            await_true(lambda: len(lines_of(tmp_path / "log")) > 6)
            child.send_signal(signal.SIGINT)
            assert child.wait(5) == 3
        summary = json.loads((tmp_path / "plan.json").read_text())
    else:
        summary = play(tmp_path, text, seconds=0.3).summary
    # THEN those under way end, and the others are counted
    assert summary["ended_by"] == way
    finished = next((one["done"] for one in summary["steps"] if one["name"] == "w"), 0)
    assert finished + summary["counts"]["dropped"] == 100
    assert summary["counts"]["dropped"] > 0


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_thread_waits_while_too_many_have_not_ended(tmp_path: Path, slow: Slow) -> None:
    # GIVEN 10,000 writes at once, of 20 ms each
    slow(20)
    ran = play(tmp_path, FILES + process(OPEN, f"{WRITE},iters=10000", CLOSE), seconds=0.3)
    # THEN 4,096 are submitted and not ended: one was under way, and another one may have come
    assert 1 <= done(ran)["w"] <= 20
    assert 4090 <= ran.counts["dropped"] <= 4096


def test_writes_that_fail_are_counted(tmp_path: Path) -> None:
    # GIVEN files of which half may be written
    text = "set mode quit alldone\n" + FILES
    text += process(
        OPEN,
        f"{WRITE.replace('64k', '2m')},iters=500",
        CLOSE,
        "finishoncount name=e,value=500,target=w",
    )
    write_personality(read(tmp_path, text), tmp_path / "plan")
    limit = limited(resource.RLIMIT_FSIZE, 1 << 20)
    words = ("--repeat", "0", "--duration-ns", str(20 * 10**9))
    ran = run(tmp_path / "plan", tmp_path, *words, preexec_fn=limit)
    step = ran.of("w", key="steps")
    assert (ran.code, step["done"] + step["failed"], ran.counts["dropped"]) == (3, 500, 0)
    assert 200 < step["failed"] < 300
    assert [(one["operation"], one["name"]) for one in ran.summary["errors"]] == [
        ("write", "EFBIG")
    ]


@pytest.mark.root
def test_a_full_disk_ends_the_run(tmp_path: Path, small_disk: Path, slow: Slow) -> None:
    # GIVEN 4,000 writes of 4 KiB at places of a file of 64 MiB, on a disk of 4 MiB
    slow(1)
    text = FILES + process(OPEN, f"{WRITE.replace('64k', '64m')},iters=4000", FOREVER, CLOSE)
    write_personality(read(tmp_path, text), tmp_path / "plan")
    words = ("--repeat", "0", "--duration-ns", str(20 * 10**9))
    ran = run(tmp_path / "plan", small_disk, *words)
    step = ran.of("w", key="steps")
    assert (ran.code, ran.summary["ended_by"], step["failed"]) == (3, "full", 1)
    assert ran.rows()["result"][ran.rows()["result"] < 0].tolist() == [-errno.ENOSPC]
    assert step["done"] + step["failed"] + ran.counts["dropped"] == 4000
    assert [one.name for one in small_disk.iterdir()] in ([], ["lost+found"])


def test_writers_follow_those_who_post(tmp_path: Path) -> None:
    # GIVEN a log and a writer of files that write once for so many reads, as databases do
    text = f"{FILES}define fileset name=log,path=/tmp,entries=1,size=64k,dirwidth=20,prealloc\n" + (
        "define process name=lg {\n thread name=lg {\n"
        "  flowop aiowrite name=log-write,filesetname=log,iosize=16k,random,dsync\n"
        "  flowop aiowait name=log-wait\n"
        "  flowop semblock name=log-block,value=50,highwater=50\n} }\n"
        "define process name=db,instances=2 {\n thread name=db {\n"
        "  flowop aiowrite name=db-write,filesetname=a,iosize=512,random,iters=10,opennext,dsync\n"
        "  flowop semblock name=db-block,value=20,highwater=20\n"
        "  flowop aiowait name=db-wait\n} }\n"
        "define process name=shadow,instances=4 {\n thread name=shadow {\n"
        "  flowop read name=read,filesetname=a,iosize=512,random,opennext\n"
        "  flowop sempost name=post-log,value=1,target=log-block,blocking\n"
        "  flowop sempost name=post-db,value=1,target=db-block,blocking\n} }\n"
    )
    ran = play(tmp_path, text, seconds=1)
    assert (ran.code, ran.summary["plan"]["threads"], ran.summary["plan"]["writers"]) == (0, 7, 41)
    rows = Counter(zip(ran.rows()["step"].tolist(), ran.rows()["operation"].tolist(), strict=True))
    labels = read(tmp_path, text).labels
    calls = {
        (labels[step], name): rows[step, file_plan.CODES[name]]
        for step in range(len(labels))
        for name in ("read", "write", "open")
    }
    # THEN each has done its turn and at most another one for so many posts
    reads = calls["read", "read"]
    assert reads > 100
    assert calls["log-write", "open"] == 1
    assert calls["db-write", "open"] <= 2 * 128
    assert 0 <= calls["log-write", "write"] - (reads - 4) // 50 <= 4
    # AND a write belongs to the turn in which it was submitted, whoever performed it
    is_log = (ran.rows()["step"] == labels.index("log-write")) & (ran.rows()["thread"] >= 7)
    assert sorted(ran.rows()["cycle"][is_log]) == list(range(calls["log-write", "write"]))
    assert ran.counts["cycles"] >= calls["log-write", "write"] - 1
    submitted = calls["db-write", "write"] + ran.counts["dropped"]
    assert abs(submitted - 2 * 10 * (1 + reads // 20)) <= 60


def ops_of(data: bytearray) -> Any:
    """Return header and operations of a plan's flow, to change them in place."""
    header = np.frombuffer(data, file_plan.HEADER, 1)[0]
    kinds = {"thread": file_plan.THREAD, "step": file_plan.STEP, "file": file_plan.FILE}
    at = file_plan.HEADER.itemsize + int(header["record_count"]) * file_plan.RECORD.itemsize
    at += sum(int(header[f"{name}_count"]) * kind.itemsize for name, kind in kinds.items())
    flow = np.frombuffer(data, flow_plan.HEADER, 1, at)
    ops = np.frombuffer(
        data, flow_plan.OP, int(header["record_count"]), at + flow_plan.HEADER.itemsize
    )
    return header, flow, ops


def changes() -> Iterator[tuple[str, int, str, int]]:
    """Yield field, number of the operation, what is said, and the value."""
    yield "other", 9, "thread 3 of its flow writes for no thread", 2
    yield "other", 9, "thread 3 of its flow writes for no thread", flow_plan.NONE
    yield "other", 9, "thread 1 of its flow has asynchronous writes, and no writer", 0
    yield "kind", 9, "thread 3 of its flow has other records", flow_plan.KINDS.index("write")
    yield "kind", 1, "thread 2 of its flow has more records", flow_plan.KINDS.index("write")
    yield "kind", 2, "is not among the last ones", flow_plan.KINDS.index("aio writer")
    yield "writers", 0, "other handles than its flow's", 0
    yield "writers", 0, "has an absurd flow", 4


@pytest.mark.parametrize(("field", "number", "words", "value"), list(changes()))
def test_a_plan_with_wrong_writers_is_refused(
    tmp_path: Path, field: str, number: int, words: str, value: int
) -> None:
    # GIVEN a plan of two threads, each with a writer, of which one number is wrong
    text = FILES + process(OPEN, WRITE, "write name=p,fd=1,iosize=4k", CLOSE, threads=2)
    write_personality(read(tmp_path, text), tmp_path / "plan")
    data = bytearray((tmp_path / "plan").read_bytes())
    header, flow, ops = ops_of(data)
    kinds = ["openfile", "aiowrite", "write", "closefile"]
    assert [flow_plan.KINDS[kind] for kind in ops["kind"]] == [*kinds * 2, *["aio writer"] * 2]
    if field == "writers":
        flow["writers"] = value
    else:
        ops[field][number] = value
    first = file_plan.HEADER.itemsize + int(header["record_count"]) * file_plan.RECORD.itemsize
    header["tables_crc32"] = zlib.crc32(data[first:])
    header["header_crc32"] = zlib.crc32(header.tobytes()[:-4])
    (tmp_path / "plan").write_bytes(data)
    # THEN nothing is run
    ran = run(tmp_path / "plan", tmp_path, "--repeat", "0", "--duration-ns", "1000")
    assert ran.code == 1
    assert words in ran.messages


def test_bench_says_how_long_writes_were_queued(tmp_path: Path, slow: Slow) -> None:
    slow(50)
    text = FILES + process(OPEN, f"{WRITE},iters=100", FOREVER, CLOSE)
    file = written(tmp_path / "own.f", text)
    words = ("-o", tmp_path / "out", "--target", tmp_path, "--duration", "1s", "--no-report")
    told = succeed("bench", file, *words)
    (line,) = (one for one in told.stdout.splitlines() if "asynchronous" in one)
    found = re.fullmatch(
        r"  own: (\d+) asynchronous writes were queued for (\d+) ms on average;"
        r" (\d+) were not begun when a run ended",
        line,
    )
    assert found
    begun, queued_ms, dropped = map(int, found.groups())
    assert begun + dropped == 100
    # Each after all before it, of at least 50 ms.
    assert queued_ms >= 50 * (begun - 1) / 2 - 1
    # AND its threads are those of the file
    assert "own on" in told.stdout
    assert "1 thread" in told.stdout
