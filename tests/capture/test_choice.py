"""Which source a capture takes, and what tracing with it costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capture.machine import Disk, read_layout, run_capture
from tracekit.capture import blktrace, programs
from tracekit.capture.layout import find_disk
from tracekit.capture.session import NAMES, Choice, choose
from tracekit.capture.tracefs import tracefs_folder
from tracekit.doctor import chosen
from tracekit.errors import TracekitError, UsageError

pytestmark = pytest.mark.root


def test_where_the_tracer_is_in_use_perf_is_taken_and_said(disk: Disk, tmp_path: Path) -> None:
    if reason := programs.probe_perf():
        pytest.skip(f"perf does not record block events here: {reason}")
    # GIVEN a tracer that something else uses
    tracer = tracefs_folder() / "current_tracer"
    tracer.write_text("blk")
    try:
        # WHEN a capture chooses by itself
        done = run_capture(disk.device, "-o", str(tmp_path / "trace"), "--", *disk.writer(5))
        finding = chosen()
    finally:
        tracer.write_text("nop")
    # THEN it takes perf and says why, as doctor does
    assert done.returncode == 0, done.stderr
    assert "captured with perf, because tracefs-blk does not work here" in done.stderr
    assert "current_tracer is 'blk'" in done.stderr
    assert read_layout(tmp_path / "trace")["capture"]["source"] == "perf"
    assert finding.status == "limited"
    assert "captured with perf" in finding.detail


def test_the_best_source_is_blktrace_then_the_tracer(disk: Disk) -> None:
    # GIVEN what blktrace says when it is asked by name
    folder = find_disk(disk.device)
    reason = blktrace.why_not(folder)
    # THEN it is the best, and else the kernel's tracer, with the reason
    found = choose(None, tracefs=tracefs_folder(), disks=[folder])
    refused = {"blktrace": reason} if reason else {}
    assert found == Choice("tracefs-blk" if reason else "blktrace", refused)


def test_a_source_that_is_not_known_or_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="known are blktrace, tracefs-blk, perf"):
        choose("strace", tracefs=tmp_path)
    # GIVEN a kernel without the tracer, and no perf
    (tmp_path / "available_tracers").write_text("function nop\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    # THEN each reason is told
    reasons = (
        "blktrace: blktrace is not installed .*; tracefs-blk: this kernel has no tracer blk .*;"
    )
    reasons += " perf: perf is not installed"
    with pytest.raises(TracekitError, match=reasons):
        choose(None, tracefs=tmp_path)


def skip_unless_it_works(source: str, disk: Disk) -> None:
    try:
        choose(source, tracefs=tracefs_folder(), disks=[find_disk(disk.device)])
    except TracekitError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("source", NAMES)
def test_what_tracing_costs_is_measured(disk: Disk, tmp_path: Path, source: str) -> None:
    skip_unless_it_works(source, disk)
    # GIVEN a command that tells how often it ran
    script = f"echo run >>{tmp_path}/runs; sleep 0.3"
    options = ("-o", str(tmp_path / "trace"), "--source", source, "--untraced", "--json")
    # WHEN it is captured with --untraced
    done = run_capture(disk.device, *options, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    # THEN it ran twice, and both times and their ratio are told and kept
    assert (tmp_path / "runs").read_text() == "run\n" * 2
    cost = json.loads(done.stdout)["overhead"]
    assert min(cost["traced_ns"], cost["untraced_ns"]) >= 300_000_000
    assert cost["ratio"] == pytest.approx(cost["traced_ns"] / cost["untraced_ns"], abs=1e-4)
    assert read_layout(tmp_path / "trace")["capture"]["overhead"] == cost


def test_untraced_needs_a_command_that_works(disk: Disk, tmp_path: Path) -> None:
    output = ("-o", str(tmp_path / "trace"), "--untraced")
    done = run_capture(disk.device, *output, "--duration", "1s")
    assert (done.returncode, "--untraced needs a command" in done.stderr) == (2, True)
    done = run_capture(disk.device, *output, "--", "sh", "-c", "exit 4")
    assert done.returncode == 1
    assert "the untraced run failed with status 4" in done.stderr
    assert list(tmp_path.iterdir()) == []
