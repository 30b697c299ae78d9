"""However a capture ends, and whatever fails or runs beside it, the machine is as it was before."""

import json
import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.faults import FAULTS, WRITES, fault
from tests.capture.machine import TRACER, Disk
from tests.privileges.others import OTHER
from tests.replay.disk import small_file_system
from tracekit._native import program_path
from tracekit.capture import programs
from tracekit.capture.unfinished import MANIFEST, add_to_index, opened_unfinished
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root


def started(disk: Disk, output: Path, *rest: str) -> subprocess.Popen[str]:
    running = machine.start_capture(disk.device, *TRACER, "-o", output, *rest)
    machine.wait_until_tracing(disk)
    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(disk: Disk, tmp_path: Path, number: signal.Signals) -> None:
    # GIVEN a capture of a command that sleeps
    seconds = f"3{number:03}"
    running = started(disk, tmp_path / "trace", "--", "sleep", seconds)
    # WHEN it gets a signal
    code, _, messages = machine.stop(running, number)
    # THEN the command got it, what was captured is kept, and the exit code is the command's
    assert (code, f"ended early by {number.name}" in messages) == (128 + number, True)
    assert machine.read_layout(tmp_path / "trace")["loss"] == {"overrun": 0, "dropped": 0}
    assert machine.processes("sleep", seconds) == []


def test_a_signal_is_the_normal_end_without_a_command(disk: Disk, tmp_path: Path) -> None:
    code, out, messages = machine.stop(started(disk, tmp_path / "trace"), signal.SIGINT)
    assert (code, messages) == (0, "")
    assert "0 lost" in out


def test_one_that_cannot_be_recovered_stops_no_other(disk: Disk, tmp_path: Path) -> None:
    # GIVEN what two killed captures left, the first of a version to come
    output, left = tmp_path / "trace", tmp_path / "trace.unfinished"
    running = started(disk, output)
    subprocess.run(disk.writer(5), check=True)
    machine.wait_for((left / MANIFEST).exists)
    machine.stop(running, signal.SIGKILL)
    other = tmp_path / "other.unfinished"
    shutil.copytree(left, other)
    manifest = json.loads((other / MANIFEST).read_text())
    manifest["summary"]["source"] = "of later"
    (other / MANIFEST).write_text(json.dumps(manifest))
    # WHEN both are recovered
    done = machine.run_capture("--recover", other, left, code=3)
    # THEN that one stays and is named, and the other is finished
    assert f"{other}: of later recorded it" in done.stderr
    assert other.exists()
    assert f"recovered {machine.read_layout(output)['capture']['records']} records" in done.stdout
    assert not left.exists()
    # AND what a process works on is not called nothing, not even a colleague's
    add_to_index(other)
    with opened_unfinished(other):
        done = machine.run_capture("--recover", code=None)  # others may have left some, too
        os.chown(other, OTHER, OTHER)
        theirs = machine.run_capture("--recover", code=None)
    assert other.exists()
    shutil.rmtree(other)  # it would be left over for all that come later
    for one in (done, theirs):
        assert f"{other}: another process records or finishes it" in one.stdout


def test_a_disk_that_goes_away(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a loop device that its command reads, detaches and removes
    device, script = machine.vanishing_disk(tmp_path)
    assert device != disk.device
    # WHEN that is captured
    output = tmp_path / "trace"
    done = machine.run_capture(device, *TRACER, "-o", output, "--", "sh", "-c", script)
    # THEN what was recorded is kept with the layout of before, which is reported
    assert f"{device} went away during the capture" in done.stderr
    assert machine.read_layout(output)["devices"][0]["device"] == Path(device).name
    assert machine.read_layout(output)["capture"]["records"] >= 20


def test_a_command_that_fails_is_reported_and_the_capture_kept(disk: Disk, tmp_path: Path) -> None:
    done = disk.capture(tmp_path / "trace", command=("sh", "-c", "exit 7"), code=7)
    assert "the command failed with status 7" in done.stderr
    assert (tmp_path / "trace" / "layout.json").exists()


def test_a_stubborn_command_is_not_ended(disk: Disk, tmp_path: Path) -> None:
    # GIVEN a command that ignores SIGTERM
    sleep = "(trap '' TERM; exec sleep 2) & wait; wait"
    stubborn = f"trap 'echo >{tmp_path}/asked' TERM; {sleep}; echo >{tmp_path}/whole"
    running = started(disk, tmp_path / "trace", "--", "sh", "-c", stubborn)
    time.sleep(0.3)
    # WHEN the capture is to stop, twice
    running.send_signal(signal.SIGTERM)
    machine.wait_for((tmp_path / "asked").exists)
    code, _, messages = machine.stop(running, signal.SIGTERM)
    # THEN the capture ends, is kept, and the command runs on to its end
    assert (code, "the command runs on, pid" in messages) == (3, True)
    assert (tmp_path / "trace/layout.json").exists()
    machine.wait_for((tmp_path / "whole").exists)


@pytest.mark.parametrize("source", ["tracefs-blk", "perf", "files"])
def test_a_nearly_full_disk(disk: Disk, tmp_path: Path, source: str) -> None:
    if source == "perf" and (why := programs.probe_perf()):
        pytest.skip(why)
    # GIVEN a small file system for the output, and a command of many requests
    mib = {"files": 6, "perf": 8}.get(source, 2)
    read = f"dd if={disk.device} of=/dev/null bs=512 count=30000 iflag=direct status=none"
    command = ("sh", "-c", f"{read}; echo whole >{tmp_path}/whole; exit 9")
    block = (disk.device, "--source", source, "--buffer", "1MiB")
    words = ("--files",) if source == "files" else block
    with small_file_system(tmp_path / "small", mib=mib) as small:
        done = machine.run_capture(*words, "-o", small / "trace", "--", *command, code=9)
        # THEN the command ran to its end, it is said, and a part is kept that can be read
        assert (tmp_path / "whole").exists()
        assert "recording" in done.stderr
        assert "all until then is kept" in done.stderr
        assert "free some space" in done.stderr or "the command ran on" in done.stderr
        assert [path.name for path in small.iterdir()] == ["trace"]
        if source != "files":
            folder, _ = parse([small / "trace"], tmp_path / "parsed")
            assert 100 < folder.content["counts"]["requests"] < 30_000


def on_a_terminal(words: list[str], script: list[tuple[str, str]]) -> str:
    """Run words in a shell on a terminal of its own; type a line after each text that comes."""
    terminal, inner = pty.openpty()
    shell = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"]
    with subprocess.Popen(shell, stdin=inner, stdout=inner, stderr=inner) as running:
        os.close(inner)
        os.write(terminal, (shlex.join(words) + "\n").encode())
        shown, end_s = "", time.monotonic() + machine.TIMEOUT_S
        try:
            for wanted, typed in script:
                while wanted not in shown:
                    assert time.monotonic() < end_s, shown
                    if select.select([terminal], [], [], 0.1)[0]:
                        shown += os.read(terminal, 4096).decode(errors="replace")
                shown = shown.partition(wanted)[2] if wanted else shown
                os.write(terminal, typed.encode())
            running.wait(machine.TIMEOUT_S)
            with suppress(OSError):  # nobody writes to it any more
                while part := os.read(terminal, 4096):
                    shown += part.decode(errors="replace")
        finally:
            running.kill()
            os.close(terminal)
    return shown


def test_the_live_line_is_of_captures_without_a_command(disk: Disk, tmp_path: Path) -> None:
    for name, rest in (("timed", ["--duration", "2s"]), ("command", ["--", "sleep", "2"])):
        words = [*machine.CAPTURE, disk.device, *TRACER, "-o", str(tmp_path / name), *rest]
        shown = on_a_terminal([*words], [("", "exit\n")])
        assert ("requests/s" in shown) == (name == "timed"), shown


@pytest.mark.parametrize("kind", ["disk", "files"])
def test_a_command_has_the_terminal(disk: Disk, tmp_path: Path, kind: str) -> None:
    # GIVEN a command that asks, on a terminal
    ask = "trap '' INT; printf 'what%s ' '?'; read x; printf 'got %s.' $x; read y; echo and $y"
    what = ["--files"] if kind == "files" else [disk.device, *TRACER]
    words = [
        *machine.CAPTURE,
        *what,
        "-o",
        str(tmp_path / "trace"),
        "--",
        "bash",
        "-c",
        f"{ask}; exit 5",
    ]
    # WHEN it is answered, Ctrl-C is typed, and (strace lets nobody) it is stopped and continued
    stop = [("got one.", "\x03\x1a"), ("Stopped", "fg\n")]
    middle = stop if kind == "disk" else [("got one.", "\x03")]
    last = [("", "two\n"), ("and two", "echo code $?\n"), ("code 5", "exit\n")]
    on_a_terminal(words, [("what? ", "one\n"), *middle, *last])
    # THEN it went on as without a capture, with its exit code, and the capture is whole
    assert (tmp_path / "trace").is_dir()


@pytest.mark.parametrize("options", [(), ("--last", "10s"), ("--rotate", "10s")], ids=str)
def test_records_that_were_removed_meanwhile_are_not_called_kept(
    disk: Disk, tmp_path: Path, options: tuple[str, ...]
) -> None:
    # WHEN a command removes the folder that its records go to, whatever comes into it meanwhile
    removal = f"until rm -rf {tmp_path}/trace.unfinished 2>/dev/null; do :; done"
    command = ("sh", "-c", f"{removal}; exit 7")
    done = disk.capture(tmp_path / "trace", *options, command=command, code=1)
    # THEN that is reported, and nothing looks like a capture of nothing
    assert done.stderr.splitlines()[0] == (
        f"tracekit: {tmp_path}/trace.unfinished was removed during the capture, and what was"
        " recorded with it"
    )
    assert list(tmp_path.glob("trace*")) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault(disk: Disk, tmp_path: Path, name: str) -> None:
    if name == "perf killed" and (why := programs.probe_perf()):
        pytest.skip(why)
    # WHEN it happens amid a capture
    found = fault(name, disk, tmp_path / "case", seed=len(name))
    # THEN the program is not hurt, no record is lost, and nothing is left
    said = (tmp_path / "case/messages").read_text()
    assert (found.hurt, found.lost, found.left) == (False, 0, False), f"{found}: {said}"
    assert found.kept > 0
    if name in ("kill", "kill at the end", "pause"):
        assert found.kept >= WRITES


BPF = ("--source", "bpf", "--names", "0")


def recorders() -> list[int]:
    return machine.processes(str(program_path("tracekit-bpf")))


def test_captures_by_bpf_go_beside_others(disk: Disk, tmp_path: Path) -> None:
    machine.skip_unless_it_works("bpf", disk)
    # GIVEN a capture with the kernel's tracer, and one by bpf
    first = machine.start_capture(disk.device, *TRACER, "-o", tmp_path / "tracer")
    machine.wait_until_tracing(disk)
    second = machine.start_capture(disk.device, *BPF, "-o", tmp_path / "second")
    try:
        machine.wait_for(lambda: second.pid in map(machine.parent_of, recorders()))
        # WHEN another one by bpf runs meanwhile
        disk.capture(tmp_path / "third", *BPF, command=disk.writer(100))
        # THEN all go on to their end, the settings of the first among it
        assert machine.tracing_settings()["current_tracer"] == "blk"
    finally:
        ended = [machine.stop(one, 15)[0] for one in (second, first)]
    assert ended == [0, 0]
    # AND each has what was done
    for name in ("tracer", "second", "third"):
        trace, _ = parse([tmp_path / name], tmp_path / f"parsed-{name}")
        writes = [row for row in traces.requests(trace).to_pylist() if row["process"] == "dd"]
        assert len(writes) >= 100
        assert trace.content["loss"]["unseen"]["at_least"] == 0


def test_a_killed_capture_by_bpf_is_finished_by_the_next_of_its_name(
    disk: Disk, tmp_path: Path
) -> None:
    machine.skip_unless_it_works("bpf", disk)
    # GIVEN a capture by bpf that is killed beside one with the kernel's tracer
    first = machine.start_capture(disk.device, *TRACER, "-o", tmp_path / "tracer")
    machine.wait_until_tracing(disk)
    try:
        script = ("sh", "-c", f"{' '.join(disk.writer(10))}; sleep 0.5; kill -9 $PPID")
        disk.capture(tmp_path / "trace", *BPF, command=script, code=-9)
        # WHEN another of its name runs
        done = disk.capture(tmp_path / "trace", *BPF, command=disk.writer(10))
    finally:
        assert machine.stop(first, 15)[0] == 0
    # THEN what it had recorded is there under another name
    assert f"0 lost: {tmp_path}/trace-2" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"trace", "trace-2", "tracer"}
