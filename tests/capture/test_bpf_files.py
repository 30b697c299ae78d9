"""BPF programs record the file operations that strace records; what they lose is counted."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.capture.file_captures import NEEDS_BPF, NEEDS_STRACE, capture
from tests.capture.machine import parent_of, processes, rejection, start_capture, wait_for
from tests.capture.strace_text import rows_of, sizes_of
from tracekit._native import program_path
from tracekit._native.calls import Start
from tracekit.capture import bpf_files
from tracekit.capture.bpf_files import Recorder
from tracekit.capture.command import Ran, Stop
from tracekit.capture.files import Decoded, decode
from tracekit.errors import TracekitError

pytestmark = [NEEDS_BPF, pytest.mark.root]
PYTHON = os.path.realpath(sys.executable)
SAME = (
    *("process", "operation", "other", "offset_bytes", "length_bytes", "done_bytes", "error"),
    *("is_direct", "is_sync", "is_append", "is_truncate", "is_exclusive"),
)

EVERY = r"""
import ctypes, fcntl, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("a", os.O_RDWR | os.O_CREAT | os.O_EXCL)
os.write(fd, bytes(70000))
os.pwritev(fd, [b"ab", b"cd"], 7); os.preadv(fd, [bytearray(5)], 3, os.RWF_HIPRI)
os.writev(fd, [b"x", b"yz"]); os.lseek(fd, -5, os.SEEK_END); os.readv(fd, [bytearray(9)])
new = os.open("new name\n<\"\u00e9>", os.O_RDWR | os.O_CREAT | os.O_DSYNC)
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(log, b"1"); os.write(log, b"2")
os.copy_file_range(fd, new, 100, offset_src=5); os.sendfile(new, fd, 9, 50)
read, write = os.pipe(); os.write(write, b"pipe"); os.splice(read, fd, 3, offset_dst=11)
os.fchmod(fd, 0o600); os.chmod("a", 0o644); os.chown("a", -1, -1); os.utime("a"); os.utime(fd)
try:
    os.setxattr("a", "user.x", b"12345"); os.getxattr(fd, "user.x"); os.listxattr("a")
    os.removexattr("a", "user.x")
except OSError: pass
try: fcntl.ioctl(new, 0x40049409, fd)
except OSError: pass
os.mkdir("d"); folder = os.open("d", os.O_RDONLY); os.listdir(folder)
inner = os.open("in", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=folder)
os.rename("in", "out", src_dir_fd=folder, dst_dir_fd=folder); os.stat("out", dir_fd=folder)
os.link("d/out", "e", src_dir_fd=None); os.symlink("a", "s"); os.stat("s"); os.lstat("s")
os.chdir("d"); os.truncate("../a", 12300); os.fchdir(folder); os.chdir("..")
os.symlink("d", "to"); os.chdir("to"); os.close(os.open("there", os.O_CREAT)); os.chdir("..")
os.access("none", os.R_OK); os.unlink("e"); os.mkfifo("f"); os.mknod("g")
area = mmap.mmap(fd, 8192); area.flush(); area.resize(16384); area.flush(); area.close()
libc.statx(fd, None, 0x1000, 0x7ff, ctypes.create_string_buffer(256)); libc.unshare(0x600)
libc.ioctl(new, 0x4020940d, 1); libc.ioctl(log, 0x5450, 0); libc.ioctl(new, 0x5451, 0)
other = os.dup2(fd, 40); os.set_inheritable(40, False); fcntl.fcntl(fd, fcntl.F_DUPFD, 50)
libc.fallocate(fd, 1, 0, 4096); os.posix_fallocate(fd, 0, 200)
os.fsync(fd); os.fdatasync(fd); libc.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(9), 2)
memory = os.memfd_create("mem"); os.write(memory, b"mm")
one, two = socket.socketpair(); os.write(one.fileno(), b"s"); os.read(two.fileno(), 9)
socket.send_fds(one, [b"x"], [fd]); got = socket.recv_fds(two, b"x".__len__(), 1)[1][0]
os.read(got, 3); os.close(got); null = os.open("/dev/null", os.O_WRONLY); os.write(null, b"1")
for bad in (999, -1):
    try: os.read(bad, 1)
    except OSError: pass
libc.close_range(fd, fd, 0)
if os.fork() == 0:
    libc.close_range(60, 70, 2); os.write(new, b"child")
    os.execv("/bin/sh", ["sh", "-c", "echo hi > sh; cat sh /dev/null"])
os.wait()
os.execv("/bin/true", ["true"])
"""
TREE = """
mkdir in; i=0; while [ $i -lt 30 ]; do echo $i > in/$i; i=$((i+1)); done
tar cf t.tar in; rm -r in; tar xf t.tar; cat in/* | sort -n | head -5 > sorted
find . -name '1*' -exec wc -c {} + > sizes; cp -a in copy; mv copy moved; rm -rf moved
(sleep 0.05; echo late > late) & wait; ls -lR . | grep -c in
"""
PROGRAMS = {"every call": (PYTHON, "-c", EVERY), "shell": ("sh", "-c", TREE)}


def by_thread(trace: Path, *, is_sorted: bool) -> Counter[tuple[Any, ...]]:
    """Return the rows of each thread, without times and numbers of processes.

    The kernel's own files are left out: what they hold differs from run to run.
    """
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for row in rows_of(trace):
        if (row["path"] or "").startswith(("/proc/", "/sys/")):
            continue
        is_so = (row["handle"] is None, row["pid"] == row["tid"], row["end_ns"] is None)
        found[row["tid"]].append((row["path"], *is_so, *(row[name] for name in SAME)))
    if is_sorted:
        return Counter(tuple(sorted(rows, key=str)) for rows in found.values())
    return Counter(map(tuple, found.values()))


@NEEDS_STRACE
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_those_of_strace(tmp_path: Path, name: str) -> None:
    # GIVEN the same program under each source
    traces = []
    for source in ("strace", "bpf"):
        work = tmp_path / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        traces.append(capture(work, *PROGRAMS[name], source=source)[0])
    # THEN each thread has the same rows, in their order (cp and tar take files in that of inodes)
    theirs, ours = (by_thread(trace, is_sorted=name == "shell") for trace in traces)
    assert [*(ours - theirs)] == []
    assert ours == theirs
    # AND what lies in its folder is known by the same evidence
    known = [
        {path: size for path, size in sizes_of(trace).items() if path.startswith(f"{work}/")}
        for trace in traces
    ]
    assert known[0] == known[1]
    infos = [json.loads((trace / "trace.json").read_text()) for trace in traces]
    assert infos[0]["loss"] == infos[1]["loss"]
    assert infos[0]["counts"]["left_out"] == infos[1]["counts"]["left_out"]
    assert infos[1]["source"]["format"] == infos[1]["capture"]["source"] == "bpf"


RACE = """
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *number) {
  static const char bytes[8];
  char name[] = {(char)('a' + (long)number), 0};
  for (int turn = 0; turn < 20000; turn++) {
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (write(fd, bytes, 1 + (long)number) < 0) return number;
    close(fd);
  }
  return NULL;
}
int main(void) {
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (long i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_number_that_is_given_again_during_its_close_leads_to_the_new_file(work: Path) -> None:
    # GIVEN threads that open, write and close as fast as they can
    program = work.parent / "race"
    words = ["cc", "-O1", "-pthread", "-x", "c", "-", "-o", str(program)]
    subprocess.run(words, input=RACE, text=True, check=True)
    trace, _ = capture(work, str(program), source="bpf", options=("--below", "."))
    # THEN each write is of its own file, at its beginning, and each open has its close
    found = Counter(
        (row["operation"], row["path"][-1], row["offset_bytes"], row["done_bytes"], row["error"])
        for row in rows_of(trace)
        if row["operation"] != "create"
    )
    expected = Counter[Any]()
    for size, name in enumerate("abcd", 1):
        expected["open", name, None, None, 0] = 19_999
        expected["write", name, 0, size, 0] = expected["close", name, None, None, 0] = 20_000
    assert found == expected
    assert json.loads((trace / "trace.json").read_text())["loss"]["dropped"] == 0


THREADS = """
import os, random, threading
def work(number):
    chance = random.Random(number)
    for turn in range(150):
        fd = os.open(f"f{number}", os.O_RDWR | os.O_CREAT)
        for _ in range(3): os.write(fd, bytes(chance.randrange(1, 100)))
        os.close(fd)
threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
last = threading.Thread(target=os.execv, args=("/bin/sh", ["sh", "-c", "echo x > out"]))
last.start(); last.join()
"""


def test_threads_that_share_descriptors_and_an_exec_of_one(work: Path) -> None:
    # GIVEN threads that open and close by turns, and get each other's numbers of descriptors
    trace, _ = capture(work, PYTHON, "-c", THREADS, source="bpf")
    rows = rows_of(trace)
    # THEN each file has its own writes at its own places
    for number in range(6):
        chance, expected = random.Random(number), []  # noqa: S311 - no secret
        for _ in range(150):
            place = 0
            for _ in range(3):
                size = chance.randrange(1, 100)
                expected.append((place, size))
                place += size
        of_file = [row for row in rows if row["path"] == str(work / f"f{number}")]
        writes = [row for row in of_file if row["operation"] == "write"]
        assert [(row["offset_bytes"], row["done_bytes"]) for row in writes] == expected
        assert len({row["handle"] for row in writes}) == 150
        assert sum(row["operation"] == "close" for row in of_file) == 150
    # AND the program that a later thread began goes on under the first one's id
    made = next(row for row in rows if row["path"] == str(work / "out"))
    assert (made["process"], made["pid"] == made["tid"] == rows[0]["pid"]) == ("sh", True)


def recorded(folder: Path, *command: str, is_stopped: bool = False) -> tuple[Decoded, Path]:
    """Record a command; with `is_stopped` nobody reads the ring until it has ended."""
    raw = folder / "raw"
    recorder = Recorder(raw)
    try:
        recorder.start()
        running = recorder._program.check()
        if is_stopped:
            running.send_signal(signal.SIGSTOP)
        subprocess.run(command, check=True, cwd=folder, stderr=subprocess.DEVNULL)
        running.send_signal(signal.SIGCONT)
        assert recorder.wait(Ran(0, 0.0), Stop()) is None
    finally:
        recorder.close()
    tables = folder / "tables"
    tables.mkdir(exist_ok=True)
    return decode(raw, tables, start=Start(str(folder))), raw


def test_what_the_ring_has_no_space_for_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a ring of 64 KiB that nobody reads while 20,000 bytes are copied one by one
    monkeypatch.setattr(bpf_files, "RING_BYTES", 1 << 16)
    command = ("dd", "if=/dev/zero", "of=out", "bs=1", "count=20000")
    found, _ = recorded(tmp_path, *command, is_stopped=True)
    # THEN what is missing is counted, and neither the opens nor the closes are among it
    of_out = [row for row in rows_of(tmp_path / "tables") if row["path"] == f"{tmp_path}/out"]
    counts = Counter(row["operation"] for row in of_out)
    assert counts["create"] == counts["close"] == 1
    assert 0 < counts["write"] < 20_000
    # AND with them it is all that a recording has for which there is space
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(bpf_files, "RING_BYTES", 1 << 26)
    whole, _ = recorded(tmp_path / "again", *command)
    assert whole.stats["lost"] == 0
    assert found.stats["lost"] + found.stats["calls"] == whole.stats["calls"]


def test_losses_are_told(work: Path, tmp_path: Path) -> None:
    # GIVEN a recording that says what was lost
    code = """
import signal, subprocess, sys
from pathlib import Path
from tracekit.capture import bpf_files, files
bpf_files.RING_BYTES = 1 << 16
bpf_files.Recorder.check = lambda self: None
start = bpf_files.Recorder.start
def stopped(self):
    start(self)
    self._program.check().send_signal(signal.SIGSTOP)
bpf_files.Recorder.start = stopped
wait = bpf_files.Recorder.wait
def going_on(self, ran, stop):
    self._program.check().send_signal(signal.SIGCONT)
    return wait(self, ran, stop)
bpf_files.Recorder.wait = going_on
files.tracing_cost = lambda source: None
from tracekit.cli import main
words = ["capture", "--files", "--source", "bpf", "-o", "../trace", "--"]
sys.argv = ["tracekit", *words, *sys.argv[1:]]
main()
"""
    command = ("dd", "if=/dev/zero", "of=out", "bs=1", "count=20000", "status=none")
    words = [sys.executable, "-c", code, *command]
    ran = subprocess.run(words, cwd=work, capture_output=True, check=True)
    # THEN the first line of the messages has the number, and the trace has it
    lost = json.loads((tmp_path / "trace/trace.json").read_text())["loss"]["dropped"]
    assert lost > 1000
    assert ran.stderr.decode().startswith(f"warning: {lost:,} calls were lost in the kernel")
    assert ran.stdout.decode().splitlines()[0].endswith(f" s, {lost:,} calls lost")


def test_the_name_that_a_program_gives_itself_is_known(work: Path) -> None:
    # GIVEN a program that calls itself something else, which strace does not print
    code = "import ctypes, os; ctypes.CDLL(None).prctl(15, b'renamed', 0, 0, 0); os.mkdir('d')"
    trace, _ = capture(work, PYTHON, "-c", code, source="bpf")
    # THEN what it does then has the new name
    names = [row["process"] for row in rows_of(trace) if row["operation"] == "mkdir"]
    assert names == ["renamed"]


OLD_CALL = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("53bbffffffff b803000000 cd80 5b c3".replace(" ", "")))
place = ctypes.addressof(ctypes.c_char.from_buffer(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(place)())
"""


def test_calls_of_32_bits_are_counted(work: Path) -> None:
    # GIVEN a program that reads as those of 32 bits do: call 3, which is close to others
    if subprocess.run([PYTHON, "-c", OLD_CALL], check=False, capture_output=True).returncode:
        pytest.skip("this kernel runs no programs of 32 bits")
    trace, _ = capture(work, PYTHON, "-c", OLD_CALL, source="bpf")
    # THEN it is told
    warnings = json.loads((trace / "trace.json").read_text())["warnings"]
    told = [one["message"] for one in warnings if one["code"] == "foreign_calls"]
    assert told == ["at least 1 calls of 32-bit programs are not recorded"]


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_what_io_uring_does_is_counted(work: Path) -> None:
    # GIVEN 64 reads by io_uring, submitted by a thread
    job = ("--name=a", "--filename=f", "--size=1m", "--rw=randread", "--number_ios=64")
    words = ("fio", *job, "--ioengine=io_uring", "--thread", "--output=out")
    trace, _ = capture(work, *words, source="bpf")
    # THEN they are known to be missing
    counts = json.loads((trace / "trace.json").read_text())["counts"]
    if "io_uring_enter" not in counts["left_out"]:
        pytest.skip("this machine has no io_uring")
    assert counts["submitted"] == 64
    reads = [row for row in rows_of(trace) if row["operation"] == "read"]
    assert [row for row in reads if row["path"] == f"{work}/f"] == []


def test_only_the_command_and_what_it_leaves_running_are_recorded(work: Path) -> None:
    # GIVEN another program that writes meanwhile, and a command that leaves one behind
    busy = subprocess.Popen(["sh", "-c", "while :; do echo x > other; done"], cwd=work)
    try:
        script = "(sleep 0.3; echo late > late) & echo now > now"
        trace, _ = capture(work, "sh", "-c", script, source="bpf")
    finally:
        busy.kill()
        busy.wait()
    # THEN the one is not seen, and the other is, to its end
    written = [row["path"] for row in rows_of(trace) if row["operation"] == "write"]
    assert written == [f"{work}/now", f"{work}/late"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_recorder_that_is_ended_leaves_what_it_had(
    work: Path, tmp_path: Path, number: signal.Signals
) -> None:
    # GIVEN a capture whose recording program is killed, or asked to end, while the command runs
    script = "echo x > before; until [ -e go ]; do sleep 0.02; done; echo x > behind"
    trace = tmp_path / "trace"
    words = ("--files", "--source", "bpf", "-o", trace, "--", "sh", "-c", script)
    running = start_capture(*words, cwd=work)
    wait_for((work / "before").exists)
    time.sleep(0.5)  # the program writes ten times a second
    recorders = processes(str(program_path("tracekit-bpf")), "--files")
    os.kill(next(pid for pid in recorders if parent_of(pid) == running.pid), number)
    (work / "go").touch()
    messages = running.communicate(timeout=20)[1]
    # THEN the command runs to its end, what came before is kept, and the message says why
    assert (work / "behind").exists()
    assert (running.returncode, "recording ended early" in messages) == (3, True)
    assert json.loads((trace / "trace.json").read_text())["loss"]["is_counted"] is False
    paths = {row["path"] for row in rows_of(trace)}
    assert str(work / "before") in paths
    assert str(work / "behind") not in paths


LED_ELSEWHERE = """
import os, threading, time
os.mkfifo("pipe")
pipe, other = os.open("pipe", os.O_RDWR), os.open("other", os.O_RDWR | os.O_CREAT)
keep = os.dup(pipe)
reader = threading.Thread(target=os.read, args=(pipe, 9))
reader.start()
time.sleep(0.3)
os.dup2(other, pipe)
os.write(keep, b"x")
reader.join()
os.write(other, b"12")
"""


def test_a_call_whose_descriptor_is_led_elsewhere_meanwhile_is_counted(work: Path) -> None:
    # GIVEN a thread that reads a pipe while another opens a file under its number
    trace, _ = capture(work, PYTHON, "-c", LED_ELSEWHERE, source="bpf", options=("--below", "."))
    # THEN the read is not taken for one of that file, and is known to be missing
    of_other = [row["operation"] for row in rows_of(trace) if row["path"] == str(work / "other")]
    assert "read" not in of_other
    assert "write" in of_other
    assert json.loads((trace / "trace.json").read_text())["loss"]["dropped"] == 1


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_paths_are_those_of_the_tracer_s_root(work: Path, tmp_path: Path) -> None:
    # GIVEN a capture in a chroot
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    words = [sys.executable, "-m", "tracekit", "capture", "--files", "--source", "bpf"]
    inside = ["-o", trace, "--", "sh", "-c", f"cd {work}; echo x > made; exec 3< made; cat <&3"]
    script = 'mount --rbind / "$0"; exec chroot "$0" "$@"'
    options = ("-m", "--propagation", "slave")
    command = ["unshare", *options, "sh", "-c", script, str(root), *words, *map(str, inside)]
    subprocess.run(command, check=True, capture_output=True)
    # THEN its paths begin there, whether the caller gave them or the kernel did
    rows = [row for row in rows_of(trace) if (row["path"] or "").endswith("/made")]
    assert {row["path"] for row in rows} == {f"{work}/made"}
    assert {"create", "open", "write", "read"} <= {row["operation"] for row in rows}


def test_a_tail_that_was_never_written_is_left_out(tmp_path: Path) -> None:
    # GIVEN a recording whose last blocks a power cut has left without content
    whole, raw = recorded(tmp_path, "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo x > a$i; done")
    text = raw.read_bytes()
    raw.write_bytes(text[: len(text) // 2] + bytes(len(text) - len(text) // 2))
    found = decode(raw, tmp_path / "tables", start=Start(str(tmp_path)))
    # THEN what came before is there, and it is known that more was lost
    assert 0 < found.stats["calls"] < whole.stats["calls"]
    assert (whole.stats["endless"], found.stats["endless"]) == (0, 1)


def test_damage_never_ends_in_a_crash(tmp_path: Path) -> None:
    # GIVEN a recording, cut anywhere or with bytes changed at random
    _, raw = recorded(tmp_path, "sh", "-c", "echo x > a; cat a > b; mv a c; ls > /dev/null")
    whole, chance = raw.read_bytes(), random.Random(7)  # noqa: S311 - no secret
    folder = tmp_path / "damaged"
    folder.mkdir()
    decoded = 0
    for turn in range(300):
        text = bytearray(whole[: chance.randrange(len(whole))] if turn % 3 == 0 else whole)
        for _ in range(turn % 3 * 4):
            text[chance.randrange(32, len(text))] = chance.randrange(256)
        raw.write_bytes(text)
        # THEN it is decoded as far as it goes, or rejected
        with suppress(TracekitError):
            decode(raw, folder, start=Start("/w"))
            decoded += 1
    assert 20 < decoded < 280


def test_a_program_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"no program")
    bad.chmod(0o755)
    words = ("--files", "--source", "bpf", "-o", tmp_path / "trace", "--", str(bad))
    assert rejection(*words)[0] == 2
    assert [*tmp_path.iterdir()] == [bad]
