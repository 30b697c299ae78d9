"""Programs that tracekit is measured against, checked with, or helped by."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.doctor.check import Check, Finding, Group, missing_program, run

VERSION = re.compile(r"\d+(\.\d+)+")


def _tool_probe(program: str, package: str, *options: str) -> Callable[[], Finding]:
    def probe() -> Finding:
        found = missing_program(program, package)
        if found:
            return found
        ran = run(program, *options)
        version = VERSION.search(ran.output + ran.complaint)
        if version is None:
            return Finding("broken", f"{' '.join((program, *options))}: {ran.first_complaint}")
        return Finding("ok", version.group())

    return probe


def _tool(program: str, package: str, purpose: str, option: str = "--version") -> Check:
    return Check(program, purpose, _tool_probe(program, package, option))


TOOLS = Group(
    "Tools",
    (
        _tool("fio", "fio", "measuring the replayer against fio"),
        _tool("blktrace", "blktrace", "captures with the relay", "-V"),
        _tool("blkparse", "blktrace", "proving the decoder", "-V"),
        _tool("btt", "blktrace", "proving the latencies", "-V"),
        _tool("perf", "linux-perf", "counters and captures"),
        _tool("bpftrace", "bpftrace", "captures with bpftrace"),
        _tool("chromium", "chromium", "looking at reports in tests"),
        _tool("sfdisk", "fdisk", "making sample traces"),
        _tool("mkfs.ext4", "e2fsprogs", "making sample traces", "-V"),
        _tool("losetup", "mount", "making sample traces"),
        _tool("xz", "xz-utils", "reading captures that are packed"),
    ),
)
