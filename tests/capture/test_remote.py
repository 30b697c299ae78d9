"""Captures of another host by ssh: here that is this machine, behind sshd or only a shell."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.capture import machine
from tests.capture.machine import (
    Disk,
    parent_of,
    processes,
    rejection,
    run_capture,
    start_capture,
    stop,
    tracing_settings,
    wait_for,
    wait_until_tracing,
)
from tests.capture.test_capture import QUEUED, WRITE, all_records
from tests.replay.disk import image, loop
from tracekit.capture.cgroups import paths_of_cgroups
from tracekit.capture.kernel_state import opened
from tracekit.capture.recovery import GAVE_BACK_REMOTE
from tracekit.capture.remote import SCRIPT, Frames
from tracekit.capture.tracefs import tracefs_folder
from tracekit.errors import TracekitError
from tracekit.readers.blktrace import parse

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("kernel")]
SSH = """#!/bin/sh
for last in "$@"; do :; done
echo welcome
exec sh -c "$last"
"""
HOST = "root@elsewhere"
STEPS = (5, 8)
"""How many records a request has: Q, G, I, D, C, and by kernel and partition A, P, U."""
WRITES = "dd if=/dev/zero of={} bs=4k count=50 oflag=direct conv=notrunc status=none seek=10"


CONFIG = """Host *
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
SSHD = (
    *("-D", "-f", "/dev/null", "-o", "ListenAddress=127.0.0.1", "-o", "UsePAM=no"),
    *("-o", "PermitRootLogin=yes", "-o", "StrictModes=no", "-o", "PidFile=none"),
)


@pytest.fixture(params=["shell", "sshd"])
def host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Let `ssh` be a shell of this machine, or connect to a server on it; `disk` has the turn."""
    request.getfixturevalue("disk")
    wait_for(is_free)
    with ExitStack() as ends:
        text = SSH
        if request.param == "sshd":
            config = serve(tmp_path, ends)
            text = f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n'
        let_ssh_be(text, tmp_path / "bin", monkeypatch)
        yield HOST
        # What the host does behind the end of a connection is of this test, too.
        wait_for(is_free)


def let_ssh_be(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script be what is found as ssh."""
    folder.mkdir(mode=0o755)
    (folder / "ssh").write_text(text)
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def is_free() -> bool:
    """Whether no capture has the tracer, and no script of one is left."""
    with opened(tracefs_folder()) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return not scripts()


def scripts() -> list[Path]:
    """Return the folders of the scripts that record, each in the first of these in memory."""
    places = ("run", "dev/shm", "tmp")
    return [one for place in places for one in Path("/").glob(f"{place}/tracekit-remote.*")]


def serve(folder: Path, ends: ExitStack) -> Path:
    """Start a server with keys of its own; return the client's configuration for it."""
    sshd = shutil.which("sshd", path="/usr/sbin:/sbin:" + os.environ["PATH"])
    if sshd is None or shutil.which("ssh") is None:
        pytest.skip("needs sshd (openssh-server) and ssh")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("key", "host"):
        words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        subprocess.run(words, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = (f"Port={port}", f"HostKey={folder}/host", f"AuthorizedKeysFile={folder}/key.pub")
    command = [sshd, *SSHD, *(word for one in own for word in ("-o", one))]
    server = ends.enter_context(subprocess.Popen(command))
    ends.callback(server.terminate)
    config = folder / "config"
    config.write_text(CONFIG.format(port=port, folder=folder))
    login = ("ssh", "-F", str(config), HOST, "true")
    wait_for(lambda: subprocess.run(login, capture_output=True, check=False).returncode == 0)
    return config


@pytest.fixture
def output() -> Iterator[Path]:
    """Return a place in memory, which is below no disk."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder / "capture"
    shutil.rmtree(folder)


def writes(folder: Path) -> list[tuple[int, int]]:
    """Return sector and bytes of the writes that were queued, in order, whatever CPU they had."""
    return [
        (one.sector, one.length_bytes)
        for one in sorted(all_records(folder), key=lambda record: record.time_ns)
        if one.action == QUEUED and one.category & WRITE
    ]


EXPECTED = [(8 * (10 + number), 4096) for number in range(50)]


def written_to_part(disk: Disk, folder: Path) -> list[tuple[int, int]]:
    """Return the writes to the third partition, from its start, which nobody else uses."""
    first = int(Path(f"/sys/class/block/{disk.name}p3/start").read_text())
    return [(sector - first, length) for sector, length in writes(folder) if sector >= first]


def test_a_command_on_the_host_is_recorded_as_it_wrote(disk: Disk, host: str, output: Path) -> None:
    # GIVEN the settings of the tracer, and the third partition, which nobody uses
    before = tracing_settings()
    command = ["sh", "-c", WRITES.format(f"{disk.device}p3") + "; exit 7"]
    # WHEN a command there writes 50 blocks in a row and fails
    run_capture(disk.device, "--remote", host, "-o", output, "--", *command, code=7)
    # THEN the records have each write at its place and in its order
    assert written_to_part(disk, output) == EXPECTED
    # AND the path of their control group, which is this one's
    group = machine.read_layout(output)["cgroups"]
    assert [*group.values()] == [paths_of_cgroups()[int(number)] for number in group] != []
    # AND the settings are what they were
    assert tracing_settings() == before


@pytest.mark.parametrize("victim", ["ssh", "script"])
def test_a_lost_connection_keeps_what_arrived(
    disk: Disk, host: str, output: Path, victim: str
) -> None:
    # GIVEN a capture of the host that has recorded something
    before = tracing_settings()
    running = start_capture(disk.device, "--remote", host, "-o", output)
    wait_until_tracing(disk)
    command = WRITES.format(f"{disk.device}p3").split()
    subprocess.run(command, check=True)
    spools = output.with_name("capture.unfinished")
    wait_until_still(spools)
    # WHEN ssh here is killed, or the process that records there
    owner = (scripts()[0] / "owner").read_text().split()[0]
    os.kill(int(owner if victim == "script" else child_of(running.pid)), signal.SIGKILL)
    _, messages = running.communicate(timeout=20)
    # THEN that is a partial result, which is kept
    assert running.returncode == 3
    assert "the connection to root@elsewhere was lost" in messages
    assert written_to_part(disk, output) == EXPECTED
    # AND what is left there gives the settings back
    wait_for(lambda: tracing_settings() == before and not disk.is_traced())


def test_a_killed_capture_gives_the_settings_back_and_is_recovered(
    disk: Disk, host: str, output: Path
) -> None:
    # GIVEN a capture of the host
    before = tracing_settings()
    running = start_capture(disk.device, "--remote", host, "-o", output)
    wait_until_tracing(disk)
    subprocess.run(WRITES.format(f"{disk.device}p3").split(), check=True)
    spools = output.with_name("capture.unfinished")
    wait_until_still(spools)
    # WHEN it is killed
    stop(running, signal.SIGKILL)
    # THEN the host gives back its settings by itself
    wait_for(lambda: tracing_settings() == before and not disk.is_traced())
    # AND what arrived is recovered
    run_capture("--recover", spools)
    assert written_to_part(disk, output) == EXPECTED


def test_the_next_capture_gives_back_what_a_killed_script_changed(
    disk: Disk, host: str, output: Path
) -> None:
    # GIVEN a capture of the host, whose script is killed there with the guard of its settings
    before = tracing_settings()
    running = start_capture(disk.device, "--remote", host, "-o", output)
    wait_until_tracing(disk)
    [script] = scripts()
    owner = int((script / "owner").read_text().split()[0])
    numbers = [int(one.name) for one in Path("/proc").glob("[0-9]*")]
    # The guard first: it gives back what is changed when the one that it guards has ended.
    for number in (*[one for one in numbers if parent_of(one) == owner], owner):
        with suppress(ProcessLookupError):  # one of its short tools
            os.kill(number, signal.SIGKILL)
    running.communicate(timeout=machine.TIMEOUT_S)
    assert disk.is_traced()
    # WHEN this machine captures
    done = run_capture(disk.device, *machine.TRACER, "-o", output.with_name("next"), "--", "true")
    # THEN the settings are as before
    assert GAVE_BACK_REMOTE in done.stderr
    assert tracing_settings() == before
    assert not disk.is_traced()
    assert not scripts()


def wait_until_recording(output: Path) -> None:
    """Wait until it is known here, too, that the host records."""
    wait_for((output.with_name("capture.unfinished") / "capture.json").exists)


def wait_until_still(spools: Path, *, records: int = 50) -> None:
    """Wait until at least so many records have arrived, and no more come."""

    def is_still() -> bool:
        before = sizes(spools)
        time.sleep(1)
        return before == sizes(spools) >= records * 48

    wait_for(is_still)


def sizes(spools: Path) -> int:
    return sum(path.stat().st_size for path in spools.glob("cpu*"))


def test_an_idle_disk_is_a_capture_without_records(tmp_path: Path, host: str, output: Path) -> None:
    # WHEN nothing happens on the disk
    with loop(image(tmp_path / "idle")) as idle:
        run_capture(idle, "--remote", host, "-o", output, "--", "true")
    # THEN its files are there, and nothing is in them
    assert writes(output) == []


# Bursts of writes, each behind the one before it.
BURSTS = (
    "for turn in $(seq 0 11); do dd if=/dev/zero of={} bs=4k count=50 oflag=direct conv=notrunc"
    " status=none seek=$((16 + 50 * turn)); sleep 0.2; done"
)
BURST_PLACES = [(8 * (16 + number), 4096) for number in range(12 * 50)]


def test_pieces_of_a_host_are_the_whole(disk: Disk, host: str, output: Path) -> None:
    # WHEN a capture of the host is cut every so often
    command = ("sh", "-c", BURSTS.format(f"{disk.device}p3"))
    words = ("--remote", host, "--rotate", "700ms", "-o", output)
    done = run_capture(disk.device, *words, "--", *command)
    # THEN all together have every write once, in order
    pieces = [*sorted(output.parent.glob("capture-*")), output]
    assert f"{len(pieces) - 1} more: capture-0001" in done.stderr
    assert len(pieces) >= 3
    assert [one for piece in pieces for one in written_to_part(disk, piece)] == BURST_PLACES
    assert not list(output.parent.glob("*.unfinished"))
    # AND read as one they have what the host's kernel counted from the first to the last
    loss = parse(pieces, output.with_name("parsed"))[0].content["loss"]
    unseen = loss["unseen"]
    counted = sum(row["counted"] for row in unseen["disks"] if row["kind"] == "write")
    assert (loss["dropped"], unseen["at_least"], unseen["not_measured"]) == (0, 0, [])
    assert counted >= len(BURST_PLACES)


def test_a_host_keeps_the_last_seconds_until_they_are_asked_for(
    disk: Disk, host: str, output: Path
) -> None:
    # GIVEN a capture of the host that keeps the last second, and writes long before it
    mark, bursts = output.with_name("mark"), BURSTS.format(f"{disk.device}p3")
    command = f"{bursts}; sleep 6; {bursts}; echo >{mark}; sleep 6"
    words = ("--last", "1s", "-o", output, "--", "sh", "-c", command)
    running = start_capture(disk.device, "--remote", host, *words)
    wait_for(mark.exists)
    # WHEN it is asked for that
    running.send_signal(signal.SIGUSR1)
    assert " records in " in running.communicate(timeout=machine.TIMEOUT_S)[1]
    # THEN the piece has what was before that moment, without a gap, and not what was long before
    found = written_to_part(disk, output.with_name("capture-0001"))
    assert found == BURST_PLACES[-len(found) :]
    assert len(found) >= 100
    # AND the capture has what was before its end
    assert written_to_part(disk, output) == []


def test_what_a_kill_leaves_of_a_host_s_pieces_is_recovered(
    disk: Disk, host: str, output: Path
) -> None:
    # GIVEN a capture of the host in pieces that is killed
    running = start_capture(disk.device, "--remote", host, "--rotate", "700ms", "-o", output)
    wait_until_recording(output)
    subprocess.run(["sh", "-c", BURSTS.format(f"{disk.device}p3")], check=True)
    wait_until_still(output.with_name("capture.unfinished"), records=0)
    stop(running, signal.SIGKILL)
    # WHEN what is left of it is recovered
    run_capture("--recover", output.with_name("capture.unfinished"))
    wait_for(lambda: not list(output.parent.glob("*.unfinished")))
    # THEN all is there once, and parse reads it as one
    pieces = [*sorted(output.parent.glob("capture-*")), output]
    assert len(pieces) >= 3
    assert [one for piece in pieces for one in written_to_part(disk, piece)] == BURST_PLACES
    parse(pieces, output.with_name("parsed"))


def test_a_cut_ends_while_more_comes_than_is_sent(tmp_path: Path) -> None:
    # GIVEN buffers of 8 MiB that are full again whenever 4 MiB of them are sent
    functions = SCRIPT.read_text().rpartition("\nfind_tools\n")[0]
    endless = f"""
      dir={tmp_path}
      send_counters() {{ :; }}
      send_now() {{ :; }}
      send() {{ echo "sent $1"; }}
      drain() {{ moved=99999999; echo drained; }}
      divide
      : >"$dir/stop"
      divide
    """
    # WHEN the recording is cut, and when it is to end before that
    command = ["sh", "-c", functions + endless, "tracekit", "8192", "", ""]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    # THEN what was there is before the cut, and nothing is cut behind the end
    _, *rest = done.stdout.splitlines()
    assert rest == [*["drained"] * 5, "sent cut", "drained"]


def child_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]


def test_ctrl_c_ends_a_capture_in_order(disk: Disk, host: str, output: Path) -> None:
    # GIVEN a capture without a command that has recorded something
    before = tracing_settings()
    running = start_capture(disk.device, "--remote", host, "-o", output)
    wait_until_recording(output)
    subprocess.run(WRITES.format(f"{disk.device}p3").split(), check=True)
    # WHEN Ctrl-C is pressed
    code, _, messages = stop(running, signal.SIGINT)
    # THEN all is there, what the kernel had still, too, and the settings are given back
    assert (code, written_to_part(disk, output)) == (0, EXPECTED), messages
    assert tracing_settings() == before


def test_ctrl_c_ends_the_command_on_the_host(disk: Disk, host: str, output: Path) -> None:
    # GIVEN a capture of a command that would run on for long
    command = ["sh", "-c", WRITES.format(f"{disk.device}p3") + "; exec sleep 1234.5"]
    running = start_capture(disk.device, "--remote", host, "-o", output, "--", *command)
    wait_until_recording(output)
    wait_for(lambda: processes("sleep", "1234.5"))
    # WHEN Ctrl-C is pressed
    code, _, messages = stop(running, signal.SIGINT)
    # THEN the command is ended, which its exit code says
    assert (code, processes("sleep", "1234.5")) == (143, []), messages
    assert written_to_part(disk, output) == EXPECTED


def test_records_that_the_host_lost_are_declared(disk: Disk, host: str, output: Path) -> None:
    # GIVEN a capture with the least of buffers, whose script on the host is stopped
    words = ("--buffer", "1MiB", "-o", output, "--json")
    running = start_capture(disk.device, "--remote", host, *words)
    wait_until_recording(output)
    script = int((scripts()[0] / "owner").read_text().split()[0])
    os.kill(script, signal.SIGSTOP)
    # WHEN more happens than the buffers hold
    reads = f"dd if={disk.device}p3 of=/dev/null bs=512 count=16384 iflag=direct status=none"
    subprocess.run(reads.split(), check=True)
    os.kill(script, signal.SIGCONT)
    code, out, messages = stop(running, signal.SIGINT)
    # THEN that is a partial result with what was lost
    assert code == 3
    assert "the kernel lost" in messages
    # AND kept and lost together are as many as 16,384 requests have, each the same steps
    summary = json.loads(out)
    lost = summary["overrun"] + summary["dropped"]
    steps = (summary["records"] + lost) / 16384
    assert steps == pytest.approx(round(steps), abs=0.01)
    assert STEPS[0] <= steps <= STEPS[1] + 0.01
    assert lost > 16384


def test_a_capture_that_runs_there_is_waited_for(disk: Disk, host: str, output: Path) -> None:
    # GIVEN somebody who has the lock for a second
    holder = subprocess.Popen(["flock", tracefs_folder(), "sleep", "1"])
    wait_for(lambda: not is_free())
    # WHEN a capture begins meanwhile; THEN it waits, and records
    command = WRITES.format(f"{disk.device}p3").split()
    run_capture(disk.device, "--remote", host, "-o", output, "--", *command)
    assert written_to_part(disk, output) == EXPECTED
    holder.wait()


def test_what_the_host_refuses_is_one_line(host: str, output: Path) -> None:
    # WHEN a disk is named that the host does not have
    done = run_capture("/dev/nosuch", "--remote", host, "-o", output, code=1)
    # THEN that is said, and nothing is left
    assert "root@elsewhere: /dev/nosuch is not a block device" in done.stderr
    assert list(output.parent.iterdir()) == []


# How a host is made that lacks something, and what is said of it.
LESS = {
    "no rights": (
        "setpriv --reuid=65534 --regid=65534 --clear-groups",
        ["neither root there, nor sudo without a password", "let root log in by key"],
    ),
    "no tracefs": (
        "unshare -m sh -c 'mount -t tmpfs none /sys/kernel && exec \"$@\"' sh",
        ["tracefs is not mounted and cannot be", "mount -t tracefs tracefs"],
    ),
    "a tracer in use": (
        "unshare -m sh -c 'echo function >{0} && mount --bind {0} {1} && exec \"$@\"' sh",
        ["current_tracer is 'function'", "stop the other tracing"],
    ),
}


@pytest.mark.parametrize("name", LESS)
def test_a_host_that_cannot_record_is_an_error_with_steps(
    name: str, disk: Disk, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a host that lacks something
    words, expected = LESS[name]
    words = words.format(tmp_path / "tracer", tracefs_folder() / "current_tracer")
    text = SSH.replace("exec sh", f"exec {words} /bin/sh")
    let_ssh_be(text, tmp_path / "bin", monkeypatch)
    # WHEN its disk is to be captured
    done = run_capture(disk.device, "--remote", HOST, "-o", output, code=1)
    # THEN it is said what is missing, and what to do; nothing is left here
    for part in expected:
        assert part in done.stderr
    assert list(output.parent.iterdir()) == []


def test_what_ssh_says_is_passed_on(output: Path) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs ssh")
    # WHEN there is no server at a port
    host = "ssh://root@127.0.0.1:1"
    done = run_capture("/dev/sda", "--remote", host, "-o", output, code=1)
    # THEN ssh's own words are shown, and ours behind them
    assert "Connection refused" in done.stderr
    assert f"{host}: ssh ended with exit code 255 before it recorded" in done.stderr
    assert list(output.parent.iterdir()) == []


# What a host sends that means no good, and what is said of it.
WRONG = {
    "stat loop0 1\\n1stat loop0/../../../evil 1\\n1": "ssh ended with exit code 0",
    "begin loop0 3\\nabc": "sent wrong begin",
    "begin loop0 8\\n1\\n2\\n\\n1\\n0": "sent wrong facts",
    "facts - 0\\n": "sent wrong facts",
    "cpu 8192 1\\n1": "sent wrong numbers of CPUs",
    "text lsblk 67108865\\n": "sent a frame of 67,108,865 bytes",
}


@pytest.mark.parametrize("frames", WRONG)
def test_a_host_that_sends_nonsense_is_an_error(
    frames: str, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a host that sends these frames
    text = f"#!/bin/sh\nprintf 'tracekit-remote\\n{frames}'\n"
    let_ssh_be(text, tmp_path / "bin", monkeypatch)
    # WHEN its disk is to be captured; THEN that is one line, and nothing is left anywhere
    done = run_capture("/dev/loop0", "--remote", HOST, "-o", output, code=1)
    assert WRONG[frames] in done.stderr
    assert list(output.parent.iterdir()) == []
    assert not (output.parent.parent / "evil").exists()


@pytest.mark.parametrize("words", [("--names", "1s"), ("--source", "perf")])
def test_what_is_of_this_machine_only_is_refused(words: tuple[str, str], output: Path) -> None:
    code, text = rejection("/dev/sda", "--remote", HOST, "-o", output, *words)
    assert (code, text.splitlines()[0]) == (2, f"{words[0]} does not go with --remote")


def test_frames_are_taken_as_they_come() -> None:
    # GIVEN what a shell prints before, and a frame that is not whole yet
    frames = Frames()
    assert frames.take(b"welcome\ntracekit-remote\ncpu 0 5\nab") == []
    # WHEN the rest comes, with another one
    found = frames.take(b"c\ndend - 0\n")
    # THEN both are there
    assert found == [("cpu", "0", b"abc\nd"), ("end", "-", b"")]


def test_what_is_no_frame_is_rejected() -> None:
    # WHEN the host sends something else; THEN that is an error of ours
    with pytest.raises(TracekitError, match="no frame: sh: killed"):
        Frames().take(b"tracekit-remote\nsh: killed\n")
