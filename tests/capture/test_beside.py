"""Captures by bpf beside others: they wait for none, and disturb none."""

from pathlib import Path

import pytest

from tests import parsed as traces
from tests.capture import machine
from tests.capture.machine import TRACER, Disk
from tracekit._native import program_path
from tracekit.readers.blktrace import parse

pytestmark = pytest.mark.root
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
