"""How `tracekit capture --files` ends, what it tells of itself, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.capture.file_captures import NEEDS_STRACE, capture
from tests.capture.machine import CAPTURE, TIMEOUT_S
from tests.capture.strace_text import rows_of, sizes_of
from tracekit.cli import app
from tracekit.errors import TracekitError

pytestmark = NEEDS_STRACE


def test_names_can_be_hidden(work: Path) -> None:
    # GIVEN a file and a folder with telling names
    trace, _ = capture(
        work, "sh", "-c", "mkdir secret; echo x > secret/plan", options=("--hash-names",)
    )
    # THEN no name is left, and what was equal is equal still
    paths = [path.split("/") for path in sizes_of(trace)]
    rows = rows_of(trace)
    for file in trace.iterdir():
        assert not [word for word in (b"secret", b"plan", b"ld.so") if word in file.read_bytes()]
    made = next(row["path"] for row in rows if row["operation"] == "mkdir" and not row["error"])
    assert [path for path in paths if "/".join(path).startswith(f"{made}/")]
    assert {len(part) for path in paths for part in path[1:]} == {16}


def test_overhead_is_measured(work: Path) -> None:
    trace, printed = capture(
        work, "dd", "if=/dev/zero", "of=out", "bs=512", "count=3000", options=("--untraced",)
    )
    assert "times as long" in printed
    overhead = json.loads((trace / "trace.json").read_text())["capture"]["overhead"]
    assert overhead["ratio"] == overhead["traced_ns"] / overhead["untraced_ns"] > 1
    # What a call costs, times the calls, explains most of the difference, on a busy machine too.
    assert 0.1 < overhead["expected_ns"] / (overhead["traced_ns"] - overhead["untraced_ns"]) < 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_whole_trace(work: Path, number: signal.Signals) -> None:
    # GIVEN a capture of a command that goes on for ever
    script = "while :; do echo x >> out; sleep 0.01; done"
    trace = work.parent / "trace"
    running = subprocess.Popen(
        [*CAPTURE, "--files", "-o", str(trace), "--", "sh", "-c", script],
        cwd=work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end_s = time.monotonic() + TIMEOUT_S
    while not (work / "out").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    # WHEN it is told to stop
    running.send_signal(number)
    _, talk = running.communicate(timeout=TIMEOUT_S)
    # THEN the trace is there and says so
    assert running.returncode == 3
    assert f"ended early by {number.name}" in talk
    info = json.loads((trace / "trace.json").read_text())
    assert info["capture"]["stopped_by"] == number.name
    writes = [row for row in rows_of(trace) if row["operation"] == "write"]
    assert [row["offset_bytes"] for row in writes] == [2 * i for i in range(len(writes))]
    assert writes


def refusal(*words: str) -> tuple[int, str]:
    """Return exit code and message of the error that a capture ends with."""
    error = CliRunner().invoke(app, ["capture", *words]).exception
    assert isinstance(error, TracekitError)
    return error.exit_code, str(error)


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    output = ("--files", "-o", str(tmp_path / "trace"))
    assert refusal(*output)[0] == 2
    code, talk = refusal(*output, "--", "no-such-program")
    assert (code, "no such program" in talk) == (2, True)
    code, talk = refusal(*output, "--below", str(tmp_path / "none"), "--", "true")
    assert (code, "is no folder" in talk) == (2, True)
    code, talk = refusal(*output, "--duration", "3s", "--", "true")
    assert (code, "records one command" in talk) == (2, True)
    code, talk = refusal("-o", str(tmp_path / "trace"), "--hash-names", "/dev/loop0")
    assert (code, "belongs to --files" in talk) == (2, True)
    code, talk = refusal("-o", str(tmp_path / "trace"))
    assert (code, "which disk" in talk) == (2, True)
    (tmp_path / "trace").mkdir()
    code, talk = refusal(*output, "--force", "--", "true")
    assert (code, "exists already" in talk) == (2, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "trace"]


def test_the_exit_code_of_the_command_is_told(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code, talk = refusal("--files", "-o", str(trace), "--", "sh", "-c", "exit 7")
    assert (code, "failed with status 7" in talk) == (3, True)
    assert json.loads((trace / "trace.json").read_text())["capture"]["exit_status"] == 7
