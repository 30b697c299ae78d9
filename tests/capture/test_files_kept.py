"""What a capture of file operations recorded is kept, however it ends, and says what is not."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.capture import machine
from tests.capture.file_captures import NEEDS_BPF
from tests.capture.machine import parent_of, processes, start_capture, wait_for
from tests.capture.strace_text import rows_of
from tests.replay.disk import fill, small_file_system
from tracekit._native import program_path
from tracekit.capture.tracefs import mounted_folder

SCRIPT = "echo x > before; until [ -e go ]; do sleep 0.02; done; echo x > behind"


def started(work: Path, trace: Path, source: str, *options: str, script: str = SCRIPT) -> Any:
    """Capture a script that waits for the file `go`; return when it waits and that is recorded."""
    words = ("--files", "--source", source, *options, "-o", str(trace), "--", "sh", "-c", script)
    running = start_capture(*words, cwd=work)
    raw = trace.with_name(f"{trace.name}.unfinished") / "calls.raw"
    wait_for(lambda: (raw.exists() and b"before" in raw.read_bytes()) or running.poll() is not None)
    return running


def killed(work: Path, trace: Path, source: str, *options: str) -> None:
    """Kill a capture while its command runs, which then goes on to its end."""
    running = started(work, trace, source, *options)
    running.kill()
    (work / "go").touch()
    running.communicate()
    wait_for((work / "behind").exists)
    raw = trace.with_name(f"{trace.name}.unfinished") / "calls.raw"
    wait_for(lambda: not raw.exists() or str(raw) not in written_files())


def written_files() -> set[str]:
    """Return what strace and the recorder have open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            found.add(os.readlink(link))
    return found


@pytest.fixture(autouse=True)
def turn() -> Iterator[None]:
    """Let no other test recover what these leave, nor these what others do."""
    with machine.tracer_turn() if os.geteuid() == 0 and mounted_folder() else nullcontext():
        yield


def info_of(trace: Path) -> dict[str, Any]:
    info: dict[str, Any] = json.loads((trace / "trace.json").read_text())
    return info


def paths_of(trace: Path) -> set[str | None]:
    return {row["path"] for row in rows_of(trace)}


@pytest.mark.parametrize("options", [(), ("--below", ".")], ids=["all", "below"])
def test_a_killed_capture_is_recovered(
    work: Path, tmp_path: Path, source: str, options: tuple[str, ...]
) -> None:
    # GIVEN a capture that was killed
    trace = tmp_path / "trace"
    killed(work, trace, source, *options)
    # WHEN it is recovered
    done = machine.run_capture("--recover", f"{trace}.unfinished")
    # THEN what was recorded is a trace, which says that it may not be all
    rows = info_of(trace)["counts"]["file_operations"]
    assert done.stdout.startswith(f"recovered {rows:,} operations, ")
    assert done.stdout.endswith(f": {trace}\n")
    assert str(work / "before") in paths_of(trace)
    assert info_of(trace)["capture"]["exit_status"] is None
    warnings = {one["code"]: one["message"] for one in info_of(trace)["warnings"]}
    assert "the capture was killed" in warnings["ended_early"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace", "work"]


def test_the_next_capture_of_the_name_recovers(work: Path, tmp_path: Path, source: str) -> None:
    # GIVEN a capture that was killed, and one that was killed before it had written anything
    trace = tmp_path / "trace"
    killed(work, trace, source)
    (tmp_path / "other.unfinished").mkdir()
    # AND one that was killed while it removed what has its place
    (tmp_path / "third.unfinished").mkdir()
    (tmp_path / "third.unfinished/start.json").touch()
    # WHEN captures of their names follow
    for name in ("trace", "other", "third"):
        words = ("--files", "--source", source, "-o", tmp_path / name, "--", "true")
        done = machine.run_capture(*words)
        # THEN they do their work, and the first has another name
        rows = info_of(tmp_path / "trace-2")["counts"]["file_operations"]
        found = f"recovered {rows:,}"
        assert done.stderr.startswith(found) == (name == "trace")
    assert str(work / "before") in paths_of(tmp_path / "trace-2")
    assert str(work / "before") not in paths_of(trace)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("trace", "trace-2", "other", "third", "work")
    }


def test_names_stay_hidden_when_a_killed_capture_is_recovered(work: Path, source: str) -> None:
    trace = work.parent / "trace"
    killed(work, trace, source, "--hash-names")
    machine.run_capture("--recover", f"{trace}.unfinished")
    assert str(work) not in (trace / "trace.json").read_text()
    assert not [path for path in paths_of(trace) if path and "work" in path]


def test_a_command_that_is_still_recorded_is_waited_for(work: Path, tmp_path: Path) -> None:
    # GIVEN a killed capture whose strace goes on with the command
    running = started(work, tmp_path / "trace", "strace")
    running.kill()
    running.wait()
    # THEN nothing is taken from it, and it is said
    try:
        early = machine.run_capture("--recover", tmp_path / "trace.unfinished", code=2)
        assert "is still written to" in early.stderr
    finally:
        (work / "go").touch()
    wait_for((work / "behind").exists)
    raw = str(tmp_path / "trace.unfinished/calls.raw")
    wait_for(lambda: raw not in written_files())
    # AND all of it is there at the end
    machine.run_capture("--recover", tmp_path / "trace.unfinished")
    assert str(work / "behind") in paths_of(tmp_path / "trace")


def test_one_that_cannot_be_recovered_does_not_stop_the_others(
    work: Path, tmp_path: Path, source: str
) -> None:
    # GIVEN two captures that were killed, one of which is damaged
    killed(work, tmp_path / "trace", source)
    damaged = tmp_path / "a.unfinished"
    damaged.mkdir(mode=0o700)
    (damaged / "capture.json").write_text("{")
    done = machine.run_capture("--recover", damaged, tmp_path / "trace.unfinished", code=3)
    # THEN the other is there, and both are reported
    assert str(damaged) in done.stderr
    assert f": {tmp_path / 'trace'}\n" in done.stdout
    assert str(work / "before") in paths_of(tmp_path / "trace")


@NEEDS_BPF
@pytest.mark.root
def test_a_killed_capture_says_that_it_ends_before_its_command(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a capture that was killed, at which its BPF programs end, and a command that goes on
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    trace = tmp_path / "trace"
    running = started(work, trace, "bpf")
    running.kill()
    wait_for(lambda: str(tmp_path / "trace.unfinished/calls.raw") not in written_files())
    (work / "go").touch()
    running.communicate()
    # WHEN it is recovered
    done = machine.run_capture("--recover", f"{trace}.unfinished")
    # THEN nobody knows what is missing, and it is said
    assert ", at least 0 calls lost, how many more is not known: " in done.stdout
    assert str(work / "behind") not in paths_of(trace)
    assert info_of(trace)["loss"]["is_counted"] is False
    assert info_of(trace)["capture"]["stopped_by"] == "the capture was killed"
    # AND nothing else is left
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace", "work"]


@NEEDS_BPF
@pytest.mark.root
def test_a_recorder_that_is_killed_does_not_know_what_it_lost(work: Path, tmp_path: Path) -> None:
    # GIVEN a capture whose recording program is killed while the command runs
    running = started(work, tmp_path / "trace", "bpf")
    recorders = processes(str(program_path("tracekit-bpf")), "--files")
    os.kill(next(pid for pid in recorders if parent_of(pid) == running.pid), signal.SIGKILL)
    (work / "go").touch()
    out, messages = running.communicate(timeout=machine.TIMEOUT_S)
    # THEN the command runs to its end, what came before is kept
    assert (running.returncode, (work / "behind").exists()) == (3, True)
    assert str(work / "before") in paths_of(tmp_path / "trace")
    assert str(work / "behind") not in paths_of(tmp_path / "trace")
    # AND the first lines say that the losses are not known
    assert "at least 0 calls lost, how many more is not known" in out.splitlines()[0]
    assert messages.startswith("warning: how many calls were lost is not known")
    assert info_of(tmp_path / "trace")["loss"]["is_counted"] is False


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a file system of its own."""
    with small_file_system(tmp_path / "small", mib=12) as folder:
        yield folder


MANY = """
import os, time
open("before", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
for turn in range(20000): os.stat("before")
"""


@NEEDS_BPF
@pytest.mark.root
def test_a_disk_that_somebody_fills(work: Path, small: Path) -> None:
    # GIVEN a capture whose disk is full from one moment to the next
    script = f"python3 -c '{MANY}'; exit 9"
    running = started(work, small / "trace", "bpf", script=script)
    fill(small / "filler")
    (work / "go").touch()
    _, messages = running.communicate(timeout=60)
    # THEN the command has run to its end, and all that was recorded is kept
    assert running.returncode == 9, messages
    assert f"all that was recorded is kept in {small}/trace.unfinished" in messages
    # WHEN there is space again
    (small / "filler").unlink()
    done = machine.run_capture("--recover", small / "trace.unfinished")
    # THEN it is made into a trace, which says what it does not know
    assert "calls lost" in done.stdout.splitlines()[0]
    assert str(work / "before") in paths_of(small / "trace")
    assert [path.name for path in small.iterdir()] == ["trace"]
